"""Offsets of other processes' clocks, as bounded by round trips."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerflow.cluster.relaying.clock_offset import ClockOffset

_DELAYS = st.tuples(st.floats(1e-5, 0.1), st.floats(1e-5, 0.1))


@given(st.floats(-1e4, 1e4), st.lists(_DELAYS, min_size=1, max_size=40))
def test_it_is_off_by_half_of_the_shortest_round_trip_at_most(
    ahead: float, delays: list[tuple[float, float]]
) -> None:
    offset, now = ClockOffset(), 0.0
    for there, back in delays:
        offset.heard(now, now + there + ahead, now + there + back)
        now += 0.1
    shortest = min(there + back for there, back in delays[-32:])
    if offset.seconds:
        assert abs(offset.seconds - ahead) <= shortest / 2 + 1e-6
    else:
        assert abs(ahead) <= shortest + 1e-6


def test_clocks_that_are_set_are_followed() -> None:
    offset = ClockOffset()
    for now in range(5):
        offset.heard(now, now + 50.25, now + 0.5)
    assert offset.seconds == pytest.approx(50.0)
    offset.heard(10.0, 10.25 - 7.0, 10.5)
    assert offset.seconds == pytest.approx(-7.0)
