"""Questions about sizes of which some may be symbolic, and checks that wait for run time.

Nothing here asks a resolver: a trace never gets tied to a size by it.
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
    """Whether ``a <= b`` whatever the names stand for."""
    if type(a) is int and type(b) is int:
        return a <= b
    return dims.same(dims.minimum(a, b), a)


def surely_less(a: Size, b: Size) -> bool:
    """Whether ``a < b`` whatever the names stand for."""
    return surely_at_most(a + 1, b)


def _refuted(sizes: Sequence[Size], expected: Sequence[Size], least: bool) -> bool:
    """Whether some size is wrong whatever the names stand for."""
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
    """``x``, if sizes are equal in pairs; those of a trace are compared when it runs.

    Args:
        x: what the result is made of, so that the check happens before.
        sizes: as many as ``expected``.
        expected: what they are to be.
        refusal: the error's first line.
        given: its second one, or what makes it.

    Raises:
        ShapeError: some differ.

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
    """``x``, if a size is not smaller than ``least``; in a trace that is seen when it runs.

    Args:
        x: what the result is made of, so that the check happens before.
        size: the size.
        least: the smallest that will do.
        refusal: the error's first line.
        given: its second one, or what makes it.

    Raises:
        ShapeError: it is smaller.
    """
    if surely_at_most(least, size):
        return x
    return _checked(x, refusal, given, sizes=(size,), expected=(least,), least=True)


def _checked(x: Tensor, refusal: str, given: Given, **claim: Any) -> Tensor:
    if _refuted(**claim):
        raise ShapeError(refusal, given=given if isinstance(given, str) else given())
    return bind(_check_sizes, x, **claim, refusal=refusal)
