"""Elements of queues and similar resources, as arrays: checks of shapes, owned memory, batches.

Inserted elements are held until they are taken, so memory that may be written through another
array, such as that of a view, is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eagerflow_kernels.blanks import blank
from eagerflow_kernels.table import Array


def own(x: Array) -> Array:
    """An array that no other handle writes into."""
    own = getattr(x, "base", x) is None and x.flags.owndata and x.flags.c_contiguous
    return x if own else x.copy()


def check_shapes(types: Sequence[Any], arrays: Sequence[Array], axes: int = 0) -> None:
    """Refuse components of other shapes, for type rules that did not know all sizes."""
    names: dict[str, int] = {}
    for kind, x in zip(types, arrays, strict=True):
        shape = x.shape[axes:]
        if len(shape) != len(kind.shape) or x.shape[:axes] != arrays[0].shape[:axes]:
            raise ValueError("an element has another shape")
        for size, expected in zip(shape, kind.shape, strict=True):
            known = expected if type(expected) is int else names.setdefault(str(expected), size)
            if size != known:
                raise ValueError("an element has another shape")


def stacked(xp: Any, types: Sequence[Any], elements: Sequence[Any]) -> tuple[Array, ...]:
    """The components of elements, each stacked along a new first axis."""
    return tuple([_batch(xp, t, [e[i] for e in elements]) for i, t in enumerate(types)])


def _batch(xp: Any, kind: Any, parts: Sequence[Array]) -> Array:
    """Arrays stacked; smaller ones are padded at the end of each axis with zeros or empty bytes."""
    if not parts:
        sizes = [size if type(size) is int else 0 for size in kind.shape]
        return blank(xp, (0, *sizes), kind.dtype.dtype)
    shapes = {x.shape for x in parts}
    if len(shapes) == 1:
        return xp.stack(parts)
    largest = tuple([max(sizes) for sizes in zip(*shapes, strict=True)])
    out = blank(xp, (len(parts), *largest), kind.dtype.dtype)
    for i, x in enumerate(parts):
        out[(i, *[slice(size) for size in x.shape])] = x
    return out
