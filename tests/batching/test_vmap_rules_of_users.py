"""Batching rules that users define."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import op as op_records
from eagerflow.core.op import Op, bind, define
from eagerflow.errors import VmapError
from eagerflow_kernels import table
from tests.kernel_table import restored_kernels


@pytest.fixture
def op() -> Iterator[Callable[..., Op]]:
    """Defines an op of two inputs with a batching rule."""

    def made(batch: Callable[[Any], Any]) -> Op:
        return define(
            "test_rows", infer=lambda x, b, *, k: x, nondifferentiable=True, batch=batch,
        )  # fmt: skip

    with restored_kernels():
        table.portable("test_rows")(lambda xp, x, b, *, k: (x + b) * k)
        yield made
        op_records._ops.pop("test_rows", None)


def _mapped(op: Op) -> ef.Tensor:
    f = ef.vmap(lambda x, b: bind(op, x, b, k=2), in_axes=(0, None))
    return f(ef.ones((3, 2)), ef.ones(2))


def test_a_rule_gets_the_application_which_prints_with_its_rows(op: Any) -> None:
    shown: list[str] = []

    def rule(at: Any) -> Any:
        shown.append(repr(at))
        return at.bind(*at.all_whole(), **at.attrs)

    assert _mapped(op(rule)).tolist() == [[4.0, 4.0]] * 3
    assert shown == ["BatchSite(test_rows, f32[3,2]@cpu:0 by row, f32[2]@cpu:0, k=2)"]


def test_a_result_without_the_rows_is_refused(op: Any) -> None:
    with pytest.raises(VmapError, match="test_rows: the batching rule gives a result without"):
        _mapped(op(lambda at: at.inputs[1]))
