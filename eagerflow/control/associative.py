"""`associative_scan`: prefix results of an associative function in logarithmically many steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from eagerflow.core import tree
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.dims import same
from eagerflow.errors import ShapeError, TraceError, hides_frames
from eagerflow.ops.rules.arguments import axis_of
from eagerflow.ops.shape.flip_roll_repeat import flip
from eagerflow.ops.shape.joining import concat, stack
from eagerflow.ops.shape.reshape_and_transpose import moveaxis, reshape

_WHAT: Final = "associative_scan"
_Combine = Callable[[Sequence[Tensor], Sequence[Tensor]], list[Tensor]]


@hides_frames
def associative_scan(
    f: Callable[..., Any], elems: object, *, reverse: bool = False, axis: int = 0
) -> Any:
    """Prefix scan: all partial results of combining elements along an axis, in parallel.

    With n elements ``f`` is called about 2 log2(n) times, each time with many elements at once,
    where `scan` calls it n times with one element: for sums, products, linear recurrences, and
    other associative functions. Floating sums are rounded in another order than in `scan`. In a
    traced function n is static: each n has a trace of its own.

    Args:
        f: an associative function ``f(a, b)`` that combines two trees like ``elems``, element by
            element along the axis, for any number of elements, such as ``lambda a, b: a + b``.
        elems: a tree of tensors of one size along ``axis``.
        reverse: whether to begin at the last element.
        axis: the axis to scan along.

    Returns:
        A tree like ``elems``: element i combines elements 0 to i, or i to the last in reverse.

    Raises:
        AxisError: a tensor has no such axis.
        ShapeError: the sizes along the axis differ, or ``f`` returns another shape.
        TraceError: ``f`` returns another structure.

    Source: Blelloch, Prefix Sums and Their Applications, 1990.

    >>> ef.associative_scan(ef.multiply, ef.tensor([1, 2, 3, 4, 5]))
    Tensor([  1,   2,   6,  24, 120], i64[5]@cpu:0)

    The linear recurrence h[i] = a[i] h[i-1] + b[i]:

    >>> def step(first, second):
    ...     (a1, b1), (a2, b2) = first, second
    ...     return a1 * a2, a2 * b1 + b2
    >>> a, b = ef.tensor([0.5, 0.5, 0.5]), ef.tensor([1.0, 1.0, 1.0])
    >>> ef.associative_scan(step, (a, b))[1]
    Tensor([1.  , 1.5 , 1.75], f32[3]@cpu:0)
    """
    leaves, treedef = tree.flatten(elems)
    if not leaves:
        return elems
    xs, axes = _along_first(leaves, axis)
    if reverse:
        xs = [flip(x, 0) for x in xs]

    def combine(first: Sequence[Tensor], second: Sequence[Tensor]) -> list[Tensor]:
        result = f(tree.unflatten(treedef, first), tree.unflatten(treedef, second))
        return _checked(result, treedef, first)

    ys = _scan(combine, xs, int(xs[0].shape[0]))
    if reverse:
        ys = [flip(y, 0) for y in ys]
    return tree.unflatten(
        treedef, [moveaxis(y, 0, to) if to else y for y, to in zip(ys, axes, strict=True)]
    )


def _along_first(leaves: Sequence[Any], axis: int) -> tuple[list[Tensor], list[int]]:
    """The tensors with the axis in front, checked to be of one size, and its former positions."""
    xs = [tensor_of(x) for x in leaves]
    axes = [axis_of(_WHAT, x, axis) for x in xs]
    xs = [moveaxis(x, along, 0) if along else x for x, along in zip(xs, axes, strict=True)]
    if not all(same(x.shape[0], xs[0].shape[0]) for x in xs):
        raise ShapeError(
            f"{_WHAT}: the sizes along the axis differ", given=", ".join(str(x.type) for x in xs)
        )
    return xs, axes


def _checked(result: Any, treedef: tree.TreeDef, like: Sequence[Tensor]) -> list[Tensor]:
    leaves, given = tree.flatten(result)
    if given != treedef:
        raise TraceError(
            f"{_WHAT}: the function gives another structure than that of its arguments",
            given=tree.show(given),
            expected=tree.show(treedef),
        )
    ys = [tensor_of(y) for y in leaves]
    for x, y in zip(like, ys, strict=True):
        if x.shape != y.shape or x.dtype is not y.dtype:
            raise ShapeError(
                f"{_WHAT}: the function gives another type than that of its arguments",
                given=str(y.type),
                expected=str(x.type),
                hint="it gets many elements at once, along the first axis, and keeps that axis",
            )
    return ys


def _scan(combine: _Combine, xs: Sequence[Tensor], count: int) -> list[Tensor]:
    """Partial results along the first axis: at odd indices from pairs, then at even indices."""
    if count < 2:
        return list(xs)
    pairs = combine([x[0 : count - 1 : 2] for x in xs], [x[1:count:2] for x in xs])
    odd = _scan(combine, pairs, count // 2)
    if count == 2:
        return [concat([x[:1], o]) for x, o in zip(xs, odd, strict=True)]
    between = (count - 1) // 2  # elements of even index from 2 on
    even = combine([o[:between] for o in odd], [x[2:count:2] for x in xs])
    return [_merged(x[:1], e, o, count) for x, e, o in zip(xs, even, odd, strict=True)]


def _merged(first: Tensor, even: Tensor, odd: Tensor, count: int) -> Tensor:
    """``first`` and then the elements of ``odd`` and ``even`` in alternation, ``count`` in all."""
    rest = concat([first, even])
    half = count // 2
    pairs = stack([rest[:half], odd], axis=1)
    whole = reshape(pairs, (2 * half, *first.shape[1:]))
    return concat([whole, rest[half:]]) if count % 2 else whole
