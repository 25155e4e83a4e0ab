"""The work on graphs grows about in proportion to their size, counted in calls of functions.

The time of this work is measured by ``python -m tests.bench.graph_text``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.bench.graph_text import WORK, make, prepared


def calls(work: Callable[[Any], Any], graph: Any) -> int:
    """The number of calls of Python and C functions by ``work``."""
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work(graph)
    finally:
        sys.setprofile(before)
    return count


def exponent(work: Callable[[Any], Any]) -> float:
    small, large = (calls(work, prepared(make(count))) for count in (250, 2_500))
    return math.log10(large / small)


@pytest.mark.parametrize("name", WORK)
def test_near_linear(name: str) -> None:
    assert exponent(WORK[name]) < 1.1


def test_more_than_linear_is_seen() -> None:
    def quadratic(graph: Any) -> None:
        for _ in graph.nodes[::10]:
            for node in graph.nodes[::10]:
                len(node.inputs)

    assert exponent(quadratic) > 1.5
