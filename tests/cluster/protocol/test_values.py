"""Values as messages: every bit and the order of elements in memory are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.message_heads import ArrayHead, ListHead, ShapeHead
from eagerflow.cluster.protocol.messages import Done
from eagerflow.cluster.protocol.values import decode_value, encode_value
from eagerflow.errors import ProtocolError
from eagerflow.hardware import NullArray
from eagerflow.types import DTYPES
from eagerflow_kernels.lists import ListData


def over_the_wire(value: Any) -> Any:
    """The decoded copy of a value, in memory of its own."""
    frames: list[Any] = []
    head = encode_value(value, frames)
    message, rest = codec.read([bytes(f) for f in codec.write(Done(1, 1, (head,)), frames)])
    assert isinstance(message, Done)
    left = iter(rest)
    arrived = decode_value(message.results[0], left)
    codec.all_taken(left)
    return arrived


def same(a: Any, b: Any) -> None:
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    if a.dtype == object:
        assert a.tolist() == b.tolist()
    else:
        assert np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3, 4), (0, 2**40)])
def test_arrays_of_every_dtype(name: str, shape: tuple[int, ...]) -> None:
    dtype = DTYPES[name].dtype
    size = int(np.prod(shape, dtype=object)) * dtype.itemsize
    raw = np.random.default_rng(0).integers(0, 2 if name == "bool" else 256, size, np.uint8)
    sent = raw.view(dtype).reshape(shape)
    arrived = over_the_wire(sent)
    same(arrived, sent)
    assert arrived.flags.writeable
    assert arrived.flags.aligned


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "columns": np.asfortranarray,
    "transposed": lambda x: x.transpose(1, 2, 0),
    "every other": lambda x: x[::2, :, ::2],
    "backwards": lambda x: x[::-1, :, ::-1],
    "broadcast": lambda x: np.broadcast_to(x[:, :1, :], (5, 4, 6)),
    "one row": lambda x: x[:, 1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_the_order_of_elements_in_memory_stays(layout: str, dtype: Any) -> None:
    sent = LAYOUTS[layout](np.arange(120).astype(dtype).reshape(5, 4, 6))
    arrived = over_the_wire(sent)
    same(arrived, sent)
    dense = sent.copy(order="K")
    assert arrived.strides == dense.strides


def test_long_dense_arrays_are_not_copied_when_they_are_sent() -> None:
    for sent in (np.ones((40, 50)), np.ones((40, 50)).T):
        frames: list[Any] = []
        encode_value(sent, frames)
        assert np.shares_memory(np.frombuffer(frames[0], np.uint8), sent)


@pytest.mark.parametrize(("size", "frames"), [(0, 0), (16, 0), (17, 1)])
def test_a_few_elements_need_no_frame(size: int, frames: int) -> None:
    sent = np.arange(size, dtype=np.float32)
    rest: list[Any] = []
    encode_value(sent, rest)
    assert len(rest) == frames
    arrived = over_the_wire(sent)
    same(arrived, sent)
    arrived += 1  # memory of its own
    same(over_the_wire(sent), sent)


@given(arrays.arrays(
    st.sampled_from([np.int8, np.float64, np.complex64]),
    arrays.array_shapes(min_dims=0, min_side=0),
), st.data())  # fmt: skip
def test_any_array(x: Any, data: Any) -> None:
    same(over_the_wire(y := x.transpose(data.draw(st.permutations(range(x.ndim))))), y)


@given(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.none()),
)
def test_numbers(value: complex | None) -> None:
    arrived = over_the_wire(value)
    assert type(arrived) is type(value)
    assert repr(arrived) == repr(value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**1000, -(2**1000)])
def test_long_ints(value: int) -> None:
    assert over_the_wire(value) == value


def test_scalars_of_numpy_become_arrays() -> None:
    same(over_the_wire(np.float32(1.5)), np.asarray(1.5, np.float32))


def test_byte_strings() -> None:
    sent = np.empty((2, 2), object)
    sent[:] = [[b"", b"a"], [b"\0\xff", b"x" * 1000]]
    same(over_the_wire(sent), sent)


def test_lists() -> None:
    sent = ListData({0: np.ones(2), 3: np.zeros((2, 3), np.int8).T}, 5)
    arrived = over_the_wire(sent)
    assert arrived.size == 5
    assert [i for i, _ in arrived.items()] == [0, 3]
    for (_, a), (_, b) in zip(arrived.items(), sent.items(), strict=True):
        same(a, b)


def test_shapes_without_elements() -> None:
    arrived = over_the_wire(NullArray(np.dtype(np.float32), (2, 3)))
    assert (type(arrived), arrived.dtype, arrived.shape) == (NullArray, np.float32, (2, 3))


def test_what_is_no_value() -> None:
    with pytest.raises(ProtocolError, match="a set cannot be sent"):
        encode_value(set(), [])
    with pytest.raises(ProtocolError, match="an int is too large"):
        encode_value(1 << 16_001, [])


HOSTILE: dict[str, tuple[Any, list[bytes]]] = {
    "no frame": (ArrayHead("float32", (2,)), []),
    "short": (ArrayHead("float32", (2,)), [b"1234567"]),
    "long": (ArrayHead("float32", (2,)), [b"123456789"]),
    "huge": (ArrayHead("float32", (2**48,) * 64), [b""]),
    "short elements": (ArrayHead("float32", (2,), (), b"1234567"), []),
    "long elements": (ArrayHead("float32", (2,), (), b"123456789"), []),
    "huge elements": (ArrayHead("bytes", (2**40,), (), b"12345678"), []),
    "huge bytes": (ArrayHead("bytes", (2**40,)), [b"12345678"]),
    "huge and empty": (ArrayHead("bytes", (2**48, 2**48, 0)), [b""]),
    "lengths": (ArrayHead("bytes", (1,)), [b"\xff" * 8]),
    "dtype": (ArrayHead("object", (1,)), [b"12345678"]),
    "list dtype": (ArrayHead("list", (1,)), [b"1"]),
    "order": (ArrayHead("int8", (2, 1), (0, 0)), [b"12"]),
    "far order": (ArrayHead("int8", (2, 1), (0, 5)), [b"12"]),
    "long order": (ArrayHead("int8", (2,), (0, 1)), [b"12"]),
    "order of bytes": (ArrayHead("bytes", (1,), (0,)), [b"\0" * 8]),
    "places": (ListHead(2, (1, 0), (ArrayHead("int8", (1,)),) * 2), [b"1", b"2"]),
    "same place": (ListHead(2, (1, 1), (ArrayHead("int8", (1,)),) * 2), [b"1", b"2"]),
    "beyond": (ListHead(2, (2,), (ArrayHead("int8", (1,)),)), [b"1"]),
    "more places": (ListHead(2, (0, 1), (ArrayHead("int8", (1,)),)), [b"1"]),
    "shape dtype": (ShapeHead("no", ()), []),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_does_not_fit_is_refused(case: str) -> None:
    head, frames = HOSTILE[case]
    with pytest.raises(ProtocolError):
        decode_value(head, iter(frames))
