"""The work on graphs grows about in proportion to their size."""

from __future__ import annotations

import math

import pytest

from tests.bench.graph_text import WORK, make, prepared, seconds


@pytest.mark.slow
@pytest.mark.parametrize("name", WORK)
def test_near_linear(name: str) -> None:
    small, large = (prepared(make(count)) for count in (4_000, 40_000))
    times = [seconds(WORK[name], graph, 3) for graph in (small, large)]
    assert math.log10(times[1] / times[0]) < 1.25
