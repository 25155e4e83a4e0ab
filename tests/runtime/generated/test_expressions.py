"""Ops that programs spell out equal their kernels; a user's kernel is called instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow_kernels import table
from eagerflow_kernels.portable import elementwise, shape, state

X = np.arange(6, dtype=np.float32).reshape(2, 3)
SPELLED: dict[str, tuple[Callable[..., Any], str]] = {
    "permute_dims": (lambda x: ef.permute_dims(x, (1, 0)), ".transpose((1, 0))"),
    "expand_dims": (lambda x: ef.expand_dims(x, (0, 3)), "[None, :, :, None,]"),
    "expand_dims 0-d": (lambda x: ef.expand_dims(x[0, 0], 0), "[None,]"),
    "reshape": (lambda x: x.reshape((3, -1)), ".reshape((3, -1))"),
    "reshape 0-d": (lambda x: x[0, 0].reshape((1, 1)), ".reshape((1, 1))"),
    "cast": (lambda x: x.astype(ef.int32), ".astype("),
    "cast 0-d": (lambda x: x[0, 0].astype(ef.bool), ".astype("),
    "cast b16": (lambda x: x.astype(ef.bfloat16), ".astype("),
    "unstack": (lambda x: ef.unstack(x), "[0, ...], "),
    "unstack 1": (lambda x: ef.unstack(x[:1]), "[0, ...]\n"),
}


@pytest.mark.parametrize("name", SPELLED)
def test_the_same_as_eagerly(name: str) -> None:
    function, text = SPELLED[name]
    traced = ef.trace(function)
    x = ef.tensor(X)
    want, got = function(x), traced(x)
    assert text in traced.ir("python")
    assert f"{name.split()[0]}_" not in traced.ir("python")
    for a, b in zip(*[x if type(x) is tuple else (x,) for x in (want, got)], strict=True):
        assert a.type == b.type
        assert a.numpy().tobytes() == b.numpy().tobytes()
        assert type(b._data) is np.ndarray


@pytest.mark.parametrize(
    ("function", "called"),
    [
        (lambda x: ef.unstack(x, axis=1), "unstack"),  # only the first axis is spelled out
        (lambda x: [x, *ef.unstack(x[:0])], ""),
        (lambda x: [(x + 1j).astype(ef.complex128).astype(ef.bool)], "cast"),
        (lambda x: [x.astype(ef.float16)], "cast"),  # the kernel is faster
    ],
)
def test_what_is_not_spelled_out(function: Callable[..., Any], called: str) -> None:
    traced = ef.trace(function)
    for a, b in zip(function(ef.tensor(X)), traced(ef.tensor(X)), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    assert called in traced.ir("python")


@pytest.mark.parametrize(
    ("op", "kernel", "function"),
    [
        ("permute_dims", shape.permute_dims, lambda x: ef.permute_dims(x, (1, 0))),
        ("cast", elementwise.cast, lambda x: x.astype(ef.float64)),
        ("unstack", shape.unstack, lambda x: ef.unstack(x)[1]),
    ],
)
def test_a_kernel_of_somebody_else_is_called(
    op: str, kernel: Any, function: Callable[..., Any]
) -> None:
    calls = []

    def own(*arrays: Any, **attrs: Any) -> Any:
        calls.append(op)
        return kernel(np, *arrays, **attrs)

    traced = ef.trace(function)
    want = traced(ef.tensor(X)).numpy()
    table.special(op, "cpu")(own)
    try:
        got = traced(ef.tensor(X)).numpy()
    finally:
        table.remove(op, "cpu")
    assert calls == [op]
    assert got.tobytes() == want.tobytes()
    assert traced(ef.tensor(X)).numpy().tobytes() == want.tobytes()
    assert calls == [op]


def test_a_read_holds_the_lock_and_keeps_its_value() -> None:
    v = ef.Variable(X)

    @ef.trace
    def f() -> Any:
        before = v.value
        v.assign_add(ef.ones((2, 3)))
        return before, v.value

    before, after = f()
    text = f.ir("python")
    assert "with lock_" in text
    assert "read_" not in text
    np.testing.assert_array_equal(before.numpy(), X)
    np.testing.assert_array_equal(after.numpy(), X + 1)


def test_a_read_by_somebody_elses_kernel() -> None:
    v = ef.Variable(X)
    f = ef.trace(lambda: v.value + 0)
    table.special("read", "cpu")(lambda *, resource: state.read(np, resource=resource) * 2)
    try:
        np.testing.assert_array_equal(f().numpy(), X * 2)
    finally:
        table.remove("read", "cpu")
    np.testing.assert_array_equal(f().numpy(), X)


def test_parts_of_arrays_are_expressions_of_the_array() -> None:
    """An index that may be out of range, and one that leaves no axes, is a call of the kernel."""

    def f(x: ef.Tensor, y: ef.Tensor, i: ef.Tensor) -> tuple[ef.Tensor, ...]:
        return x[1:-1, ::2], x[..., -1], x[None, 2:, 0], x[::-1], y[1:], y[0, 1], x[i]

    x, y = ef.reshape(ef.arange(12), (3, 4)), ef.reshape(ef.arange(6), (2, 3))
    i = ef.tensor([2, 0])
    traced = ef.trace(f, compile="off")
    for result, expected in zip(traced(x, y, i), f(x, y, i), strict=True):
        np.testing.assert_array_equal(result.numpy(), expected.numpy())
        assert result.numpy().strides == expected.numpy().strides
    text = traced.ir("python")
    assert text.count("[part") == 5
    assert text.count("getitem") + text.count("take") == 2
