"""Run by `test_interrupts` in a process of its own: endless loops, each ended by a real Ctrl-C.

It prints a line of JSON for each loop. With the argument ``ipython`` each call is a session's cell.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow_kernels import table

ENDLESS = 10**9
SIZE = 300_000  # number of elements that makes parts of a graph worth a thread

v = ef.Variable(0.0)
calls = {"before": 0, "after": 0}
sent = False


def counted(xp: Any, x: Any) -> Any:
    calls["after" if sent else "before"] += 1
    if calls["before"] == 10:  # the loop runs: Ctrl-C comes soon
        calls["before"] += 1
        signal.setitimer(signal.ITIMER_REAL, 0.1)
    return np.sin(x)


def eager(x: Any, n: Any) -> Any:
    return ef.while_loop(lambda x, i: i < n, lambda x, i: (ef.sin(x), i + 1), (x, 0))[0]


structured = ef.trace(eager)


@ef.trace
def converted(x: Any, n: Any) -> Any:
    i = 0
    while ef.sum(x) < 1e30 and i < n:
        x = ef.sin(x)
        i += 1
    return x


@ef.trace
def effects(x: Any, n: Any) -> Any:
    """A loop that is lowered where it is heavy: its body has two parts, and an effect."""

    def body(x: Any, i: Any) -> Any:
        v.assign_add(1.0)
        return ef.sin(x) + ef.cos(x), i + 1

    return ef.while_loop(lambda x, i: i < n, body, (x, 0))[0]


@ef.trace
def at_once(x: Any, n: Any) -> Any:
    """Two loops, one of which runs in a thread of the pool."""
    a = ef.while_loop(lambda x, i: i < n, lambda x, i: (ef.sin(x), i + 1), (x, 0))[0]
    b = ef.while_loop(lambda x, i: i < n, lambda x, i: (ef.cos(x), i + 1), (x, 0))[0]
    return a + b


def ctrl_c(signum: int, frame: Any) -> None:
    global sent
    sent = True
    os.kill(os.getpid(), signal.SIGINT)


def by_hand(f: Callable[..., Any], x: Any) -> str:
    try:
        f(x, ENDLESS)
    except BaseException as error:
        return type(error).__name__
    return ""


def in_a_cell(f: Callable[..., Any], x: Any) -> str:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.push({"f": f, "x": x, "n": ENDLESS})
    error = shell.run_cell("f(x, n)", silent=True).error_in_exec
    again = shell.run_cell("float(f(x, 3)[0]) > -2")  # the session works on
    assert again.success
    assert again.result is True
    return type(error).__name__


def main(call: Callable[..., str]) -> None:
    global sent
    os.cpu_count = lambda: 2
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGALRM, ctrl_c)
    table.portable("sin", replace=True)(counted)
    small, large = ef.ones(2), ef.tensor(np.linspace(-1, 1, SIZE, dtype=np.float32))
    for f, x in (
        (eager, small), (structured, small), (converted, small), (effects, small),
        (structured, large), (effects, large), (at_once, large),
    ):  # fmt: skip
        calls.update(before=-100, after=0)
        want = f(x, 3).numpy()
        sent = False
        calls.update(before=0, after=0)
        error = call(f, x)
        after = calls["after"]
        value = v.numpy()
        same = f(x, 3).numpy().tobytes() == want.tobytes()
        v.assign(value)
        waiting = [t.name for t in threading.enumerate() if "worker" in t.name]
        name = f"{f.__name__ if f is not eager else 'eager'} {x.size}"
        line = {"name": name, "error": error, "before": calls["before"], "after": after,
                "same": same, "variable": float(value), "workers": len(waiting)}  # fmt: skip
        print(json.dumps(line), file=sys.__stdout__, flush=True)


if __name__ == "__main__":
    main(in_a_cell if "ipython" in sys.argv else by_hand)
