"""Tasks behind proxies, faults drawn from a seed, and the reports of two training clients."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final, final

import psutil

import eagerflow as ef
from eagerflow.cluster.processes.keys import KeyFolder
from eagerflow.cluster.processes.local_provisioner import TaskProcess, read_log
from tests.cluster.chaos.namespaces import Network
from tests.cluster.chaos.proxies import Links, target

_TASKS: Final = ["ps:0", "ps:1", "worker:0", "worker:1"]
#: kinds of faults, with their weights
_EVENTS: Final = {
    "kill": 3, "stop": 3, "stop for long": 1, "delay": 4, "silence": 3, "silence for long": 1,
    "cut": 4, "restart": 2,
}  # fmt: skip
_ENVIRONMENT: Final = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


@final
class World:
    """The tasks, with their proxies or network.

    Args:
        folder: folder for keys and logs.
        seed: seed of the faults.

    Attributes:
        counts: numbers of faults by kind.
        network: the means by which tasks are cut off.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._draw = random.Random(seed)
        self._folder = folder
        made = Network.made(_TASKS)
        self._network = made if isinstance(made, Network) else None
        self.network = "namespaces" if self._network is not None else (
            f"PROXIES ALONE, NO NETWORK NAMESPACES: {made}"
        )  # fmt: skip
        self._links = Links(_TASKS, "127.0.0.1" if self._network is None else self._network.host)
        self._keys = KeyFolder(folder / "keys")
        for task, link in self._links.of.items():
            self._keys.add_task(task, f"tcp://{link.host}:{link.port}")
        self.files = [str(self._keys.add_client(name)) for name in ("first", "second", "last")]
        self._later: list[tuple[float, Any]] = []
        self.processes: dict[str, TaskProcess] = {}
        for task in _TASKS:
            self._start(task)

    def _start(self, task: str) -> None:
        network = self._network
        host = "127.0.0.1" if network is None else network.address(task)
        listen = ["--listen", f"tcp://{host}:0", "--keys", str(self._keys.path)]

        def make() -> TaskProcess:
            return TaskProcess(task, self._folder, listen)

        process = make() if network is None else network.inside(task, make)
        self.processes[task] = process
        doors = process.wait_until_ready(monotonic() + 60)
        self._links.of[task].targets = [target(at) for at in doors[:2]]

    def _start_again(self, task: str) -> None:
        self.processes[task].end()
        self._start(task)

    def befalls(self, until: float) -> None:
        """Cause faults until a given time, then end all of them."""
        while monotonic() < until:
            sleep(self._draw.uniform(0.5, 2.5))
            self._catch_up()
            kind = self._draw.choices(list(_EVENTS), list(_EVENTS.values()))[0]
            task = self._draw.choice(_TASKS)
            if not any(task == busy for _, (busy, _) in self._later):
                self.counts[kind] += 1
                self._befall(kind, task)
        while self._later:
            sleep(0.1)
            self._catch_up()

    def _catch_up(self) -> None:
        due = [one for one in self._later if one[0] <= monotonic()]
        self._later = [one for one in self._later if one not in due]
        for _, (_, mend) in due:
            mend()

    def _befall(self, kind: str, task: str) -> None:
        link, pid, network = self._links.of[task], self.processes[task].pid, self._network
        seconds = self._draw.uniform(11, 13) if "long" in kind else self._draw.uniform(0.3, 3.0)
        at = monotonic() + seconds

        def heal() -> None:
            link.delay, link.silent = 0.0, False
            if network is not None:
                network.heal(task)

        if kind in ("kill", "restart"):
            os.kill(pid, signal.SIGKILL if kind == "kill" else signal.SIGTERM)
            self._later.append((at, (task, lambda: self._start_again(task))))
        elif kind.startswith("stop"):
            os.kill(pid, signal.SIGSTOP)
            self._later.append((at, (task, lambda: os.kill(pid, signal.SIGCONT))))
        elif kind == "cut":
            self._links.cut(task)
        else:
            link.delay = self._draw.uniform(0.01, 0.3) if kind == "delay" else 0.0
            if kind.startswith("silence"):
                if network is None:
                    link.silent = True
                else:
                    network.cut(task)
            self._later.append((at, (task, heal)))

    def close(self) -> None:
        """End all tasks and the network."""
        for process in self.processes.values():
            process.end()
        self._links.close()
        if self._network is not None:
            self._network.close()


def _left(world: World) -> dict[str, Any]:
    """Values, variables and so on still held by tasks after all clients have left."""
    until = monotonic() + 45  # a client that was killed has a lease of 30
    while True:
        with ef.cluster.connect(world.files[2]) as cluster:
            known = cluster.tasks
        held = {
            name: (one.values, one.variables, one.partitions, one.steps)
            for name, one in known.items()
        }
        if not any(map(any, held.values())) or monotonic() > until:
            return {name: list(one) for name, one in held.items() if any(one)}
        sleep(0.5)


def run(folder: Path, seed: int, seconds: float) -> dict[str, Any]:
    """Let two clients train amid faults; gives their reports.

    Args:
        folder: for keys and logs, readable by this user alone.
        seed: seed of the faults and of the clients' data.
        seconds: duration.
    """
    folder.chmod(0o700)
    world = World(folder, seed)
    clients = []
    try:
        for i, file in enumerate(world.files[:2]):
            command = [sys.executable, "-m", "tests.cluster.chaos.training", file, str(i)]
            clients.append(subprocess.Popen(
                [*command, str(seconds)], env=_ENVIRONMENT, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, text=True,
            ))  # fmt: skip
        for client in clients:
            assert client.stdout is not None
            if client.stdout.readline() != "ready\n":
                raise RuntimeError("a client cannot train though nothing has happened yet")
        for client in clients:
            assert client.stdin is not None
            client.stdin.write("begin\n")
            client.stdin.flush()
        world.befalls(monotonic() + seconds)
        told = [json.loads(client.communicate(timeout=120)[0]) for client in clients]
        left = _left(world)
        sizes = {
            name: psutil.Process(one.pid).memory_info().rss >> 20
            for name, one in world.processes.items()
        }
        bad = {
            task: [line for line in read_log(folder / f"{task.replace(':', '-')}.log").split("\n")
                   if "Traceback" in line]
            for task in _TASKS
        }  # fmt: skip
    finally:
        for client in clients:
            client.kill()
            client.wait()
            with client:  # closes its pipes
                pass
        world.close()
    return {
        "network": world.network, "events": dict(world.counts), "clients": told, "left": left,
        "MiB": sizes,
        "tracebacks": {task: len(lines) for task, lines in bad.items() if lines},
    }  # fmt: skip
