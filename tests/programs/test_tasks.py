"""Random programs with nodes on three task servers: the results equal those of one process."""

from __future__ import annotations

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from tests.cluster.warm import warm
from tests.exploring import examples
from tests.hanging import ends_within
from tests.programs.columns import QUANTITIES, Column, partitioned
from tests.programs.language import NAMES, Program, Trait
from tests.programs.strategies import Call, calls, programs
from tests.programs.test_programs import check

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("cluster"),
    #: rules put ops that read a variable on other devices, which warns and changes no result
    pytest.mark.filterwarnings("ignore::eagerflow.errors.MoveWarning"),
    # of a program that reads no variable
    pytest.mark.filterwarnings("ignore:.*reads none of the variables"),
    # Hypothesis shows the strategy of all programs, which is long
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]
_DEVICES = ("scattered:0", "scattered:1", "scattered:2")
_SECONDS = 60.0  # hundreds of times as long as a program takes
_SALT = st.integers(0, 999)


def _stays(x: ef.Tensor, device: int) -> ef.Tensor:
    """The value on `cpu:0`: a graph that uses tasks has one device of this process."""
    return x.to("cpu:0")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ef.cluster.Cluster]:
    tasks = ef.cluster.local({"scattered": len(_DEVICES)})
    with tasks as made, patch.dict(NAMES, move=_stays):
        warm(made)
        yield made


def check_on_tasks(program: Program, made: list[Call], salt: int, quantity: str = "") -> None:
    """Check that results or derivatives on tasks chosen by ``salt`` equal those of eager code."""
    column = Column(within=lambda: partitioned(_DEVICES, salt=salt))
    with ends_within(_SECONDS):
        check(program, made, ["tasks"], quantity, {"tasks": column})


@given(programs(), calls(0, 1, 2, 3, count=2), _SALT)
@settings(max_examples=examples(6))
def test_results(program: Program, made: list[Call], salt: int) -> None:
    check_on_tasks(program, made, salt)


@given(programs(Trait.SMOOTH), calls(1, 2, 3, count=1), _SALT, st.sampled_from(sorted(QUANTITIES)))
@settings(max_examples=examples(2))
def test_derivatives(program: Program, made: list[Call], salt: int, quantity: str) -> None:
    check_on_tasks(program, made, salt, quantity)
