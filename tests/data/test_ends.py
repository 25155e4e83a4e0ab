"""Pipelines with workers: how they end, and how far ahead they work."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import eagerflow as ef
from eagerflow.data import Dataset
from eagerflow.data.workers.processes import stop_server
from tests.data.test_pipelines import values
from tests.data.workers.test_parallel import HOW, PROCESSES, becomes, counted, numbers, workers


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    list(numbers(1).map(abs, **PROCESSES))
    yield
    stop_server()
    assert psutil.Process().children(recursive=True) == []


def ours() -> list[str]:
    """The names of the running threads of pipelines."""
    return [t.name for t in threading.enumerate() if t.name.startswith("eagerflow-")]


# --- ends -------------------------------------------------------------------------------------


def endless(how: dict[str, Any]) -> Dataset:
    return numbers(10).map(lambda x: x, **how).repeat().map(lambda x: x, **how).prefetch(4)


@HOW
def test_closing_frees_threads_and_processes(how: dict[str, Any]) -> None:
    iterator = iter(endless(how))
    assert values([next(iterator) for _ in range(15)]) == [*range(10), *range(5)]
    assert ours()
    iterator.close()
    assert list(iterator) == []
    iterator.close()
    assert becomes(lambda: not ours() and not workers())
    again = endless(how).iterator(iterator.state)
    assert next(again).item() == 5
    again.close()
    assert becomes(lambda: not ours() and not workers())


@HOW
def test_forgetting_frees_threads_and_processes(how: dict[str, Any]) -> None:
    iterator = iter(endless(how))
    next(iterator)
    del iterator
    gc.collect()
    assert becomes(lambda: not ours() and not workers())


@HOW
def test_an_exception_in_the_loop_frees_threads_and_processes(how: dict[str, Any]) -> None:
    def train() -> None:
        for x in endless(how):
            if x == 3:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        train()
    assert becomes(lambda: not ours() and not workers())
    assert caught.value.__traceback__ is not None  # a notebook keeps the traceback


@HOW
def test_the_end_of_an_epoch_frees_threads_and_processes(how: dict[str, Any]) -> None:
    iterator = iter(numbers(5).map(lambda x: x, **how).prefetch(2))
    assert values(iterator) == [0, 1, 2, 3, 4]
    assert becomes(lambda: not ours() and not workers())
    assert iterator.state["position"] == {"index": 5}


@HOW
def test_closing_does_not_wait_for_a_worker(how: dict[str, Any], tmp_path: Path) -> None:
    gate = threading.Event()
    begun = tmp_path / "begun"

    def slow(x: ef.Tensor) -> ef.Tensor:
        begun.touch()
        while not (gone or gate.is_set()):
            time.sleep(0.01)
        return x

    gone: list[int] = []
    if "processes" in how:  # an event cannot be sent

        def slow(x: ef.Tensor) -> ef.Tensor:
            begun.touch()
            while True:
                time.sleep(0.01)

    iterator = iter(numbers(9).map(slow, **how).prefetch(2))
    failed: list[BaseException] = []

    def read() -> None:
        try:
            next(iterator)
        except ef.errors.CancelledError as error:
            failed.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    assert becomes(begun.exists)
    iterator.close()
    reader.join()
    assert len(failed) == 1  # the waiting reader was told
    gate.set()
    assert becomes(lambda: not ours() and not workers())


@HOW
def test_ctrl_c_frees_all_and_reading_goes_on(how: dict[str, Any], tmp_path: Path) -> None:
    """Ctrl-C while a reader waits for elements, in a program of its own."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, sys, threading, time\n"
        "import eagerflow as ef\n"
        "from eagerflow.data import Dataset\n"
        "main = os.getpid()\n"
        "slow = True\n"
        "def interrupt(number, frame):\n"  # while a reader waits, not during work on an element
        "    while frame and frame.f_code.co_name != '__next__':\n"
        "        frame = frame.f_back\n"
        "    if frame:\n"
        "        raise KeyboardInterrupt\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.01)\n"
        "signal.signal(signal.SIGINT, interrupt)\n"
        "signal.signal(signal.SIGALRM, interrupt)\n"
        "def double(x):\n"
        "    if slow and x == 3:\n"
        "        os.kill(main, signal.SIGINT)\n"
        "        time.sleep(0.2 if os.getpid() == main else 600)\n"
        "    return x * 2\n"
        f"dataset = Dataset.from_tensors(ef.arange(6)).map(double, **{how!r}).prefetch(2)\n"
        "iterator = iter(dataset)\n"
        "elements = []\n"
        "try:\n"
        "    for x in iterator:\n"
        "        elements.append(x.item())\n"
        "except KeyboardInterrupt:\n"
        "    pass\n"
        "while [t for t in threading.enumerate() if t.name.startswith('eagerflow-')]:\n"
        "    time.sleep(0.01)\n"
        "slow = False\n"
        "print(elements + [x.item() for x in iterator])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, env=environment, timeout=120
    )
    assert (done.stdout, done.returncode) == ("[0, 2, 4, 6, 8, 10]\n", 0), done.stderr


def test_the_end_of_the_program_ends_the_processes(tmp_path: Path) -> None:
    program = (
        "import os, psutil, sys, eagerflow as ef\n"
        "d = ef.data.Dataset.from_tensors(ef.arange(9)).map(lambda x: x, workers=2, processes=True)"
        "\niterator = iter(d)\nnext(iterator)\n"
        "print(*[p.pid for p in psutil.Process().children(recursive=True)], flush=True)\n"
        "{end}\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    for end in ("", "os.kill(os.getpid(), 9)"):
        done = subprocess.run(
            [sys.executable, "-c", program.replace("{end}", end)], capture_output=True, text=True,
            env=environment, timeout=120,
        )  # fmt: skip
        pids = [int(number) for number in done.stdout.split()]
        assert len(pids) >= 2, done.stderr
        assert becomes(lambda pids=pids: not any(map(psutil.pid_exists, pids)))


# --- bounds -----------------------------------------------------------------------------------


def test_no_more_is_made_than_the_buffers_hold() -> None:
    made: list[int] = []
    dataset = counted(1000).map(lambda x: made.append(x.item()) or x, workers=2).prefetch(3)
    iterator = iter(dataset)
    next(iterator)
    assert becomes(lambda: len(made) >= 8)
    threading.Event().wait(0.05)
    assert len(made) <= 1 + 3 + 1 + 4  # taken, held, waiting for room, ahead of it
    iterator.close()
