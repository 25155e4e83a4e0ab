"""Elements of queues and their kin: pytrees of tensors of known types, and types by their text."""

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
from eagerflow.hardware import Device, as_device
from eagerflow.ops.rules.promotion import kept_tensor
from eagerflow.source import capture
from eagerflow.types import BYTES, DTYPES, TensorSpec, TensorType, as_dtype, may_be_same_shape

_TYPE: Final = re.compile(r"\s*(\w+)\s*\[([^\]]*)\]\s*(?:@\s*(\S+))?\s*")
_T = TypeVar("_T")
_PRINTED: Final = {d.short: d for d in DTYPES.values()}  # here "u8" is no dtype of NumPy


def as_spec(what: str, kind: Any, device: Device) -> TensorSpec:
    """The spec that is meant by a type, a spec, a tensor, or a text such as ``"f32[8,n]@cpu:1"``.

    Args:
        what: the operation that asks, for messages.
        kind: names what is meant.
        device: where it is, if that is not said.

    Raises:
        DTypeError: it is none of these.
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
            f"{what}: this is no type", given=repr(kind), expected="such as 'f32[8,128]'",
            hint=f'{what}(..., "{name}[]") for one without axes' if known else None,
        )  # fmt: skip
    dtype, sizes, where = match.groups()
    parts = [part.strip() for part in sizes.split(",") if part.strip()]
    shape: Any = tuple([int(part) if part.isdigit() else Dim(part) for part in parts])
    kind = _PRINTED.get(dtype) or as_dtype(dtype)
    return TensorType(kind, shape).on(device if where is None else as_device(where))


def fresh_types(kinds: Sequence[TensorType], why: str) -> list[TensorType]:
    """The types with a size of its own for each name, the same in all of them: only the run tells.

    Args:
        kinds: the types.
        why: says what the sizes depend on.
    """
    named = [str(size) for kind in kinds for size in kind.shape if isinstance(size, Dim)]
    fresh: Any = {n: unknown(n, f"the size {n} depends on {why}") for n in dict.fromkeys(named)}
    return [
        kind.like(shape=tuple([fresh.get(str(size), size) for size in kind.shape]))
        for kind in kinds
    ]


def check_names(values: Sequence[TensorType], kinds: Sequence[TensorType], axes: int = 0) -> None:
    """Refuse parts in which one name stands for different sizes, for type rules.

    Args:
        values: the types of what is given, each of which may be a part.
        kinds: those of the parts.
        axes: how many axes come before those of a part.

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
    """What the elements of a queue look like.

    Args:
        what: whose they are, for messages.
        like: a tree of tensors, types or texts of types: one element.
        device: where they are; by default where ``like`` is.
        varying: whether the sizes of tensors may differ from element to element.

    Attributes:
        types: of the parts; a named size may differ from element to element.
        specs: these with the device.
        device: where they are.

    Raises:
        DTypeError: a part is no type.
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
            what: the operation that asks, for messages.
            value: the tree.
            many: whether it is of several elements.
            holder: as for `part_of`.

        Raises:
            ShapeError: another structure.
            DTypeError: another dtype, or none that fits.
            DeviceError: another device.
        """
        leaves = self.leaves(what, value)
        return [
            part_of(f"{what}{path and ': part '}{path}", leaf, kind, many=many, holder=holder)
            for leaf, kind, path in zip(leaves, self.specs, self._paths, strict=True)
        ]

    def leaves(self, what: str, value: Any) -> list[Any]:
        """The parts of an element as they are given.

        Raises:
            ShapeError: another structure.
        """
        try:
            return self.treedef.flatten_up_to(value)
        except (ValueError, TypeError):
            raise ShapeError(
                f"{what}: an element has another structure",
                given=tree.show(tree.flatten(value)[1]),
                expected=tree.show(self.treedef),
            ) from None

    def join(self, parts: Sequence[Any]) -> Any:
        """An element of its parts."""
        return tree.unflatten(self.treedef, parts)


def _like(what: str, leaf: Any, device: Device) -> TensorSpec:
    if isinstance(leaf, (str, TensorType, TensorSpec, AbstractArray)):
        return as_spec(what, leaf, device)
    return type_of(as_tensor(leaf, None, device))


def _varied(kind: TensorSpec, leaf: Any, part: int) -> TensorSpec:
    """The type with names for its sizes, unless ``leaf`` itself says which may differ."""
    if isinstance(leaf, (str, TensorType, TensorSpec)):
        return kind
    of = f"_{part}" if part else ""  # sizes of different parts have nothing to do with each other
    shape: Any = tuple([Dim(f"d{i}{of}") for i in range(kind.ndim)])
    return kind.like(shape=shape)


def part_of(
    what: str, value: Any, kind: TensorSpec, *, many: bool = False, holder: Any = None
) -> Tensor:
    """A tensor of the dtype and device of ``kind``, as which an empty list counts.

    Args:
        what: the operation that asks, for messages.
        value: the tensor, or what becomes one.
        kind: the type and device of a part.
        many: whether it is of several elements; an empty list is none, whatever their sizes.
        holder: the resource that takes it, for messages: a queue, say.

    Raises:
        DTypeError: another dtype, or none that fits.
        DeviceError: another device.
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
    """The error for a value that is not where the resource is that takes it, with both lines."""
    whose = "" if holder is None else f", where the {holder!r} is"
    made = getattr(holder, "made", None)
    return DeviceError(
        f"{what}: another device",
        given="\n    ".join(filter(None, [str(type_of(x)), line_of_operand(x, str(capture()))])),
        expected=f"{device}{whose}" + ("" if made is None else f", made at {made}"),
        hint=f"move it with .to('{device}')",
    )


def _is_empty(value: Any) -> bool:
    """Whether it is a list without numbers in it."""
    return type(value) in (list, tuple) and all(map(_is_empty, value))


def check_part(value: TensorType, kind: TensorType, axes: int = 0) -> None:
    """Refuse a part of another type, for type rules.

    Args:
        value: the type of what is given.
        kind: that of a part; named sizes may be any.
        axes: how many axes come before those of a part.

    Raises:
        DTypeError: another dtype.
        ShapeError: another shape.
    """
    if value.dtype is not kind.dtype:
        raise DTypeError("another dtype", expected=kind.dtype.short)
    if len(value.shape) < axes or not may_be_same_shape(value.shape[axes:], kind.shape):
        several = "" if not axes else " behind the first axis"
        raise ShapeError(f"another shape{several}", expected=str(kind))


def checked(op: Op, what: str, inputs: Sequence[Tensor], resource: Any, **attrs: Any) -> Any:
    """Bind an op once its rules have nothing against the inputs (see `check`).

    Args:
        op: the op.
        what: the method.
        inputs: tensors.
        resource: what it is done to.
        attrs: more attributes.
    """
    check(op, what, inputs, resource, **attrs)
    return bind(op, *inputs, resource=resource, **attrs)


def check(op: Op, what: str, inputs: Sequence[Tensor], resource: Any, **attrs: Any) -> None:
    """Ask the rules of an op, whose errors then name the method.

    Before it is done, not after: what is put in partly would stay.

    Args:
        op: the op.
        what: the method.
        inputs: tensors.
        resource: what it is done to.
        attrs: more attributes.

    Raises:
        EagerflowError: a rule has something against the inputs.
    """
    try:
        infer_specs(op, list(map(type_of, inputs)), {"resource": resource, **attrs})
    except EagerflowError as error:
        given = ", ".join(str(type_of(x)) for x in inputs)
        wrong = error.wrong.removeprefix(f"{op.name}: ")
        error.reword(f"{what}: {wrong}", f"{given} for {resource!r}")
        raise strip(error) from None


def told(op: Op, resource: Any, value: _T) -> _T:
    """What a resource says of itself: ``value`` now, or in a traced function when the run asks.

    Args:
        op: gives it in a graph, as a tensor.
        resource: that is asked.
        value: what it says now.
    """
    if is_traced():
        tensor: Any = bind(op, resource=resource, device=resource.device)
        answer: _T = tensor  # it stands for the value
        return answer
    return value
