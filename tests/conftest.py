"""Fixtures that no test may leak past."""

from __future__ import annotations

import gc
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from eagerflow import settings as ef_settings
from eagerflow.core.stack import stack
from eagerflow_kernels import table

# what a shell starts in the background ignores Ctrl-C, and so would all programs that tests start
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A tenth of the time of tests went into looking for garbage, most of it at what a test still uses.
# Each module begins with a collection of all, and tests that need one ask for it.
gc.set_threshold(20_000, 25, 100)


@pytest.fixture(scope="module", autouse=True)
def _nothing_old_is_collected() -> None:
    """Collections of garbage need not look at what earlier tests left: many tests ask for one."""
    gc.collect()
    gc.freeze()


# --- leaks ---------------------------------------------------------------------------------------

_GRACE = 2.0  # seconds that a thread which was told to end may take


def running_threads() -> set[threading.Thread]:
    """Those that there are, but the one that compiles graphs, which ends when it has nothing to do.

    It is of the process, and may take its time for what a test left it.
    """
    return {t for t in threading.enumerate() if not t.name.startswith("eagerflow-compiler")}


def _sockets() -> set[tuple[str, int]]:
    found = set()
    for descriptor in os.listdir("/dev/fd"):
        try:
            status = os.fstat(int(descriptor))
        except OSError:  # the descriptor of this very listing
            continue
        if stat.S_ISSOCK(status.st_mode):
            found.add((descriptor, status.st_ino))
    return found


def leaked_threads(before: set[threading.Thread]) -> list[str]:
    """The names of threads that are not in ``before`` and do not end by themselves."""
    deadline = time.monotonic() + _GRACE
    for thread in running_threads() - before:
        thread.join(max(0.0, deadline - time.monotonic()))
    return sorted(t.name for t in running_threads() - before if t.is_alive())


def _kept() -> set[str]:
    """The descriptor of the process that worker processes of pipelines are forks of.

    It stays for later ones; an idle one ends by itself, and any test may start the next.
    """
    processes = sys.modules.get("eagerflow.data.workers.processes")
    channel = None if processes is None else processes._server._channel
    return set() if channel is None else {str(channel.fileno())}


def leaked_sockets(before: set[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those that are not in ``before`` and are not closed soon, as by who ends with a process.

    There have to be more than before: one may take the place of another.
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
