"""Random programs over objects of Python: eager and traced runs agree in results and objects."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import TraceError, TraceWarning
from tests.exploring import examples
from tests.programs.objects import (
    READS,
    WRITES,
    Line,
    World,
    change,
    function_on,
    portrait,
)

#: number of calls of a program
CALLS = 4

_LINES = st.lists(st.builds(Line, st.integers(0, 200), st.integers(0, 7)), min_size=1, max_size=5)
_CHANGES = st.lists(
    st.lists(st.integers(0, 200), max_size=2), min_size=CALLS - 1, max_size=CALLS - 1
)


def run(
    program: Sequence[Line], changes: Sequence[Sequence[int]], as_: Callable[..., Any], fails: bool
) -> list[tuple[Any, Any]]:
    """Results of calls, with the world after each; a refused call is the last.

    Args:
        program: the program.
        changes: the changes of the world between the calls.
        as_: gives the function to call: the function itself, or its trace.
        fails: whether each call raises an exception in the end.
    """
    world = World()
    function = as_(function_on(world, program, fails=fails))
    seen: list[tuple[Any, Any]] = []
    for call in range(CALLS):
        before = portrait(world)
        try:
            result: Any = portrait(function(ef.tensor([1.0 + call, 0.5])))
        except TraceError as error:
            refused: Any = ("refused", str(error))
            return [*seen, refused if portrait(world) == before else ("damaged", str(error))]
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            result = type(error).__name__, str(error)
        seen.append((result, portrait(world)))
        for what in changes[call] if call < len(changes) else ():
            try:
                change(world, what)
            except (AttributeError, LookupError, TypeError):  # the item is gone
                continue
    return seen


def check(program: Sequence[Line], changes: Sequence[Sequence[int]], fails: bool = False) -> int:
    """Compare the traced run with the eager one, and return the number of calls compared."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # of many traces
        want = run(program, changes, lambda f: f, fails)
        got = run(program, changes, ef.trace, fails)
    if got[-1][0] == "refused":
        got.pop()
        want = want[: len(got)]
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a == b, f"call {i}"
    return len(got)


@example(program=[Line(what=55, guard=0), Line(what=26, guard=0)], changes=[[], [], [10]])
@example(program=[Line(what=80, guard=0), Line(what=79, guard=0)], changes=[[], [], []])
@example(program=[Line(what=80, guard=6)], changes=[[], [], [2]])
@example(program=[Line(what=150), Line(what=151)], changes=[[], [], []])
@given(_LINES, _CHANGES)
@settings(max_examples=examples(60))
def test_programs(program: list[Line], changes: list[list[int]]) -> None:
    check(program, changes)


@example(program=[Line(what=74, guard=6)], changes=[[], [], []])
@example(program=[Line(what=62, guard=6)], changes=[[], [], []])
@given(_LINES, _CHANGES)
@settings(max_examples=examples(30))
def test_programs_that_fail(program: list[Line], changes: list[list[int]]) -> None:
    check(program, changes, fails=True)


def test_each_statement_alone_is_followed() -> None:
    for i in range(len(READS) + len(WRITES)):
        for fails in (False, True):
            assert check([Line(i)], [[]] * (CALLS - 1), fails) == CALLS, (*READS, *WRITES)[i]
