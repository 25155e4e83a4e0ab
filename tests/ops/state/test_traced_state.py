"""Variables, NumPy arrays and exchange with other libraries while a function is traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.tensor import Tensor
from tests.messages import says
from tests.ops.symbolic import Traced


def _ops(traced: Traced) -> list[str]:
    return [node.op for node in traced.tracer.graph.nodes]


def test_assignments_run_with_other_sizes() -> None:
    v = ef.Variable([1.0, 2.0, 3.0])

    def function(x: Tensor) -> Any:
        v.assign_add(x)
        v.scatter_add(ef.arange(x.shape[0]), x)
        return v.value

    traced = Traced(function, [ef.ones(3)])
    assert v.numpy().tolist() == [1.0, 2.0, 3.0]  # tracing assigns nothing
    assert not traced.specialised
    assert traced(ef.ones(1)).tolist() == [3.0, 3.0, 4.0]
    assert traced(ef.ones(3)).tolist() == [5.0, 5.0, 6.0]


@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
@pytest.mark.parametrize("held", [False, True])
def test_a_value_of_another_shape_is_refused_when_the_graph_runs(method: str, held: bool) -> None:
    v = ef.Variable([1.0, 2.0, 3.0])
    one = ef.Variable([1.0])
    traced = Traced(lambda x: getattr(v, method)(x), [ef.ones(3)])
    grown = Traced(lambda x: getattr(one, method)(x), [ef.ones(1)])
    values = (v.value, one.value) if held else None  # assignments write in place, or do not
    for graph, size in ((traced, 2), (grown, 3)):
        with pytest.raises(errors.ShapeError, match="a variable keeps its shape"):
            graph(ef.ones(size))
    assert (v.tolist(), one.tolist()) == ([1.0, 2.0, 3.0], [1.0])
    assert values is None or values[0].tolist() == [1.0, 2.0, 3.0]


def test_rows_of_another_shape_are_refused_when_the_graph_runs() -> None:
    v = ef.Variable(ef.zeros((3, 2)))
    traced = Traced(lambda x: v.scatter_update([0, 2], x), [ef.ones((2, 2))])
    assert traced(ef.ones((1, 2))).tolist() == [[1.0, 1.0], [0.0, 0.0], [1.0, 1.0]]
    with pytest.raises(errors.ShapeError, match="do not fit the rows"):
        traced(ef.ones((3, 2)))


def test_the_description_of_a_variable_shows_its_type_and_reads_nothing() -> None:
    v = ef.Variable([1.0, 2.0], name="w")
    texts = []
    traced = Traced(lambda x: texts.extend([repr(v)]) or x, [ef.ones(2)])
    assert texts == ["Variable(f32[2]@cpu:0, name='w')"]
    assert _ops(traced) == []
    with ef.GradientTape():
        assert repr(v) == "Variable([1., 2.], f32[2]@cpu:0, name='w')"


def test_the_text_of_a_variable_is_that_of_its_value_in_each_run() -> None:
    v = ef.Variable([1.0, 2.0], name="w")

    @ef.trace
    def positive(x: Tensor) -> Tensor:
        assert (x > 0).all(), f"with {v}"
        return x

    positive(ef.ones(2))
    v.assign([3.0, 4.0])
    with pytest.raises(AssertionError, match=r"with \[3. 4.\]"):
        positive(-ef.ones(2))


def test_a_variable_made_in_a_trace_gets_its_value_in_each_run() -> None:
    made = []

    def function(x: Tensor) -> Tensor:
        v = ef.Variable(x * 2, name="v")
        made.append(v)
        return v.assign_add(1)

    traced = Traced(function, [ef.ones(3)])
    (v,) = made
    assert traced.tracer.created_resources == [v.resource]
    assert list(traced.specialised) == ["n0"]  # a variable keeps its shape
    assert v.tolist() == [0.0, 0.0, 0.0]
    for _ in range(2):
        assert traced(ef.ones(3)).tolist() == [3.0, 3.0, 3.0]


def test_a_variable_of_a_number_made_in_a_trace() -> None:
    traced = Traced(lambda x: x + ef.Variable(2.0), [ef.ones(3)])
    assert _ops(traced) == ["assign", "read", "add"]
    assert traced(ef.ones(2)).tolist() == [3.0, 3.0]


def test_a_copied_array_is_seen_as_itself() -> None:
    array = np.arange(6.0).reshape(2, 3)

    def function(x: Tensor) -> Any:
        return ef.tensor(array), ef.tensor(array, dtype="float32"), ef.Variable(array) + x

    traced = Traced(function, [ef.zeros((2, 3), dtype="float64")])
    (capture, *_) = traced.tracer.captures.values()
    assert capture.handle._data is array
    assert not capture.fresh
    assert _ops(traced)[:3] == ["copy", "cast", "copy"]
    copied, converted, _ = traced(ef.ones((2, 3), dtype="float64"))
    assert copied.tolist() == converted.tolist() == array.tolist()
    assert not np.shares_memory(copied.numpy(), array)


@pytest.mark.parametrize("array", [np.array([1, 2], ">i4"), np.ma.masked_array([1.0]), [1, 2]])
def test_other_data_is_converted_as_ever(array: Any) -> None:
    def outcome() -> Any:
        try:
            return ef.tensor(array).tolist()
        except errors.DTypeError as error:
            return str(error).split("\n")[0]

    want = outcome()
    with ef.GradientTape():
        assert outcome() == want


def test_a_tape_does_not_share_what_is_copied() -> None:
    array = np.ones(2, np.float32)
    with ef.GradientTape():
        x = ef.tensor(array)
    array[:] = 5
    assert x.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "take", [np.from_dlpack, lambda x: x.__dlpack__(), lambda x: x.__dlpack_device__()]
)
def test_symbolic_tensors_are_not_exchanged(take: Any) -> None:
    with pytest.raises(errors.TraceError, check=says("__dlpack")):
        Traced(take, [ef.ones(2)])
