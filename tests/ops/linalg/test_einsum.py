"""Einsum beyond the table: its contraction order, and subscripts that it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import DTypeError, EagerflowError, ShapeError, TensorValueError
from eagerflow.ops.linalg import einsum as module
from eagerflow_kernels.portable.einsum import einsum as portable_einsum
from eagerflow_kernels.portable.einsum import make_plan
from tests.messages import says
from tests.ops.cases.einsum import ROWS
from tests.ops.symbolic import Traced
from tests.ops.table import rules_checked


def _plan(subscripts: str, *shapes: tuple[int, ...], optimize: bool | str = "auto") -> list[str]:
    return [what for what, _, _ in make_plan(subscripts, shapes, optimize)]


@pytest.mark.parametrize(
    ("subscripts", "shapes", "plan"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4)), ["matmul"]),
        ("ij,kj->ik", ((2, 3), (4, 3)), ["transpose", "matmul"]),
        ("ij,jk->ki", ((2, 3), (3, 4)), ["transpose", "transpose", "matmul"]),
        ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4)), ["matmul"]),
        ("i,j->ij", ((2,), (3,)), ["reshape", "reshape", "multiply"]),
        ("ij,ij->ij", ((2, 3), (2, 3)), ["multiply"]),
        ("ij->", ((2, 3),), ["sum"]),
        ("ii->i", ((3, 3),), ["diagonal"]),
    ],
)
def test_plans_are_short(subscripts: str, shapes: Any, plan: list[str]) -> None:
    assert _plan(subscripts, *shapes) == plan


def test_order_of_contraction_is_chosen() -> None:
    def cost(optimize: bool | str) -> int:
        program = make_plan("ij,jk,kl->il", ((100, 100), (100, 100), (100, 1)), optimize)
        return next(i for i, (_, sources, _) in enumerate(program) if sources == (1, 2))

    assert cost("auto") == 0  # the two small ones first
    with pytest.raises(StopIteration):
        cost(False)


def test_it_is_one_op_and_so_is_each_gradient_of_a_product() -> None:
    q = ef.ones((2, 3, 4, 5))
    with rules_checked() as seen:
        result, pull = ef.vjp(lambda x: ef.einsum("bqhd,bkhd->bhqk", x, q), q)
        pull(ef.ones_like(result))
    assert seen == {"einsum", "full"}


def test_low_precision_is_rounded_once() -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, (50, 50)).astype(np.float32) for _ in range(3)]
    halves = [ef.asarray(a).astype(ef.float16) for a in arrays]
    want = ef.einsum("ij,jk,kl->il", *[x.astype(ef.float32) for x in halves])
    got = ef.einsum("ij,jk,kl->il", *halves)
    assert (got == want.astype(ef.float16)).all()


def test_a_graph_shows_the_subscripts_with_a_letter_for_each_axis() -> None:
    a = ef.ones((2, 3, 4))
    traced = Traced(lambda x: ef.einsum("...i,ji", x, ef.ones((5, 4))), [a])
    node = traced.tracer.graph.nodes[-1]
    assert node.op == "einsum"
    assert node.attrs == {"subscripts": "abi,ji->abj"}


def test_result_is_a_value_of_its_own() -> None:
    x = ef.tensor([1.0, 2.0])
    y = ef.einsum("i->i", x)
    y += 1
    assert x.tolist() == [1, 2]


def test_operands_promote() -> None:
    got = ef.einsum("i,i->", ef.tensor([1, 2]), np.asarray([0.5, 0.5]))
    assert got.dtype is ef.float64
    assert ef.einsum("ij->i", ef.ones((2, 3), dtype=ef.int8)).dtype is ef.int8
    assert ef.einsum("ij->i", ef.ones((2, 3), dtype=ef.bool)).tolist() == [True, True]


_A, _B = ef.ones((2, 3)), ef.ones((3, 4))
REFUSALS: list[tuple[tuple[Any, ...], type[EagerflowError], str]] = [
    (("ij,jk", _A, _A), ShapeError, r"the axis 'j' has sizes 3 and 2\n.*'ij,jk->ik'"),
    (("ii", _A), ShapeError, "the axis 'i' has sizes 2 and 3"),
    (("ii", ef.ones((1, 3))), ShapeError, "the axis 'i' has sizes 1 and 3"),
    (("ij->ik", _A), TensorValueError, "no operand has the axis 'k' of the output"),
    (("ij->ii", _A), TensorValueError, "the output has the axis 'i' twice"),
    (("ij", _A, _B), TensorValueError, "1 terms for 2 operands"),
    (("i", _A), TensorValueError, "operand 0 has 2 axes, its term 'i' names 1"),
    (("ijk...", _A), TensorValueError, "operand 0 has 2 axes, its term 'ijk...' names 3"),
    (("i%", _A), TensorValueError, "'%' is not a subscript"),
    (("i...j...", _A), TensorValueError, "'.' is not a subscript"),
    (("...j->j", _A), TensorValueError, "the output has no '...'"),
    (("ij",), TensorValueError, "there is no operand"),
    ((), TensorValueError, "there is no operand"),
    ((_A, [0, 99]), DTypeError, "99 is not a subscript"),
    ((_A, ["i", "j"]), DTypeError, "'i' is not a subscript"),
]


@pytest.mark.parametrize(("args", "error", "text"), REFUSALS)
def test_refusals(args: tuple[Any, ...], error: type[EagerflowError], text: str) -> None:
    with pytest.raises(error, match=text):
        ef.einsum(*args)


def test_unknown_ways_to_find_an_order_are_refused() -> None:
    with pytest.raises(TensorValueError, match="'worst' is not a way"):
        ef.einsum("i,i,i->", [1.0], [1.0], [1.0], optimize="worst")
    with pytest.raises(DTypeError, check=says("optimize=3")):
        ef.einsum("i->", [1.0], optimize=3)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_portable_kernel_computes_the_same(row: tuple[Any, ...]) -> None:
    subscripts, _, *shapes = row
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-1, 1, shape) for shape in shapes]
    canonical = module._canonical(subscripts, tuple(len(shape) for shape in shapes))
    for dtype in ("float64", "int8", "bool"):
        typed = [(3 * a).astype(dtype) for a in arrays]
        got = portable_einsum(np, *typed, subscripts=canonical)
        want = ef.einsum(subscripts, *typed).numpy()
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=1e-12, atol=1e-12)
