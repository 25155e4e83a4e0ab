"""Random programs give the same in every column, and so do their derivatives of all orders."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.errors import EagerflowError, TraceError, TraceWarning
from tests.exploring import EXPLORES, examples
from tests.function.expectations.program import picture
from tests.programs.columns import COLUMNS, QUANTITIES, Column, renew
from tests.programs.language import Program, State, Trait, true_rule
from tests.programs.plain import JumpError, plain
from tests.programs.source import show
from tests.programs.strategies import Call, calls, programs

#: rules put ops that read a variable on other devices, which warns and changes no result
pytestmark = [
    pytest.mark.filterwarnings("ignore::eagerflow.errors.MoveWarning"),
    # of a program that reads no variable
    pytest.mark.filterwarnings("ignore:.*reads none of the variables"),
    # Hypothesis shows the strategy of all programs, which is long
    pytest.mark.filterwarnings("ignore:Generating overly large repr"),
]

#: texts of refusals, where updates in place would depend on data
REFUSED = (
    "holds as well: a loop on tensors decides",
    "hold as well: a loop on tensors decides",
    "holds as well: a condition decides",
    "hold as well: a condition decides",
    "in place and binds ",
)
#: the note of errors of eager loops without an iteration, whose function is traced unconverted
_OF_NOTHING: Final = "of nothing traces the function"


def loss(result: Any) -> Any:
    """A scalar loss of all floating results, whatever their devices."""
    total = ef.tensor(0.0, dtype=ef.float64)
    for x in tree.leaves(result["all"][0]):
        if x.dtype.is_floating:
            total = total + ef.sin(x.to("cpu:0").astype(ef.float64)).sum()
    return total


def history(run: Any, state: State, made: Sequence[Call]) -> list[Any]:
    """The observable outcome of calls of a program: results, arguments, state; or the error."""
    state.reset()
    seen: list[Any] = []
    for call in made:
        state.rate = call.captured
        tensors, numbers = call.arguments(state.dtype.name)
        try:
            result = run(tensors, numbers)
        except EagerflowError as e:
            seen.append(e)
            break  # the state after an error is not promised
        seen += [
            result if isinstance(result, (ef.Tensor, ef.IndexedSlices)) else picture(result),
            picture(tensors), picture(state.variables), picture(state.weight),
            picture([state.rate, state.log]), state.generator.state,
            ef.random.default_generator().state,
        ]  # fmt: skip
    return seen


def derived(value: Any, quantity: str, state: State) -> Any:
    """The function that computes one of `QUANTITIES`, or else the program itself."""
    if not quantity:
        return value

    def run(tensors: Any, numbers: Any) -> Any:
        def of(x: Any) -> Any:
            return loss(value({**tensors, "x": x}, numbers))

        return QUANTITIES[quantity].of(of, state.variables[1])(tensors["x"])

    return run


def near(got: Any, want: Any, tolerance: float = 1e-7) -> None:
    """Assert that derivatives are equal up to rounding."""
    got, want = (x.to_dense() if isinstance(x, ef.IndexedSlices) else x for x in (got, want))
    assert got.shape == want.shape
    a, b = np.asarray(got), np.asarray(want)
    np.testing.assert_allclose(a, b, tolerance, tolerance * max(1, np.abs(b).max(initial=0)))


def compare(got: Sequence[Any], want: Sequence[Any]) -> None:
    for i, (a, b) in enumerate(zip(got, want, strict=False)):
        if isinstance(a, (ef.Tensor, ef.IndexedSlices)) and not isinstance(b, Exception):
            near(a, b)
        elif isinstance(b, Exception):
            assert (type(a), str(a).split("\n  at: ")[0]) == (type(b), str(b).split("\n  at: ")[0])
        else:
            assert a == b, f"item {i}"
    assert len(got) == len(want)


def values(program: Program, state: State, quantity: str) -> tuple[Any, Any]:
    """A program as functions of its arguments: for columns, and for comparisons of derivatives.

    A rule that is not the derivative makes slopes whose second derivative depends on the modes:
    that of forward over reverse is the transpose of that of reverse over reverse. Of
    `remat`, tapes see the rule, or the ops in it.
    """

    def of(function: Any) -> Any:
        def value(tensors: Any, numbers: Any) -> Any:
            return function(state, tensors, numbers)

        return value

    second = bool(quantity) and QUANTITIES[quantity].order > 1 and "of_rule" in program.kinds()
    function = program.function()
    true = program.function(rule=true_rule) if second else function
    if "remat" in program.kinds():
        function = true
    return of(function), of(true)


def check(
    program: Program, made: Sequence[Call], names: Sequence[str] = tuple(COLUMNS),
    quantity: str = "", columns: Mapping[str, Column] = COLUMNS,
) -> None:  # fmt: skip
    """Compare columns with the eager run, in results or in derivatives."""
    show(f"reproduce: check({program!r}, {made!r}, {names!r}, {quantity!r})")
    state = State.fresh("float64" if quantity else "float32")
    value, true = values(program, state, quantity)

    def runs_as(column: Column) -> Any:
        if column.inner:
            return derived(column.run(value), quantity, state)
        return column.run(derived(value, quantity, state))

    runs: dict[Any, Any] = {}
    eager = Column(lambda f: f)
    with ef.config(cpu_devices=2), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", TraceWarning)  # of many traces
        warnings.simplefilter("ignore", RuntimeWarning)  # of variables that are assigned on a tape
        first = want = history(runs_as(eager), state, made)
        if any(_OF_NOTHING in note for note in getattr(want[-1], "__notes__", ())):
            return
        if quantity and QUANTITIES[quantity].same_as:
            ways = (quantity, QUANTITIES[quantity].same_as)
            one, other = (history(derived(true, way, state), state, made) for way in ways)
            compare(other, one)
        for name in names:
            column = columns[name]
            key = column.run, column.inner
            run = runs[key] = runs.get(key) or runs_as(column)
            want = first
            with column.around():
                if column.around is not eager.around:
                    want = history(runs_as(eager), state, made)
                with column.within():
                    renew(run)
                    got = history(run, state, made)
            if isinstance(got[-1], TraceError) and any(w in str(got[-1]) for w in REFUSED):
                return
            if isinstance(want[-1], column.skips):
                want = want[:-1] if isinstance(got[-1], column.skips) else first[: len(got)]
                got = got[: len(want)]
            try:
                compare(got, want)
            except AssertionError as error:
                error.add_note(f"column {name!r}")
                raise error from (got[-1] if isinstance(got[-1], Exception) else None)


def check_plain(program: Program, call: Call) -> None:
    """Compare results and variables with NumPy's, and slopes with finite differences."""
    tensors, numbers = call.arguments("float64")
    with ef.config(cpu_devices=2), np.errstate(all="ignore"):
        try:
            want = plain(program, tensors, numbers)
        except JumpError:
            return
        state = State.fresh("float64")
        state.reset()
        results = program.function()(state, tensors, numbers)["all"][0]
        for a, b in zip([*results, *state.variables], want, strict=True):
            # ops on float32 have the last bits of our kernels there, not of NumPy's, also where
            # the program casts back
            single = "float32" in str(a.dtype) or "ef.float32" in "".join(program.lines())
            near(a, np.asarray(b), 1e-6 if single else 1e-9)
        if {"assign", "of_rule"}.isdisjoint(program.kinds()):
            check_slope(program, tensors, numbers)


def check_slope(program: Program, tensors: Any, numbers: Any) -> None:
    """Compare a slope with finite differences of NumPy's results."""

    def at(step: float) -> float:
        moved = {**tensors, "x": tensors["x"].numpy() + step * direction}
        results = plain(program, moved, numbers)[:-3]
        return float(sum(np.sin(x).sum() for x in results if x.dtype.kind == "f"))

    direction = np.cos(tensors["x"].numpy())
    try:
        numeric = (at(1e-6) - at(-1e-6)) / 2e-6
    except JumpError:
        return
    state = State.fresh("float64")
    state.reset()
    function = program.function()
    run = derived(lambda tensors, numbers: function(state, tensors, numbers), "along", state)
    slope = run(tensors, numbers).item()
    assert abs(slope - numeric) <= 1e-5 * max(1, abs(numeric))


#: programs that once showed a defect in the derivatives of nested statements
KEPT = [
    [("scan", 0, 0, 0, [("branch", 0, 1, 0, [("while", 1, 3, 1, [("read", 1, 0, 0)])],
                         [("of_rule", 1, 0, 0)])])],
    [("while", 0, 3, 0, [("assign", 1, 1, 0), ("remat", 0, 0, 0, [("of_rule", 0, 0, 0),
                                                                   ("draw", 1, 1, 1)])])],
    [("remat", 0, 0, 0, [("remat", 0, 0, 0, [("assign", 1, 0, 0)]),
                         ("branch", 0, 0, 0, [("set", 0, 0, 1)], [("assign", 1, 0, 0)])])],
    [("remat", 0, 0, 0, [("set", 0, 0, 1), ("branch", 0, 0, 0, [("assign", 1, 0, 0)],
                                            [("draw", 2, 1, 1)])])],
    [("remat", 0, 0, 0, [("remat", 0, 0, 0, [("map", 0, 0, 0, [("assign", 1, 0, 0)])])])],
    [("list", 1, 3, 0, [("one_of", 0, 0, 0, [("read", 1, 0, 0)],
                         [("map", 0, 0, 0, [("of_rule", 2, 0, 0)])], [("assign", 1, 0, 0)])])],
    # the branches read no result of the drawing loop before them
    [("scan", 0, 1, 0, [("scan", 0, 1, 0, [("draw", 0, 1, 1)]),
                        ("one_of", 0, 0, 0, [("assign", 1, 0, 0)],
                         [("set", 2, 1, 4), ("set", 2, 1, 1)], [("of_rule", 2, 0, 0)])])],
    # branches meet variables in another order than the program
    [("branch", 0, 1, 0, [("assign", 1, 0, 0)], [("assign", 0, 0, 0)])],
]  # fmt: skip
#: likewise, in Python's statements
KEPT_OF_PYTHON = [
    # a branch in a branch makes zeros of a shape that no operand of either has
    [("while", 0, 1, 0, [("one_of", 0, 0, 0, [], [], [("mixed", 8, 0, 0)])])],
]
_CALLS = [Call(3, 2), Call(2, 3, seed=1)]
_QUANTITY = st.sampled_from(sorted(QUANTITIES))


#: the columns in parts, of which one runs each example; a slow run takes all columns
_PARTS = [tuple(COLUMNS)] if EXPLORES else [tuple(COLUMNS)[i::2] for i in range(2)]


@given(programs(), calls(0, 1, 2, 3, 5), st.sampled_from(_PARTS))
@settings(max_examples=examples(12))
@example(
    program=Program(
        body=[
            ("reshaped", 0, 0, 0),
            ("gradient", 3, 0, 0, [("append", 0, 0, 0), ("binary", 0, 0, 9)]),
        ],
        python=True,
    ),
    made=[Call(0, 0, 0.0, 0, 0, 0.0), Call(0, 0, 0.0, 0, 0, 0.0), Call(0, 0, 0.0, 0, 0, 0.0)],
    names=(
        "converted",
        "traced",
        "traced inside",
        "not optimised",
        "prune",
        "fold",
        "simplify",
        "cse",
        "share",
        "donate",
        "read again from text",
        "scheduled",
        "scheduled node by node",
        "partitioned",
        "partitioned, by the scheduler",
        "partitioned, by the worst network",
        "partitioned, late and in pieces",
        "placed by a rule",
        "placed by a rule inside",
        "replayed",
        "checked for NaN",
        "under a tape",
    ),
)
@example(  # the draw waits for a move of an array that the other branch takes, too
    program=Program(
        body=[
            ("scan", 9, 7, 2, [("call_python", 9, 0, 2)]),
            ("detached", 5, 10, 0),
            ("when", 3, 1, 6, [], [("remat", 2, 3, 8, [("call_python", 9, 0, 2)]),
                                   ("shuffled", 0, 9, 2)]),
        ],
        python=True,
    ),
    made=[Call(0, 2, 0.5, 0, 2, 0.5)],
    names=("placed by a rule", "placed by a rule inside"),
)  # fmt: skip
def test_results(program: Program, made: list[Call], names: tuple[str, ...]) -> None:
    check(program, made, names)


@given(programs(Trait.SMOOTH), calls(1, 2, 3, count=2), _QUANTITY, st.sampled_from(sorted(COLUMNS)))
@settings(max_examples=examples(8))
@example(
    program=Program(
        body=[
            (
                "map",
                0,
                0,
                11,
                [
                    ("scan", 0, 0, 0, [("assign", 0, 0, 0), ("assign", 0, 0, 0)]),
                    ("branch", 0, 0, 0, [("assign", 0, 0, 0)], [("assign", 0, 0, 0)]),
                ],
            ),
            ("assign", 0, 0, 0),
            ("assign", 0, 0, 0),
            ("assign", 0, 0, 0),
        ],
        python=False,
    ),
    made=[Call(1, 1, 0.0, 0, 0, 0.0), Call(1, 1, 0.0, 0, 0, 0.0)],
    quantity="hessian",
    column="checked for NaN",
)
@example(
    program=Program(
        body=[
            ("assign", 0, 0, 0),
            ("assign", 0, 0, 0),
            ("assign", 0, 0, 0),
            (
                "remat",
                0,
                0,
                0,
                [("branch", 0, 0, 0, [("detached", 9, 0, 0)], [("detached", 0, 0, 0)])],
            ),
        ],
        python=False,
    ),
    made=[Call(1, 1, 0.0, 0, 0, 0.0), Call(2, 1, 0.0, 0, 0, 0.0)],
    quantity="along",
    column="cse",
)
def test_derivatives(program: Program, made: list[Call], quantity: str, column: str) -> None:
    check(program, made, ("traced", "traced inside", column), quantity)


@pytest.mark.parametrize(
    "program", [*map(Program, KEPT), *[Program(body, True) for body in KEPT_OF_PYTHON]]
)
def test_kept_programs(program: Program) -> None:
    for quantity in ("slope", "curve"):
        check(program, _CALLS, ("traced", "traced inside", "scheduled node by node"), quantity)


#: programs with branches that know a size by another name than the code around them
NAMED_TWICE = {
    "curve by tapes": (
        Program([
            ("smooth", 0, 0, 0),
            ("while", 4, 10, 8, [("one_of", 0, 0, 0, [],
                                  [("update_a_copy", 0, 0, 0), ("joined", 4, 0, 0)], [])]),
        ], True),
        [Call(2, 3, 0.0, 40, 9, -1.25), Call(3, 3, 0.001, 3, 2, 0.5)],
    ),
    "along": (
        Program([
            ("move", 0, 0, 11),
            ("remat", 11, 0, 0, [("assign", 0, 0, 0), ("assign", 0, 0, 0)]),
            ("one_of", 11, 11, 0, [("assign", 0, 0, 0)],
             [("branch", 1, 0, 8, [("mixed", 5, 0, 4), ("set", 4, 11, 8)],
               [("reduce_all", 4, 1, 8), ("divided", 4, 8, 4)])],
             [("list", 2, 3, 10, [("reshaped", 8, 7, 7)])]),
            ("gathered", 6, 4, 3),
        ]),
        [Call(2, 2, 1e30, 2, 3, -1.25), Call(2, 3, 1e30, 0, 9, 1e30)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("quantity", NAMED_TWICE)
def test_sizes_that_branches_know_by_another_name(quantity: str) -> None:
    program, made = NAMED_TWICE[quantity]
    for looking in (False, True):  # which checks graphs after each pass, and replays them
        with ef.config(verify=looking):
            check(program, made, ("traced", "traced inside", "under a tape"), quantity)


#: its slope has no second derivative, since its rule gives no derivative
_OF_A_RULE = Program([("list", 0, 1, 0, [("list", 0, 1, 0, [("of_rule", 0, 0, 0)])]),
                      ("mixed", 1, 0, 0)])  # fmt: skip


@given(programs(Trait.SMOOTH), calls(1, 2, 3, count=1), _QUANTITY)
@example(_OF_A_RULE, [Call(1, 2)], "hessian")
@settings(max_examples=examples(60))
def test_ways_to_derivatives(program: Program, made: list[Call], quantity: str) -> None:
    check(program, made, (), quantity)


@given(programs(Trait.NUMPY), calls(1, 2, 3, count=1))
@settings(max_examples=examples(60))
def test_plain(program: Program, made: list[Call]) -> None:
    check_plain(program, made[0])
