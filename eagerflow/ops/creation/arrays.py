"""Creation of arrays: from values, from other arrays' memory, and from shape and dtype.

Ops that take no array get the device as an attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Unpack

from eagerflow.core.interpreter import stack
from eagerflow.core.moves_to_scopes import device_wins
from eagerflow.core.op import Op, bind, define, functions
from eagerflow.core.op_records.batch_rules import aligned
from eagerflow.core.op_records.cost_formulas import FREE
from eagerflow.core.op_records.op_facts import MOVING, OpFacts, of_family
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.core.to_tensor import TensorLike, as_tensor, tensor_of
from eagerflow.dims import Dim
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.hardware import Device, as_device, home_of, note_put
from eagerflow.ops.rules.arguments import DeviceLike, as_index, as_shape, matrices_of
from eagerflow.ops.rules.extents import check_not_negative
from eagerflow.ops.rules.promotion import cast
from eagerflow.types import (
    BYTES,
    DType,
    DTypeLike,
    Shape,
    ShapeLike,
    TensorType,
    as_dtype,
    default_dtype,
    number_dtype,
)

__all__ = [
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "tensor",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

_FLOAT = default_dtype("real floating")

# --- from values ----------------------------------------------------------------------------


@of_family({**MOVING, "elementwise": True, "fails_on": "nothing", "linear_rows": True})
def _same_type(x: TensorType) -> TensorType:
    return x


_pass: Final = (lambda g, out, x: g,)
_identity = define(
    "identity", infer=_same_type, vjp=_pass, cost=FREE, storage="same", order="input"
)
_copy = define("copy", infer=_same_type, vjp=_pass, storage="fresh", order="rows")


def copy(x: TensorLike, /) -> Tensor:
    """A copy of ``x`` in memory of its own.

    Args:
        x: any dtype.

    >>> ef.copy(ef.tensor([1.0, 2.0]))
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    return bind(_copy, tensor_of(x))


def tensor(data: TensorLike, dtype: DTypeLike = None, device: DeviceLike = None) -> Tensor:
    """A new tensor of ``data``, always copied.

    Args:
        data: a number, ``bytes``, nested sequences of these or of tensors, a tensor, or an array of
            any library. Sequences that hold tensors are stacked, and gradients flow into these.
        dtype: dtype of the result. By default the dtype of an array; float32 for Python floats,
            int64 for ints, complex64 for complex numbers.
        device: device of the result; by default that of a tensor, else the current device.

    Raises:
        DTypeError: ``data`` holds strings; only byte strings are elements of tensors.
        TensorValueError: the sequences are ragged, or a number does not fit the dtype.

    >>> ef.tensor([[1, 2], [3, 4]])
    Tensor([[1, 2],
            [3, 4]], i64[2,2]@cpu:0)
    >>> ef.tensor([0.5, 1], dtype=ef.float64)
    Tensor([0.5, 1. ], f64[2]@cpu:0)
    >>> ef.tensor([b"cat", b"horse"])
    Tensor([b'cat', b'horse'], bytes[2]@cpu:0)
    """
    if not stack.installed:
        return _convert(data, dtype, device, True)
    return _copied(data, dtype, device)


def asarray(
    obj: TensorLike,
    /,
    dtype: DTypeLike = None,
    *,
    device: DeviceLike = None,
    copy: bool | None = None,
) -> Tensor:
    """``obj`` as a tensor, sharing its memory where that is possible.

    eagerflow never writes into shared memory. A tensor that needs no change is returned itself.

    Args:
        obj: as for `tensor`.
        dtype: dtype of the result; as for `tensor`.
        device: device of the result; as for `tensor`.
        copy: True always copies, False never, None only if needed.

    Raises:
        TensorValueError: ``copy=False`` is given, but a copy is needed.

    >>> x = ef.tensor([1, 2])
    >>> ef.asarray(x) is x
    True
    >>> ef.asarray([1, 2], dtype="float32")
    Tensor([1., 2.], f32[2]@cpu:0)
    """
    if type(obj) is Tensor and dtype is None and device is None and not copy:
        return obj
    return _convert(obj, dtype, device, copy)


def _copied(data: Any, dtype: DTypeLike, device: DeviceLike) -> Tensor:
    """A copy made by an op, so that interpreters see which array the values come from."""
    target, host = as_device(device), as_device("cpu:0")
    where = target if target.backend.array_type is type(data) else host
    lane = where.lanes.get(data.dtype) if type(data) is where.backend.array_type else None
    if lane is None or lane.dtype is BYTES or not data.dtype.isnative:
        return _convert(data, dtype, device, True)
    shared = make_tensor(data, lane)
    wanted = lane.dtype if dtype is None else as_dtype(dtype)
    made = bind(_copy, shared) if wanted is lane.dtype else cast(shared, wanted)
    if where is not target:
        made = functions["to_device"](made, target)
    return made


def _convert(data: TensorLike, dtype: DTypeLike, device: DeviceLike, copy: bool | None) -> Tensor:
    made = as_tensor(
        data,
        None if dtype is None else as_dtype(dtype),
        None if device is None else as_device(device),
        copy=copy,
    )
    note_put(made._lane.device)
    return made


# --- from shape and dtype -------------------------------------------------------------------


def creating(name: str, infer: Callable[..., TensorType], **facts: Unpack[OpFacts]) -> Op:
    """An op that makes an array from its attributes alone."""
    made: OpFacts = {"precision": "exact", "storage": "fresh", "order": "rows", **facts}
    return define(name, infer=infer, nondifferentiable=True, **made)


def _described(*, shape: Shape, dtype: DType, device: Device, **attrs: object) -> TensorType:
    check_not_negative(*shape)
    return TensorType(dtype, shape)


_zeros = creating("zeros", _described, fails_on="nothing", fill=lambda attrs: 0)
_full = creating("full", _described, fill=lambda attrs: attrs.get("fill_value"))


def zeros(shape: ShapeLike, dtype: DTypeLike = None, *, device: DeviceLike = None) -> Tensor:
    """A tensor of zeros; for dtype bytes, of empty byte strings.

    Args:
        shape: an int or a tuple of ints.
        dtype: float32 by default.
        device: device of the result; by default the current device.

    >>> ef.zeros((2, 3))
    Tensor([[0., 0., 0.],
            [0., 0., 0.]], f32[2,3]@cpu:0)
    """
    out_dtype = _FLOAT if dtype is None else as_dtype(dtype)
    return _zeros_of(as_shape("zeros", shape), out_dtype, as_device(device))


def _zeros_of(shape: Shape, dtype: DType, device: Device) -> Tensor:
    if dtype is BYTES:
        return copy(functions["broadcast_to"](as_tensor(b"", None, device), shape))
    return bind(_zeros, shape=shape, dtype=dtype, device=device)


def ones(shape: ShapeLike, dtype: DTypeLike = None, *, device: DeviceLike = None) -> Tensor:
    """A tensor of ones.

    Args:
        shape: an int or a tuple of ints.
        dtype: float32 by default.
        device: device of the result; by default the current device.

    >>> ef.ones(3, dtype=ef.int32)
    Tensor([1, 1, 1], i32[3]@cpu:0)
    """
    return bind(
        _full,
        shape=as_shape("ones", shape),
        fill_value=1,
        dtype=_FLOAT if dtype is None else number_dtype(dtype),
        device=as_device(device),
    )


def empty(shape: ShapeLike, dtype: DTypeLike = None, *, device: DeviceLike = None) -> Tensor:
    """A tensor of unspecified values.

    They are zeros, so that programs are reproducible; on CPU, zeroed pages cost nothing until used.

    Args:
        shape: an int or a tuple of ints.
        dtype: float32 by default.
        device: device of the result; by default the current device.

    >>> ef.empty((2, 0)).shape
    (2, 0)
    """
    return zeros(shape, dtype=dtype, device=device)


def full(
    shape: ShapeLike,
    fill_value: TensorLike,
    dtype: DTypeLike = None,
    *,
    device: DeviceLike = None,
) -> Tensor:
    """A tensor filled with a value.

    Args:
        shape: an int or a tuple of ints.
        fill_value: a number, or an array that broadcasts to ``shape`` (gradients flow into it).
        dtype: by default int64, float32, complex64 or bool, as the number is, or that of the array.
        device: device of the result; by default the current device.

    Raises:
        TensorValueError: a number does not fit the dtype.
        DTypeError: the number is complex, and the dtype is not.

    >>> ef.full((2, 2), 7)
    Tensor([[7, 7],
            [7, 7]], i64[2,2]@cpu:0)
    """
    sizes = as_shape("full", shape)
    if type(fill_value) not in (bool, int, float, complex):
        return _spread(fill_value, sizes, dtype=dtype, device=device)
    weak = as_dtype(type(fill_value))
    out_dtype = weak if dtype is None else number_dtype(dtype)
    if weak.is_integer:
        _convert(fill_value, out_dtype, "cpu:0", None)  # raises for a number that does not fit
    if weak.is_complex and not (out_dtype.is_complex or out_dtype.category == "bool"):
        raise DTypeError(f"full: {fill_value!r} is complex, {out_dtype.name} is not")
    return bind(
        _full,
        shape=sizes,
        fill_value=fill_value,
        dtype=out_dtype,
        device=as_device(device),
    )


@device_wins
def _spread(fill_value: TensorLike, shape: Shape, *, dtype: DTypeLike, device: Any) -> Tensor:
    """`full` of an array, or of a number known only at run time."""
    spread = functions["broadcast_to"](_convert(fill_value, dtype, device, None), shape)
    # as for Python numbers, a traced number gives an array with memory of its own
    return copy(spread) if isinstance(fill_value, (int, float, complex, Dim)) else spread


def zeros_like(x: TensorLike, /, dtype: DTypeLike = None, *, device: DeviceLike = None) -> Tensor:
    """Zeros with the shape, dtype and device of another array.

    Args:
        x: any dtype.
        dtype: dtype of the result; by default that of ``x``.
        device: device of the result; by default that of ``x``.

    >>> ef.zeros_like(ef.tensor([1, 2]))
    Tensor([0, 0], i64[2]@cpu:0)
    """
    like = tensor_of(x)
    out_dtype = like.dtype if dtype is None else as_dtype(dtype)
    where = home_of(like.device) if device is None else as_device(device)
    return _zeros_of(like.shape, out_dtype, where)


def ones_like(x: TensorLike, /, dtype: DTypeLike = None, *, device: DeviceLike = None) -> Tensor:
    """Ones with the shape, dtype and device of another array.

    Args:
        x: any dtype.
        dtype: dtype of the result; by default that of ``x``.
        device: device of the result; by default that of ``x``.

    >>> ef.ones_like(ef.tensor([1.5, 2.5]))
    Tensor([1., 1.], f32[2]@cpu:0)
    """
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: TensorLike, /, dtype: DTypeLike = None, *, device: DeviceLike = None) -> Tensor:
    """A tensor of unspecified values (see `empty`) with the shape, dtype and device of an array.

    Args:
        x: any dtype.
        dtype: dtype of the result; by default that of ``x``.
        device: device of the result; by default that of ``x``.

    >>> ef.empty_like(ef.tensor([1, 2])).dtype
    int64
    """
    return zeros_like(x, dtype=dtype, device=device)


def full_like(
    x: TensorLike, /, fill_value: TensorLike, dtype: DTypeLike = None, *, device: DeviceLike = None
) -> Tensor:
    """A tensor filled with a value, with the shape, dtype and device of another array.

    Args:
        x: any dtype.
        fill_value: a number, or an array that broadcasts to the shape of ``x``.
        dtype: dtype of the result; by default that of ``x``.
        device: device of the result; by default that of ``x``.

    >>> ef.full_like(ef.tensor([1, 2]), 9)
    Tensor([9, 9], i64[2]@cpu:0)
    """
    like = tensor_of(x)
    return full(
        like.shape,
        fill_value,
        dtype=like.dtype if dtype is None else dtype,
        device=home_of(like.device) if device is None else device,
    )


# --- triangles ------------------------------------------------------------------------------


@of_family({"saved": "none", "precision": "exact", "storage": "fresh", "fails_on": "nothing"})
def _triangle_type(x: TensorType, *, k: int) -> TensorType:
    if x.ndim < 2:
        raise ShapeError("needs a matrix or a stack of matrices", expected="at least two axes")
    return x


_tril = define(
    "tril", infer=_triangle_type, vjp=(lambda g, out, x, *, k: tril(g, k=k),), batch=aligned
)


def tril(x: TensorLike, /, k: int = 0) -> Tensor:
    """The lower triangle of matrices: zeros above a diagonal.

    Args:
        x: at least two axes, any dtype.
        k: the last diagonal kept; 0 is the main one, positive above it.

    Raises:
        ShapeError: ``x`` has fewer than two axes.

    >>> ef.tril(ef.ones((2, 2)))
    Tensor([[1., 0.],
            [1., 1.]], f32[2,2]@cpu:0)
    """
    return bind(_tril, matrices_of("tril", x), k=as_index("tril", "k", k))


_triu = define(
    "triu", infer=_triangle_type, vjp=(lambda g, out, x, *, k: triu(g, k=k),), batch=aligned
)


def triu(x: TensorLike, /, k: int = 0) -> Tensor:
    """The upper triangle of matrices: zeros below a diagonal.

    Args:
        x: at least two axes, any dtype.
        k: the first diagonal kept; 0 is the main one, positive above it.

    Raises:
        ShapeError: ``x`` has fewer than two axes.

    >>> ef.triu(ef.ones((2, 2)))
    Tensor([[1., 1.],
            [0., 1.]], f32[2,2]@cpu:0)
    """
    return bind(_triu, matrices_of("triu", x), k=as_index("triu", "k", k))
