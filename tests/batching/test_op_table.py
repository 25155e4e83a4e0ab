"""`vmap` over the table of op cases equals the loop over the rows."""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.core import op as op_module
from eagerflow.core.op import all_ops, bind, define
from eagerflow.core.op_records.batch_rules import SIZES, STATE
from eagerflow.errors import VmapError
from eagerflow_kernels import table
from tests.batching.rows import compared, rows_of
from tests.each import check_each
from tests.ops.bound import OPS
from tests.ops.case import OpCase
from tests.ops.cases import FAMILIES
from tests.ops.table import one_of_each_kind

#: cases without rows: several bytes in one file, bounds that would cross
UNMADE = {"parse_example", "encode_example", "randint"}


def _exact(case: OpCase) -> bool:
    """Whether each element of the result is computed on its own, so that bits are equal."""
    ops = all_ops()
    return all(name in ops and ops[name].elementwise for name in case.covers())


def _check(case: OpCase) -> None:
    for dtype in one_of_each_kind(case):
        arrays, _ = rows_of(case, dtype)
        count = len(arrays[0])
        ways = [lambda i: True, *(lambda i, one=one: i == one for one in range(count))]
        for batched in ways if 1 < count < 4 else ways[:1] if count else []:
            try:
                compared(case, dtype, batched, exact=_exact(case))
            except VmapError as error:
                if not _refused(str(error)):
                    raise


def _refused(text: str) -> bool:
    return SIZES in text or STATE in text or "a random draw under ef.vmap" in text


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_the_loop(family: str) -> None:
    cases = [c for c in FAMILIES[family] if c.name.rpartition(".")[2] not in UNMADE]
    check_each(cases, _check)


def test_the_check_tells_a_wrong_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = [c for c in FAMILIES["elementwise"] if c.id == "add"]
    monkeypatch.setattr(all_ops()["add"], "batch", lambda at: at.bind(*at.all_whole()) * 2)
    with pytest.raises(AssertionError):
        _check(case)


def _has_a_rule(name: str) -> None:
    op = all_ops()[name]
    assert op.batch is not None or op.elementwise or op.effect == "reads" or not op.arguments


def test_each_op_has_a_rule_or_says_why_not() -> None:
    check_each(OPS, _has_a_rule)


def test_an_op_without_a_rule_is_applied_to_one_row_after_the_other() -> None:
    @table.portable("doubled_for_vmap")
    def doubled(xp, x):
        return x + x

    op = define("doubled_for_vmap", infer=lambda x: x, nondifferentiable=True)
    x = ef.tensor([[1.0, 2.0], [3.0, 4.0]])
    try:
        assert ef.vmap(lambda x: bind(op, x))(x).tolist() == (x + x).tolist()
    finally:
        table.remove("doubled_for_vmap")
        del op_module._ops["doubled_for_vmap"]
