"""No op is incomplete: rule, kernel, gradient statement, case, documented public function."""

from __future__ import annotations

import doctest
import inspect

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.op import all_ops, functions
from eagerflow_kernels import table as kernels
from tests.ops.case import np_dtype
from tests.ops.cases import ALL_CASES
from tests.ops.table import COLUMNS, arguments, function_of, map_arrays, rules_checked

ef.stop_gradient(0)  # its op is that of a package which is loaded when it is asked for
OPS = sorted(all_ops())


def _of_queues() -> list[str]:
    """Ops of queues and their kin, which wait for each other."""
    kin = ("accumulator_", "barrier_", "mutex_", "queue_")
    return [name for name in OPS if name.startswith(kin)]


#: ops that no case can run, as eager mode never binds them, or gradients alone, or that give
#: nothing; with the tests that they have instead
ELSEWHERE = {
    "print": "tests/ops/state/test_callbacks.py",
    "check_parameters": "tests/ops/random/test_symbolic_draws.py",
    "matmul_like": "tests/ops/linalg/test_matmul_like.py",
    "softmax_cross_entropy_with_gradient": "tests/graph/passes/test_share.py",
    "check_sizes": "tests/ops/rules/test_sizes.py",
    "set_key": "tests/capture/test_random_state.py",
    **dict.fromkeys(_of_queues(), "tests/resources/queues"),
    "write_file": "tests/ops/io/test_files.py",
    **dict.fromkeys(["reader_read", "reader_read_up_to", "reader_reset"], "tests/ops/io"),
    **dict.fromkeys(["reader_count", "reader_skipped"], "tests/resources/queues/test_graphs.py"),
    "snapshot": "tests/resources/queues/test_snapshots.py",
    **{
        f"list_{name}": "tests/ops/state/test_lists.py"
        for name in (
            "add",
            "concat",
            "cut",
            "erase",
            "new",
            "pop",
            "push",
            "read",
            "size",
            "split",
            "stack",
            "unstack",
            "write",
        )
    },
}
#: names that Tensor's methods and operators call, but that are not public by themselves
INTERNAL = {"getitem", "setitem"}


@pytest.fixture(scope="module")
def executed() -> set[str]:
    """The ops that the table runs: each case once per kind of dtype, in its first layout."""
    seen: set[str] = set()
    for case in ALL_CASES:
        for dtype in {np_dtype(name).kind: name for name in case.dtypes}.values():
            args = [map_arrays(ef.asarray, a) for a in arguments(case, dtype, case.layouts[0])]
            with rules_checked() as names, np.errstate(all="ignore"):
                COLUMNS["eager"](function_of(case), args, case.kwargs)
            seen |= names
    return seen


@pytest.mark.parametrize("name", OPS)
def test_op_is_filled(name: str) -> None:
    """In particular, none of those that core/tensor.py only declares has stayed empty."""
    assert all_ops()[name].infer is not None


@pytest.mark.parametrize("name", OPS)
def test_op_has_a_kernel(name: str) -> None:
    op = all_ops()[name]
    assert op.moves or kernels.portable_kernel(name) is not None


@pytest.mark.parametrize("name", OPS)
def test_op_states_its_gradient(name: str) -> None:
    op = all_ops()[name]
    assert (op.vjp is not None) != op.nondifferentiable


def test_every_op_has_a_case(executed: set[str]) -> None:
    assert sorted(set(OPS) - executed - set(ELSEWHERE)) == []
    assert not executed & set(ELSEWHERE)


def test_cases_exercise_the_ops_they_name(executed: set[str]) -> None:
    declared = {op for case in ALL_CASES for op in case.covers() if op in all_ops()}
    assert sorted(declared - executed) == []


@pytest.mark.parametrize("name", OPS)
def test_op_states_facts(name: str) -> None:
    op = all_ops()[name]
    assert callable(op.cost)
    assert op.outputs is None or op.outputs >= 1
    assert op.native is None
    if op.elementwise:
        assert op.outputs == 1
    if op.neutral is not None or op.involution or op.idempotent or op.commutative:
        assert op.elementwise
    if op.inline is not None or op.on_stack is not None:
        assert op.moves or kernels.original_kernel(name) is not None


def test_every_kernel_belongs_to_an_op() -> None:
    assert not kernels.names() - set(OPS)


@pytest.mark.parametrize("name", sorted(n for n in functions if not n.startswith("_")))
def test_public_function_has_an_example(name: str) -> None:
    if name in INTERNAL:
        return
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(functions[name]) or "")
    assert examples, f"{name} has no doctest"
