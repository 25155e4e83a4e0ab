"""Task servers on a Dask cluster, each a process beside one of Dask's workers.

Each task makes its own keys where it runs; only public keys, addresses and logs go through Dask.
Whoever may submit work to a Dask cluster can run any code there, so the cluster has to be on this
host or under TLS.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final, final
from weakref import finalize

from eagerflow.cluster.processes.keys import (
    AllowedKeys,
    AllowList,
    Credentials,
    KeyFolder,
    new_pair,
)
from eagerflow.cluster.processes.listening import Doors, own_address
from eagerflow.cluster.processes.local_provisioner import TaskProcess, log_of, read_log
from eagerflow.cluster.protocol.timeouts import START_SECONDS
from eagerflow.errors import AuthenticationError, ResourceError, TaskLost

#: the name of the client on the allow-lists of the tasks
_CLIENT: Final = "notebook"
#: seconds in which a worker of Dask has to answer
_ANSWER_SECONDS: Final = 20.0
#: seconds between checks whether a worker is still there
_LOOK_SECONDS: Final = 1.0
_SAFE: Final = re.compile(r"inproc://.*|tls://.*|tcp://(127(\.\d+){3}|localhost|\[::1\]):\d+")
_HOST: Final = re.compile(r"\w+://\[?([^/\]]+?)\]?:\d+")


@final
class TaskHost:
    """An actor of Dask that runs a task server as a process beside its worker.

    Args:
        task: its name.
        client: the public key of the client.
        worker: the address of the worker.
        options: more options of ``eagerflow serve``.
    """

    def __init__(self, task: str, client: str, worker: str, options: Sequence[str]) -> None:
        host = _HOST.fullmatch(worker)
        listen = f"tcp://{host[1] if host else '127.0.0.1'}:0"
        self._folder = Path(tempfile.mkdtemp(prefix="eagerflow-"))
        self._task = task
        self._keys = KeyFolder(self._folder / "keys")
        self._keys.add_task(task, listen)
        self._keys.allow_client(_CLIENT, client)
        self._process = TaskProcess(
            task, self._folder, [*options, "--listen", listen, "--keys", str(self._keys.path)]
        )
        self._end = finalize(self, _ended, self._process, self._folder)
        self._doors = self._process.wait_until_ready(monotonic() + START_SECONDS)

    def doors(self) -> tuple[str, str, str]:
        """The doors of the task, with its public key."""
        return self._doors.client, self._doors.task, self._doors.key

    def allow(self, tasks: Mapping[str, tuple[str, str, str]]) -> None:
        """Add other tasks to the allow-list."""
        for task, doors in tasks.items():
            self._keys.allow_task(task, Doors(*doors))

    def log(self) -> str:
        """The output of the task's process."""
        return read_log(log_of(self._folder, self._task))

    def end(self) -> None:
        """End the task's process."""
        self._end()


def _ended(process: TaskProcess, folder: Path) -> None:
    process.end()
    shutil.rmtree(folder, ignore_errors=True)


@final
class DaskProvisioner:
    """Provisioner of tasks on a Dask cluster.

    Args:
        client: the client of that cluster (``dask.distributed.Client``).
        options: more options of ``eagerflow serve``.

    Raises:
        AuthenticationError: traffic to the scheduler could be read and changed on the way.
        ResourceError: the client is asynchronous.
    """

    restarts = True

    def __init__(self, client: Any, options: Sequence[str] = ()) -> None:
        address = str(client.scheduler.address)
        if not _SAFE.fullmatch(address):
            raise AuthenticationError(
                "a Dask cluster without encryption, which others can use as well",
                given=f"a scheduler at {address}",
                expected="one on this host, or under TLS",
                hint="see https://distributed.dask.org/en/stable/tls.html",
            )
        if client.asynchronous:
            raise ResourceError("on_dask: the client of Dask is asynchronous")
        self._dask = client
        self._options = tuple(options)
        self._hosts: dict[str, Any] = {}
        self._workers: dict[str, str] = {}
        self._doors: dict[str, Doors] = {}
        self.folder: Path | None = None
        self._keys = new_pair()
        self._allowed = AllowedKeys(AllowList())
        self.credentials: Credentials | None = Credentials(self._keys, self._allowed)

    def door(self, client: str) -> str:
        return own_address(next(iter(self._doors.values())))

    def start(self, tasks: Sequence[str]) -> dict[str, Doors]:
        try:
            futures = {task: self._submitted(task) for task in tasks}
            for task, future in futures.items():
                self._hosts[task] = self._made(task, future)
                doors = self._hosts[task].doors().result(timeout=_ANSWER_SECONDS)
                self._doors[task] = Doors(*doors)
                self._allowed.add_task(task, self._doors[task])
            known = {task: tuple(doors) for task, doors in self._doors.items()}
            for host in [self._hosts[task].allow(known) for task in self._hosts]:
                with suppress(Exception):  # a host that has died learns of them after a restart
                    host.result(timeout=_ANSWER_SECONDS)
        except TaskLost:
            raise
        except Exception as error:  # of Dask, or of the host
            raise TaskLost(
                f"{', '.join(tasks)}: Dask did not start them", given=repr(error)
            ) from error
        return {task: self._doors[task] for task in tasks}

    def _submitted(self, task: str) -> Any:
        """Dask's future of a new host."""
        self._workers.pop(task, None)
        self._workers[task] = worker = self._worker()
        return self._dask.submit(
            TaskHost, task, self._keys.public, worker, self._options, actor=True,
            pure=False, workers=[worker], allow_other_workers=False,
        )  # fmt: skip

    def _made(self, task: str, future: Any) -> Any:
        """The host; on another worker if the chosen worker has died since."""
        until = monotonic() + START_SECONDS
        while monotonic() < until:
            with suppress(TimeoutError):
                return future.result(timeout=_LOOK_SECONDS)
            if self._workers[task] not in self._known_workers():
                future.cancel()
                future = self._submitted(task)
        raise TimeoutError(f"no answer for {START_SECONDS:g} s")

    def _known_workers(self) -> Any:
        return self._dask.scheduler_info(n_workers=-1)["workers"]

    def _worker(self) -> str:
        """The worker of Dask with the fewest tasks."""
        workers = self._known_workers()
        if not workers:
            raise TaskLost("the Dask cluster has no worker")
        busy = Counter(self._workers.values())
        return str(min(workers, key=lambda worker: (busy[worker], worker)))

    def end(self, task: str) -> None:
        host = self._hosts.pop(task, None)
        self._workers.pop(task, None)
        self._doors.pop(task, None)
        if host is not None:
            with suppress(Exception):  # the host has ended by itself
                host.end().result(timeout=_ANSWER_SECONDS)

    def pid(self, task: str) -> None:
        """None: the process may be on another host."""

    def log(self, task: str) -> str:
        try:
            return str(self._hosts[task].log().result(timeout=_ANSWER_SECONDS))
        except Exception as error:
            raise TaskLost(f"the host of {task} does not answer", given=repr(error)) from error

    def close(self) -> None:
        for task in list(self._hosts):
            self.end(task)
