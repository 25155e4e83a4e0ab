"""Draws in a trace whose sizes and parameters are known only when the graph runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import Tensor
from eagerflow.graph.verify import verify
from eagerflow.tracing.tracer import Tracer
from tests.messages import says
from tests.numeric import numeric_vjp_check
from tests.ops.symbolic import Traced, _run
from tests.ops.table import flatten, rules_checked

Function = Callable[..., Any]
G = ef.random.Generator(7)
STATE = {"seed": 7, "ticket": 3}
X = ef.tensor([1.0, -2.0, 0.5])


def _outcome(function: Function, *args: Any) -> Any:
    G.state = STATE
    try:
        return [(a.shape, a.dtype, a.tobytes()) for a in flatten(function(*args))]
    except errors.EagerflowError as error:
        return type(error)


def _expression(text: str, names: str) -> Function:
    function: Function = eval(f"lambda {names}: {text}", {"ef": ef, "G": G})
    return function


# --- sizes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "G.normal((n,))", "G.normal((n, 2), dtype='float64')", "G.normal((n,)).reshape(-1, 1)",
        "G.normal((n,), scale=abs(x), loc=n)", "G.normal((3,), scale=n, loc=n - 2)",
        "G.normal((n,), scale=x)", "G.normal((n,), scale=abs(x), dtype='bfloat16')",
        "G.normal((n,), loc=n * 0.5 - 1, scale=n / 3)", "G.uniform((n,), low=x - 9, high=x)",
        "G.uniform((n,), low=x, high=0)", "G.uniform((3,), low=0, high=n)",
        "G.uniform((3,), low=n, high=n * n)", "G.uniform((n,), low=-n / 3, high=n / 4)",
        "G.exponential((n,), scale=n)", "G.gumbel((2, n))", "G.truncated_normal((n, 2))",
        "G.bits((n,))", "G.bits((n,), dtype='uint64')", "G.bernoulli((n,), 0.3)",
        "G.bernoulli((n,), x)", "G.categorical((4,), x)", "G.randint((4,), 0, n)",
        "G.randint((n,), -n, n * 2)", "G.randint((3,), 0, n * 2**33)",
        "G.randint((n,), 0, 10, dtype='int8')", "G.permutation(n)", "G.permutation(x)",
    ],
)  # fmt: skip
def test_draws_of_symbolic_sizes(text: str) -> None:
    expression = _expression(text, "x, n")

    def function(x: Tensor) -> Any:
        return expression(x, x.shape[0])

    make = ef.random.Generator(1).normal
    traced = Traced(function, [make((5,))])
    assert not traced.specialised
    for size in (5, 0, 1, 2, 3, 8):
        x = make((size,))
        assert _outcome(traced, x) == _outcome(function, x), size


def test_tracing_a_draw_takes_no_ticket() -> None:
    G.state = STATE
    traced = Traced(lambda x: x + G.normal(x.shape), [ef.zeros(3)])
    assert G.state == STATE
    traced(ef.zeros(2))
    assert G.state["ticket"] == STATE["ticket"] + 1


# --- numbers ----------------------------------------------------------------------------------


class WithNumber:
    """A function of `X` and a number, traced with the number as an input."""

    def __init__(self, function: Function, number: complex) -> None:
        with Tracer("f") as tracer:
            self.x = tracer.add_input(X.type, "x")
            p = tracer.add_number(number, "p")
            tracer.graph.outputs = [tracer.value_of(function(self.x, p))]
        verify(tracer.graph)
        self.tracer = tracer

    @property
    def why(self) -> str | None:
        return self.tracer.numbers[0].why

    def __call__(self, x: Tensor, number: complex) -> Any:
        graph = self.tracer.graph
        values: dict[Any, Any] = dict(zip(graph.inputs, [x, number], strict=False))
        values |= {c.value: c.handle for c in self.tracer.captures.values()}
        for node in graph.nodes:
            made = _run(node, [values[v] for v in node.inputs], node.attrs)
            values.update(zip(node.outputs, made, strict=True))
        return [values[v] for v in graph.outputs]


def _check_number(text: str, first: complex, *others: complex) -> None:
    function = _expression(text, "x, p")
    traced = WithNumber(function, first)
    assert traced.why is None
    for number in (first, *others):
        assert _outcome(traced, X, number) == _outcome(function, X, number), number


@pytest.mark.parametrize(
    "text",
    [
        "G.normal((3,), scale=p)", "G.normal((3,), loc=p)", "G.normal((4,), loc=p, scale=p * p)",
        "G.uniform((3,), high=p)", "G.uniform((3,), low=p, high=x + 3)", "G.bernoulli((3,), p)",
        "G.exponential((3,), scale=p)", "G.gumbel((3,), loc=p)",
        "G.truncated_normal((3,), loc=p, scale=x * x)", "ef.full((3,), p)", "ef.full_like(x, p)",
        "ef.full((3, 5), p).sum()", "ef.pad(x, 2, constant_values=p)", "ef.index_update(x, 0, p)",
        "ef.index_add(x, [0, 1], p)", "ef.where(x > 0, p, x)", "ef.where(x > 0, p, 1)",
        "ef.tensor([p, 1.0])", "ef.tensor(p)", "ef.asarray([[p], [2]])", "ef.concat([x, [p]])",
        "ef.select([x > 0], [p], 0)", "ef.update_along_axis(x, ef.tensor([1]), p)",
        "ef.trapezoid(x, None, p)", "ef.linspace(p, x, 4)",
    ],
)  # fmt: skip
def test_floats_stay_dynamic(text: str) -> None:
    _check_number(text, 2.5, 0.0, 1.0, -1.5, math.nan, -0.0, 0.1)


@pytest.mark.parametrize(
    "text",
    [
        "G.randint((3,), 0, p)", "G.randint((3,), p, 100)", "G.randint((3,), -p, p * p)",
        "G.randint((3,), 0, p, dtype='int8')", "G.normal((3,), scale=p)", "ef.full((3,), p)",
        "ef.full((3,), p, dtype='int8')", "ef.pad(ef.astype(x, 'int32'), 1, constant_values=p)",
        "ef.tensor([p, 1])", "ef.index_update(x, 0, p)",
    ],
)  # fmt: skip
def test_integers_stay_dynamic(text: str) -> None:
    _check_number(text, 3, 0, 1, -2, 7, 2**40)


@pytest.mark.parametrize(
    "text",
    [
        "ef.zeros((p,))", "ef.arange(p)", "x[p - 3]", "x[p - 2:]", "ef.repeat(x, p)",
        "ef.tile(x, p)", "G.permutation(p)", "ef.one_hot(ef.tensor([1]), p)", "x.reshape(p)",
        "ef.split(x, p)[0]", "ef.linspace(0, p, 3)",
    ],
)  # fmt: skip
def test_numbers_that_make_shapes_become_static(text: str) -> None:
    assert WithNumber(_expression(text, "x, p"), 3).why is not None


def test_result_type_leaves_nothing_in_the_graph() -> None:
    dtypes = []
    traced = WithNumber(lambda x, p: dtypes.append(ef.result_type(ef.int8, p)) or x, 2.5)
    assert dtypes == [ef.float32]
    assert not traced.tracer.graph.nodes


# --- parameters in range ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "good", "bad"),
    [
        ("scale", [0.0, 2.0], [-1.0]),
        ("scale", [1.0], [math.nan]),
        ("probability", [0.0, 1.0], [1.5]),
        ("logits", [-math.inf, 0.0], [-math.inf]),
        ("logits", [], [math.nan]),
    ],
)
def test_parameters_are_checked_when_the_graph_runs(
    claim: str, good: list[float], bad: list[float]
) -> None:
    def check(values: list[float]) -> Tensor:
        parameter = ef.tensor(values, dtype="float64")
        with rules_checked():
            result: Tensor = bind(
                get_op("check_parameters"), X, parameter, claim=claim, refusal="f: refused"
            )
        return result

    assert check(good).tolist() == X.tolist()
    with pytest.raises(errors.TensorValueError, check=says("f: refused")):
        check(bad)


def test_what_is_checked_has_its_gradient() -> None:
    rng = np.random.default_rng(0)

    def function(x: Tensor, low: Tensor) -> Tensor:
        checked: Tensor = bind(
            get_op("check_parameters"), x, low, x, claim="bounds", refusal="f: refused"
        )
        return checked * x

    args = [rng.uniform(1.0, 2.0, 3), rng.uniform(-1.0, 0.0, 3)]
    numeric_vjp_check(function, args, (0,), rng)


def test_refused_parameters_take_no_ticket() -> None:
    G.state = STATE
    for low in (2.0, ef.tensor(2.0)):
        with pytest.raises(errors.TensorValueError, match="uniform: low is greater"):
            G.uniform((2,), low=low, high=1.0)
    assert G.state == STATE
