"""Reading and assigning by index expressions: ``x[key]``, ``x[key] = value``.

In plain eager mode an expression of plain parts and tensors is passed directly to the array. In
all other cases it is parsed (`eagerflow.ops.rules.subscripts`) and an op is bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from sys import _getframe, getrefcount
from types import NoneType
from typing import Any, Final

from eagerflow.core import interpreter
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.interpreter import stack
from eagerflow.core.op import Op, bind, define, functions
from eagerflow.core.op_records.cost_formulas import picking
from eagerflow.core.op_records.op_facts import InlineSite, RowSum
from eagerflow.core.tensor import PLAIN, AbstractArray, Tensor, make_tensor, type_of
from eagerflow.core.to_tensor import TensorLike, as_tensor, scalar, tensor_of
from eagerflow.dims import may_equal
from eagerflow.errors import DTypeError, EagerflowError, ShapeError, TensorIndexError, strip
from eagerflow.hardware import Device, home_of
from eagerflow.hardware.device_scopes import is_home, runs_at
from eagerflow.ops.indexing.index_batch_rules import (
    batched_getitem,
    batched_scatter,
    batched_update,
)
from eagerflow.ops.indexing.lost_writes import HELD_BY_NONE, check_held
from eagerflow.ops.indexing.writable_memory import may_reuse
from eagerflow.ops.rules.arguments import as_shape
from eagerflow.ops.rules.gradients import sum_to_like, where
from eagerflow.ops.rules.promotion import (
    cast,
    fits_kind,
    is_python_number,
    promoted_dtype,
    weak_fits,
)
from eagerflow.ops.rules.subscripts import ARRAY, Index, Key, index_shape, parse
from eagerflow.ops.rules.type_rules import check_same_dtype, repeats_to
from eagerflow.types import DTYPES, DType, Shape, TensorType, same_shape
from eagerflow_kernels.portable.indexing import expression

__all__ = ["index_add", "index_scatter", "index_update"]

_stack = stack
_NUMBERS: Final = frozenset({bool, int, float, complex})
_OTHER: Final = object()
#: ops of x[key]
_INDEXING: Final = frozenset(
    {"take", "getitem", "index_update", "index_add", "mask_indices", "signed_indices"}
)

# --- ops ------------------------------------------------------------------------------------


def _inline_part(at: InlineSite) -> tuple[str, str] | None:
    """The array's own expression, where it cannot fail and gives an array with axes."""
    (type_, *arrays), key = at.types, at.attrs["key"]
    numbers = sum(type(item) is int for item in key)
    bounds = [n for item in key for n in (item if type(item) is tuple else (item,))]
    if arrays or any(type(n) not in (int, str, NoneType) for n in bounds):
        return None
    if len(type_.shape) <= numbers or (numbers and any(type(n) is not int for n in type_.shape)):
        return None
    return f"{at.operands[0]}[{at.bound(expression(key, ()), 'part')}]", ""


_getitem = define(
    "getitem",
    infer=lambda x, *indices, key: x.like(shape=index_shape(x.shape, key, indices)),
    vjp=lambda i, g, out, x, *indices, key: None if i else scatter(g, indices, key, x.shape),
    jvp=lambda t, out, x, *indices, key: pick(t[0], indices, key),
    saved="indices",
    precision="exact",
    takes_bytes=True,
    cost=picking,
    raises=lambda attrs: (TensorIndexError,) if ARRAY in attrs["key"] else (),
    fails_on=lambda attrs: "values" if ARRAY in attrs["key"] else "sizes",
    batch=batched_getitem,
    parts=True,
    inline=_inline_part,
)


def pick(x: Tensor, indices: Any, key: Key) -> Tensor:
    """The elements of ``x`` selected by ``key``, with its index arrays."""
    return bind(_getitem, x, *indices, key=key)


def _check_value(shape: Shape, value: TensorType, given: str | None = None) -> None:
    if not repeats_to(value.shape, shape):
        raise ShapeError(
            f"a value of shape {value.shape} does not fit where {shape} is selected",
            given=given,
            expected="a shape that broadcasts to the selected one",
        )


def _scatter_type(value: TensorType, *indices: TensorType, key: Key, shape: Shape) -> TensorType:
    _check_value(index_shape(shape, key, indices), value)
    return value.like(shape=shape)


def rows(g: Tensor, indices: Tensor, shape: Shape) -> IndexedSlices:
    """The sparse cotangent of an array of ``shape``, from the cotangent of its rows."""
    # a narrow dtype may not hold the number of rows
    flat = cast(functions["reshape"](indices, (-1,)), DTYPES["int64"])
    if indices.dtype.category == "signed integer":
        flat = flat % shape[0]
    values = functions["reshape"](g, (flat.shape[0], *shape[1:]))
    return IndexedSlices(values, flat, shape)


def _is_rows(value: Shape, indices: Shape, shape: Shape, attrs: Mapping[str, Any]) -> bool:
    """Whether the added values are whole rows."""
    return attrs["key"] == (ARRAY,) and same_shape(value, (*indices, *shape[1:]))


_scatter = define(
    "index_scatter",
    infer=_scatter_type,
    vjp=lambda i, g, out, value, *indices, key, shape: (
        None if i else sum_to_like(pick(g, indices, key), value)
    ),
    jvp=lambda t, out, value, *indices, key, shape: scatter(t[0], indices, key, shape),
    saved="indices",
    precision="accumulate",
    row_sum=RowSum(_is_rows, rows),
    batch=batched_scatter,
)


def scatter(value: Tensor, indices: Any, key: Key, shape: Shape) -> Tensor:
    """Zeros of ``shape`` with ``value`` added at ``key``: the transpose of `pick`."""
    return bind(_scatter, value, *indices, key=key, shape=shape)


def _update_type(
    x: TensorType, value: TensorType, *indices: TensorType, key: Key, **attrs: object
) -> TensorType:
    check_same_dtype(x, value)
    _check_value(index_shape(x.shape, key, indices), value)
    return x


def _update_vjp(
    i: int, g: Tensor, out: Tensor, x: Tensor, value: Tensor, *indices: Tensor,
    key: Key, unique: bool,
) -> Tensor | None:  # fmt: skip
    if i == 0:
        zero = scalar(0, g._lane)
        return bind(_update, g, zero, *indices, key=key, unique=unique)
    if i > 1:
        return None
    picked = pick(g, indices, key)
    if not unique:
        picked = where(_winners(picked, indices, key, x.shape), picked, 0)
    return sum_to_like(picked, value)


def _winners(picked: Tensor, indices: Any, key: Key, shape: Shape) -> Tensor:
    """Whether each value written to the positions of ``picked`` is the last one written there."""
    device = picked.device
    numbers = functions["reshape"](functions["arange"](picked.size, device=device), picked.shape)
    board = functions["zeros"](shape, dtype=numbers.dtype, device=device)
    board = bind(_update, board, numbers, *indices, key=key, unique=False)
    return pick(board, indices, key) == numbers


_update = define(
    "index_update",
    infer=_update_type,
    vjp=_update_vjp,
    saved="indices",
    precision="exact",
    takes_bytes=True,
    batch=batched_update,
)


def _add_vjp(
    i: int, g: Tensor, out: Tensor, x: Tensor, value: Tensor, *indices: Tensor, key: Key
) -> Tensor | None:
    if i == 0:
        return g
    return sum_to_like(pick(g, indices, key), value) if i == 1 else None


_add = define(
    "index_add",
    infer=_update_type,
    vjp=_add_vjp,
    saved="indices",
    precision="accumulate",
    batch=batched_update,
)

# --- reading --------------------------------------------------------------------------------


def getitem(x: TensorLike, key: Any, /) -> Tensor:
    """The elements selected by an index expression, ``x[key]``, by NumPy's rules.

    Args:
        x: any dtype.
        key: an integer, slice, None, ``...``, mask, array (or list) of integers, or a tuple of
            these. Without masks and arrays the result shares memory with ``x``.

    Raises:
        TensorIndexError: an index is out of range, there are too many, or one is no valid index.

    >>> x = ef.tensor([[1, 2, 3], [4, 5, 6]])
    >>> x[:, [2, 0]]
    Tensor([[3, 1],
            [6, 4]], i64[2,2]@cpu:0)
    >>> x[x > 2]
    Tensor([3, 4, 5, 6], i64[4]@cpu:0)
    """
    if type(x) is Tensor and (
        not _stack.engaged or (not _stack.installed and is_home(x._lane.device))
    ):
        try:
            data = _read(x, key)
        except Exception:
            return _general(x, key)
        if data is not _OTHER:
            lane = x._lane
            if type(data) is not lane.array_type:  # a NumPy scalar
                data = lane.device.xp.asarray(data, lane.dtype.dtype)
            return make_tensor(data, lane)
    return _general(tensor_of(x), key)


def _read(x: Tensor, key: Any) -> Any:
    """The array selected by ``key``, or `_OTHER` if the expression must be parsed."""
    device = x._lane.device
    data = x._data
    straight = device.is_ready_at_once  # see `_plain`
    if type(key) is Tensor and straight and key._lane.device is device and key._data.shape:
        selection = key._data
        if key._lane.dtype.is_integer and key._lane.dtype.name != "uint64":
            return data.take(selection, 0)  # several times as fast as indexing, masks likewise
        if key._lane.dtype.category == "bool" and selection.shape == data.shape:
            return data.reshape(-1).take(selection.reshape(-1).nonzero()[0])
    plain = _plain(key, device)
    return plain if plain is _OTHER else data[plain]


def _plain(key: Any, device: Device) -> Any:
    """The expression in the form for arrays of ``device``, or `_OTHER` if it must be parsed."""
    kind = type(key)
    if kind in PLAIN:
        return key
    if kind is Tensor:
        # NumPy would wrap a uint64 index that is too large; other libraries wrap all such indices,
        # and do not specify which of several values for one element wins
        lane = key._lane
        plain = lane.device is device and device.is_ready_at_once and lane.dtype.name != "uint64"
        return key._data if plain else _OTHER
    if kind is not tuple:
        return _OTHER
    parts = [_OTHER if type(part) is tuple else _plain(part, device) for part in key]
    return _OTHER if any(part is _OTHER for part in parts) else tuple(parts)


def _general(x: Tensor, key: Any) -> Tensor:
    try:
        index = parse(type_of(x), key)
        if len(index.shape) != len(x.shape):
            x = functions["reshape"](x, index.shape)
        if len(index.key) == 1 and index.arrays and index.arrays[0].shape:
            return functions["take"](x, index.arrays[0], axis=0)
        return pick(x, index.arrays, index.key)
    except EagerflowError as error:
        raise strip(_of_index(error, x)) from None


def _of_index(error: EagerflowError, x: Tensor) -> EagerflowError:
    """The error of an index out of range, worded for ``x[key]`` rather than for the op."""
    op, colon, words = error.wrong.partition(": ")
    if colon and isinstance(error, TensorIndexError) and op in _INDEXING:
        return TensorIndexError(words, given=f"x={type_of(x)}")
    return error


# --- assigning ------------------------------------------------------------------------------


def _value_for(x: Tensor, value: TensorLike, shape: Shape) -> Tensor:
    """``value`` in the dtype of ``x``, in a form that broadcasts to ``shape`` if possible."""
    number = is_python_number(value)
    if number or isinstance(value, (list, tuple)):
        if not weak_fits(value, x.dtype):
            raise _other_kind(promoted_dtype((value,)), x, f"value={value!r}")
        if number:
            return scalar(value, home_of(x.device).lanes[x.dtype])
        tensor = as_tensor(value, x.dtype, home_of(x.device))
    else:
        on = None if isinstance(value, AbstractArray) else home_of(x.device)
        tensor = value if type(value) is Tensor else as_tensor(value, None, on)
        if not fits_kind(tensor.dtype, x.dtype):
            raise _other_kind(tensor.dtype, x, f"value={type_of(tensor)}")
    tensor = _stripped(tensor, shape)
    _check_value(shape, type_of(tensor).type, f"x={type_of(x)}, value={type_of(tensor)}")
    return cast(tensor, x.dtype)


def _other_kind(dtype: DType, x: Tensor, given: str) -> DTypeError:
    hint = f"convert the value first, as with ef.astype(value, '{x.dtype.name}')"
    return DTypeError(
        f"values of {dtype.short} do not fit into {x.dtype.short}",
        given=f"x={type_of(x)}, {given}",
        expected="values of the same kind of dtype, or a lesser one",
        hint="take .real first" if dtype.is_complex else hint,
    )


def _stripped(value: Tensor, shape: Shape) -> Tensor:
    """``value`` without leading axes of size 1 that ``shape`` does not have."""
    extra = len(value.shape) - len(shape)
    if extra > 0 and all(may_equal(size, 1) for size in value.shape[:extra]):
        value = functions["squeeze"](value, tuple(range(extra)))
    return value


def _selected(index: Index) -> Shape:
    """The shape of the selection of an index expression."""
    return index_shape(index.shape, index.key, [type_of(t).type for t in index.arrays])


def _put(op: Op, x: Tensor, key: Any, value: TensorLike) -> Tensor:
    """Bind an op that puts ``value`` at ``key`` of ``x``."""
    index = parse(type_of(x), key)
    shape = x.shape
    value = _value_for(x, value, _selected(index))
    if len(index.shape) != len(shape):
        x = functions["reshape"](x, index.shape)
    attrs: dict[str, Any] = {"unique": index.unique} if op is _update else {}
    result = bind(op, x, value, *index.arrays, key=index.key, **attrs)
    return result if len(index.shape) == len(shape) else functions["reshape"](result, shape)


def index_update(x: TensorLike, key: object, value: TensorLike, /) -> Tensor:
    """A new tensor like ``x`` with ``value`` at ``key``: a functional ``x[key] = value``.

    Args:
        x: any dtype.
        key: an index expression, as in ``x[key]``. If it names an element twice, the last value
            wins.
        value: broadcasts to the shape of ``x[key]``. It is converted to the dtype of ``x`` from
            the same or a lesser kind (bool, unsigned and signed integers, floats, complex
            numbers), as by ``x += value``; Python integers must fit, integer tensors wrap.

    Raises:
        TensorIndexError: the key does not fit ``x``.
        ShapeError: the value does not fit the key.
        DTypeError: the value is of a greater kind, such as a float for integers.

    >>> ef.index_update(ef.tensor([1.0, 2.0, 3.0]), slice(1, None), 0)
    Tensor([1., 0., 0.], f32[3]@cpu:0)
    """
    return _put(_update, tensor_of(x), key, value)


def index_add(x: TensorLike, key: object, value: TensorLike, /) -> Tensor:
    """A new tensor like ``x`` with ``value`` added at ``key``; values for the same element add up.

    Args:
        x: any dtype; for bools, addition is "or".
        key: an index expression, as in ``x[key]``.
        value: broadcasts to the shape of ``x[key]``; its dtype as for `index_update`.

    Raises:
        TensorIndexError: the key does not fit ``x``.
        ShapeError: the value does not fit the key.

    >>> ef.index_add(ef.zeros(3), ef.tensor([0, 2, 0]), ef.tensor([1.0, 2.0, 3.0]))
    Tensor([4., 0., 2.], f32[3]@cpu:0)
    """
    return _put(_add, tensor_of(x), key, value)


def index_scatter(value: TensorLike, key: object, shape: Shape, /) -> Tensor:
    """Zeros of a shape with ``value`` added at ``key``: the transpose of ``x[key]``.

    Args:
        value: any dtype; broadcasts to the shape of ``x[key]``. Values for the same element add up
            (for bools, addition is "or").
        key: an index expression for a tensor ``x`` of shape ``shape``.
        shape: shape of the result.

    Raises:
        TensorIndexError: the key does not fit the shape.
        ShapeError: the value does not fit the key.

    >>> ef.index_scatter(ef.tensor([1.0, 2.0, 3.0]), ef.tensor([0, 2, 0]), (4,))
    Tensor([4., 0., 2., 0.], f32[4]@cpu:0)
    """
    tensor = tensor_of(value)
    whole = as_shape("index_scatter", shape)
    index = parse(TensorType(tensor.dtype, whole).on(tensor.device), key)
    result = scatter(_stripped(tensor, _selected(index)), index.arrays, index.key, index.shape)
    return result if len(index.shape) == len(whole) else functions["reshape"](result, whole)


def setitem(x: Tensor, key: Any, value: TensorLike, /) -> None:
    """Put a new value into the handle ``x``, with ``value`` at ``key``: ``x[key] = value``.

    The value is converted as by `index_update`, so floats cannot be assigned to integers.
    """
    if getrefcount(x) <= HELD_BY_NONE:
        check_held(x, _getframe(2))
    if _stack.installed or not _assign(x, key, value):
        block = runs_at(x.device) if _stack.scoped else None
        try:
            with block or nullcontext():
                interpreter.current().rebind(x, index_update(x, key, value))
        except EagerflowError as error:
            raise strip(_of_index(error, x)) from None


def _in_order(parts: tuple[Any, ...], value: Any) -> bool:
    """Whether NumPy writes the values in order, which matters if an element is named twice."""
    arrays = [part for part in parts if type(part) not in PLAIN and part.ndim > 1]
    return not arrays or all(a.flags.c_contiguous for a in (value, *arrays))


def _masks_rows(key: Tensor, x: Tensor) -> bool:
    return key._lane.dtype.category == "bool" and key.shape == x.shape[:1] != ()


def _assign(x: Tensor, key: Any, value: TensorLike) -> bool:
    """Assign without an op, in place if no other handle can observe it; False if impossible."""
    lane = x._lane
    plain = key if type(key) in PLAIN else _plain(key, lane.device)
    if plain is _OTHER or not lane.device.holds_data:
        return False
    if type(value) is Tensor:
        other = value._lane
        if other is not lane and (
            other.device is not lane.device or not fits_kind(other.dtype, lane.dtype)
        ):
            return False
        value = value._data
        if not _in_order(plain if type(plain) is tuple else (plain,), value):
            return False
    elif type(value) not in lane.weak and not (
        type(value) in _NUMBERS and weak_fits(value, lane.dtype)
    ):
        return False
    if type(key) is Tensor and _masks_rows(key, x):
        plain = plain.nonzero()[0]  # several times as fast as the mask
    try:
        if may_reuse(x._data):
            x._data[plain] = value
        else:
            data = x._data.copy()
            data[plain] = value
            x._data = data
    except Exception:
        return False
    x._mark = None
    return True


functions.update(getitem=getitem, setitem=setitem)  # type: ignore[arg-type]  # one gives nothing
