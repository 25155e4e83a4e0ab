"""The code of worker processes: a fork server that starts workers, and the workers.

The server has imported eagerflow and does nothing else, so a worker, which is a fork of it, starts
within milliseconds, whatever the user's program is doing, and knows nothing of the program but the
function that it is sent.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import sys
import textwrap
import threading
import time
import traceback
from contextlib import suppress
from typing import Any, Final, NoReturn

import cloudpickle  # noqa: F401 - here once, not in each worker
import numpy as np

import eagerflow as ef
from eagerflow.data.base.elements import as_element, stack
from eagerflow.data.base.orders import generator
from eagerflow.data.workers.element_transfer import IDLE, Rebuilt, Wire, dump, load
from eagerflow.errors import DTypeError

#: seconds after which a server without workers ends
_IDLE_SERVER: Final = 10.0
_TICK: Final = 0.5  # seconds between checks for ended workers
_GRACE: Final = 2.0  # seconds that an ended worker may take to exit
_MOMENT: Final = 0.002
_REQUEST: Final = 1 << 16  # bytes


def serve(descriptor: int) -> None:
    """Start workers for the holder of the other end of a socket, until it is closed.

    A request is JSON: ``{"name", "folder"}`` with two file descriptors (the connection, and a pipe
    whose end is the end of the worker) starts a worker and is answered with its process number;
    ``{"status"}`` is answered with the exit code of the worker of that number, or null.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the program of the user
    _warm()
    alive: set[int] = set()
    ended: dict[int, int] = {}
    answer: int | None
    # the process that asks may end without waiting for the answer
    with socket.socket(fileno=descriptor) as channel, suppress(ConnectionError):
        waited = 0.0
        while waited < _IDLE_SERVER:
            _reap(alive, ended)
            if not select.select([channel], [], [], _TICK)[0]:
                waited = 0.0 if alive else waited + _TICK
                continue
            waited = 0.0
            data, descriptors, _, _ = socket.recv_fds(channel, _REQUEST, 2)
            if not data:
                return
            request = json.loads(data)
            if "status" in request:
                answer = _ending(request["status"], alive, ended)
            else:
                answer = _fork(channel, descriptors, request)
                alive.add(answer)
            channel.send(json.dumps(answer).encode())


def _warm() -> None:
    """Run the first steps of a worker once, so that workers share memory that the GC skips."""
    ours, other = socket.socketpair()
    with ours, other:
        Wire(ours).send([0], stack([as_element(0.0)]))
        Wire(other).receive()
    generator(0, 1).uniform(())
    _new_chances()
    gc.collect()
    gc.freeze()


def _ending(number: int, alive: set[int], ended: dict[int, int]) -> int | None:
    """The exit code of a worker that has closed its connection, and so is about to exit."""
    deadline = time.monotonic() + _GRACE
    while number in alive and time.monotonic() < deadline:
        _reap(alive, ended)
        time.sleep(_MOMENT)
    return ended.get(number)


def _reap(alive: set[int], ended: dict[int, int]) -> None:
    """Note the exit codes of ended workers."""
    for number in list(alive):
        pid, status = os.waitpid(number, os.WNOHANG)
        if pid:
            alive.discard(number)
            ended[number] = os.waitstatus_to_exitcode(status)


def _fork(channel: socket.socket, descriptors: list[int], request: dict[str, Any]) -> int:
    number = os.fork()
    if number == 0:
        _begin(channel, descriptors, request)
    for descriptor in descriptors:
        os.close(descriptor)
    return number


def _begin(channel: socket.socket, descriptors: list[int], request: dict[str, Any]) -> NoReturn:
    """Run a worker in a forked process, and exit."""
    code = 1
    wire = None  # open until the end, so that the exit code is known when its end is seen
    try:
        channel.close()
        _call_me(request["name"])
        os.chdir(request["folder"])
        _new_chances()
        connection, lifeline = descriptors
        threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
        wire = Wire(socket.socket(fileno=connection))
        _work(wire)
        code = 0
    except (EOFError, ConnectionError):
        code = 0
    except SystemExit as error:
        code = _exit_code(error)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)  # nothing of the server is to be cleaned up here


def _exit_code(error: SystemExit) -> int:
    """The exit code as Python gives it at the end of a program; prints a message."""
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    sys.stderr.write(f"{error.code}\n")
    sys.stderr.flush()
    return 1


def _call_me(name: str) -> None:
    """Set the process name that `ps` and `top` show, on Linux."""
    try:
        with open("/proc/self/comm", "w") as file:
            file.write(name[:15])
    except OSError:  # elsewhere than on Linux
        pass


def _new_chances() -> None:
    """Reseed the generators: forks of one process would all draw the same numbers."""
    random.seed()
    np.random.seed()  # noqa: NPY002 - the generator that functions of users draw from
    ef.random.seed(int.from_bytes(os.urandom(8), "little"))


def _end_with(lifeline: int) -> None:
    """Exit when this worker is not needed any more, whatever it is doing."""
    os.read(lifeline, 1)
    os._exit(0)


def _work(wire: Wire) -> None:
    """Answer calls (see `eagerflow.data.workers.processes.Pool.run`)."""
    _, sent = wire.receive()
    function: Any = None
    broken: Exception | None = None
    try:
        folders, environment, code = load(sent)
        _be_as(folders, environment)
        function = load(code)
    except Exception as error:
        error.add_note("  in a worker process, where the function is imported")
        broken = error
    while wire.waits(IDLE):
        (stacked, seeded, seed, *indices), elements = wire.receive()
        if broken is not None:
            wire.send([1, 0], _failure(broken))
            continue
        made: list[Any] = []
        at, stage = 0, 1
        try:
            for at, element in enumerate(elements):
                draws = [generator(seed, indices[at])] if seeded else []
                made.append(as_element(function(element, *draws)))
            at, stage = 0, 2
            answer = stack(made) if stacked else made[0]
        except Exception as error:
            wire.send([stage, at], _failure(error))
            continue
        try:
            wire.send([0, 0], answer)
        except DTypeError as error:  # nothing was sent
            error.add_note("  in the result of the function")
            wire.send([3, 0], _failure(error))


def _be_as(folders: list[str], environment: dict[str, str]) -> None:
    """Adopt the current search path and environment of the program."""
    sys.path[:] = folders
    importlib.invalidate_caches()
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    os.environ.update(environment)


def _failure(error: Exception) -> bytes:
    """An error with its traceback as a note, pickled; its text if the error cannot be sent."""
    trace = error.__traceback__.tb_next if error.__traceback__ else None  # without this module
    text = "".join(traceback.format_exception(type(error), error, trace))
    error.add_note("  in a worker process:\n" + textwrap.indent(text.rstrip(), "    "))
    for form in (error, Rebuilt(error)):
        try:
            data = dump(form)
            if type(load(data)) is type(error):  # some errors can be pickled, but not unpickled
                return data
        except Exception:
            continue
    return dump(RuntimeError(text.rstrip()))
