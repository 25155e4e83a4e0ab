"""`pad`: padding of arrays with a constant, or with their own elements."""

from __future__ import annotations

from typing import Any, Final

from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.op import Op, bind, define, functions
from eagerflow.core.op_records.batch_rules import BatchSite, shifted
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.core.to_tensor import TensorLike, scalar, tensor_of
from eagerflow.dims import Dim, same
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.hardware import home_of
from eagerflow.ops.rules.arguments import as_index, check_choice
from eagerflow.ops.rules.extents import with_size
from eagerflow.types import TensorType

__all__ = ["pad"]

Widths = tuple[tuple[int, int], ...]

_MODES: Final = ("constant", "edge", "reflect", "symmetric", "wrap")

# --- ops ------------------------------------------------------------------------------------


def _check_widths(*widths: int) -> None:
    if any(type(n) is int and n < 0 for n in widths):
        raise ShapeError("a width cannot be negative")


def _pad_type(x: TensorType, *, widths: Widths, value: complex) -> TensorType:
    _check_widths(*(n for pair in widths for n in pair))
    return x.like(
        shape=tuple(d + before + after for d, (before, after) in zip(x.shape, widths, strict=True))
    )


def _pad_vjp(g: Tensor, out: Tensor, x: Tensor, *, widths: Widths, value: complex) -> Tensor:
    inside = tuple(
        slice(before, before + d) for d, (before, _) in zip(x.shape, widths, strict=True)
    )
    return functions["getitem"](g, inside)


def _batched_pad(at: BatchSite) -> Tensor:
    result: Tensor = at.bind(*at.inputs, **{**at.attrs, "widths": ((0, 0), *at.attrs["widths"])})
    return result


_pad = define(
    "pad",
    infer=_pad_type,
    vjp=(_pad_vjp,),
    saved="none",
    precision="exact",
    storage="fresh",
    fails_on="sizes",
    batch=_batched_pad,
)


def _own_type(
    x: TensorType, *, axis: int, before: int, after: int, mode: str, back: bool
) -> TensorType:
    _check_widths(before, after)
    size = x.shape[axis]
    if back:
        return x.like(shape=with_size(x.shape, axis, size - before - after))
    if same(size, 0):
        raise ShapeError(
            f"axis {axis} is empty, mode {mode!r} has nothing to add",
            hint="use mode='constant'",
        )
    return x.like(shape=with_size(x.shape, axis, size + before + after))


def _own_vjp(g: Tensor, out: Tensor, x: Tensor, *, back: bool, **attrs: Any) -> Tensor:
    return bind(_pad_with_own, g, back=not back, **attrs)


#: pads an axis with elements of the array; ``back`` for the transpose, which sums them again
_pad_with_own: Final[Op] = define(
    "pad_with_own",
    infer=_own_type,
    vjp=(_own_vjp,),
    saved="none",
    precision="accumulate",
    batch=shifted("axis"),
)

# --- public ---------------------------------------------------------------------------------


def pad(
    x: TensorLike,
    pad_width: TensorLike,
    /,
    mode: str = "constant",
    *,
    constant_values: complex = 0,
) -> Tensor:
    """``x`` padded at the ends of its axes.

    Args:
        x: any dtype.
        pad_width: widths before and after each axis: an int, a pair for all axes, or a pair per
            axis.
        mode: the values added. ``"constant"``: one value. ``"edge"``: the outermost element.
            ``"reflect"``: the array mirrored at its outermost element, which is not repeated.
            ``"symmetric"``: mirrored at its edge. ``"wrap"``: the array continued periodically.
        constant_values: the value of mode ``"constant"``.

    Raises:
        TensorValueError: the mode is unknown.
        ShapeError: a width is negative, or the mode cannot extend an empty axis.

    >>> ef.pad(ef.tensor([1, 2, 3]), (2, 1), mode="reflect")
    Tensor([3, 2, 1, 2, 3, 2], i64[6]@cpu:0)
    >>> ef.pad(ef.tensor([[5]]), 1)
    Tensor([[0, 0, 0],
            [0, 5, 0],
            [0, 0, 0]], i64[3,3]@cpu:0)
    """
    tensor = tensor_of(x)
    widths = _widths(tensor, pad_width)
    check_choice("pad", mode, _MODES, "a mode")
    if mode == "constant":
        return _with_number(tensor, widths, constant_values)
    for axis, (before, after) in enumerate(widths):
        if same(before, 0) and same(after, 0):
            continue
        if same(tensor.shape[axis], 0):
            raise ShapeError(
                f"pad: axis {axis} is empty, mode {mode!r} has nothing to add",
                given=str(type_of(tensor)),
                hint="use mode='constant'",
            )
        tensor = bind(
            _pad_with_own, tensor, axis=axis, before=before, after=after, mode=mode, back=False
        )
    return tensor


def _with_number(x: Tensor, widths: Widths, value: Any) -> Tensor:
    if isinstance(value, complex) and not x.dtype.is_complex:
        raise DTypeError(f"pad: {value} is complex", given=str(type_of(x)))
    if type(value) is not Dim and not issubclass(type(value), AbstractNumber):
        return bind(_pad, x, widths=widths, value=value)
    # a number known only at run time cannot be an attribute
    around = bind(_pad, functions["full_like"](x, False, dtype=bool), widths=widths, value=True)
    inside = bind(_pad, x, widths=widths, value=0)
    return functions["where"](around, scalar(value, home_of(x.device).lanes[x.dtype]), inside)


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
    if any(type(n) is int and n < 0 for pair in pairs for n in pair):
        raise ShapeError("pad: a width cannot be negative", given=given)
    return tuple((before, after) for before, after in pairs)
