"""The pool of worker processes, as the program that calls it sees them."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from eagerflow.data.workers.element_transfer import IDLE, Wire, dump, load
from eagerflow.errors import CancelledError, SettingError, WorkerError, relocate
from eagerflow.extending import Source
from eagerflow.hardware.kernel_library import in_force

_WAIT: Final = 5.0  # seconds that the server process may take to exit
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); import eagerflow as ef; "
    "ef.config(kernels=sys.argv[3]); "
    "from eagerflow.data.workers.worker import serve; serve(int(sys.argv[1]))"
)
#: each worker has a core; threads of libraries in each worker would compete for cores
_ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@final
class _Server:
    """The process that forks workers; it ends with this process, or by itself when idle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def start_worker(self, name: str, connection: int, lifeline: int) -> int:
        """Start a worker with two file descriptors; returns its process number."""
        request = {"name": name, "folder": os.getcwd()}
        number = self._ask(request, [connection, lifeline])
        assert number is not None
        return number

    def status(self, number: int) -> int | None:
        """The exit code of a worker, negative for signals; None if not known."""
        try:
            return self._ask({"status": number}, [])
        except OSError:
            return None

    def _ask(self, request: dict[str, Any], descriptors: list[int]) -> int | None:
        data = json.dumps(request).encode()
        with self._lock:
            for attempt in range(2):  # an idle server may end during the request
                try:
                    channel = self._started()
                    socket.send_fds(channel, [data], descriptors)
                    if answer := channel.recv(64):
                        reply = json.loads(answer)
                        return None if reply is None else int(reply)
                except OSError:
                    if attempt:
                        raise
                self._end()
        raise OSError("the process that starts worker processes has ended")

    def _started(self) -> socket.socket:
        if self._channel is not None and self._owner == os.getpid():
            return self._channel
        own, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, str(other.fileno()), json.dumps(_folders()),
                 in_force()],
                stdin=subprocess.DEVNULL, pass_fds=[other.fileno()], env=_environment(),
            )  # fmt: skip
        self._channel, self._owner = own, os.getpid()
        return own

    def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None and self._owner == os.getpid():
            try:
                self._process.wait(_WAIT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def stop(self) -> None:
        """End the process; a later worker starts another one."""
        with self._lock:
            self._end()


def _folders() -> list[str]:
    """The search path of modules, without entries that are no strings."""
    return [folder for folder in sys.path if isinstance(folder, str)]


def _environment() -> dict[str, str]:
    return {**dict.fromkeys(_ONE_THREAD, "1"), **os.environ}


_server = _Server()
atexit.register(_server.stop)


#: ends the process that starts workers, if it runs; else it ends by itself when idle
stop_server: Final = _server.stop


@final
class _Process:
    """A worker process, and the connection to it."""

    __slots__ = ("_function", "_lifeline", "name", "number", "used", "wire")

    def __init__(self, name: str, function: bytes) -> None:
        self.name = name
        own, other = socket.socketpair()
        ends, lifeline = os.pipe()
        try:
            self.number = _server.start_worker(name, other.fileno(), ends)
        except BaseException:
            own.close()
            os.close(lifeline)
            raise
        finally:
            other.close()
            os.close(ends)
        # A list, since `pop` is atomic: a worker's thread and the end of the reading may close
        # it at once, and the number of a closed file may be another file's by then.
        self._lifeline = [lifeline]
        self.wire = Wire(own)
        self._function: bytes | None = function
        self.used = time.monotonic()

    def call(
        self, indices: Sequence[int], elements: list[Any], seed: int | None, stacked: bool
    ) -> tuple[list[int], Any]:
        """Call the function in the worker; returns its answer (see `Pool.run`)."""
        if self._function is not None:
            self.wire.send([], self._function)
            self._function = None
        self.wire.send([stacked, seed is not None, seed or 0, *indices], elements)
        return self.wire.receive()

    @property
    def stale(self) -> bool:
        """Whether the worker may have ended by itself, as an idle worker does."""
        return time.monotonic() - self.used > IDLE / 2

    def close(self) -> None:
        """End the worker, also in the middle of its work."""
        with contextlib.suppress(IndexError):
            os.close(self._lifeline.pop())
        self.wire.close()

    def fate(self) -> tuple[str, int | None]:
        """How the worker ended, in words and as an exit code; to be called before `close`."""
        code = _server.status(self.number)
        if code is None:
            return "it closed its connection", code
        if code < 0:
            return f"it was killed by signal {-code} ({signal.Signals(-code).name})", code
        return f"it ended with exit code {code}", code


def _these(indices: Sequence[int]) -> str:
    if len(indices) == 1:
        return f"element {indices[0]}"
    return f"elements {indices[0]} to {indices[-1]}"


@final
class Pool:
    """Processes that call one function.

    Args:
        function: the function, sent once to each process.
        name: of the call, for messages.
        source: the line of the call, likewise.
        count: the greatest number of processes, which are started on demand.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, source: Source | None, count: int
    ) -> None:
        self._function = function
        self._source = source
        self._name = name
        self._data: bytes | None = None
        self._lock = threading.RLock()  # the garbage collector may close the pool in its holder
        self._free = threading.Condition(self._lock)
        #: a slot for each process that is idle, or None for one that is not started
        self._idle: list[_Process | None] = [None] * count
        self._all: set[_Process] = set()
        self._started = 0
        self._closed = False

    def run(
        self, indices: Sequence[int], elements: list[Any], seed: int | None, stacked: bool
    ) -> tuple[Any, tuple[int, Exception] | None]:
        """Call the function for each element, in one process.

        Args:
            indices: the indices of the elements in the dataset.
            elements: as many elements.
            seed: of the generators that the function takes, one for each index; None for none.
            stacked: whether to stack the results; else there is one element.

        Returns:
            The result, and None; or None, and the position of the element that failed (-1 if
            stacking failed) with its error.

        Raises:
            WorkerError: the process ended during the call.
            CancelledError: the pool was closed.
        """
        process = self._take()
        try:
            (failed, index), value = process.call(indices, elements, seed, stacked)
        except (EOFError, OSError) as error:
            lost = self._lost(process, indices)
            self._drop(process)
            raise lost from error
        except BaseException as error:
            self._drop(process)
            error.add_note(f"  in {_these(indices)} of {self._name}\n  at: {self._source}")
            raise
        process.used = time.monotonic()
        self._give_back(process)
        if not failed:
            return value, None
        failure = load(value)
        if failed != 1:  # not in the function: the traceback has no line of the user
            relocate(failure, self._source)
        return None, (-1 if failed == 2 else index, failure)

    def _take(self) -> _Process:
        with self._lock:
            while not (self._idle or self._closed):
                self._free.wait()
            if self._closed:
                raise self._cancelled()
            process = self._idle.pop()
            self._started += process is None
            name = f"{self._name}-{self._started}"
        if process is None:
            return self._start(name)
        if process.stale:
            self._drop(process)
            return self._take()
        return process

    def _start(self, name: str) -> _Process:
        try:
            self._data = self._data or self._dumped()
            made = _Process(name, self._data)
        except BaseException:
            self._give_back(None)
            raise
        with self._lock:
            self._all.add(made)
        if self._closed:
            self._drop(made)
        return made

    def _dumped(self) -> bytes:
        try:
            return dump((_folders(), _environment(), dump(self._function)))
        except Exception as error:
            raise SettingError(
                f"{self._name}: the function cannot be sent to another process",
                given=f"{type(error).__name__}: {error}",
                expected="a function that reads no state of this process",
                hint="threads share everything: leave out processes=True",
                source=self._source,
            ) from error

    def _give_back(self, process: _Process | None) -> None:
        with self._lock:
            # running processes are taken before another one is started
            self._idle.insert(0 if process is None else len(self._idle), process)
            self._free.notify()

    def _drop(self, process: _Process) -> None:
        with self._lock:
            self._all.discard(process)
        process.close()
        self._give_back(None)

    def _lost(self, process: _Process, indices: Sequence[int]) -> Exception:
        if self._closed:
            return self._cancelled()
        fate, code = process.fate()
        cause = "; memory that runs out is a common cause" if code == -signal.SIGKILL else ""
        return WorkerError(
            f"worker process {process.name} ended while it worked on {_these(indices)} of "
            f"{self._name}",
            given=fate,
            hint=f"reading goes on after this, with a new process{cause}",
            source=self._source,
        )

    def _cancelled(self) -> Exception:
        return CancelledError(f"{self._name}: the iterator was closed")

    def close(self) -> None:
        """End all processes, whatever they are doing."""
        with self._lock:
            self._closed = True
            processes = list(self._all)
            self._all.clear()
            self._free.notify_all()
        for process in processes:
            process.close()
