"""Comparison of sizes that may be symbolic, and checks of sizes at run time.

No function here asks a resolver, so a trace is never specialised to a size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerflow import dims
from eagerflow.core.op import bind, define
from eagerflow.core.op_records.batch_rules import aligned
from eagerflow.core.op_records.op_facts import MOVING, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size
from eagerflow.errors import ShapeError
from eagerflow.types import TensorType

Given = str | Callable[[], str]


def surely_at_most(a: Size, b: Size) -> bool:
    """Whether ``a <= b`` for all values of the symbolic sizes."""
    if type(a) is int and type(b) is int:
        return a <= b
    return dims.same(dims.minimum(a, b), a)


def surely_less(a: Size, b: Size) -> bool:
    """Whether ``a < b`` for all values of the symbolic sizes."""
    return surely_at_most(a + 1, b)


def _refuted(sizes: Sequence[Size], expected: Sequence[Size], least: bool) -> bool:
    """Whether some size is wrong for all values of the symbolic sizes."""
    if least:
        return any(map(surely_less, sizes, expected))
    return not all(map(dims.may_equal, sizes, expected))


@of_family(MOVING)
def _checked_type(
    x: TensorType, *, sizes: tuple[Size, ...], expected: tuple[Size, ...], least: bool, refusal: str
) -> TensorType:
    if _refuted(sizes, expected, least):
        raise ShapeError(refusal)
    return x


_check_sizes = define(
    "check_sizes", infer=_checked_type, vjp=(lambda g, out, x, **attrs: g,), batch=aligned
)


def matched(
    x: Tensor, sizes: Sequence[Size], expected: Sequence[Size], refusal: str, given: Given
) -> Tensor:
    """``x``, checked that sizes are equal in pairs; symbolic sizes are compared at run time.

    Args:
        x: a tensor that the result depends on, so that the check comes first.
        sizes: the sizes, as many as ``expected``.
        expected: the sizes that they must equal.
        refusal: the error's first line.
        given: the error's second line, or a function that makes it.

    Raises:
        ShapeError: a pair of sizes differs.

    >>> from eagerflow.extending import matched
    >>> def errors_of(x, target):
    ...     given = f"x={x.type}, target={target.type}"
    ...     return matched(x, x.shape, target.shape, "these are no pairs", given) - target
    >>> errors_of(ef.ones(3), ef.ones(1))
    Traceback (most recent call last):
    eagerflow.errors.ShapeError: these are no pairs
      got: x=f32[3]@cpu:0, target=f32[1]@cpu:0
      at: ...
    """
    if all(map(dims.same, sizes, expected)):
        return x
    sizes, expected = tuple(sizes), tuple(expected)
    return _checked(x, refusal, given, sizes=sizes, expected=expected, least=False)


def at_least(x: Tensor, size: Size, least: int, refusal: str, given: Given) -> Tensor:
    """``x``, checked that a size is at least ``least``; symbolic sizes are compared at run time.

    Args:
        x: a tensor that the result depends on, so that the check comes first.
        size: the size.
        least: the smallest size allowed.
        refusal: the error's first line.
        given: the error's second line, or a function that makes it.

    Raises:
        ShapeError: the size is smaller.
    """
    if surely_at_most(least, size):
        return x
    return _checked(x, refusal, given, sizes=(size,), expected=(least,), least=True)


def _checked(x: Tensor, refusal: str, given: Given, **claim: Any) -> Tensor:
    if _refuted(**claim):
        raise ShapeError(refusal, given=given if isinstance(given, str) else given())
    return bind(_check_sizes, x, **claim, refusal=refusal)
