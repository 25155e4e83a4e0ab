"""Batching rules that users define."""

from __future__ import annotations

from typing import Any

import eagerflow as ef
from eagerflow.core import op as op_records
from eagerflow.core.op import bind, define
from eagerflow_kernels import table
from tests.kernel_table import restored_kernels


def test_a_rule_gets_the_application_which_prints_with_its_rows() -> None:
    shown: list[str] = []

    def rule(at: Any) -> Any:
        shown.append(repr(at))
        return at.bind(*at.all_whole(), **at.attrs)

    with restored_kernels():
        table.portable("test_rows")(lambda xp, x, b, *, k: (x + b) * k)
        op = define(
            "test_rows", infer=lambda x, b, *, k: x, nondifferentiable=True, batch=rule
        )  # fmt: skip
        try:
            f = ef.vmap(lambda x, b: bind(op, x, b, k=2), in_axes=(0, None))
            assert f(ef.ones((3, 2)), ef.ones(2)).tolist() == [[4.0, 4.0]] * 3
        finally:
            del op_records._ops["test_rows"]
    assert shown == ["BatchSite(test_rows, f32[3,2]@cpu:0 by row, f32[2]@cpu:0, k=2)"]
