"""News of a task about running steps: round trips, and refusal of damaged bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eagerflow.cluster.protocol.values import decode_values
from eagerflow.cluster.relaying.news import (
    News,
    ToldArrival,
    ToldMove,
    ToldPlace,
    ToldRegion,
    ToldSum,
    decode,
    encode,
)
from eagerflow.errors import ProtocolError
from eagerflow.resources.queue_levels import Level

NEWS = News(
    12.5,
    [ToldRegion(1, 3, "ps:0/cpu:0", 1.0, 1.5), ToldRegion(2, 0, "ps:0/cpu:1", 2.0, 2.5)],
    [ToldMove(1, 2**32 - 1, "y -> cpu:1", "ps:0/cpu:0", "client-7/cpu:0", 1.0, 1.25, 2**40)],
    [ToldArrival(3, "y -> cpu:1 while:2", 1.125)],
    [ToldSum(1, "ps:0/cpu:0", "worker:0/cpu:0", 900, 2**50, 3.5)],
    [ToldPlace(2, "net/äx", "while", 7, 0.25, 2**47)],
    [Level("shared/q", "fifo", 3, 10, 0, 2, True)],
)


def values(news: News) -> list[Any]:
    heads, frames = encode(news)
    return decode_values(heads, iter(frames))


@pytest.mark.parametrize("news", [NEWS, News(0.0, [], [], [], [], [], [])])
def test_there_and_back(news: News) -> None:
    assert decode(values(news)) == news


@pytest.mark.parametrize("change", [
    lambda v: v[:-1],
    lambda v: [*v, 1],
    lambda v: ["now", *v[1:]],
    lambda v: [v[0], v[1][:, :2], *v[2:]],
    lambda v: [*v[:-1], v[-1][:1]],
    lambda v: [v[0], np.full((1, 5), np.nan), *v[2:]],
    lambda v: [v[0], np.full((1, 5), 1e300), *v[2:]],
    lambda v: [*v[:-1], np.array([b"\xff"] * 9, object)],
    lambda v: [None] * len(v),
])  # fmt: skip
def test_what_is_damaged_is_refused(change: Any) -> None:
    with pytest.raises(ProtocolError, match="a malformed report of its steps"):
        decode(change(values(NEWS)))
