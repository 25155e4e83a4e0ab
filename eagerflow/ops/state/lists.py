"""Lists of tensors as values of a graph, for `ef.TensorArray` and the gradients of loops.

A list has the type ``list[]``. It is an immutable value, of which old versions stay valid, and a
push or a write takes the same time whatever its length. In a cotangent, element i belongs to
element i of the value, and an absent element is zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from eagerflow.core.op import bind, bind_several, define, joint
from eagerflow.core.op_records.batch_rules import ROWS, BatchSite, Shared
from eagerflow.core.op_records.cost_formulas import FREE
from eagerflow.core.op_records.op_facts import MOVING, of_family
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size, unknown
from eagerflow.errors import DTypeError, VmapError
from eagerflow.hardware import Device, as_device
from eagerflow.types import INT64, LIST, DType, Shape, TensorSpec, TensorType

_list_op = partial(define, precision="exact", on_host=True)


def _list(x: TensorType) -> TensorType:
    if x.dtype is not LIST:
        raise DTypeError("the operand is not a list", given=str(x))
    return x


def _element(values: TensorType, shape: Shape, dtype: DType) -> TensorType:
    """The type of an element; None in the shape stands for an unknown size."""
    sizes = [unknown("size", "the size of an element of a list") if d is None else d for d in shape]
    return TensorType(dtype, tuple(sizes))


# --- many rows ------------------------------------------------------------------------------
# A list made under `vmap` serves all rows: each element has an axis of rows.

_DIFFERS: Final = "rows would have lists of their own, which differ in length or in order"


def _check_rows(at: BatchSite, *shared: int) -> None:
    """Refuse lists from outside of `vmap`, and numbers that differ from row to row.

    Args:
        at: the op.
        shared: the inputs that must be the same for all rows.
    """
    outside = any(x.dtype is LIST and not own for x, own in zip(at.inputs, at.batched, strict=True))
    if outside or any(at.batched[i] for i in shared):
        raise VmapError(
            f"{at.op.name}: under ef.vmap, "
            + ("a list from outside has no rows" if outside else _DIFFERS),
            hint=f"make it inside, with positions that all rows share; or {ROWS}",
        )


def _batched_list(at: BatchSite) -> Any:
    """The batching rule of ops from lists and elements to a list."""
    _check_rows(at)
    inputs = [x if x.dtype is LIST else at.whole(i) for i, x in enumerate(at.inputs)]
    return at.bind(*inputs, **at.attrs)


def _batched_at(at: BatchSite) -> Any:
    """The batching rule of ops from a list, a position and an element to a list."""
    _check_rows(at, 1)
    elements = [at.whole(i) for i in range(2, len(at.inputs))]
    return at.bind(*at.inputs[:2], *elements, **at.attrs)


def _batched_read(at: BatchSite) -> Any:
    _check_rows(at, 1)
    return at.bind(*at.inputs, **{**at.attrs, "shape": (at.rows, *at.attrs["shape"])})


def _batched_pop(at: BatchSite) -> Any:
    _check_rows(at)
    shapes = tuple([(at.rows, *shape) for shape in at.attrs["shapes"]])
    return at.bind(*at.inputs, **{**at.attrs, "shapes": shapes})


def _batched_size(at: BatchSite) -> Shared:
    return Shared(at.bind(*at.inputs))


def _batched_stack(at: BatchSite) -> Any:
    stacked = at.bind(*at.inputs, **{**at.attrs, "shape": (at.rows, *at.attrs["shape"])})
    return at.call("moveaxis", stacked, 1, 0)


def _batched_unstack(at: BatchSite) -> Any:
    return at.bind(at.call("moveaxis", at.whole(0), 0, 1))


# --- ops ------------------------------------------------------------------------------------


def _new_type(*, device: Device, size: Size = 0) -> TensorType:
    return TensorType(LIST, ())


def _new_stack(name: str, operands: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
    yield f"{name} = []"


_new = _list_op(
    "list_new",
    batch=_batched_list,
    infer=_new_type,
    nondifferentiable=True,
    cost=FREE,
    on_stack=_new_stack,
)


def list_new(device: Device | None = None, size: Size = 0) -> Tensor:
    """A list of ``size`` absent elements."""
    sizes = {} if type(size) is int and size == 0 else {"size": size}
    return bind(_new, device=as_device(device), **sizes)


def _same_list(values: TensorType, *rest: TensorType) -> TensorType:
    return _list(values)


def _push_vjp(g: Tensor, out: Tensor, values: Tensor, *xs: Tensor) -> list[Tensor | None]:
    size = list_size(values)
    cotangents: list[Tensor | None] = [_cut_to(g, size)]
    for i, x in enumerate(xs):
        wanted = x.dtype.is_inexact
        cotangents.append(list_read(g, size + i, x) if wanted else None)
    return cotangents


def _push_stack(name: str, operands: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
    yield f"{name} += ({''.join(f'{x}, ' for x in operands)})"


_push = _list_op(
    "list_push",
    batch=_batched_list,
    infer=_same_list,
    vjp=joint(_push_vjp),
    saved="inputs",
    takes_bytes=True,
    cost=FREE,
    on_stack=_push_stack,
)


def list_push(values: Tensor, *xs: Tensor) -> Tensor:
    """The list with elements appended."""
    return bind(_push, values, *xs)


def _pop_type(
    values: TensorType, *, shapes: Sequence[Shape], dtypes: Sequence[DType]
) -> tuple[TensorType, ...]:
    _list(values)
    elements = zip(shapes, dtypes, strict=True)
    return (values, *[_element(values, shape, dtype) for shape, dtype in elements])


def _pop_vjp(
    g: Sequence[Any], out: Sequence[Tensor], values: Tensor, **attrs: Any
) -> tuple[Tensor]:
    size = list_size(out[0])
    cotangent = g[0]
    for i, one in enumerate(g[1:]):
        if one is not None:
            cotangent = list_write(cotangent, size + i, one)
    return (cotangent,)


def _pop_stack(name: str, operands: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
    count = len(outputs)
    yield f"{''.join(f'{y}, ' for y in outputs)}= {name}[-{count}:]"
    yield f"del {name}[-{count}:]"


_pop = _list_op(
    "list_pop",
    batch=_batched_pop,
    infer=_pop_type,
    vjp=joint(_pop_vjp),
    saved="outputs",
    cost=FREE,
    outputs=None,
    on_stack=_pop_stack,
)


def list_pop(
    values: Tensor, shapes: Sequence[Sequence[Size | None]], dtypes: Sequence[DType]
) -> tuple[Tensor, ...]:
    """The list without its last elements, and these elements, of given shapes and dtypes."""
    sizes = tuple([tuple(shape) for shape in shapes])
    return bind_several(_pop, values, shapes=sizes, dtypes=tuple(dtypes))


def _read_type(
    values: TensorType, index: TensorType, *, shape: Shape, dtype: DType, strict: bool
) -> TensorType:
    _list(values)
    return _element(values, shape, dtype)


_read = _list_op(
    "list_read",
    batch=_batched_read,
    infer=_read_type,
    vjp=(lambda g, out, values, index, **_: list_write(list_new(g.device), index, g), None),
    saved="indices",
    host_inputs=(1,),
)


def list_read(values: Tensor, index: Tensor, like: Any, *, strict: bool = False) -> Tensor:
    """An element of the list; zero if absent.

    Args:
        values: the list.
        index: an integer without axes.
        like: a tensor or a type with the shape and dtype of the element.
        strict: whether the index must be in range.
    """
    return bind(_read, values, index, shape=tuple(like.shape), dtype=like.dtype, strict=strict)


def _write_type(
    values: TensorType, index: TensorType, x: TensorType, *, grow: bool = True
) -> TensorType:
    return _list(values)


_write = _list_op(
    "list_write",
    batch=_batched_at,
    infer=_write_type,
    vjp=(
        lambda g, out, values, index, x, **_: _without(g, index),
        None,
        lambda g, out, values, index, x, **_: list_read(g, index, x),
    ),
    saved="indices",
    host_inputs=(1,),
    takes_bytes=True,
)


def list_write(values: Tensor, index: Tensor, x: Tensor, *, grow: bool = True) -> Tensor:
    """The list with the element at a position replaced.

    Args:
        values: the list.
        index: an integer without axes.
        x: the element.
        grow: whether the position may be beyond the end.
    """
    return bind(_write, values, index, x, grow=grow)


_erase = _list_op(
    "list_erase",
    batch=_batched_at,
    infer=_same_list,
    vjp=(lambda g, out, values, index: _without(g, index), None),
    saved="indices",
    host_inputs=(1,),
    cost=FREE,
)


def _without(values: Tensor, index: Tensor) -> Tensor:
    """The list with an element made absent."""
    return bind(_erase, values, index)


_cut = _list_op(
    "list_cut",
    batch=_batched_at,
    infer=_same_list,
    vjp=(lambda g, out, values, size: _cut_to(g, size), None),
    saved="indices",
    host_inputs=(1,),
    cost=FREE,
)


def _cut_to(values: Tensor, size: Tensor) -> Tensor:
    """The list cut to its first ``size`` elements."""
    return bind(_cut, values, size)


def _size_type(values: TensorType) -> TensorType:
    return _list(values).like(dtype=INT64)


_size = _list_op(
    "list_size", batch=_batched_size, infer=_size_type, vjp=(None,), cost=FREE, host_outputs=(0,)
)


def list_size(values: Tensor) -> Tensor:
    """The number of elements, ``i64[]``."""
    return bind(_size, values)


def _add_type(x1: TensorType, x2: TensorType) -> TensorType:
    _list(x2)
    return _list(x1)


_add = _list_op(
    "list_add",
    batch=_batched_list,
    infer=_add_type,
    vjp=(lambda g, out, x1, x2: g, lambda g, out, x1, x2: g),
    saved="none",
)


def list_add(x1: Tensor, x2: Tensor) -> Tensor:
    """The list of the sums of elements."""
    return bind(_add, x1, x2)


def _stack_type(values: TensorType, *, size: Size | None, shape: Shape, dtype: DType) -> TensorType:
    _list(values)
    count: Any = size
    if size is None:
        count = unknown("k", "the number of elements of a list depends on data")
    return TensorType(dtype, (count, *shape))


_stack = _list_op(
    "list_stack",
    batch=_batched_stack,
    infer=_stack_type,
    vjp=(lambda g, out, values, **_: list_unstack(g),),
    saved="none",
)


def list_stack(values: Tensor, like: Any, size: Size | None = None) -> Tensor:
    """The elements stacked along a new first axis, with zeros for absent elements.

    Args:
        values: the list.
        like: a tensor or a type with the shape and dtype of the elements.
        size: the number of elements, if known.
    """
    return bind(_stack, values, size=size, shape=tuple(like.shape), dtype=like.dtype)


@of_family(MOVING)
def _unstack_type(x: TensorType) -> TensorType:
    return x.like(shape=(), dtype=LIST)


def _unstack_vjp(g: Tensor, out: Tensor, x: Tensor) -> Tensor:
    kind = TensorType(x.dtype, x.shape[1:])
    return list_stack(g, kind, x.shape[0])


_unstack = define(
    "list_unstack", batch=_batched_unstack, infer=_unstack_type, vjp=(_unstack_vjp,), on_host=True
)


def list_unstack(x: Tensor) -> Tensor:
    """A list of the slices of ``x`` along its first axis."""
    return bind(_unstack, x)


def _concat_type(values: TensorType, like: TensorType, *, shape: Shape, dtype: DType) -> TensorType:
    _list(like)
    rows = unknown("rows", "the number of rows of the elements of a list depends on data")
    _list(values)
    return TensorType(dtype, (rows, *shape))


_concat = _list_op(
    "list_concat",
    batch=_DIFFERS,
    infer=_concat_type,
    vjp=(lambda g, out, values, like, **_: list_split(g, like), None),
    saved="inputs",
)


def list_concat(
    values: Tensor, kind: TensorType | TensorSpec, like: Tensor | None = None
) -> Tensor:
    """The elements concatenated along their first axis, ``[rows, *rest]``.

    Args:
        values: the list.
        kind: a type with the dtype of the elements, and their shape except for the first axis.
        like: a list with the numbers of rows of absent elements, which are zeros; by default
            ``values`` itself.
    """
    other = values if like is None else like
    return bind(_concat, values, other, shape=tuple(kind.shape[1:]), dtype=kind.dtype)


def _split_type(x: TensorType, like: TensorType) -> TensorType:
    return _list(like)


def _split_vjp(g: Tensor, out: Tensor, x: Tensor, like: Tensor) -> Tensor:
    return list_concat(g, TensorType(x.dtype, x.shape), like)


_split = _list_op(
    "list_split",
    batch=_DIFFERS,
    infer=_split_type,
    vjp=(_split_vjp, None),
    saved="inputs",
    takes_bytes=True,
)


def list_split(x: Tensor, like: Tensor) -> Tensor:
    """The inverse of `list_concat`: a list with as many rows per element as ``like``."""
    return bind(_split, x, like)
