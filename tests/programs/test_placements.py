"""Random programs on random devices: their results do not depend on the devices."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exploring import examples
from tests.hanging import ends_within
from tests.messages import says
from tests.programs.columns import MIXED, QUANTITIES, Column, partitioned
from tests.programs.language import Program, Trait
from tests.programs.strategies import Call, calls, programs
from tests.programs.test_programs import check

#: rules put ops that read a variable on other devices, which warns and changes no result
pytestmark = [
    pytest.mark.filterwarnings("ignore::eagerflow.errors.MoveWarning"),
    # of a program that reads no variable
    pytest.mark.filterwarnings("ignore:.*reads none of the variables"),
    # Hypothesis shows the strategy of all programs, which is long
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]

#: by name the devices, and other arguments of `partitioned`
WAYS = {
    "two devices": {"devices": ("cpu:0", "cpu:1")},
    "four devices": {},
    "by the scheduler": {"scheduled": True},
    "by the worst network": {"by_network": True},
    "late and in pieces": {"devices": MIXED},
}
_SECONDS = 60.0  # hundreds of times as long as a program takes


def check_placed(
    program: Program, made: list[Call], way: str, salt: int, quantity: str = ""
) -> None:
    """Check that results or derivatives on devices chosen by ``salt`` equal those of eager code."""
    column = Column(within=lambda: partitioned(**WAYS[way], salt=salt))
    with ends_within(_SECONDS):
        check(program, made, [way], quantity, {way: column})


_WAY = st.sampled_from(sorted(WAYS))
_SALT = st.integers(0, 999)
_QUANTITY = st.sampled_from(sorted(QUANTITIES))


@given(programs(), calls(0, 1, 2, 3, count=2), _WAY, _SALT)
@settings(max_examples=examples(10))
def test_results(program: Program, made: list[Call], way: str, salt: int) -> None:
    check_placed(program, made, way, salt)


@given(
    programs(Trait.SMOOTH),
    calls(1, 2, 3, count=1),
    _WAY,
    _SALT,
    st.sampled_from(sorted(QUANTITIES)),
)
@settings(max_examples=examples(4))
def test_derivatives(
    program: Program, made: list[Call], way: str, salt: int, quantity: str
) -> None:
    check_placed(program, made, way, salt, quantity)


def test_what_hangs_fails() -> None:
    with pytest.raises(AssertionError, check=says("has not ended after")), ends_within(0.01):
        time.sleep(10)
