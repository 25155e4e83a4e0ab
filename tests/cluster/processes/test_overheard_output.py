"""Output of functions, sent to the clients that call them at a limited rate of lines."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from eagerflow.cluster.processes import overheard_output
from eagerflow.cluster.processes.overheard_output import (
    Listener,
    OverheardOutput,
    StrayLines,
    write_unheard,
)

Told = list[tuple[tuple[str, ...], int]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def listener(told: Told, monkeypatch: pytest.MonkeyPatch) -> Listener:
    monkeypatch.setattr(overheard_output, "monotonic", lambda: 10.0)
    return Listener(lambda *what: told.append(what))


def test_lines_are_put_together(listener: Listener, told: Told) -> None:
    log = io.StringIO()
    stream = OverheardOutput(log)

    def speak(*parts: str) -> str:
        for part in parts:
            stream.write(part)
        return "done"

    assert listener.calling(speak)("a", "b\nc\n", "\n", "d") == "done"
    assert told == [(("ab", "c", "", "d"), 0)]
    speak("alone\n")  # no client called it
    assert told[1:] == []
    assert log.getvalue() == "ab\nc\n\ndalone\n"
    listener.calling(speak)()
    assert told[1:] == []


def test_output_of_a_call_that_fails_is_told(listener: Listener, told: Told) -> None:
    stream = OverheardOutput(io.StringIO())

    def fail() -> None:
        stream.write("before")
        raise LookupError

    with pytest.raises(LookupError):
        listener.calling(fail)()
    assert told == [(("before",), 0)]


def test_there_is_an_end_to_what_is_told(
    listener: Listener, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = OverheardOutput(io.StringIO())

    def speak(lines: int) -> None:
        for i in range(lines):
            stream.write(f"{i}\n")

    call = listener.calling(speak)
    call(150)
    call(2)
    assert [(len(lines), left_out) for lines, left_out in told] == [(100, 50), (0, 2)]
    monkeypatch.setattr(overheard_output, "monotonic", lambda: 11.0)
    call(60)
    call(60)
    assert [(len(lines), left_out) for lines, left_out in told[2:]] == [(60, 0), (40, 20)]
    monkeypatch.setattr(overheard_output, "monotonic", lambda: 12.0)
    listener.calling(lambda: stream.write("x" * 5_000))()
    assert told[-1] == (("x" * 2_000,), 0)


def test_calls_at_once_are_told_apart(told: Told) -> None:
    stream = OverheardOutput(io.StringIO())
    barrier = threading.Barrier(2)

    def speak(name: str) -> None:
        for _ in range(3):
            barrier.wait(10)
            stream.write(f"{name}\n")

    def run(name: str, heard: Any) -> None:
        Listener(lambda *what: heard.append(what)).calling(speak)(name)

    both: dict[str, Told] = {"a": [], "b": []}
    threads = [threading.Thread(target=run, args=each) for each in both.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert both == {name: [((name,) * 3, 0)] for name in "ab"}


def test_what_no_call_writes_is_told_as_the_task_s_own(listener: Listener, told: Told) -> None:
    stray = StrayLines(lambda *what: told.append(what), lambda: 0.0)
    log = io.StringIO()
    stream = OverheardOutput(log, stray.hear)
    stream.write("a war")
    listener.calling(lambda: stream.write("of a call\n"))()
    stream.write("ning\n")
    write_unheard(stream, "for the log alone\n")
    assert told == [(("of a call",), 0), (("a warning",), 0)]
    assert log.getvalue() == "a warof a call\nning\nfor the log alone\n"


def test_stray_lines_are_few_a_second(told: Told) -> None:
    now = 0.0
    stray = StrayLines(lambda *what: told.append(what), lambda: now)
    for line in range(250):
        stray.hear(f"{line}\n")
    assert len(told) == 100
    now = 1.0
    stray.hear("later\n" + "x" * 10_000)
    stray.hear("\n")
    assert told[100] == (("later",), 150)
    assert [len(line) for line in told[101][0]] == [2_000]


def test_a_line_that_is_written_while_another_one_is_heard(told: Told) -> None:
    """A finaliser in the same thread may print meanwhile."""
    words = ["of a finaliser\n"]

    def clock() -> float:
        if words:
            stray.hear(words.pop())
        return 0.0

    stray = StrayLines(lambda *what: told.append(what), clock)
    thread = threading.Thread(target=stray.hear, args=("outer\n",), daemon=True)
    thread.start()
    thread.join(10)
    assert told == [(("of a finaliser",), 0), (("outer",), 0)]
