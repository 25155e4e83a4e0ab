"""Completeness of every op: rule, kernel, gradient statement, case, documented public function."""

from __future__ import annotations

import doctest
import inspect

import pytest

from eagerflow.core.op import all_ops, functions
from eagerflow_kernels import table as kernels
from tests.each import check_each, in_groups, names_of
from tests.ops.bound import ELSEWHERE, OPS, cases_by_op
from tests.ops.cases import ALL_CASES

#: names that Tensor's methods and operators call, but that are not public by themselves
INTERNAL = {"getitem", "setitem"}


@pytest.mark.parametrize("names", in_groups(OPS), ids=names_of)
def test_ops_are_complete(names: list[str]) -> None:
    check_each(names, _is_complete)


def _is_complete(name: str) -> None:
    op = all_ops()[name]
    assert op.infer is not None, "core/tensor.py only declares it"
    assert op.moves or kernels.portable_kernel(name) is not None
    assert (op.vjp is not None) != op.nondifferentiable
    assert callable(op.cost)
    assert op.outputs is None or op.outputs >= 1
    if op.elementwise:
        assert op.outputs == 1
    if op.neutral is not None or op.involution or op.idempotent or op.commutative:
        assert op.elementwise
    if op.inline is not None or op.on_stack is not None:
        assert op.moves or kernels.original_kernel(name) is not None


def test_every_op_has_a_case() -> None:
    assert sorted(set(OPS) - set(cases_by_op()) - set(ELSEWHERE)) == []
    assert not set(cases_by_op()) & set(ELSEWHERE)


def test_cases_exercise_the_ops_they_name() -> None:
    declared = {op for case in ALL_CASES for op in case.covers() if op in all_ops()}
    assert sorted(declared - set(cases_by_op())) == []


def test_every_kernel_belongs_to_an_op() -> None:
    assert not kernels.names() - set(OPS)


def _has_an_example(name: str) -> None:
    assert doctest.DocTestParser().get_examples(inspect.getdoc(functions[name]) or "")


def test_public_functions_have_examples() -> None:
    check_each(
        [name for name in functions if not name.startswith("_") and name not in INTERNAL],
        _has_an_example,
    )
