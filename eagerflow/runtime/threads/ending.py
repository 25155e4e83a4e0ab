"""The end of the program: the threads of the framework end before the interpreter does.

They are daemons, so that no program waits for them for ever. But when the interpreter ends, a
daemon that acquires the interpreter's lock again is unwound wherever it is, and in C++ (of optree,
say) that aborts the program. So before the end all threads are asked to stop, and waited for.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import weakref
from collections.abc import Callable
from time import monotonic
from typing import Any, Final, TypeVar, final

_T = TypeVar("_T")
#: seconds in which threads may end by themselves
_GRACE: Final = 0.5
#: seconds for threads that were interrupted; a thread that sleeps in C for ever is left behind
_LAST: Final = 1.0


@final
class Ending:
    """Threads, and the functions that stop them; both are held by weak references.

    Args:
        grace: seconds in which threads may end by themselves.
        last: further seconds, after the remaining threads were interrupted.
    """

    def __init__(self, grace: float = _GRACE, last: float = _LAST) -> None:
        self._grace = grace
        self._last = last
        self._registered = False
        self.forget()

    def forget(self) -> None:
        """Forget all threads, as they do not survive a fork."""
        self._lock = threading.Lock()
        self._threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._stops: weakref.WeakKeyDictionary[Any, Callable[[Any], object]] = (
            weakref.WeakKeyDictionary()
        )

    def before(self, thing: _T, stop: Callable[[_T], object]) -> None:
        """Call ``stop`` with ``thing`` before the end, if that is alive; ``stop`` must not wait."""
        with self._lock:
            self._stops[thing] = stop

    def start(self, thread: threading.Thread) -> None:
        """Start ``thread``, for which the end of the program waits."""
        with self._lock:
            self._threads.add(thread)
            if not self._registered:  # registered late, so as to run before modules' handlers
                self._registered = True
                atexit.register(self.end)
        thread.start()

    def end(self) -> None:
        """Ask all threads to stop, and wait for them for a limited time."""
        with self._lock:
            stops = list(self._stops.items())
        for thing, stop in reversed(stops):  # later objects may use earlier ones
            stop(thing)
        del stops
        with self._lock:
            threads = list(self._threads)
        left = _wait(threads, self._grace)
        for thread in left:
            _interrupt(thread)
        _wait(left, self._last)


def _wait(threads: list[threading.Thread], seconds: float) -> list[threading.Thread]:
    """Wait for ``threads``; returns the threads that still run."""
    end = monotonic() + seconds
    others = [thread for thread in threads if thread is not threading.current_thread()]
    for thread in others:
        if thread.ident is not None:  # Ctrl-C may have come before it was started
            thread.join(max(end - monotonic(), 0.0))
    return [thread for thread in others if thread.is_alive()]


def _interrupt(thread: threading.Thread) -> None:
    """Raise SystemExit in ``thread`` as soon as it is in Python code."""
    number, error = ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, error)


#: the instance of this process
ending: Final = Ending()
os.register_at_fork(after_in_child=ending.forget)
