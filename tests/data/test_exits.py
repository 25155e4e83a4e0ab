"""Exits of programs while a pipeline, or a runner, is at work."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_HEAD = """
import threading, time
import optree
import eagerflow as ef
from eagerflow.data import Dataset

def double(x):
    "Nearly always in C++ that lets go of the interpreter lock, and aborts if it is unwound then."
    for _ in range(3000):
        optree.tree_flatten([x, {"a": x}])
    return x * 2

def counted():
    return Dataset.from_iterable(lambda: iter(range(10**6)))

def opened(dataset):
    iterator = iter(dataset)
    next(iterator)
    return iterator

numbers = Dataset.from_tensors(ef.arange(10**6))
"""

PROGRAMS = {
    "prefetch": "it = opened(numbers.map(double).prefetch(3))",
    "loop": "for x in numbers.map(double).prefetch(3): break",
    "threads": "it = opened(numbers.map(double, workers=4))",
    "batches": "it = opened(numbers.map(double, workers=4).batch(3).prefetch(2))",
    "one order": "it = opened(counted().map(double, workers=4, ordered=False).prefetch(2))",
    "processes": "it = opened(numbers.map(double, workers=2, processes=True).map(double)"
    ".prefetch(2))",
    "shuffled": "it = opened(counted().map(double).shuffle(3, seed=0).map(double).prefetch(2))",
    "twice": "it = opened(numbers.map(double).prefetch(2).map(double).repeat().prefetch(2))",
    "cycle": "class Trainer: pass\n"
    "t = Trainer(); t.it = opened(numbers.map(lambda x, t=t: double(x), workers=2).prefetch(2))\n"
    "del t",
    "error": "try:\n    for x in numbers.map(double, workers=2).prefetch(2): raise ValueError\n"
    "except ValueError as error: kept = error",
    "runner": "r = ef.spawn(lambda: double(1)); time.sleep(0.05)",
    "traced runner": "q = ef.Queue(2, ef.tensor(0))\n"
    "@ef.trace\ndef put(): q.enqueue(ef.py_call(lambda: double(ef.tensor(1)), 'i64[]'))\n"
    "r = ef.spawn(put); s = ef.spawn(lambda: q.dequeue()); time.sleep(0.05)",
    "endless": "it = iter(counted().filter(lambda x: double(x) is None).prefetch(1))\n"
    "t = threading.Thread(target=lambda: next(it), daemon=True); t.start(); time.sleep(0.05)",
    "blocked": "def f():\n    yield 1\n    threading.Event().wait()\n"
    "it = opened(Dataset.from_iterable(f).prefetch(2))",
    "read by a daemon": "def f():\n    for x in numbers.map(double, workers=2).prefetch(2): pass\n"
    "    print('as if the epoch had ended')\n"
    "t = threading.Thread(target=f, daemon=True); t.start(); time.sleep(0.05)",
}  # fmt: skip
SOME = ("loop", "batches", "processes", "cycle", "runner", "blocked", "read by a daemon")


def ends(kind: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", _HEAD + PROGRAMS[kind]],
        capture_output=True, text=True, env=environment, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("kind", SOME)
def test_the_end_of_a_program_is_quiet(kind: str) -> None:
    ends(kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", PROGRAMS)
def test_the_end_of_a_program_is_always_quiet(kind: str) -> None:
    for _ in range(20):
        ends(kind)
