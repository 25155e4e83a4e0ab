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
    with pytest.raises(VmapError, match="without the rows as first axis\n") as caught:
        _mapped(op(lambda at: at.inputs[1]))
    assert "  got: f32[2], of BatchSite(test_rows, " in str(caught.value)
    assert "  expected: f32[3,2], with 3 rows in front\n" in str(caught.value)


def test_a_row_in_place_of_all_is_refused_where_their_number_is_its_size(op: Any) -> None:
    """The first axis has the right size by chance."""
    f = op(lambda at: at.inputs[0][0])
    with pytest.raises(VmapError, match="without the rows as first axis"):
        ef.vmap(lambda x, b: bind(f, x, b, k=2), in_axes=(0, None))(ef.ones((2, 2)), ef.ones(2))


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        (lambda at: lambda x, b: x, "function"),
        (lambda at: None, "NoneType"),
        (lambda at: (at.inputs[0], 0), "f32[3,2], int"),
        (lambda at: (at.inputs[0],), "f32[3,2]"),
        (lambda at: [at.inputs[0]], "list"),
    ],
)
def test_what_is_no_result_is_refused(op: Any, rule: Any, given: str) -> None:
    """A function, nothing, and PyTorch's pair of a result and its axis."""
    with pytest.raises(VmapError, match="test_rows: the batching rule gives something else") as e:
        _mapped(op(rule))
    assert f"  got: {given}, of BatchSite(" in str(e.value)
    assert "at.batched[i] is True where at.inputs[i] has the axis of rows" in str(e.value)


def test_another_dtype_is_refused(op: Any) -> None:
    with pytest.raises(VmapError, match="of other shapes or dtypes"):
        _mapped(op(lambda at: at.inputs[0].astype(ef.float64)))
