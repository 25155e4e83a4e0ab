"""Queues of all kinds, accumulators and snapshots, with bytes for elements."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from tests.resources.queues.modes import Call, Waiting, numbers

WORDS = [b"one", b"", b"t\0o\0"]


@pytest.mark.parametrize("kind", ["fifo", "shuffle", "padding", "priority"])
def test_in_and_out(call: Call, kind: Any) -> None:
    queue = ef.Queue(8, {"word": "bytes[]", "pair": "bytes[2]"}, kind=kind)
    options: Any = {"priority": 0} if kind == "priority" else {}
    call(lambda: queue.enqueue({"word": WORDS[0], "pair": [b"a", b"b"]}, **options))
    many = {"word": WORDS[1:], "pair": ef.tensor([[b"c", b"d"], [b"e\0", b""]])}
    call(lambda: queue.enqueue_many(many, **options))
    assert "bytes[]" in repr(queue)
    first = call(queue.dequeue)
    rest = call(lambda: queue.dequeue_many(2))
    elements = [(numbers(first["word"]), numbers(first["pair"]))]
    elements += list(zip(numbers(rest["word"]), numbers(rest["pair"]), strict=True))
    expected = [(b"one", [b"a", b"b"]), (b"", [b"c", b"d"]), (b"t\0o\0", [b"e\0", b""])]
    assert elements == expected if kind != "shuffle" else sorted(elements) == sorted(expected)


def test_padding_fills_with_empty_bytes(call: Call) -> None:
    queue = ef.Queue(8, "bytes[n]", kind="padding")
    for words in ([b"a"], [], [b"b", b"c"]):
        queue.enqueue(ef.tensor(words, dtype="bytes"))
    assert numbers(call(lambda: queue.dequeue_many(3))) == [[b"a", b""], [b"", b""], [b"b", b"c"]]
    assert call(lambda: queue.dequeue_many(0)).type == ef.zeros((0, 0), dtype="bytes").type


def test_waiting_and_closing(call: Call) -> None:
    queue = ef.Queue(1, b"")
    waiting = Waiting(lambda: call(lambda: queue.dequeue_many(2)), queue)
    queue.enqueue(b"a")
    queue.enqueue(b"b")
    assert numbers(waiting.result()) == [b"a", b"b"]
    queue.enqueue(b"left")
    queue.close()
    assert numbers(call(lambda: queue.dequeue_up_to(5))) == [b"left"]


@pytest.mark.parametrize("wrong", ["text", 1, [b"a"], 0.5, None])
def test_what_is_no_element(call: Call, wrong: Any) -> None:
    queue = ef.Queue(3, "bytes[]")
    with pytest.raises((errors.DTypeError, errors.ShapeError)):
        call(lambda: queue.enqueue(wrong))
    assert int(queue.size()) == 0


def test_numbers_only(call: Call) -> None:
    with pytest.raises(errors.DTypeError):
        call(lambda: ef.Queue(3, "f32[]").enqueue(b"1"))
    with pytest.raises(errors.DTypeError):
        ef.Accumulator("bytes[]")


def test_snapshots(call: Call) -> None:
    words, count = ef.Variable(WORDS), ef.Variable(1)
    snapshot = call(lambda: ef.snapshot({"words": words, "count": count}))
    assert numbers(snapshot["words"]) == WORDS
