"""Random trees that can be saved, and a comparison of trees to the last bit."""

from __future__ import annotations

import struct
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple, final

import numpy as np
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.types import DTYPES


@final
@dataclass
class Batch:
    """A dataclass among the nodes."""

    images: Any
    labels: Any = None


class Pair(NamedTuple):
    """A named tuple among the nodes."""

    first: Any
    second: Any


def bits(tensor: Any) -> tuple[str, tuple[int, ...], bytes]:
    """Dtype, shape and bytes of a tensor or variable."""
    return tensor.dtype.name, tuple(tensor.shape), tensor.numpy().tobytes()


def content(x: Any) -> Any:
    """A value that is equal for trees that are the same to the last bit."""
    if isinstance(x, (ef.Tensor, ef.Variable)):
        return ("tensor", *bits(x))
    if isinstance(x, ef.IndexedSlices):
        return ("slices", bits(x.values), bits(x.indices), x.shape)
    if isinstance(x, ef.random.Generator):
        return ("generator", x.state)
    if isinstance(x, float):
        return ("float", struct.pack("<d", x))
    if isinstance(x, complex):
        return ("complex", struct.pack("<dd", x.real, x.imag))
    if is_dataclass(x):
        return {f.name: content(getattr(x, f.name)) for f in fields(x)}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return {name: content(part) for name, part in zip(x._fields, x, strict=True)}
    if isinstance(x, dict):
        return [(type(k), content(k), content(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return type(x), [content(v) for v in x]
    return type(x), x


def plainly(x: Any) -> Any:
    """The tree that loading without ``like=`` gives: dataclasses and named tuples are dicts."""
    if is_dataclass(x):
        return {f.name: plainly(getattr(x, f.name)) for f in fields(x)}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return {name: plainly(part) for name, part in zip(x._fields, x, strict=True)}
    if isinstance(x, dict):
        return {k: plainly(v) for k, v in x.items()}
    if isinstance(x, (list, tuple)):
        return type(x)(plainly(v) for v in x)
    return x


@st.composite
def tensors(draw: st.DrawFn) -> ef.Tensor:
    """Tensors of any dtype, bits and layout."""
    dtype = DTYPES[draw(st.sampled_from(sorted(DTYPES)))]
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    size = int(np.prod(shape)) * dtype.itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    if dtype is ef.bool:
        raw = bytes(b & 1 for b in raw)
    array = np.frombuffer(raw, "u1").copy().view(dtype.dtype).reshape(shape)
    layout = draw(st.sampled_from(["rows", "columns", "strided"]))
    if layout == "columns":
        array = np.asfortranarray(array)
    elif layout == "strided" and array.ndim:
        array = np.repeat(array, 2, axis=0)[::2]
    return ef.asarray(array)


def plain() -> st.SearchStrategy[Any]:
    """Numbers and strings, NaN and infinities among them."""
    return (
        st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text()
        | st.integers(-(2**70), 2**70) | st.characters(categories=["Cs"])
    )  # fmt: skip


def keys() -> st.SearchStrategy[Any]:
    """Keys of dicts that compare equal to themselves: no NaN."""
    part = st.text(max_size=3) | st.integers(-2, 2) | st.none()
    return part | st.tuples(part, part) | st.sampled_from(["a", "a.b", "a~2", "__metadata__", ""])


def trees() -> st.SearchStrategy[Any]:
    """Nested containers of all values that can be saved."""
    leaf = tensors() | plain() | tensors().map(ef.Variable) | st.builds(
        ef.random.Generator, st.integers(0, 2**64 - 1)
    )  # fmt: skip
    return st.recursive(
        leaf,
        lambda t: st.lists(t, max_size=3) | st.lists(t, max_size=3).map(tuple)
        | st.dictionaries(keys(), t, max_size=3) | st.builds(Batch, t, t) | st.builds(Pair, t, t),
        max_leaves=8,
    )  # fmt: skip
