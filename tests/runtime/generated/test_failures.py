"""Errors of programs: equal to eager errors, with the line of the op and the writes before."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core import op as op_module
from eagerflow.core.op import define
from eagerflow.graph import Graph
from eagerflow.runtime import Executable, replay
from eagerflow.source import Source
from eagerflow_kernels import table
from tests.runtime.graphs import Traced

f32 = "float32"


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", []))


def product(x: Any, y: Any) -> Any:
    y = ef.exp(y)
    return x @ y  # the line


def test_the_line_is_that_of_the_op() -> None:
    f = Traced(product, (f32, ("n",)), (f32, ("m",)))
    args = ef.ones(2), ef.ones(3)
    with pytest.raises(errors.ShapeError) as eager:
        product(*args)
    for how in (f, lambda *a: replay(f.graph, f.inputs(a))):
        with pytest.raises(errors.ShapeError) as caught:
            how(*args)
        error = caught.value
        assert str(error) == str(eager.value)
        assert str(error.source) == str(eager.value.source)
        assert "return x @ y  # the line" in str(error)
    with pytest.raises(errors.ShapeError) as caught:
        f(*args)
    assert "node: %matmul = matmul(%x0, %exp)" in notes(caught.value)
    assert "written" not in notes(caught.value)


def test_a_text_as_the_line() -> None:
    graph = Graph.parse(
        """graph f(%x: f32[n], %y: f32[m]) {
          %z = add(%x, %y) : f32[broadcast(m,n)] # cell 3: x + y
          return %z }"""
    )
    with pytest.raises(errors.ShapeError) as caught:
        Executable(graph)(np.ones(2, np.float32), np.ones(3, np.float32))
    assert str(caught.value).endswith("at: cell 3: x + y")


def test_without_a_line_that_of_the_call_is_named() -> None:
    graph = Graph.parse("graph f(%x: f32[n], %y: f32[m]) { %z = matmul(%x, %y) : f32[] return %z }")
    with pytest.raises(errors.ShapeError) as caught:
        Executable(graph)(np.ones(2, np.float32), np.ones(3, np.float32))
    assert isinstance(caught.value.source, Source)
    assert "test_failures.py" in str(caught.value.source)


def test_what_was_written_is_listed() -> None:
    v, w = ef.Variable([1.0], name="v"), ef.Variable(2.0)
    later = ef.Variable(0.0, name="later")

    def step(x: Any, y: Any) -> Any:
        v.assign_add(x[:1])
        w.value
        noise = ef.random.uniform((2,))
        z = x @ y
        later.assign(z)
        return z, noise

    f = Traced(step, (f32, ("n",)), (f32, ("m",)))
    with pytest.raises(errors.ShapeError) as caught:
        f(ef.ones(2), ef.ones(3))
    text = notes(caught.value).splitlines()[-1]
    assert text == "  this step had already written: variable 'v' f32[1]@cpu:0, a generator"
    assert v.tolist() == [2.0]


def test_sizes_that_cannot_be_computed() -> None:
    def f(x: Any, y: Any) -> Any:
        return ef.zeros((x.shape[0] // y.shape[0],))

    traced = Traced(f, (f32, ("n",)), (f32, ("m",)))
    with pytest.raises(ZeroDivisionError) as caught:
        traced(ef.ones(2), ef.ones(0))
    assert "at: " in notes(caught.value)
    assert "return ef.zeros(" in notes(caught.value)


def test_numbers_raise_what_python_raises() -> None:
    traced = Traced(lambda k: 1 / k, 2)
    with pytest.raises(ZeroDivisionError, match="division by zero") as caught:
        traced(0)
    assert "lambda k: 1 / k" in notes(caught.value)


def test_errors_of_several_kinds() -> None:
    x = ef.tensor([[1.0, 2.0], [2.0, 4.0]])
    rows = (f32, ("n", 2))
    for function, args, kinds in (
        (ef.linalg.inv, (x,), ((f32, ("n", "n")),)),
        (lambda x, i: ef.take(x, i, axis=0), (x, ef.tensor([5])), (rows, ("int64", ("m",)))),
        (lambda x, k: x.astype(ef.int8) + k, (x, 300), (rows, 3)),
    ):
        with pytest.raises(errors.EagerflowError) as eager:
            function(*args)
        with pytest.raises(type(eager.value)) as caught:
            Traced(function, *kinds)(*args)
        assert caught.value.wrong == eager.value.wrong


def test_errors_of_the_users_own_code_keep_their_line() -> None:
    def inner() -> None:
        raise errors.ShapeError("mine")

    @table.portable("test_call")
    def kernel(xp: Any, x: Any) -> Any:
        inner()

    define("test_call", infer=lambda x: x, nondifferentiable=True)
    try:
        graph = Graph.parse(
            "graph f(%x: f32[]) { %y = test_call(%x) : f32[] # cell 1: call\n return %y }"
        )
        with pytest.raises(errors.ShapeError) as caught:
            Executable(graph)(np.ones((), np.float32))
    finally:
        table.remove("test_call")
        del op_module._ops["test_call"]
    assert "raise errors.ShapeError" in str(caught.value.source)


def test_an_error_keeps_no_values() -> None:
    f = Traced(product, (f32, ("n",)), (f32, ("m",)))
    x = ef.ones(2)
    ref = weakref.ref(x._data)
    caught = None
    try:
        f(x, ef.ones(3))
    except errors.ShapeError as error:
        caught = error.with_traceback(None)
    del x
    gc.collect()
    assert caught is not None
    assert caught.__context__ is None
    assert ref() is None


def test_notebooks_show_no_frames_of_ours() -> None:
    f = Traced(product, (f32, ("n",)), (f32, ("m",)))
    try:
        f(ef.ones(2), ef.ones(3))
    except errors.ShapeError as error:
        shown = "\n".join(error._render_traceback_())
    assert "runtime/executable.py" not in shown
    assert "<program" not in shown
    assert "node: %matmul" in shown


def test_the_wrong_number_of_inputs() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        Traced(product, (f32, ("n",)), (f32, ("m",))).executable(np.ones(2))


def test_what_was_written_is_named_as_people_know_it(capsys: pytest.CaptureFixture[str]) -> None:
    v = ef.Variable(0.0)  # the variable

    @ef.trace
    def f(x: Any) -> Any:
        assert x[0] > -100, "a check is no writing"
        v.assign_add(1.0)
        for y in x:
            print(y)  # the print
            ef.py_call(lambda z: None, None, y)  # the call
            if y > 2:
                raise KeyError(1)
        return x

    with pytest.raises(KeyError) as caught:
        f(ef.tensor([1.0, 2.0, 3.0]))
    capsys.readouterr()
    code = f.__wrapped__.__code__
    at = [f"{code.co_filename}:{code.co_firstlineno + i}" for i in (-2, 5, 6)]
    node, *_, written = caught.value.__notes__
    assert "{resource=@check" in node
    assert written == (
        f"  this step had already written: variable f32[]@cpu:0 (made at {at[0]}), "
        f"print() at {at[1]}, py_call of <lambda> at {at[2]}"
    )
