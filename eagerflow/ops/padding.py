"""`pad`: values added around an array.

A constant is an op; every other mode is made of the array's own slices, so that its gradient is
that of slicing and joining.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eagerflow.core.convert import TensorLike, tensor_of
from eagerflow.core.op import bind, define, functions
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.ops.arguments import as_index
from eagerflow.ops.joining import concat
from eagerflow.ops.movement import flip, tile
from eagerflow.ops.rules import public
from eagerflow.ops.shape import broadcast_to
from eagerflow.types import TensorType

__all__ = ["pad"]

Widths = tuple[tuple[int, int], ...]


def _pad_type(x: TensorType, *, widths: Widths, value: complex) -> TensorType:
    return x.like(
        shape=tuple(d + before + after for d, (before, after) in zip(x.shape, widths, strict=True))
    )


def _pad_vjp(g: Tensor, out: Tensor, x: Tensor, *, widths: Widths, value: complex) -> Tensor:
    inside = tuple(
        slice(before, before + d) for d, (before, _) in zip(x.shape, widths, strict=True)
    )
    result: Tensor = functions["getitem"](g, inside)
    return result


_pad = define("pad", infer=_pad_type, vjp=(_pad_vjp,), saved="none", precision="exact")


@public
def pad(
    x: TensorLike,
    pad_width: Any,
    /,
    mode: str = "constant",
    *,
    constant_values: complex = 0,
) -> Tensor:
    """``x`` with values added around it.

    Args:
        x: any dtype.
        pad_width: how many before and after each axis: an int, a pair for all axes, or a pair
            per axis.
        mode: what is added. ``"constant"``: one value. ``"edge"``: the outermost element.
            ``"reflect"``: the array mirrored at its outermost element, which is not repeated.
            ``"symmetric"``: mirrored at its edge. ``"wrap"``: the array continued periodically.
        constant_values: the value of mode ``"constant"``.

    Raises:
        TensorValueError: an unknown mode.
        ShapeError: negative widths, or an empty axis that a mode cannot extend.

    >>> ef.pad(ef.tensor([1, 2, 3]), (2, 1), mode="reflect")
    Tensor([3, 2, 1, 2, 3, 2], i64[6]@cpu:0)
    >>> ef.pad(ef.tensor([[5]]), 1)
    Tensor([[0, 0, 0],
            [0, 5, 0],
            [0, 0, 0]], i64[3,3]@cpu:0)
    """
    tensor = tensor_of(x)
    widths = _widths(tensor, pad_width)
    if mode == "constant":
        if isinstance(constant_values, complex) and not tensor.dtype.is_complex:
            raise DTypeError(f"pad: {constant_values} is complex", given=str(type_of(tensor)))
        result: Tensor = bind(_pad, tensor, widths=widths, value=constant_values)
        return result
    extend = _MODES.get(mode)
    if extend is None:
        raise TensorValueError(
            f"pad: {mode!r} is not a mode", expected=", ".join(("constant", *_MODES))
        )
    for axis, (before, after) in enumerate(widths):
        if before or after:
            if tensor.shape[axis] == 0:
                raise ShapeError(
                    f"pad: axis {axis} is empty, mode {mode!r} has nothing to add",
                    given=str(type_of(tensor)),
                    hint="use mode='constant'",
                )
            tensor = extend(tensor, axis, before, after)
    return tensor


def _widths(x: Tensor, value: Any) -> Widths:
    given = f"x={type_of(x)}, pad_width={value!r}"
    rows = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(rows, (list, tuple)):
        rows = (rows, rows)
    if rows and not isinstance(rows[0], (list, tuple)):
        rows = [rows]
    if len(rows) == 1:
        rows = list(rows) * x.ndim
    pairs = [
        tuple(as_index("pad", "pad_width", n) for n in (row * 2 if len(row) == 1 else row))
        for row in rows
    ]
    if len(pairs) != x.ndim or any(len(pair) != 2 for pair in pairs):
        raise ShapeError(
            "pad: the widths do not fit", given=given, expected="an int, a pair, or a pair per axis"
        )
    if any(n < 0 for pair in pairs for n in pair):
        raise ShapeError("pad: a width cannot be negative", given=given)
    return tuple((before, after) for before, after in pairs)


# --- modes ----------------------------------------------------------------------------------


def _part(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    result: Tensor = functions["getitem"](x, (*(slice(None),) * axis, slice(start, stop)))
    return result


def _edge(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    size = x.shape[axis]

    def many(place: int, count: int) -> Tensor:
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        return broadcast_to(_part(x, axis, place, place + 1), shape)

    return concat([many(0, before), x, many(size - 1, after)], axis=axis)


def _reflect(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    if x.shape[axis] == 1:
        return _edge(x, axis, before, after)
    return _mirror(x, axis, before, after, 1)


def _symmetric(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    return _mirror(x, axis, before, after, 0)


def _mirror(x: Tensor, axis: int, before: int, after: int, skip: int) -> Tensor:
    """Mirror at both ends, again and again until there is enough; ``skip`` the end itself or not.

    The continuation is symmetric about each multiple of ``unit``, so an end that has to be
    mirrored again must lie on one.
    """
    unit = x.shape[axis] - skip
    while before or after:
        size = x.shape[axis]
        most = (size - skip) // unit * unit
        left, right = min(before, most), min(after, most)
        first = flip(_part(x, axis, skip, skip + left), axis=axis)
        last = flip(_part(x, axis, size - skip - right, size - skip), axis=axis)
        x = concat([first, x, last], axis=axis)
        before, after = before - left, after - right
    return x


def _wrap(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    size = x.shape[axis]
    if before <= size and after <= size:
        return concat([_part(x, axis, size - before, size), x, _part(x, axis, 0, after)], axis=axis)
    start = -before % size
    stop = start + before + size + after
    counts = [1] * x.ndim
    counts[axis] = -(-stop // size)
    return _part(tile(x, tuple(counts)), axis, start, stop)


_MODES: Final[dict[str, Callable[[Tensor, int, int, int], Tensor]]] = {
    "edge": _edge,
    "reflect": _reflect,
    "symmetric": _symmetric,
    "wrap": _wrap,
}
