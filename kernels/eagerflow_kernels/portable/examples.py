"""Kernels of ops that parse and encode TensorFlow's examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerflow_kernels.blanks import blank
from eagerflow_kernels.examples import read_example, write_example
from eagerflow_kernels.portable.parsing import element, shown
from eagerflow_kernels.records import DamagedError
from eagerflow_kernels.table import portable

Array = Any  # of objects, which are bytes, or of numbers


@portable("encode_example")
def encode_example(xp: Any, *arrays: Array, names: tuple[str, ...]) -> Array:
    """The bytes of one example with given values."""
    features = {}
    for name, x in zip(names, arrays, strict=True):
        kind = {"O": "bytes", "f": "float32"}.get(x.dtype.kind, "int64")
        features[name] = kind, x.reshape(-1).tolist()
    return xp.array(write_example(features), object)


@portable("parse_example")
def parse_example(
    xp: Any, x: Array, *, names: tuple[str, ...], dtypes: tuple[Any, ...],
    shapes: tuple[tuple[int | None, ...], ...], defaults: tuple[Any, ...],
) -> tuple[Array, ...]:  # fmt: skip
    """The features of given names, of one example or of many.

    A size of None matches any number; among many examples shorter values are padded.
    """
    examples = []
    for i, data in enumerate(x.reshape(-1).tolist()):
        try:
            examples.append(read_example(data))
        except DamagedError as error:
            where = element(x, i)
            raise DamagedError(f"{where} is not an example: {error}: {shown(data)}") from None
    out = []
    for k, name in enumerate(names):
        parts = [
            _feature(xp, features.get(name), (name, dtypes[k], shapes[k], defaults[k]), x, i)
            for i, features in enumerate(examples)
        ]
        out.append(_together(xp, x.shape, parts, shapes[k], dtypes[k].dtype))
    return tuple(out)


def _feature(xp: Any, feature: Any, wanted: tuple[Any, ...], x: Array, i: int) -> Array:
    name, dtype, shape, default = wanted
    if feature is None or not len(feature[1]):
        if default is not None:
            return xp.full([size or 0 for size in shape], default, dtype.dtype)
        if feature is None and None not in shape:
            raise DamagedError(f"{element(x, i)} has no feature {name!r}, and there is no default")
        kind, values = dtype.name, []
    else:
        kind, values = feature
    if kind != dtype.name:
        raise DamagedError(f"feature {name!r} of {element(x, i)} is of {kind}, not {dtype.name}")
    sizes = _sizes(shape, len(values))
    if sizes is None:
        expected = ",".join("…" if size is None else str(size) for size in shape)
        raise DamagedError(
            f"feature {name!r} of {element(x, i)} has {len(values)} values, not [{expected}]"
        )
    if dtype.category == "bytes":
        made = xp.empty(len(values), object)
        made[:] = values
    else:
        made = xp.asarray(values, dtype=dtype.dtype)
    return made.reshape(sizes)


def _sizes(shape: tuple[int | None, ...], count: int) -> Sequence[int] | None:
    """The shape with its size of None filled in; None if ``count`` values do not fit."""
    known = 1
    for size in shape:
        known *= 1 if size is None else size
    if None not in shape:
        whole: Any = shape  # all are numbers
        return whole if known == count else None
    if count % known if known else count:
        return None
    return [(count // known if known else 0) if size is None else size for size in shape]


def _together(
    xp: Any, lead: tuple[int, ...], parts: list[Array], shape: tuple[int | None, ...], dtype: Any
) -> Array:
    if not lead:
        return parts[0]
    longest = [max([p.shape[a] for p in parts], default=size or 0) for a, size in enumerate(shape)]
    out = blank(xp, (len(parts), *longest), dtype)
    for i, part in enumerate(parts):
        out[(i, *map(slice, part.shape), ...)] = part
    return out.reshape((*lead, *longest))
