"""`Tracer`: the inputs and constants of a trace, and the state after its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core import interpreter
from eagerflow.core.interpreter import BASE, AbstractInterpreter, installed, stack
from eagerflow.core.tensor import make_tensor
from eagerflow.errors import (
    DeviceError,
    DimError,
    LeakedTensorError,
    ShapeError,
    TensorValueError,
    TraceError,
)
from eagerflow.graph.name_scopes import name_scope
from eagerflow.tracing.symbols import Symbol
from eagerflow.tracing.tracer import Tracer, tracer_of
from eagerflow.types import TensorType, as_dtype

CPU = ef.hardware.as_device("cpu:0")


def vector(tracer: Tracer, size: Any = 2, name: str = "x", dtype: str = "float32") -> ef.Tensor:
    return tracer.add_input(TensorType(as_dtype(dtype), (size,)).on(CPU), name)


def symbolic(tracer: Tracer, size: int = 3, name: str = "n") -> ef.Tensor:
    return vector(tracer, tracer.sizes.add(name, size))


def ops(tracer: Tracer) -> list[str]:
    return [node.op for node in tracer.graph.nodes]


def in_thread(function: Callable[[], Any]) -> Any:
    """The result of a function called in another thread, or the exception that it raised."""
    outcomes: list[Any] = []

    def call() -> None:
        try:
            outcomes.append(function())
        except Exception as error:
            outcomes.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return outcomes[0]


# --- inputs and nodes -------------------------------------------------------------------------


def test_an_op_becomes_a_node_and_nothing_runs() -> None:
    tracer = Tracer("f")
    x = vector(tracer)
    with tracer:
        y = ef.exp(x) * x
    lines = [line.partition(" #")[0].strip() for line in str(tracer.graph).splitlines()]
    assert lines[1:-2] == [
        "%exp = exp(%x) : f32[2]@cpu:0",
        "%multiply = multiply(%exp, %x) : f32[2]@cpu:0",
    ]
    assert type(y._data) is Symbol
    assert y._data.value is tracer.graph.nodes[-1].outputs[0]
    assert (y.shape, y.dtype, y.device) == ((2,), ef.float32, CPU)


def test_inputs_of_one_name_get_names_of_their_own() -> None:
    tracer = Tracer()
    vector(tracer)
    vector(tracer)
    tracer.add_number(1.0, "x")
    assert len({value.name for value in tracer.graph.inputs}) == 3
    assert [root.number for root in tracer.numbers] == [1.0]


def test_a_node_knows_the_line_of_the_user() -> None:
    tracer = Tracer()
    x = vector(tracer)
    with tracer:
        ef.sum(x)  # this line
    (node,) = tracer.graph.nodes
    assert node.source is not None
    assert (node.source.file, node.source.text) == (__file__, "ef.sum(x)  # this line")


def test_nodes_lie_in_the_scopes_around_them() -> None:
    tracer = Tracer()
    x = vector(tracer)
    with tracer:
        ef.exp(x)
        with name_scope("encoder"):
            ef.exp(x)
            with name_scope("/layer/"):
                x * tracer.add_number(2.0, "k")
        ef.exp(x)
    assert [node.scope for node in tracer.graph.nodes] == [
        "", "encoder", "encoder/layer", "encoder/layer", "",
    ]  # fmt: skip


def test_a_scope_ends_with_its_block_also_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), name_scope("a"):
        _ = 1 / 0
    tracer = Tracer()
    with tracer:
        ef.exp(vector(tracer))
    assert tracer.graph.nodes[0].scope == ""


@pytest.mark.parametrize("name", ["", "/", None])
def test_a_scope_needs_a_name(name: Any) -> None:
    with pytest.raises(TraceError, match="needs a name"):
        name_scope(name)


def test_an_op_that_is_refused_leaves_no_node() -> None:
    tracer = Tracer()
    x, y = vector(tracer, 2), vector(tracer, 3)
    with tracer, pytest.raises(ShapeError, match="cannot be broadcast"):
        x + y
    assert ops(tracer) == []


# --- captures ---------------------------------------------------------------------------------


def test_a_tensor_from_outside_is_captured_once() -> None:
    w = ef.tensor([1.0, 2.0])
    alias = make_tensor(w._data, w._lane)
    tracer = Tracer()
    x = vector(tracer)
    with tracer:
        x * w + alias
    (capture,) = tracer.captures.values()
    assert not capture.fresh
    assert capture.handle._data is w._data
    assert capture.handle is not w
    assert capture.source is not None
    assert capture.source.text == "x * w + alias"
    assert tracer.graph.inputs == [x._data.value, capture.value]


def test_what_is_made_while_tracing_is_fresh() -> None:
    tracer = Tracer()
    x = vector(tracer)
    with tracer:
        made = ef.tensor([1.0, 2.0])
        x * made
        assert tracer.is_fresh(made)
    (capture,) = tracer.captures.values()
    assert capture.fresh


def test_a_captured_variable_is_a_resource_and_no_input() -> None:
    v, w = ef.Variable(1.0, name="w"), ef.Variable(2.0, name="w")
    tracer = Tracer()
    with tracer:
        v + w
        v.assign(3.0)
    assert tracer.graph.resources == {"w": v.resource, "w_1": w.resource}
    assert tracer.captures.keys() == {id(c.handle._data) for c in tracer.captures.values()}
    assert v.numpy() == 1.0


def test_operands_on_two_devices_are_refused() -> None:
    null = ef.hardware.as_device("null:0")
    tracer = Tracer()
    x = vector(tracer)
    y = tracer.add_input(TensorType(as_dtype("float32"), (2,)).on(null), "y")
    with tracer:
        with pytest.raises(DeviceError, match="operands sit on different devices") as caught:
            x + y
        assert (x + y.to("cpu:0")).device is CPU
    assert ".to('cpu:0')" in str(caught.value)
    assert ops(tracer) == ["copy_to_device", "add"] or ops(tracer)[-1] == "add"


# --- values that Python asks for --------------------------------------------------------------


def test_what_follows_from_constants_has_a_value() -> None:
    tracer = Tracer()
    with tracer:
        made = ef.arange(4) * 2
        assert made.sum().item() == 12
        assert bool(ef.any(made > 5))
        assert made.numpy().tolist() == [0, 2, 4, 6]
        first, second = ef.split(made, 2)
        assert second.tolist() == [4, 6]
        assert first.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("ask", "hint"),
    [
        (bool, "ef.where"),
        (int, "x.shape"),
        (float, "outside of the traced function"),
        (lambda x: [1, 2][x], "index with the tensor itself"),
        (lambda x: x.numpy(), "outside of the traced function"),
        (lambda x: x.item(), "outside of the traced function"),
    ],
)
def test_what_depends_on_an_input_has_none(ask: Callable[[Any], Any], hint: str) -> None:
    tracer = Tracer("step")
    x = tracer.add_input(TensorType(as_dtype("int64"), ()).on(CPU), "x")
    with tracer:
        y = x + 1
        with pytest.raises(TraceError) as caught:
            ask(y)
    text = str(caught.value)
    assert "known only when the graph runs" in text
    assert "the traced function step" in text
    assert hint in text


def test_what_depends_on_a_captured_tensor_or_a_draw_has_no_value() -> None:
    w = ef.ones(2)
    tracer = Tracer()
    with tracer:
        for y in ((w * 2).sum(), ef.random.normal(()), ef.Variable(1.0) + 1):
            with pytest.raises(TraceError, match="known only when the graph runs"):
                float(y)


def test_captured_tensors_that_python_looks_at_are_noted() -> None:
    w, idle = ef.tensor(3), ef.tensor(4)
    tracer = Tracer()
    with tracer:
        assert int(w) == 3
        assert idle.shape == ()
    assert list(tracer.whole.looked_at) == [id(w._data)]


# --- sizes ------------------------------------------------------------------------------------


def test_a_size_stays_symbolic_until_python_asks() -> None:
    tracer = Tracer()
    x = symbolic(tracer, 3)
    with tracer:
        y = ef.concat([x, x])
        assert y.shape[0].symbols == {"n"}
        assert not tracer.sizes.static
        assert y.shape[0] == 6
    assert list(tracer.sizes.static) == ["n"]
    why, source = tracer.sizes.static["n"]
    assert "==" in why
    assert source is not None


def test_a_size_that_depends_on_data_has_no_value() -> None:
    tracer = Tracer()
    x = symbolic(tracer)
    with tracer:
        (indices,) = ef.nonzero(x)
        (more,) = ef.nonzero(x)
        assert indices.shape[0].symbols.isdisjoint(more.shape[0].symbols)
        with pytest.raises(TraceError, match="depends on data"):
            list(range(indices.shape[0]))
    with pytest.raises(DimError, match="outlived its trace"):
        list(range(indices.shape[0]))


def test_sizes_of_two_traces_are_told_apart() -> None:
    one, two = Tracer(), Tracer()
    size = one.sizes.add("n", 3)
    two.sizes.add("n", 3)
    with two, pytest.raises(TraceError, match="not known while tracing"):
        list(range(size))


# --- handles ----------------------------------------------------------------------------------


def test_an_updated_handle_from_outside_is_noted_with_what_it_held() -> None:
    w = ef.tensor([1.0, 2.0])
    before = w._data
    tracer = Tracer()
    with tracer:
        w += 1
        w[0] = 5.0
    ((handle, data, lane, _),) = tracer.updated.values()
    assert handle is w
    assert data is before
    assert type(w._data) is Symbol
    w._data, w._lane = data, lane
    assert w.tolist() == [1.0, 2.0]


def test_updates_of_what_is_made_inside_are_nobodys_business() -> None:
    tracer = Tracer()
    x = vector(tracer)
    with tracer:
        made = ef.zeros(2)
        made += x
        x[0] = 1.0
    assert not tracer.updated


def test_a_variable_made_inside_gets_its_first_value_in_each_run() -> None:
    tracer = Tracer()
    with tracer:
        v = ef.Variable(ef.ones(2))
        v + 1
    assert tracer.created_resources == [v.resource]
    assert "assign" in ops(tracer)
    assert tracer.graph.nodes[ops(tracer).index("assign")].attrs["resource"] is v.resource


# --- leaks ------------------------------------------------------------------------------------


def test_use_after_the_end_names_the_function_and_the_line() -> None:
    tracer = Tracer("step")
    x = vector(tracer)
    number = tracer.add_number(2.0, "k")
    with tracer:
        y = x * 2
        twice = number * 2
    for ask in (lambda: x + 1, y.numpy, lambda: float(y.sum()), lambda: ef.ones(2) @ y):
        with pytest.raises(LeakedTensorError, match="the traced function step"):
            ask()
    assert repr(y) == "Tensor(f32[2]@cpu:0)"
    with pytest.raises(LeakedTensorError, match="a trace which has ended") as caught:
        y + 1
    assert "made at" in str(caught.value)
    assert f"{__file__}:" in str(caught.value)
    for use in (
        lambda: twice + 1, lambda: -twice, lambda: twice > 1, lambda: f"{twice}",
        lambda: ef.ones(1) * twice, lambda: ef.tensor(twice),
    ):  # fmt: skip
        with pytest.raises(LeakedTensorError, match="a trace which has ended"):
            use()


def test_use_in_another_trace_while_the_first_is_alive() -> None:
    outer, inner = Tracer("outer"), Tracer("inner")
    x = vector(outer)
    number, other = outer.add_number(2.0, "k"), inner.add_number(3.0, "k")
    with outer, inner:
        with pytest.raises(LeakedTensorError, match="use in another trace"):
            x + 1
        with pytest.raises(LeakedTensorError, match="another trace"):
            other + number
        with pytest.raises(LeakedTensorError, match="another trace"):
            vector(inner) * number
    assert ops(inner) == []


def test_use_in_another_thread_while_the_trace_is_alive() -> None:
    tracer = Tracer("step")
    x = vector(tracer)
    with tracer:
        error = in_thread(lambda: x + 1)
        assert in_thread(lambda: (ef.ones(2) + 1).tolist()) == [2.0, 2.0]
    assert isinstance(error, LeakedTensorError)
    assert "the traced function step" in str(error)
    assert ops(tracer) == []


def test_what_was_forgotten_still_tells_where_it_comes_from() -> None:
    tracer = Tracer("step")
    w = ef.ones(2)
    with tracer:
        y = vector(tracer) * w
        ef.tensor([1.0])
    tracer.forget()
    assert not tracer.captures
    assert not tracer._fresh
    assert not tracer._tensors
    with pytest.raises(LeakedTensorError, match="the traced function step"):
        y + 1


# --- nothing stays installed ------------------------------------------------------------------


def test_all_is_as_before_after_an_error() -> None:
    before = stack.total
    tracer = Tracer()
    x = symbolic(tracer)

    def fail() -> None:
        with tracer:
            assert tracer_of(interpreter.current()) is tracer
            _ = 1 / (ef.exp(x).ndim - 1)

    with pytest.raises(ZeroDivisionError):
        fail()
    assert interpreter.current() is BASE
    assert stack.total == before
    assert ef.exp(ef.zeros(2)).tolist() == [1.0, 1.0]
    with pytest.raises(DimError, match="not known here"):  # no trace answers
        bool(x.shape[0] == 3)
    assert not tracer.sizes.static


def test_what_is_installed_around_a_trace_sees_nothing_of_it() -> None:
    class Counter(AbstractInterpreter):
        count = 0

        def bind(self, op: Any, inputs: Any, attrs: Any) -> Any:
            self.count += 1
            return self.below.bind(op, inputs, attrs)

    counter, tracer = Counter(), Tracer()
    with installed(counter):
        ef.exp(ef.zeros(2))
        with tracer:
            ef.exp(vector(tracer))
        ef.exp(ef.zeros(2))
        assert interpreter.current() is counter
    assert counter.count == 4  # two of exp, two of zeros
    assert ops(tracer) == ["exp"]


def test_a_trace_within_a_trace_ends_before_it() -> None:
    outer, inner = Tracer("outer"), Tracer("inner")
    with outer:
        x = vector(outer)
        with inner:
            ef.exp(vector(inner))
        ef.sin(x)
    assert (ops(outer), ops(inner)) == (["sin"], ["exp"])
    assert interpreter.current() is BASE


def test_other_threads_run_eagerly_meanwhile() -> None:
    tracer = Tracer()
    with tracer:
        assert in_thread(lambda: ef.exp(ef.zeros(3)).tolist()) == [1.0] * 3
        assert in_thread(interpreter.current) is BASE
    assert ops(tracer) == []


# --- numbers as tensors -----------------------------------------------------------------------


def test_a_number_becomes_a_tensor_once_per_lane() -> None:
    tracer = Tracer()
    x, y = vector(tracer), vector(tracer, dtype="float64")
    k = tracer.add_number(2.0, "k")
    with tracer:
        x * k + k
        y * k
    assert ops(tracer).count("python_tensor") == 2


def test_a_number_that_does_not_fit_is_refused_as_eagerly() -> None:
    tracer = Tracer()
    x = vector(tracer, dtype="int8")
    k = tracer.add_number(300, "k")
    with pytest.raises(TensorValueError, match="does not fit into int8"):
        ef.ones(2, dtype=ef.int8) + 300
    with tracer, pytest.raises(TensorValueError, match="does not fit into int8"):
        x + k


def test_numpy_arrays_made_inside_are_constants() -> None:
    tracer = Tracer()
    x = vector(tracer)
    with tracer:
        x + np.ones(2, np.float32)
    assert [c.fresh for c in tracer.captures.values()] == [True]
