"""Methods in the place of their results, and `len` of objects without one: notes of the errors."""

from __future__ import annotations

import queue as python_queue
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError, UnknownNameError
from eagerflow.wrong_calls import add_remedy


class _Holder:
    def __init__(self) -> None:
        self.samples = ef.Queue(3, ef.tensor(0))

    def size(self) -> int:
        return 3


def _names() -> dict[str, Any]:
    samples = ef.Queue(3, ef.tensor(0))
    return {
        "ef": ef, "samples": samples, "of": _Holder(), "x": ef.ones(3), "level": samples.size,
        "levels": [samples.size, samples.size], "by_name": {"a": samples.size},
        "sums": ef.Accumulator(ef.tensor(0.0)), "barrier": ef.Barrier(("f32[]",)),
        "profile": ef.profile(),
    }  # fmt: skip


def _note(code: str, names: dict[str, Any]) -> list[str]:
    with pytest.raises(TypeError) as caught:
        exec(code, names)
    add_remedy(caught.value)
    return [note.removeprefix("  hint: ") for note in getattr(caught.value, "__notes__", [])]


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        ("samples.size > 3", "samples.size is a method: samples.size()"),
        ("ready = (samples.size() < 3 and\n    samples.size < 3)",
         "samples.size is a method: samples.size()"),
        ("int(of.samples.size)", "of.samples.size is a method: of.samples.size()"),
        ("f'{samples.size:d}'", "samples.size is a method: samples.size()"),
        ("x.item + 1", "x.item is a method: x.item()"),
        ("level + 1", "level is a method that was not called: samples.size()"),
        ("min(levels)", "levels has a method that was not called: samples.size()"),
        ("sum(by_name.values())", "by_name has a method that was not called: samples.size()"),
        ("len(samples)", "samples.size() is the number of elements"),
        ("for i in range(len(of.samples)): pass", "of.samples.size() is the number of elements"),
        ("len(sums)", "sums.size() is the number of values"),
        ("len(barrier)",
         "barrier.ready_size() and barrier.incomplete_size() are the numbers of elements"),
        ("len(profile)", "len(profile.events)"),
    ],
)  # fmt: skip
def test_the_remedy(code: str, remedy: str) -> None:
    assert _note(code, _names()) == [remedy]


def test_nothing_is_said_of_methods_and_queues_of_others() -> None:
    names = {"of": _Holder(), "samples": python_queue.Queue(), "a": [_Holder().size] * 2}
    for code in ("of.size > 3", "len(samples)", "min(a)", "len(3)", "of.size + 'a'"):
        assert _note(code, names) == []


def test_what_is_said_of_queues_does_it() -> None:
    names = _names()
    names["samples"].enqueue(1)
    assert eval("samples.size() > 0 and int(samples.size()) == 1", names)


def test_hints_name_where_memory_is_to_be_seen() -> None:
    assert "ef.memory(device).in_use" in _note("ef.profile(memory=True)", _names())[0]
    f = ef.trace(lambda x: x + 1)
    f(ef.ones(3))
    with pytest.raises(TraceError, check=lambda e: "f.explain('costs')" in str(e.hint)):
        f.explain("memory")
    for owner, name in ((f.graph(ef.ones(3)), "memory"), (ef.profile(), "peak_memory")):
        with pytest.raises(UnknownNameError, check=lambda e: "ef.memory(device)" in str(e.hint)):
            getattr(owner, name)
    assert "bytes" in str(f.explain("costs"))
    assert int(ef.memory("cpu:0").in_use or 1) > 0
