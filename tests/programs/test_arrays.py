"""Random programs on arrays: traced == eager bit for bit, state included, in every column."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import given, note

import eagerflow as ef
from eagerflow.errors import TraceWarning
from tests.function.expectations.program import picture
from tests.programs.arrays import Call, State, Statement, calls, program, programs
from tests.programs.columns import COLUMNS, PASSES, Column


def history(body: Sequence[Statement], made: Sequence[Call], trace: Callable[..., Any]) -> Any:
    """All that can be seen of the calls of a program: results, arguments, state; or the error."""
    state = State.fresh()
    function = program(body)
    run = trace(lambda tensors, numbers: function(state, tensors, numbers))
    ef.random.seed(1)
    seen: list[Any] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", TraceWarning)  # of many traces
        warnings.simplefilter("ignore", RuntimeWarning)  # of variables that are assigned on a tape
        for call in made:
            state.rate = call.captured
            tensors, numbers = call.arguments()
            try:
                result = run(tensors, numbers)
            except ef.errors.EagerflowError as e:
                seen.append((type(e), str(e)))
                break  # what of the state is changed by then is not promised
            seen += [
                picture(result), result["all"][1]["x"] is tensors["x"], picture(tensors),
                picture(state.variables), picture(state.weight), picture([state.rate, state.log]),
                state.generator.state, ef.random.default_generator().state,
            ]  # fmt: skip
    return seen


def compare(
    body: Sequence[Statement], made: Sequence[Call], columns: Mapping[str, Column] = COLUMNS
) -> None:
    note(f"reproduce: compare({body!r}, {made!r})")
    want = history(body, made, lambda f: f)
    for name, column in columns.items():
        with column():
            got = history(body, made, ef.trace)
        for i, (a, b) in enumerate(zip(want, got, strict=False)):
            assert a == b, f"{name}: item {i}"
        assert len(want) == len(got), name


@given(programs, calls)
def test_each_column(body: list[Statement], made: list[Call]) -> None:
    compare(body, made)


@given(programs, calls)
def test_each_pass(body: list[Statement], made: list[Call]) -> None:
    compare(body, made, PASSES)


@given(programs, calls)
def test_replay(body: list[Statement], made: list[Call]) -> None:
    with ef.config(check_nan=True):  # which sees all ops
        compare(body, made)


@given(programs, calls)
def test_under_a_tape(body: list[Statement], made: list[Call]) -> None:
    with ef.GradientTape():  # which follows the variables
        compare(body, made)
