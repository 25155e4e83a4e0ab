"""Mutation test of the table of cases: each op is broken in turn, and its cases must fail.

Three defects are injected per op: a kernel that gives other values, a rule that gives another
type, a gradient that is off by a factor. Two more are in traces alone: a type rule that is wrong
where a size is symbolic, and a gradient that is off by a factor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import Op, all_ops, joint
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim
from eagerflow.errors import EagerflowError, TraceWarning
from eagerflow.types import TensorType
from eagerflow_kernels import table as kernels
from tests.each import check_each
from tests.kernel_table import replaced_kernel
from tests.ops.bound import CASE_OPS, cases_by_op
from tests.ops.case import OpCase
from tests.ops.one_trace import Row, check_gradients_in_one_trace, check_values_in_one_trace
from tests.ops.sizes import check_sizes
from tests.ops.table import (
    DATA_DEPENDENT,
    check_gradient,
    check_values,
    layout_of,
    one_of_each_kind,
)

RED = (
    AssertionError, EagerflowError, TraceWarning, ValueError, TypeError, IndexError,
    BaseExceptionGroup,
)  # fmt: skip


def _other(data: Any) -> Any:
    """An array of the same type with other values."""
    if isinstance(data, tuple):
        return tuple(_other(d) for d in data)
    data = np.asarray(data)
    if data.dtype == bool:
        return ~data
    return (data + np.ones((), data.dtype)).astype(data.dtype)


@contextmanager
def wrong_kernel(name: str) -> Iterator[None]:
    """Give the op a kernel with other values on CPU."""
    op = all_ops()[name]

    def wrong(*arrays: Any, **attrs: Any) -> Any:
        kernel = kernels.find(name, "none", tuple(a.dtype.name for a in arrays), np)
        return _other(kernel(*arrays, **attrs))

    with replaced_kernel(name, "cpu", wrong):
        yield
    assert not op.resolved


@contextmanager
def wrong_rule(op: Op) -> Iterator[None]:
    """Make the type rule claim one axis more."""
    right = op.infer

    def wrong(*types: TensorType, **attrs: Any) -> Any:
        result = right(*types, **attrs)
        if isinstance(result, tuple):
            return tuple(t.like(shape=(*t.shape, 1)) for t in result)
        return result.like(shape=(*result.shape, 1))

    op.infer = wrong
    try:
        yield
    finally:
        op.infer = right
        op.resolved.clear()


@contextmanager
def wrong_sizes(op: Op) -> Iterator[list[TensorType]]:
    """Make the type rule wrong by one where a size is symbolic; yields the types affected."""
    right = op.infer
    spoilt: list[TensorType] = []

    def spoil(t: TensorType) -> TensorType:
        shape = tuple([d + 1 if isinstance(d, Dim) else d for d in t.shape])
        spoilt.extend([t] if any(isinstance(d, Dim) for d in t.shape) else [])
        return t.like(shape=shape)

    def wrong(*types: TensorType, **attrs: Any) -> Any:
        result = right(*types, **attrs)
        return tuple(map(spoil, result)) if isinstance(result, tuple) else spoil(result)

    op.infer = wrong
    try:
        yield spoilt
    finally:
        op.infer = right
        op.resolved.clear()


@contextmanager
def wrong_gradient(op: Op, *, in_traces: bool = False) -> Iterator[None]:
    """Scale every cotangent that the rule gives by one half more, or only those in traces."""
    right = op.vjp

    def scale(g: Any) -> Any:
        if isinstance(g, tuple):
            return tuple(scale(x) for x in g)
        if not isinstance(g, (Tensor, IndexedSlices)):
            return g
        values = g if isinstance(g, Tensor) else g.values
        return g * 1.5 if values._lane.symbolic or not in_traces else g

    def wrap(rule: Any) -> Any:
        return None if rule is None else lambda *a, **k: scale(rule(*a, **k))

    if isinstance(right, tuple):
        op.vjp = tuple(wrap(rule) for rule in right)
    elif isinstance(right, joint):
        op.vjp = joint(wrap(right.rule))
    else:
        op.vjp = wrap(right)
    try:
        yield
    finally:
        op.vjp = right


def _check_all_kinds(case: OpCase, column: str = "eager") -> None:
    for dtype in one_of_each_kind(case):
        check_values(case, dtype, layout_of(case), [column])


def _smooth(case: OpCase) -> list[Row]:
    return [(case, d, layout_of(case)) for d in ("float64", "complex128") if d in case.dtypes]


def _check_gradients(case: OpCase) -> None:
    for row in _smooth(case):
        check_gradient(*row)


def _check_gradients_in_traces(case: OpCase) -> None:
    check_gradients_in_one_trace(_smooth(case), "traced")


def _sees_red(cases: list[OpCase], check: Any, *args: Any) -> bool:
    for case in cases[:6]:
        try:
            check(case, *args)
        except RED:
            return True
    return False


def _traceable(name: str) -> list[OpCase]:
    return [c for c in cases_by_op()[name] if not c.untraceable]


def _kernel_is_seen(name: str) -> None:
    with wrong_kernel(name):
        assert _sees_red(cases_by_op()[name], _check_all_kinds)


def _rule_is_seen(name: str) -> None:
    with wrong_rule(all_ops()[name]):
        assert _sees_red(cases_by_op()[name], _check_all_kinds)


def _rule_is_seen_in_traces(name: str) -> None:
    with wrong_rule(all_ops()[name]):
        assert _sees_red(_traceable(name), _check_all_kinds, "traced")


def _size_is_seen(name: str) -> None:
    with wrong_sizes(all_ops()[name]) as spoilt:
        red = _sees_red(_traceable(name), check_sizes)
    assert red or not spoilt


def _gradient_is_seen(name: str) -> None:
    cases = [c for c in cases_by_op()[name] if c.grad]
    with wrong_gradient(all_ops()[name]):
        assert _sees_red(cases, _check_gradients)


def _gradient_is_seen_in_traces(name: str) -> None:
    cases = [c for c in _traceable(name) if c.grad]
    with wrong_gradient(all_ops()[name], in_traces=True):
        assert _sees_red(cases, _check_gradients_in_traces)


def _differentiable(op: Op) -> bool:
    return op.vjp is not None and not (isinstance(op.vjp, tuple) and not any(op.vjp))


#: the defects that an op can have
DEFECTS: tuple[tuple[Callable[[str], None], Callable[[Op], bool]], ...] = (
    (_kernel_is_seen, lambda op: not op.moves),
    # type rules of data-dependent ops give no type, so no wrong one
    (_rule_is_seen, lambda op: op.name not in DATA_DEPENDENT),
    (_rule_is_seen_in_traces, lambda op: op.name not in DATA_DEPENDENT),
    (_size_is_seen, lambda op: True),
    (_gradient_is_seen, _differentiable),
    (_gradient_is_seen_in_traces, _differentiable),
)


@pytest.mark.parametrize("name", CASE_OPS)
def test_defects_are_seen(name: str) -> None:
    op = all_ops()[name]
    possible = [seen for seen, applies in DEFECTS if applies(op)]
    assert possible
    cases_by_op()  # once for all tests, and before anything is wrong
    check_each(possible, lambda seen: seen(name))


def test_of_rows_in_one_trace_the_wrong_ones_are_told() -> None:
    case = cases_by_op()["exp"][0]
    rows = [(case, "float64", "vector"), (case, "complex128", "vector")]
    with (
        wrong_rule(all_ops()["exp"]),
        pytest.raises(BaseExceptionGroup, match="complex128, vector") as info,
    ):
        check_values_in_one_trace(rows, "traced")
    assert len(info.value.exceptions) == len(rows)
