"""A cluster of processes on this host."""

from __future__ import annotations

import secrets
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self, final

from eagerflow.cluster.processes.client import Connections, Pending
from eagerflow.cluster.processes.versions import versions
from eagerflow.cluster.protocol.messages import ArrayHead, Fetch, Heads, MakeVariable
from eagerflow.cluster.protocol.partitions import resources_of, write_partition
from eagerflow.cluster.protocol.values import Frame, encode_value
from eagerflow.errors import PlacementError, TaskLost
from eagerflow.graph.ir import Graph
from eagerflow.graph.lowering import lower
from eagerflow.placement.cut import Cut, cut
from eagerflow.resources.variable import VariableState
from eagerflow.runtime.scheduled.tier import waits_nowhere

#: seconds in which a process has to come up
_START: Final = 60.0
#: seconds in which it ends by itself before it is killed
_END: Final = 1.0


@final
class TaskProcess:
    """A task server as a process of this one, with which it ends."""

    def __init__(self, task: str, folder: Path, cpu_devices: int) -> None:
        self.task = task
        command = [
            sys.executable, "-m", "eagerflow", "serve", "--task", task, "--folder", str(folder),
            "--cpu-devices", str(cpu_devices), "--with-parent",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, until: float) -> None:
        """Wait until it listens.

        Raises:
            TaskLost: it does not.
        """
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, until - monotonic()))
        if not ready or not self._process.stdout.readline():
            self.end()
            raise TaskLost(
                f"{self.task} has not come up",
                given=f"its process ended with {self._process.returncode}",
                hint="what it printed says why",
            )

    def end(self) -> None:
        """End it, and wait until it has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@final
class LocalCluster:
    """Tasks as processes of this host, and this process as their client.

    Args:
        jobs: how many tasks each job has.
        version: of eagerflow.
        cpu_devices: how many virtual CPUs each task knows.
    """

    def __init__(self, jobs: Mapping[str, int], version: str, cpu_devices: int = 1) -> None:
        names = [f"{job}:{i}" for job, number in jobs.items() for i in range(number)]
        self._folder = Path(tempfile.mkdtemp(prefix="eagerflow-"))  # mode 0700
        self._cpu_devices = cpu_devices
        self._partitions = count(1)
        self.processes: dict[str, TaskProcess] = {}
        self.connections: Connections | None = None
        try:
            for name in names:
                self.processes[name] = TaskProcess(name, self._folder, cpu_devices)
            until = monotonic() + _START
            for process in self.processes.values():
                process.wait_until_ready(until)
            session = 1 + secrets.randbelow(2**31 - 1)
            self.connections = Connections(self._folder, session, versions(version))
            self._join(names)
        except BaseException:
            self.close()
            raise

    def _join(self, names: Sequence[str]) -> None:
        assert self.connections is not None
        for name in names:
            self.connections.connect(name)
        missing = self.connections.wait_for(names, _START)
        if missing:
            raise TaskLost(f"{', '.join(missing)} did not answer")

    def restart(self, task: str) -> None:
        """Start a task again that was lost; what it held is lost."""
        self.processes.pop(task).end()
        process = self.processes[task] = TaskProcess(task, self._folder, self._cpu_devices)
        process.wait_until_ready(monotonic() + _START)
        self._join([task])

    # --- graphs ---

    def load(self, graph: Graph, tasks: Mapping[str, str]) -> RemoteGraph:
        """Cut a graph and register each partition at its task.

        Args:
            graph: over several devices. Its variables are made on the tasks, with their values.
            tasks: which task runs the partition of each device.

        Raises:
            PlacementError: a device belongs to no task.
            EagerflowError: a task refuses its partition.
        """
        assert self.connections is not None
        parts = cut(lower(graph, waits_nowhere))
        missing = {str(p.device) for p in parts.partitions} - set(tasks)
        if missing:
            raise PlacementError(f"no task has {', '.join(sorted(missing))}")
        if len({tasks[str(p.device)] for p in parts.partitions}) < len(parts.partitions):
            raise PlacementError("two partitions of one graph are for one task")
        routes = {
            edge: (str(sent.device), str(received.device))
            for edge, (sent, received) in parts.pairs.items()
        }
        numbers, asked = {}, []
        for partition in parts.partitions:
            device = str(partition.device)
            for state in resources_of(partition.graph).values():
                if isinstance(state, VariableState):
                    asked.append(self._make(tasks[device], state))
            number = numbers[device] = next(self._partitions)
            message, frames = write_partition(partition.graph, 0, number, routes, tasks)
            asked.append(self.connections.ask(tasks[device], message, frames))
        for pending in asked:
            self.connections.wait(pending)
        return RemoteGraph(self.connections, parts, numbers, dict(tasks))

    def _make(self, task: str, state: VariableState) -> Any:
        assert self.connections is not None
        frames: list[Frame] = []
        head = encode_value(state.read(), frames)
        assert isinstance(head, ArrayHead)
        container, name = state.identity[2:]
        message = MakeVariable(0, container, name, head, str(state.device), state.trainable)
        return self.connections.ask(task, message, frames)

    def value(self, task: str, state: VariableState) -> Any:
        """The array that a variable has on a task."""
        assert self.connections is not None
        asked = self.connections.ask(task, Fetch(0, *state.identity[2:]))
        return self.connections.wait(asked)[task][0]

    # --- the end ---

    def close(self) -> None:
        """End all processes."""
        if self.connections is not None:
            self.connections.close()
            self.connections = None
        for process in self.processes.values():
            process.end()
        self.processes.clear()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()


@final
class RemoteGraph:
    """A graph whose partitions are registered at tasks."""

    def __init__(
        self, connections: Connections, parts: Cut, numbers: Mapping[str, int],
        tasks: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._connections = connections
        self._parts = parts
        self._numbers = numbers
        self._tasks = tasks

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs, of raw arrays and numbers.

        Raises:
            TaskLost: a task ended meanwhile.
            EagerflowError: what eager code would raise.
        """
        return self.end(self.begin(inputs))

    def begin(self, inputs: Sequence[Any]) -> Pending:
        """Begin a step."""
        asked: dict[str, tuple[int, Heads, list[Frame]]] = {}
        for partition in self._parts.partitions:
            frames: list[Frame] = []
            heads = tuple([encode_value(inputs[i], frames) for i in partition.inputs])
            device = str(partition.device)
            asked[self._tasks[device]] = self._numbers[device], heads, frames
        return self._connections.run(asked)

    def end(self, step: Pending) -> list[Any]:
        """The outputs of a step; waits for them (see `run`)."""
        results = self._connections.wait(step)
        return [
            results[self._tasks[str(partition.device)]][partition.graph.outputs.index(value)]
            for partition, value in self._parts.outputs
        ]
