"""Other Python code in a profile: the gaps between the lines that ran ops."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.events import OpEvent
from eagerflow.profiling import GapStatistics, profile_text
from eagerflow.profiling.gap_statistics import gap_statistics
from eagerflow.profiling.spans import union, without
from eagerflow.source import Source

X = ef.ones((4, 3))


def _slowly(x: ef.Tensor) -> ef.Tensor:
    time.sleep(0.005)
    return ef.tensor(np.clip(x.numpy().tolist(), -2.0, 2.0))


def _texts(rows: Any) -> list[tuple[str, str, int]]:
    def text(source: Source | None) -> str:
        return "" if source is None else source.text

    return [(text(row.after), text(row.before), row.count) for row in rows]


def test_a_gap_lies_between_two_lines() -> None:
    with ef.profile() as p:
        for _ in range(3):
            y = X * 2.0
            y = _slowly(y)
    (row, *_) = rows = p.gaps()
    converted = "return ef.tensor(np.clip(x.numpy().tolist(), -2.0, 2.0))"
    assert ("y = X * 2.0", converted, 3) in _texts(rows)
    assert (converted, "y = X * 2.0", 2) in _texts(rows)
    assert row.before is not None
    assert row.before.text == row.text == converted
    assert 0.015 < row.total < p.seconds
    assert row.share == pytest.approx(row.total / p.seconds)
    (other,) = [part for part in p.outside() if part.kind == "other"]
    assert sum(r.total for r in rows) == pytest.approx(other.total, rel=1e-3)
    (line,) = [x for x in str(p).splitlines() if f" to {row.before.line} " in x]
    assert converted[:30] in line
    assert row.place.startswith("test_gap_statistics.py:")
    assert f" to {row.before.line}" in row.place


def test_the_ends_of_a_block_are_no_lines() -> None:
    with ef.profile() as p:
        X + 1.0
    assert {*_texts(p.gaps())} == {("X + 1.0", "", 1), ("", "X + 1.0", 1)}
    assert {row.place.split()[0] for row in p.gaps()} == {"from", "to"}


def test_gaps_do_not_join_blocks() -> None:
    p = ef.profile()
    with p:
        X + 1.0
    time.sleep(0.001)
    with p:
        X + 2.0
    rows = p.gaps()
    assert {*_texts(rows)} == {
        ("", "X + 1.0", 1), ("X + 1.0", "", 1), ("", "X + 2.0", 1), ("X + 2.0", "", 1)
    }  # fmt: skip
    assert sum(row.total for row in rows) <= p.seconds


def test_runs_of_graphs_are_no_gaps() -> None:
    """What a run takes besides its ops is a row of its own."""
    step = ef.trace(lambda x: ef.py_call(lambda y: np.asarray(y) + 1.0, x.type, x) * 2.0)
    step(X)
    with ef.profile() as p:
        for _ in range(2):
            step(X)
    (row,) = [part for part in p.outside() if part.kind == "step"]
    assert row.name == "<lambda>"
    assert row.calls == 2
    (other,) = [part for part in p.outside() if part.kind == "other"]
    assert sum(r.total for r in p.gaps()) == pytest.approx(other.total, rel=1e-3)


def test_short_gaps_are_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    with ef.profile() as p:
        _slowly(X)
    assert "other Python" in str(p)
    monkeypatch.setattr(profile_text, "_LONG", 1e3)
    assert "other Python" not in str(p)


def test_two_offsets_of_one_line_are_one() -> None:
    code = compile("a = 1 + x * 2\nb = a", "<lines>", "exec")
    offsets = [i for start, end, line in code.co_lines() if line == 1 for i in range(start, end, 2)]
    ops = [
        OpEvent(start=float(i), stop=i + 0.5, source=Source(code, offset))
        for i, offset in enumerate(offsets)
    ]
    gaps = [(i + 0.5, i + 1.0) for i in range(len(ops) - 1)]
    (row,) = gap_statistics([(gaps, ops)], 2.0)
    assert (row.count, row.place) == (len(gaps), "<lines>:1")
    assert row.total == pytest.approx(0.5 * len(gaps))


def test_the_place_of_two_files() -> None:
    first, second = (Source(compile("x", f"/a/{name}.py", "exec"), 0) for name in "fg")
    assert GapStatistics(first, second, 1, 0.1, 0.1).place == "f.py:0 to g.py:0"
    assert GapStatistics(None, None, 1, 0.1, 0.1).place == ""


_spans = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=8)


@given(_spans, _spans)
def test_gaps_are_what_is_left(blocks: list[tuple[int, int]], ops: list[tuple[int, int]]) -> None:
    def spans(pairs: list[tuple[int, int]]) -> list[tuple[float, float]]:
        return union((float(a), float(a + n)) for a, n in pairs)

    def units(of: Any) -> set[int]:
        return {unit for start, stop in of for unit in range(int(start), int(stop))}

    gaps = [*without(spans(blocks), spans(ops))]
    assert units(gaps) == units(spans(blocks)) - units(spans(ops))
    assert gaps == sorted(gaps)
