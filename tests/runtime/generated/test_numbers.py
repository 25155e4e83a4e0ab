"""Python numbers in programs: Python's own arithmetic, kinds and errors; conversion to arrays."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.core.to_tensor import scalar
from eagerflow.errors import TensorValueError
from eagerflow.graph import Graph
from eagerflow.runtime import Executable, replay
from eagerflow.types import DTYPES
from tests.runtime.graphs import CPU

BINARY = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
    "pow": operator.pow,
}
UNARY = {"neg": operator.neg, "pos": operator.pos, "abs": abs, "int": int, "float": float,
         "complex": complex}  # fmt: skip
REALS = st.one_of(
    st.integers(), st.integers(-5, 5), st.floats(), st.sampled_from([0, 0.0, -0.0, 10**400])
)


def outcome(function: Any, *args: Any) -> tuple[Any, ...]:
    try:
        value = function(*args)
    except Exception as error:
        return type(error), str(error)
    return type(value), repr(value)


def both(text: str) -> list[Any]:
    """The graph as a program and as a replay, as functions that give a single result."""
    graph = Graph.parse(text)
    program = Executable(graph)
    return [lambda *args: program(*args)[0], lambda *args: replay(graph, args)[0]]


@given(name=st.sampled_from(sorted(BINARY)), a=REALS, b=REALS)
@example(name="mod", a=-7, b=3)
@example(name="truediv", a=1, b=0)
@example(name="add", a=10**400, b=1.5)
def test_arithmetic_is_pythons(name: str, a: Any, b: Any) -> None:
    if name == "pow" and (abs(b) > 100 or abs(a) > 10**9):
        return
    want = outcome(BINARY[name], a, b)
    kind = want[0].__name__ if want[0] in (int, float, complex) else "float"
    inputs = f"%a: {type(a).__name__}, %b: {type(b).__name__}"
    text = f"graph f({inputs}) {{ %c = python_{name}(%a, %b) : {kind} return %c }}"
    for function in both(text):
        assert outcome(function, a, b) == want


@given(name=st.sampled_from(sorted(UNARY)), a=REALS)
@example(name="int", a=float("nan"))
def test_functions_of_one_number(name: str, a: Any) -> None:
    kind = {"int": "int", "float": "float", "complex": "complex"}.get(name, type(a).__name__)
    text = f"graph f(%a: {type(a).__name__}) {{ %c = python_{name}(%a) : {kind} return %c }}"
    for function in both(text):
        assert outcome(function, a) == outcome(UNARY[name], a)


@given(
    dtype=st.sampled_from(sorted(DTYPES)),
    value=st.one_of(REALS, st.sampled_from([255, 256, -1, 2**63, 2**64 - 1, 2**64, 1e300])),
)
def test_numbers_become_arrays_as_they_do_eagerly(dtype: str, value: Any) -> None:
    lane = CPU.lanes[DTYPES[dtype]]

    def eager(x: Any) -> Any:
        array = scalar(x, lane).numpy()
        return array.dtype, array.tobytes()

    short = DTYPES[dtype].short
    kind = type(value).__name__
    text = f"graph f(%a: {kind}) {{ %c = python_tensor(%a) : {short}[]@cpu:0 return %c }}"
    program = Executable(Graph.parse(text))

    def ours(x: Any) -> Any:
        (y,) = program.apply([x])
        return y.numpy().dtype, y.numpy().tobytes()

    want = outcome(eager, value)
    got = outcome(ours, value)
    assert got[0] is want[0]
    if not issubclass(want[0], Exception):
        assert got == want


def test_an_integer_that_does_not_fit() -> None:
    for function in both("graph f(%a: int) { %c = python_tensor(%a) : i8[] return %c }"):
        with pytest.raises(TensorValueError, match="300 does not fit into int8") as caught:
            function(300)
        assert caught.value.expected == "-128 to 127"


def test_other_devices() -> None:
    for function in both("graph f(%a: int) { %c = python_tensor(%a) : i8[]@null:0 return %c }"):
        assert function(3).shape == ()
        with pytest.raises(TensorValueError, match="300 does not fit"):
            function(300)


def test_sizes_are_numbers() -> None:
    text = """graph f(%x: f32[n,3,m]) {
      %s = python_size() {size=n//m+2} : int
      %t = python_mul(%s, %s) : int
      return %t }"""
    graph = Graph.parse(text)
    x = ef.ones((7, 3, 2))
    assert Executable(graph)(x._data) == (25,)
    assert replay(graph, [x]) == [25]
    with pytest.raises(ZeroDivisionError):
        Executable(graph)(ef.ones((7, 3, 0))._data)
