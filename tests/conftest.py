"""Fixtures around each test and module: leaks of threads, sockets, interpreters; same draws."""

from __future__ import annotations

import gc
import os
import signal
import stat
import sys
import threading
import time
import zlib
from collections.abc import Iterator

import pytest

from eagerflow import random as ef_random
from eagerflow import settings as ef_settings
from eagerflow.core.interpreter import stack
from eagerflow.runtime.scheduled.detached import serving
from eagerflow.runtime.threads.workers import shared
from eagerflow_kernels import table

# a shell starts background jobs with Ctrl-C ignored, and all programs started by tests inherit it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Garbage collection took a tenth of the tests' time, most of it on objects that are still in use.
# Each module begins with a full collection, and tests that need another call `gc.collect`.
gc.set_threshold(20_000, 25, 100)


@pytest.fixture(scope="module", autouse=True)
def _nothing_old_is_collected() -> None:
    """Exempts objects of earlier tests from garbage collection: many tests collect explicitly."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_draws(request: pytest.FixtureRequest) -> None:
    """Seeds the default generator by the name of the test: a failure repeats on every machine."""
    ef_random.seed(zlib.crc32(request.node.nodeid.encode()))


# --- leaks ---------------------------------------------------------------------------------------

_GRACE = 2.0  # seconds that a thread may take to end after it is told to
_POOLS = shared, serving


def running_threads() -> set[threading.Thread]:
    """Returns the running threads, except the compiler thread, which ends when it is out of work.

    That thread belongs to the process, and may still be compiling graphs of an earlier test.
    """
    return {t for t in threading.enumerate() if not t.name.startswith("eagerflow-compiler")}


def _sockets() -> set[tuple[str, int]]:
    sockets = set()
    for descriptor in os.listdir("/dev/fd"):
        try:
            status = os.fstat(int(descriptor))
        except OSError:  # the descriptor of the directory listing itself
            continue
        if stat.S_ISSOCK(status.st_mode):
            sockets.add((descriptor, status.st_ino))
    return sockets


def leaked_threads(before: set[threading.Thread]) -> list[str]:
    """Returns the names of threads that are not in ``before`` and do not end within `_GRACE`.

    Threads of the pools that have nothing to do are told to end: they would wait for a second for
    the next job.
    """
    if running_threads() <= before:
        return []
    deadline = time.monotonic() + _GRACE
    for pool in _POOLS:
        pool.stop()
    # what ends may start another thread meanwhile, such as that of the timers
    while (left := running_threads() - before) and time.monotonic() < deadline:
        for thread in left:
            thread.join(max(0.0, deadline - time.monotonic()))
    for pool in _POOLS:
        pool._closed = False
    return sorted(t.name for t in running_threads() - before if t.is_alive())


def _kept() -> set[str]:
    """Returns the descriptor of the fork server of the worker processes of pipelines, if it runs.

    The server stays for later pipelines; an idle one exits, and any test may start the next one.
    """
    processes = sys.modules.get("eagerflow.data.workers.processes")
    channel = None if processes is None else processes._server._channel
    return set() if channel is None else {str(channel.fileno())}


def leaked_sockets(before: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Returns sockets that are not in ``before`` and stay open, beyond the grace period.

    Only a growing number is a leak: a new socket may take the place of an old one.
    """
    deadline = time.monotonic() + _GRACE
    while True:
        now = {s for s in _sockets() if s[0] not in _kept()}
        left = now - before if len(now) > len(before) else set()
        if not left or time.monotonic() >= deadline:
            return left
        time.sleep(0.01)


@pytest.fixture(scope="module", autouse=True)
def _no_leak_of_a_module() -> Iterator[None]:
    """A module leaves no socket behind."""
    sockets = _sockets()
    yield
    assert not leaked_sockets(sockets), "sockets leaked"


@pytest.fixture(autouse=True)
def _no_leak(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test leaves no thread, socket, interpreter, monitor, setting or kernel behind.

    Sockets of a cluster that the tests of a module share come and go: a connection to a task that
    was silent is made anew, and may be missing when a test begins. Its module counts them.
    """
    threads, sockets = running_threads(), _sockets()
    shares_sockets = "cluster" in request.fixturenames
    installed, monitor = stack.total, stack.monitor
    settings_before, hook = ef_settings.current(), sys.excepthook
    kernels, own = dict(table._special), frozenset(table._own)
    yield
    assert leaked_threads(threads) == [], "threads leaked"
    assert shares_sockets or not leaked_sockets(sockets), "sockets leaked"
    assert stack.total == installed, "an interpreter is still installed"
    assert stack.monitor is monitor, "a monitor is still installed"
    assert ef_settings.current() == settings_before, "settings were changed for good"
    assert kernels.items() <= table._special.items(), "a kernel was replaced for good"
    assert table._own >= own, "a kernel counts as one of a user from now on"
    assert sys.excepthook is hook, "sys.excepthook was replaced"
