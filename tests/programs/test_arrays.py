"""Random programs: traced == eager bit for bit, state included, after each pass and after all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import given, note

import eagerflow as ef
from eagerflow.errors import TraceWarning
from eagerflow.function import tracing
from eagerflow.graph.ir import Graph
from eagerflow.graph.passes import DEFAULT, Pass, optimise
from tests.function.expectations.program import picture
from tests.programs.arrays import Call, State, Statement, calls, program, programs

#: the passes that run on each traced graph
MODES: dict[str, Sequence[Pass]] = {
    "no pass": (), **{p.__name__: (p,) for p in DEFAULT}, "all": DEFAULT,
}  # fmt: skip

Run = Callable[[Any, Any], Any]


@contextmanager
def passes(chosen: Sequence[Pass]) -> Iterator[None]:
    """Traced functions run these passes only; each graph is verified."""

    def chosen_only(graph: Graph) -> Any:
        return optimise(graph, chosen)

    with patch.object(tracing, "optimise", chosen_only), ef.config(verify=True):
        yield


def history(body: Sequence[Statement], made: Sequence[Call], trace: Callable[..., Any]) -> Any:
    """All that can be seen of the calls of a program: results, arguments, state; or the error."""
    state = State.fresh()
    function = program(body)
    run: Run = trace(lambda tensors, numbers: function(state, tensors, numbers))
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


def compare(body: Sequence[Statement], made: Sequence[Call], modes: Sequence[str]) -> None:
    note(f"reproduce: compare({body!r}, {made!r}, {list(modes)!r})")
    want = history(body, made, lambda f: f)
    for mode in modes:
        with passes(MODES[mode]):
            got = history(body, made, ef.trace)
        for i, (a, b) in enumerate(zip(want, got, strict=False)):
            assert a == b, f"{mode}: item {i}"
        assert len(want) == len(got), mode


@given(programs, calls)
def test_all_passes(body: list[Statement], made: list[Call]) -> None:
    compare(body, made, ["all"])


@given(programs, calls)
def test_each_pass(body: list[Statement], made: list[Call]) -> None:
    compare(body, made, list(MODES))


@given(programs, calls)
def test_replay(body: list[Statement], made: list[Call]) -> None:
    with ef.config(check_nan=True):  # which sees all ops
        compare(body, made, ["all"])


@given(programs, calls)
def test_under_a_tape(body: list[Statement], made: list[Call]) -> None:
    with ef.GradientTape():  # which follows the variables
        compare(body, made, ["all"])
