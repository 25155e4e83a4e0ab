"""Checks of the arguments of recurrent layers: sequences, their lengths, and initial states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import eagerflow as ef
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.extending import Size, TensorLike, in_range, matched, may_equal, same
from eagerflow.types import DType


def check_sequences(name: str, x: ef.Tensor, size: int, batch_first: bool) -> None:
    """Raise unless ``x`` is a sequence, or a batch of sequences, of vectors of length ``size``."""
    if len(x.shape) in (2, 3) and may_equal(x.shape[-1], size):
        return
    order = "batch, time" if batch_first else "time, batch"
    raise ShapeError(
        f"{name}: the input is not a sequence of rows of {size} elements",
        given=f"x={x.type}",
        expected=f"[{order}, {size}], or [time, {size}] of a single sequence",
    )


def check_rows(name: str, x: ef.Tensor, size: int) -> None:
    """Raise unless ``x`` is a vector of length ``size``, or a batch of such vectors."""
    if len(x.shape) in (1, 2) and may_equal(x.shape[-1], size):
        return
    raise ShapeError(
        f"{name}: the last axis of the input does not have {size} elements",
        given=f"x={x.type}",
        expected=f"[batch, {size}], or [{size}] of a single row",
    )


def first_state(
    name: str, given: Any, x: ef.Tensor, shapes: Sequence[tuple[Size, ...]], dtype: DType
) -> tuple[ef.Tensor, ...]:
    """The tensors of an initial state; zeros if none is given.

    Args:
        name: name of the layer, for messages.
        given: the state given to the layer: None, a tensor, or for two shapes a pair.
        x: the input of the layer, for its device.
        shapes: shapes of the tensors.
        dtype: dtype in which the layer computes.

    Raises:
        TensorValueError: the state has another structure.
        ShapeError: a tensor has another shape.
        DTypeError: a tensor has another dtype.
    """
    if given is None:
        zeros: Any = ef.zeros  # sizes may be symbolic
        return tuple([zeros(shape, dtype=dtype, device=x.device) for shape in shapes])
    parts = given if isinstance(given, (tuple, list)) else (given,)
    if len(parts) != len(shapes):
        raise TensorValueError(
            f"{name}: the state to start from has another structure",
            given=f"{len(parts)} tensors",
            expected="a pair (h, c)" if len(shapes) == 2 else "one tensor",
        )
    return tuple([_part(name, ef.asarray(p), s, dtype) for p, s in zip(parts, shapes, strict=True)])


def _part(name: str, part: ef.Tensor, shape: tuple[Size, ...], dtype: DType) -> ef.Tensor:
    wrong = f"{name}: the state to start from has another shape"
    expected = f"[{', '.join(map(str, shape))}]"
    if len(part.shape) != len(shape) or not all(map(may_equal, part.shape, shape)):
        raise ShapeError(wrong, given=str(part.type), expected=expected)
    if part.dtype is not dtype:
        raise DTypeError(
            f"{name}: the state to start from has another dtype",
            given=str(part.type),
            expected=f"{dtype}, which input and weights have",
        )
    return _sized(part, shape, wrong, f"{part.type} for {expected}")


def _sized(x: ef.Tensor, shape: tuple[Size, ...], wrong: str, given: str) -> ef.Tensor:
    """``x``, checked for its shape; in a trace, sizes may have other names."""
    sized = matched(x, x.shape, shape, wrong, given)
    return sized if all(map(same, x.shape, shape)) else sized.reshape(shape)


def mask_of(name: str, lengths: TensorLike, x: ef.Tensor) -> ef.Tensor:
    """Whether each step belongs to its sequence, bool ``[time, batch, 1]``.

    Args:
        name: name of the layer, for messages.
        lengths: the length of each sequence.
        x: ``[time, batch, inputs]``.

    Raises:
        DTypeError: the lengths are no integers.
        ShapeError: the number of lengths is not that of the sequences.
        TensorValueError: a length is negative or exceeds the number of steps; if traced, raised
            at run time.
    """
    steps, batch = x.shape[:2]
    counts = ef.asarray(lengths)
    if not counts.dtype.is_integer:
        raise DTypeError(f"{name}: the lengths are not integers", given=f"lengths={counts.type}")
    wrong = f"{name}: there is not one length for each sequence"
    given = f"lengths={counts.type}, {batch} sequences"
    if len(counts.shape) != 1 or not may_equal(counts.shape[0], batch):
        raise ShapeError(wrong, given=given, expected=f"[{batch}]")
    counts = _sized(counts, (batch,), wrong, given).to(x.device).astype(ef.int64)
    most = ef.full((), steps, dtype=ef.int64, device=x.device)
    for refusal, a, b in (
        ("a length is negative", ef.zeros_like(most), counts),
        ("a sequence is longer than the input", counts, most),
    ):
        wrong = f"{name}: {refusal}"
        counts = in_range(counts, "bounds", wrong, a, b, dtype=ef.int64, on=x.device)
    return (ef.arange(steps, device=x.device)[:, None] < counts)[..., None]
