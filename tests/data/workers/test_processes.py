"""Worker processes: the program's modules and state there, and the errors that they report."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.data import Dataset
from eagerflow.data.workers import processes
from eagerflow.data.workers.processes import stop_server
from eagerflow.errors import DTypeError, ShapeError, WorkerError

PROCESSES = {"workers": 2, "processes": True}


@pytest.fixture(scope="module", autouse=True)
def _server() -> Iterator[None]:
    list(Dataset.from_iterable([1]).map(abs, workers=1, processes=True))
    yield
    stop_server()


def numbers(count: int) -> Dataset:
    return Dataset.from_tensors(ef.arange(count))


def test_modules_are_found_where_the_program_finds_them_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "found_later.py").write_text("def triple(x):\n    return x * 3\n")
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path, str(tmp_path)])  # a Path is ignored
    triple = importlib.import_module("found_later").triple
    assert [x.item() for x in numbers(4).map(triple, **PROCESSES)] == [0, 3, 6, 9]
    del sys.modules["found_later"]


def test_the_environment_is_that_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(_: Any) -> Any:
        return len(os.environ.get("EAGERFLOW_TEST_FLAG", ""))

    def lengths() -> list[int]:
        return [x.item() for x in numbers(2).map(read, **PROCESSES)]

    assert lengths() == [0, 0]
    monkeypatch.setenv("EAGERFLOW_TEST_FLAG", "seven")
    assert lengths() == [5, 5]
    monkeypatch.delenv("EAGERFLOW_TEST_FLAG")
    assert lengths() == [0, 0]


def test_a_result_that_cannot_be_sent_is_named() -> None:
    def locked(x: ef.Tensor) -> Any:
        return {"x": x, "lock": threading.Lock()} if x == 1 else {"x": x, "lock": None}

    iterator = iter(numbers(3).map(locked, **PROCESSES))
    assert next(iterator)["x"].item() == 0
    with pytest.raises(DTypeError, match=r"a lock at \['lock'\]: cannot pickle") as caught:
        next(iterator)
    assert "in element 1 of map(locked)" in "\n".join(caught.value.__notes__)
    assert next(iterator)["x"].item() == 2
    del caught, iterator


def test_what_fails_behind_the_function_names_the_line_of_the_pipeline() -> None:
    """The line is not that of the worker process, whose program is no user's code."""
    locks = numbers(3).map(lambda x: threading.Lock(), **PROCESSES)
    shapes = numbers(3).map(lambda x: ef.ones(int(x)), **PROCESSES).batch(3)
    for dataset, error in ((locks, DTypeError), (shapes, ShapeError)):
        with pytest.raises(error) as caught:
            list(dataset)
        assert "test_processes.py" in str(caught.value)
        assert "<string>" not in str(caught.value)
        del caught


def test_an_element_that_cannot_be_sent_is_named() -> None:
    dataset = Dataset.from_iterable([1, threading.Lock()]).map(lambda x: x, **PROCESSES)
    iterator = iter(dataset)
    assert next(iterator).item() == 1
    with pytest.raises(DTypeError, match="a lock at") as caught:
        next(iterator)
    assert "in element 1 of map(<lambda>)" in "\n".join(caught.value.__notes__)
    del caught, iterator


@pytest.mark.parametrize(
    ("given", "code"), [(3, 3), (None, 0), ("a reason", 1), (-1, 255)], ids=str
)
def test_sys_exit_is_told_as_it_was(given: Any, code: int) -> None:
    def leave(x: ef.Tensor) -> ef.Tensor:
        if x == 1:
            sys.exit(given)
        return x

    iterator = iter(numbers(3).map(leave, **PROCESSES))
    next(iterator)
    with pytest.raises(WorkerError, match=f"exit code {code}\\b") as caught:
        next(iterator)
    assert "memory" not in str(caught.value)
    assert next(iterator).item() == 2
    del caught, iterator


def test_errors_whose_class_takes_other_arguments_come_back() -> None:
    class OddError(Exception):
        def __init__(self, text: str, number: int) -> None:
            super().__init__(text)
            self.number = number

    def fail(x: ef.Tensor) -> None:
        raise OddError("text", 2)

    with pytest.raises(OddError) as caught:
        list(numbers(1).map(fail, **PROCESSES))
    assert (caught.value.args, caught.value.number) == (("text",), 2)
    assert "in element 0 of map(fail)" in "\n".join(caught.value.__notes__)
    del caught


def test_a_connection_that_two_threads_close_is_closed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the time of a second `close` its number may be that of another file."""
    process = processes._Process("worker", b"")
    closed: list[int] = []
    close = os.close

    def close_while_another_thread_does(number: int) -> None:
        closed.append(number)
        other = threading.Thread(target=process.close)
        other.start()
        other.join()
        close(number)

    monkeypatch.setattr(processes.os, "close", close_while_another_thread_does)
    process.close()
    assert len(closed) == 1
