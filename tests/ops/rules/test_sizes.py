"""Checks of sizes: at once where the sizes are known, else at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.infer import infer
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import type_of
from eagerflow.dims import Dim
from eagerflow.errors import ShapeError
from eagerflow.ops.rules.sizes import at_least, matched, surely_at_most, surely_less
from eagerflow.types import TensorType
from tests.messages import says
from tests.numeric import numeric_vjp_check
from tests.ops.symbolic import Traced
from tests.ops.table import rules_checked

_n, _m = Dim("n"), Dim("m")


@pytest.mark.parametrize(
    ("a", "b", "less", "at_most"),
    [
        (2, 3, True, True),
        (3, 3, False, True),
        (4, 3, False, False),
        (_n, _n + 1, True, True),
        (_n, _n, False, True),
        (_n, _m, False, False),
        (0, _n, False, True),
        (-1, _n, True, True),
        (_n, 3, False, False),
    ],
)
def test_what_is_sure(a: Any, b: Any, less: bool, at_most: bool) -> None:
    assert surely_less(a, b) is less
    assert surely_at_most(a, b) is at_most


def _bound(sizes: tuple[int, ...], expected: tuple[int, ...], least: bool) -> ef.Tensor:
    x = ef.tensor([1.0, 2.0])
    return bind(
        get_op("check_sizes"),
        x,
        sizes=sizes,
        expected=expected,
        least=least,
        refusal="f: the sizes are wrong",
    )


@pytest.mark.parametrize(
    ("sizes", "expected", "least", "good"),
    [
        ((2, 3), (2, 3), False, True),
        ((2, 3), (2, 4), False, False),
        ((4,), (3,), False, False),
        ((4,), (3,), True, True),
        ((3,), (3,), True, True),
        ((2,), (3,), True, False),
    ],
)
def test_kernel_and_rule_agree(
    sizes: tuple[int, ...], expected: tuple[int, ...], least: bool, good: bool
) -> None:
    if good:
        with rules_checked():
            assert _bound(sizes, expected, least).tolist() == [1, 2]
        return
    with pytest.raises(ShapeError, match="check_sizes: f: the sizes are wrong"):
        _bound(sizes, expected, least)


def test_the_rule_refuses_what_is_surely_wrong() -> None:
    x: TensorType = type_of(ef.ones(2))
    attrs = {"least": False, "refusal": "no"}
    with pytest.raises(ShapeError):
        infer(get_op("check_sizes"), (x,), {"sizes": (_n,), "expected": (_n + 1,), **attrs})
    assert infer(get_op("check_sizes"), (x,), {"sizes": (_n,), "expected": (_m,), **attrs}) is x


def test_its_gradient_is_that_of_the_identity() -> None:
    def f(x: ef.Tensor) -> ef.Tensor:
        attrs = {"sizes": (1,), "expected": (1,), "least": False, "refusal": ""}
        return ef.exp(bind(get_op("check_sizes"), x, **attrs))

    rng = np.random.default_rng(0)
    numeric_vjp_check(f, [rng.uniform(-1, 1, 3)], (0,), rng, order=2)


def test_eager_mode_decides_at_once() -> None:
    x = ef.ones(2)
    with rules_checked() as seen:
        assert matched(x, (2,), (2,), "f", "") is x
        assert at_least(x, 2, 1, "f", "") is x
    assert not seen
    with pytest.raises(ShapeError, match="f: no\n  got: these"):
        matched(x, (2,), (3,), "f: no", "these")
    with pytest.raises(ShapeError, match="f: no\n  got: this"):
        at_least(x, 0, 1, "f: no", "this")


def test_a_trace_checks_when_it_runs() -> None:
    def f(x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
        x = matched(x, x.shape, y.shape, "f: they differ", "")
        return at_least(x, x.shape[0], 2, "f: too few", "")

    traced = Traced(f, [ef.ones(3), ef.ones(3)])
    assert not traced.specialised
    assert traced(ef.ones(2), ef.ones(2)).tolist() == [1, 1]
    with pytest.raises(ShapeError, match=r"f: they differ(.|\n)*sizes=\(2,\), expected=\(3,\)"):
        traced(ef.ones(2), ef.ones(3))
    with pytest.raises(ShapeError, check=says("f: too few")):
        traced(ef.ones(1), ef.ones(1))
