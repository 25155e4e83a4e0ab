"""Bit-for-bit checks of the laws of algebra in op records, and of other facts of single ops."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import Op, all_ops, bind, functions
from eagerflow.core.tensor import Tensor
from eagerflow.errors import EagerflowError
from eagerflow.types import DTYPES
from eagerflow_kernels import table as kernels

ef.stop_gradient(0)  # the module with its op is imported on first use
OPS = all_ops()
NEUTRAL = sorted(name for name, op in OPS.items() if op.neutral is not None)

SAMPLES: dict[str, list[Any]] = {
    "bool": [False, True],
    "signed integer": [0, 1, -1, 5, -7],
    "unsigned integer": [0, 1, 5, 250],
    "real floating": [0.0, -0.0, 1.5, -2.25, math.nan, math.inf, -math.inf, 1e30],
}


def _array(values: Any, dtype: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype.dtype)


def samples(kind: str) -> list[Tensor]:
    """A tensor of each dtype of a kind."""
    return [
        ef.asarray(_array(SAMPLES[kind], dtype))
        for dtype in DTYPES.values()
        if dtype.category == kind and dtype.is_native
    ]


def bits(x: Tensor) -> bytes:
    """The bits of a tensor, with all NaNs made equal."""
    data = x.numpy()
    if data.dtype.kind == "f":
        data = np.where(np.isnan(data), np.array(math.nan, data.dtype), data)
    return bytes(data.tobytes())


def takes(op: Op, *xs: Tensor) -> Tensor | None:
    """The result, or None if the op refuses the dtype."""
    with np.errstate(all="ignore"):
        try:
            result: Tensor = bind(op, *xs)
        except EagerflowError:
            return None
    return result


@pytest.mark.parametrize("name", NEUTRAL)
@pytest.mark.parametrize("kind", list(SAMPLES))
def test_neutral_operands_change_nothing(name: str, kind: str) -> None:
    op = OPS[name]
    assert op.neutral is not None
    assert set(op.neutral.numbers) <= set(SAMPLES)
    if kind not in op.neutral.numbers:
        return
    for x in samples(kind):
        number = _array(op.neutral.numbers[kind], x.dtype)
        one = ef.asarray(np.broadcast_to(number, x.shape).copy())
        for pair in [(x, one), (one, x)][: 1 + op.neutral.left]:
            result = takes(op, *pair)
            if result is not None and result.dtype is x.dtype:
                assert bits(result) == bits(x)


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.commutative))
@pytest.mark.parametrize("kind", list(SAMPLES))
def test_commutative_ops_commute(name: str, kind: str) -> None:
    for x in samples(kind):
        y = ef.flip(x)
        one, other = takes(OPS[name], x, y), takes(OPS[name], y, x)
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert bits(one) == bits(other)


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.involution))
def test_involutions_undo_themselves(name: str) -> None:
    seen = 0
    for x in [y for kind in SAMPLES for y in samples(kind)] + [ef.tensor([1 + 2j, -0j])]:
        once = takes(OPS[name], x)
        if once is not None:
            twice = takes(OPS[name], once)
            assert twice is not None
            assert bits(twice) == bits(x)
            seen += 1
    assert seen


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.idempotent))
def test_idempotent_ops_change_nothing_the_second_time(name: str) -> None:
    seen = 0
    op = OPS[name]
    parameters = inspect.signature(functions[name]).parameters.values()
    two = sum(p.default is p.empty for p in parameters) == 2
    for x in [y for kind in SAMPLES for y in samples(kind)]:
        once = x if two else takes(op, x)
        again = takes(op, x, x) if two else takes(op, once) if once is not None else None
        if once is not None and again is not None and once.dtype is again.dtype:
            assert bits(again) == bits(once)
            seen += 1
    assert seen


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.ieee))
def test_bits_do_not_depend_on_how_many_are_computed_at_a_time(name: str) -> None:
    kernel = kernels.original_kernel(name)
    assert isinstance(kernel, str)
    function = getattr(np, kernel)
    assert isinstance(function, np.ufunc)
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        xs = [rng.normal(size=101).astype(dtype) for _ in range(function.nin)]
        with np.errstate(all="ignore"):
            whole = function(*xs)
            single = np.array([function(*row) for row in zip(*xs, strict=True)])
            parts = np.concatenate(
                [function(*[x[i : i + 3] for x in xs]) for i in range(0, 101, 3)]
            )
        assert whole.tobytes() == single.tobytes() == parts.tobytes()


@pytest.mark.parametrize("name", sorted(n for n, op in OPS.items() if op.linear_rows))
def test_rows_of_cotangents_are_taken_one_by_one(name: str) -> None:
    op = OPS[name]
    x = ef.tensor(np.arange(6.0).reshape(3, 2))
    attrs = {"dtype": DTYPES["float32"]} if name == "cast" else {}
    out = bind(op, x, **attrs)
    g = ef.asarray(np.arange(5.0, 11.0).reshape(3, 2).astype(out.dtype.dtype))
    assert isinstance(op.vjp, tuple)
    (rule,) = op.vjp
    assert rule is not None
    whole = rule(g, out, x, **attrs)
    assert bits(rule(g[1:2], out, x, **attrs)) == bits(whole[1:2])


def test_ops_that_are_named_in_facts() -> None:
    for op in OPS.values():
        for other in (op.updates, op.with_gradient, op.pair):
            assert other is None or other in OPS
        if op.updates is not None:
            assert OPS[op.updates].ieee
            assert op.effect == "writes"
        for both in (op.with_gradient, op.pair):
            assert both is None or OPS[both].outputs == 2
        if op.errors_as:
            assert op.errors_as in functions or hasattr(ef.nn.functional, op.errors_as)
