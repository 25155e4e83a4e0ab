"""Elements of queues and similar resources: pytrees of tensors of known types; parsing of types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeVar, final

from eagerflow.core import tree
from eagerflow.core.execute import line_of_operand
from eagerflow.core.infer import infer_specs
from eagerflow.core.interpreter import is_traced
from eagerflow.core.moves_to_scopes import to_home
from eagerflow.core.op import Op, bind
from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import as_tensor, tensor_of
from eagerflow.dims import Dim, may_equal, unknown
from eagerflow.errors import DeviceError, DTypeError, EagerflowError, ShapeError, strip
from eagerflow.formatting import kind_of
from eagerflow.hardware import Device, as_device
from eagerflow.ops.rules.promotion import kept_tensor
from eagerflow.source import capture
from eagerflow.types import (
    BYTES,
    DTYPES,
    DType,
    TensorSpec,
    TensorType,
    as_dtype,
    may_be_same_shape,
)

_TYPE: Final = re.compile(r"\s*(\w+)\s*\[([^\]]*)\]\s*(?:@\s*(\S+))?\s*")
_T = TypeVar("_T")
_PRINTED: Final = {d.short: d for d in DTYPES.values()}  # here "u8" is not NumPy's name


def as_spec(what: str, kind: Any, device: Device) -> TensorSpec:
    """The spec given by a type, a spec, a tensor, or a string such as ``"f32[8,n]@cpu:1"``.

    Args:
        what: the operation, for messages.
        kind: the type, spec, tensor or string.
        device: the device, if ``kind`` does not have one.

    Raises:
        DTypeError: ``kind`` is none of these.
    """
    if isinstance(kind, TensorType):
        return kind.on(device)
    if isinstance(kind, TensorSpec):
        return kind.type.on(as_device(kind.device or device))
    if isinstance(kind, AbstractArray):
        return type_of(tensor_of(kind))
    match = _TYPE.fullmatch(kind) if isinstance(kind, str) else None
    if match is None:
        name = kind.strip() if isinstance(kind, str) else ""
        known = name in _PRINTED or name in DTYPES
        raise DTypeError(
            f"{what}: the argument is not a type", given=repr(kind),
            expected="such as 'f32[8,128]'",
            hint=f'{what}(..., "{name}[]") for one without axes' if known else None,
        )  # fmt: skip
    dtype, sizes, where = match.groups()
    parts = [part.strip() for part in sizes.split(",") if part.strip()]
    shape: Any = tuple([int(part) if part.isdigit() else Dim(part) for part in parts])
    kind = _PRINTED.get(dtype) or as_dtype(dtype)
    return TensorType(kind, shape).on(device if where is None else as_device(where))


def fresh_types(kinds: Sequence[TensorType], why: str) -> list[TensorType]:
    """The types with a new size, known only at run time, for each name, the same in all types.

    Args:
        kinds: the types.
        why: the origin of the sizes, for messages.
    """
    named = [str(size) for kind in kinds for size in kind.shape if isinstance(size, Dim)]
    fresh: Any = {n: unknown(n, f"the size {n} depends on {why}") for n in dict.fromkeys(named)}
    return [
        kind.like(shape=tuple([fresh.get(str(size), size) for size in kind.shape]))
        for kind in kinds
    ]


def check_names(values: Sequence[TensorType], kinds: Sequence[TensorType], axes: int = 0) -> None:
    """Refuse parts in which a name stands for different sizes; for type rules.

    Args:
        values: the types of the values given, each valid for its part.
        kinds: the types of the parts.
        axes: number of axes before those of a part.

    Raises:
        ShapeError: the sizes of a name differ.
    """
    sizes: dict[str, Any] = {}
    for value, kind in zip(values, kinds, strict=True):
        for size, expected in zip(value.shape[axes:], kind.shape, strict=True):
            if isinstance(expected, Dim):
                first = sizes.setdefault(str(expected), size)
                if not may_equal(first, size):
                    raise ShapeError(
                        f"the size {expected} is {first} in one part and {size} in another",
                        expected=", ".join(map(str, kinds)),
                    )


@final
class Elements:
    """The structure and the types of the elements of a queue.

    Args:
        what: name of the resource, for messages.
        like: an example element: a tree of tensors, types or strings of types.
        device: device of the elements; by default that of ``like``.
        varying: whether the sizes of tensors may differ from element to element.

    Attributes:
        types: the types of the parts; a named size may differ from element to element.
        specs: the specs of the parts: types with the device.
        device: the device of the elements.

    Raises:
        DTypeError: a part of ``like`` is no type.
        DeviceError: the parts are on several devices.
        ShapeError: there is no part.
    """

    __slots__ = ("_paths", "device", "specs", "treedef", "types")

    def __init__(self, what: str, like: Any, device: Any, varying: bool = False) -> None:
        leaves, self.treedef = tree.flatten(like)
        where = as_device(device)
        specs = [_like(what, leaf, where) for leaf in leaves]
        if not specs:
            raise ShapeError(f"{what}: an element has no parts", given=tree.show(self.treedef))
        if device is not None:
            specs = [s.type.on(where) for s in specs]
        if varying:
            specs = [
                _varied(s, leaf, i) for i, (s, leaf) in enumerate(zip(specs, leaves, strict=True))
            ]
        self.device: Device = specs[0].device
        if any(s.device is not self.device for s in specs):
            raise DeviceError(
                f"{what}: the parts of an element are on several devices",
                given=", ".join(map(str, specs)),
            )
        self.types = tuple([s.type for s in specs])
        self.specs = tuple(specs)
        self._paths = tree.paths(self.treedef)

    def split(
        self, what: str, value: Any, *, many: bool = False, holder: Any = None
    ) -> list[Tensor]:
        """The parts of an element, or of several in one tree, as tensors of the right dtypes.

        Args:
            what: the operation, for messages.
            value: the tree.
            many: whether the tree holds several elements.
            holder: as for `part_of`.

        Raises:
            ShapeError: the structure differs.
            DTypeError: a dtype differs, or numbers do not fit it.
            DeviceError: a device differs.
        """
        leaves = self.leaves(what, value, many)
        return [
            part_of(f"{what}{path and ': part '}{path}", leaf, kind, many=many, holder=holder)
            for leaf, kind, path in zip(leaves, self.specs, self._paths, strict=True)
        ]

    def leaves(self, what: str, value: Any, many: bool = False) -> list[Any]:
        """The parts of an element, without conversion; lists and tuples fit each other.

        Args:
            what: the operation, for messages.
            value: the tree.
            many: whether it holds several elements.

        Raises:
            ShapeError: the structure differs.
        """
        try:
            return tree.parts_of(self.treedef, value)
        except (ValueError, TypeError):
            given, treedef = tree.flatten(value)
            kinds = [_several(kind) for kind in self.types] if many else map(str, self.types)
            raise ShapeError(
                f"{what}: {'the elements have' if many else 'an element has'} another structure",
                given="a tensor " * isinstance(value, AbstractArray)
                + tree.show(treedef, [_kind(leaf) for leaf in given]),
                expected=tree.show(self.treedef, [*kinds]),
            ) from None

    def join(self, parts: Sequence[Any]) -> Any:
        """An element from its parts."""
        return tree.unflatten(self.treedef, parts)


def _kind(leaf: Any) -> str:
    """A part of a value that does not fit, in words."""
    return str(type_of(tensor_of(leaf)).type) if isinstance(leaf, AbstractArray) else kind_of(leaf)


def _several(kind: TensorType) -> str:
    """The type of a part of several elements, as text: ``f32[n,3]`` for ``f32[3]``."""
    sizes = ",".join(["n", *map(str, kind.shape)])
    return f"{kind.dtype.short}[{sizes}]"


def _like(what: str, leaf: Any, device: Device) -> TensorSpec:
    if isinstance(leaf, (str, TensorType, TensorSpec, AbstractArray)):
        return as_spec(what, leaf, device)
    if isinstance(leaf, DType | type):
        text = str(TensorType(as_dtype(leaf), ()))
        raise DTypeError(
            f"{what}: a dtype says nothing of the shape of the elements",
            given=str(as_dtype(leaf)),
            expected="a type with a shape, or an example element",
            hint=f'"{text}" for a number, "{text[:-1]}3,n]" for a matrix',
        )
    return type_of(as_tensor(leaf, None, device))


def _varied(kind: TensorSpec, leaf: Any, part: int) -> TensorSpec:
    """The type with names for its sizes, unless ``leaf`` itself names sizes that may differ."""
    if isinstance(leaf, (str, TensorType, TensorSpec)):
        return kind
    of = f"_{part}" if part else ""  # sizes of different parts are independent
    shape: Any = tuple([Dim(f"d{i}{of}") for i in range(kind.ndim)])
    return kind.like(shape=shape)


def part_of(
    what: str, value: Any, kind: TensorSpec, *, many: bool = False, holder: Any = None
) -> Tensor:
    """A value as a tensor of the dtype and device of ``kind``; an empty list fits every dtype.

    Args:
        what: the operation, for messages.
        value: a tensor, or a value that converts to one.
        kind: the type and device of the part.
        many: whether it holds several elements; an empty list then holds none, whatever the sizes.
        holder: the resource that takes it, such as a queue, for messages.

    Raises:
        DTypeError: the dtype differs, or numbers do not fit it.
        DeviceError: the device differs.
    """
    if isinstance(value, AbstractArray):
        x = tensor_of(value)
    elif _is_empty(value):
        sizes = [size if type(size) is int else 0 for size in kind.shape]
        x = as_tensor(value, kind.dtype, kind.device)
        x = x.reshape((0, *sizes)) if many and not value else x
    else:
        x = kept_tensor(value, kind.dtype, kind.device, f"{what}:")
    if x.dtype is not kind.dtype:
        raise DTypeError(
            f"{what}: another dtype",
            given=str(type_of(x)),
            expected=kind.dtype.short,
            hint=None if BYTES in (x.dtype, kind.dtype) else "convert it with .astype(...)",
        )
    x = to_home(x, kind.device)
    if x.device is not kind.device:
        raise _elsewhere(what, x, kind.device, holder)
    return x


def _elsewhere(what: str, x: Tensor, device: Device, holder: Any) -> DeviceError:
    """The error for a value that is not on the device of its resource, with both lines."""
    whose = "" if holder is None else f", where the {holder!r} is"
    made = getattr(holder, "made", None)
    return DeviceError(
        f"{what}: another device",
        given="\n    ".join(filter(None, [str(type_of(x)), line_of_operand(x, str(capture()))])),
        expected=f"{device}{whose}" + ("" if made is None else f", made at {made}"),
        hint=f"move it with .to('{device}')",
    )


def _is_empty(value: Any) -> bool:
    """Whether a value is a (nested) list without numbers."""
    return type(value) in (list, tuple) and all(map(_is_empty, value))


def check_part(value: TensorType, kind: TensorType, axes: int = 0) -> None:
    """Refuse a part of another type; for type rules.

    Args:
        value: the type of the value given.
        kind: the type of the part; named sizes may have any value.
        axes: number of axes before those of the part.

    Raises:
        DTypeError: the dtype differs.
        ShapeError: the shape differs.
    """
    if value.dtype is not kind.dtype:
        raise DTypeError("another dtype", expected=kind.dtype.short)
    if len(value.shape) < axes or not may_be_same_shape(value.shape[axes:], kind.shape):
        several = "" if not axes else " behind the first axis"
        raise ShapeError(f"another shape{several}", expected=str(kind))


def checked(op: Op, what: str, inputs: Sequence[Tensor], resource: Any, **attrs: Any) -> Any:
    """Bind an op after a check of its inputs (see `check`).

    Args:
        op: the op.
        what: name of the method.
        inputs: tensors.
        resource: the resource of the op.
        attrs: further attributes.
    """
    check(op, what, inputs, resource, **attrs)
    return bind(op, *inputs, resource=resource, **attrs)


def check(op: Op, what: str, inputs: Sequence[Tensor], resource: Any, **attrs: Any) -> None:
    """Check inputs by the rules of an op, whose errors then name the method.

    The check comes before the effect: a failure halfway would leave parts in the resource.

    Args:
        op: the op.
        what: name of the method.
        inputs: tensors.
        resource: the resource of the op.
        attrs: further attributes.

    Raises:
        EagerflowError: a rule refuses the inputs.
    """
    try:
        infer_specs(op, list(map(type_of, inputs)), {"resource": resource, **attrs})
    except EagerflowError as error:
        given = ", ".join(str(type_of(x)) for x in inputs)
        wrong = error.wrong.removeprefix(f"{op.name}: ")
        error.reword(f"{what}: {wrong}", f"{given} for {resource!r}")
        raise strip(error) from None


def told(op: Op, resource: Any, value: _T) -> _T:
    """A property of a resource: ``value`` if eager, in a traced function a tensor of each run.

    Args:
        op: the op that returns the property as a tensor, in a graph.
        resource: the resource.
        value: its present value.
    """
    if is_traced():
        tensor: Any = bind(op, resource=resource, device=resource.device)
        answer: _T = tensor  # stands for the value
        return answer
    return value
