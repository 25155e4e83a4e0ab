"""The funnel: op records, interpreters, the kernel table, threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core import interpreter
from eagerflow.core import op as op_module
from eagerflow.core.interpreter import AbstractInterpreter, installed, stack
from eagerflow.core.monitors import monitored
from eagerflow.core.op import bind, declare, define, get_op
from eagerflow.types import TensorType
from eagerflow_kernels import table
from tests.messages import says


class Log(AbstractInterpreter):
    """An interpreter that records the ops bound through it."""

    def __init__(self) -> None:
        self.ops: list[str] = []

    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        self.ops.append(op.name)
        return self.below.bind(op, inputs, attrs)


def test_transforms_nest_above_monitors() -> None:
    x = ef.ones(2)
    outer, inner, monitor = Log(), Log(), Log()
    with installed(outer), monitored(monitor), installed(inner):
        assert inner.below is outer
        x + x
    for log in (outer, inner, monitor):
        assert log.ops == ["add"]
    x + x
    assert outer.ops == ["add"]
    assert not stack.installed


def test_the_chain_is_restored_after_an_error() -> None:
    with pytest.raises(errors.ShapeError), installed(Log()):
        ef.ones(2) + ef.ones(3)
    assert not stack.installed
    assert interpreter.current() is interpreter.BASE


@pytest.mark.parametrize("block", [installed, monitored])
def test_blocks_may_end_out_of_order(block: Any) -> None:
    """Two generators that each hold a block open are closed oldest first."""
    first, second = Log(), Log()
    one, two = block(first), block(second)
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    ef.exp(ef.ones(2))
    two.__exit__(None, None, None)
    ef.exp(ef.ones(2))
    assert "exp" not in first.ops
    assert second.ops.count("exp") == 1
    assert interpreter.current() is interpreter.BASE
    assert stack.total == 0


def test_an_op_of_one_thread_never_reaches_another_threads_interpreter() -> None:
    log, started, go = Log(), threading.Event(), threading.Event()

    def other() -> None:
        started.set()
        go.wait(10)
        for _ in range(100):
            ef.exp(ef.ones(2)) + 1.0

    thread = threading.Thread(target=other)
    thread.start()
    started.wait(10)
    with installed(log):
        go.set()
        ef.ones(2) * 2.0
        thread.join(10)
    assert "add" not in log.ops
    assert "multiply" in log.ops


def test_each_thread_may_have_its_own() -> None:
    logs = [Log() for _ in range(4)]
    barrier = threading.Barrier(4)

    def work(log: Log, count: int) -> None:
        x = ef.ones(2)
        with installed(log):
            barrier.wait(10)
            for _ in range(count):
                x + x

    threads = [threading.Thread(target=work, args=(log, 50 + i)) for i, log in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [log.ops.count("add") for log in logs] == [50, 51, 52, 53]
    assert stack.total == 0


@pytest.fixture
def scratch_op():
    """An op of a third party, removed after the test."""
    name = "test_scratch"
    table.portable(name)(lambda xp, x, *, scale: x * xp.asarray(scale, dtype=x.dtype))
    op = define(name, infer=lambda x, *, scale: x, vjp=(lambda g, out, x, *, scale: g * scale,))
    yield op
    table.remove(name)
    op.infer = None
    del op_module._ops[name]


def test_an_op_of_a_third_party(scratch_op) -> None:
    x = ef.tensor([1.0, 2.0])
    assert bind(scratch_op, x, scale=3).tolist() == [3.0, 6.0]
    assert ef.grad(lambda x: bind(scratch_op, x, scale=3).sum())(x).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("x", [1.5, [1.0, 2.0], np.ones(2), "text"])
def test_operands_are_tensors(scratch_op, x: Any) -> None:
    for f in (bind, lambda op, x, scale: ef.trace(lambda: bind(op, x, scale=scale))()):
        with pytest.raises(errors.DTypeError, check=says("bind of test_scratch: x is no tensor")):
            f(scratch_op, x, scale=3)


@pytest.mark.parametrize(
    "transform",
    [lambda f: f, ef.trace, lambda f: ef.vmap(f, in_axes=None, axis_size=1)],
    ids=["eager", "traced", "vmap"],
)
def test_variables_are_operands(scratch_op, transform: Any) -> None:
    v = ef.Variable([1.0, 2.0])
    f = transform(lambda: bind(scratch_op, v, scale=3))
    assert f().reshape((2,)).tolist() == [3.0, 6.0]
    with ef.device("cpu:0"):
        assert bind(scratch_op, v, scale=3).tolist() == [3.0, 6.0]
    (gradient,) = ef.grad(lambda: bind(scratch_op, v, scale=3).sum(), wrt=[v])()
    assert gradient.tolist() == [3.0, 3.0]
    assert bind(scratch_op, v.assign([3.0, 4.0]), scale=1).tolist() == [3.0, 4.0]


def test_numbers_of_a_trace_are_operands_by_asarray(scratch_op) -> None:
    with pytest.raises(errors.DTypeError, check=says("x is no tensor")):
        ef.trace(lambda k: bind(scratch_op, k, scale=3))(2.0)
    f = ef.trace(lambda k: bind(scratch_op, ef.asarray(k), scale=3))
    assert [f(k).item() for k in (2.0, 3.0)] == [6.0, 9.0]


def test_a_number_of_a_trace_is_a_static_attribute(scratch_op) -> None:
    f = ef.trace(lambda x, k: bind(scratch_op, x, scale=k).sum())
    grad = ef.trace(lambda x, k: ef.grad(lambda x: bind(scratch_op, x, scale=k).sum())(x))
    x = ef.tensor([1.0, 2.0])
    for k in (3.0, 2.0, 3.0):
        assert f(x, k).item() == 3 * k
        assert grad(x, k).tolist() == [k, k]
    assert len(f.traces) == 2
    assert "its use as the attribute scale of test_scratch" in str(f.explain())
    assert f.graph(x, 2.0).nodes[0].attrs["scale"] == 2.0


def test_a_tensor_is_no_attribute(scratch_op) -> None:
    k = ef.tensor(2.0)
    f = lambda k: bind(scratch_op, ef.ones(2), scale=k).sum()
    for way in (f, ef.trace(f), ef.grad(f), ef.vmap(f, axis_size=2, in_axes=None)):
        message = says("the attribute scale is a tensor")
        with pytest.raises(errors.DTypeError, check=message):
            way(k)


def test_a_kernel_registered_anew_is_used_by_the_next_call(scratch_op) -> None:
    x = ef.tensor([1.0, 2.0])
    assert bind(scratch_op, x, scale=3).tolist() == [3.0, 6.0]
    table.portable("test_scratch")(lambda xp, x, *, scale: x + 100)
    assert bind(scratch_op, x, scale=3).tolist() == [101.0, 102.0]
    table.special("test_scratch", "cpu", ("float64",))(lambda x, *, scale: x - 1)
    assert bind(scratch_op, x, scale=3).tolist() == [101.0, 102.0]
    assert bind(scratch_op, x.astype(ef.float64), scale=3).tolist() == [0.0, 1.0]
    table.remove("test_scratch", "cpu", ("float64",))
    assert bind(scratch_op, x.astype(ef.float64), scale=3).tolist() == [101.0, 102.0]


def test_operators_use_a_kernel_registered_anew() -> None:
    x = ef.tensor([1.0, 2.0])
    x + x
    table.special("add", "cpu", ("float32",))(lambda a, b: a + b + np.float32(100))
    try:
        assert (x + x).tolist() == [102.0, 104.0]
    finally:
        table.remove("add", "cpu", ("float32",))
        table.special("add", "cpu", ("float32",))  # registers nothing by itself
    assert (x + x).tolist() == [2.0, 4.0]


def test_definitions_are_checked() -> None:
    with pytest.raises(errors.OpDefinitionError, match="exists"):
        define("add", infer=lambda x: x, nondifferentiable=True)
    with pytest.raises(errors.OpDefinitionError, match="gradient statement"):
        define("test_none", infer=lambda x: x)
    with pytest.raises(errors.OpDefinitionError, match="no op named"):
        get_op("test_missing")
    assert declare("add") is get_op("add")


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"saved": "both"}, "saved is one of a few words"),
        ({"saved": "output"}, "did you mean 'outputs'"),
        ({"saved": ("x",)}, r"saved=\('x',\)"),
        ({"saves": "inputs"}, "no fact 'saves'"),
        ({"reaches": "network"}, "'files'"),
        ({"batch": lambda args, dims: args}, r"got: <lambda>\(args, dims\)"),
    ],
)
def test_facts_are_known_words(facts: Any, message: str) -> None:
    with pytest.raises(errors.OpDefinitionError, check=says(message)):
        define("test_facts", infer=lambda x: x, vjp=(lambda g, out, x: g,), **facts)
    with pytest.raises(errors.OpDefinitionError, match="no op named"):
        get_op("test_facts")


def test_ops_name_the_counterparts_of_methods_of_other_frameworks() -> None:
    for name in ("kernel", "register_kernel"):
        with pytest.raises(errors.UnknownNameError, match="@special"):
            getattr(get_op("add"), name)


def test_a_missing_kernel_is_named() -> None:
    op = define("test_no_kernel", infer=lambda x: x, nondifferentiable=True)
    try:
        with pytest.raises(errors.KernelError, match="no kernel for cpu:0") as caught:
            bind(op, ef.ones(2))
        assert "@portable('test_no_kernel')" in str(caught.value.hint)
    finally:
        del op_module._ops["test_no_kernel"]


def test_a_kernel_that_fails_unforeseen_is_wrapped(scratch_op) -> None:
    def broken(xp: Any, x: Any, *, scale: int) -> Any:
        raise KeyError("inside")

    table.portable("test_scratch")(broken)
    with pytest.raises(errors.KernelError, match="inside") as caught:
        bind(scratch_op, ef.ones(2), scale=1)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "f32[2]@cpu:0" in str(caught.value)


def test_low_precision_is_computed_in_float32() -> None:
    x = ef.asarray(np.full(4096, 1.0, np.float32)).astype(ef.bfloat16)
    assert x.sum().item() == 4096.0  # bfloat16 itself would stop at 256
    h = ef.asarray(np.full(10_000, 1.0, np.float16))
    assert h.mean().item() == 1.0
    assert ef.matmul(h, h).dtype is ef.float16


def test_null_devices_know_types_only() -> None:
    x = ef.zeros((3, 4), device="null:0")
    y = (ef.exp(x) @ x.T).sum(axis=0)
    assert str(y.type) == "f32[3]@null:0"
    assert repr(y) == "Tensor(f32[3]@null:0)"
    with pytest.raises(errors.DeviceError, match="has no values"):
        y.numpy()
    with pytest.raises(errors.ShapeError):
        x @ x


def test_rules_are_types_to_types() -> None:
    rule = get_op("add").infer
    assert rule is not None
    t = TensorType(ef.float32, (2, 1))
    assert rule(t, t.like(shape=(3,))) == t.like(shape=(2, 3))
