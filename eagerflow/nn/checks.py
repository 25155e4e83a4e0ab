"""Checks of the arguments of layers, and of their inputs.

To traces this is library code: sizes that a layer reads to check them, or to word an error, are
not guarded at each call.
"""

from __future__ import annotations

import math
from typing import Any

import eagerflow as ef
from eagerflow.errors import PrecisionWarning, ShapeError, TensorValueError
from eagerflow.extending import one_of, warn
from eagerflow.nn.module import Module

#: names of the spatial axes in messages, by their number
_SPATIAL = {1: "length", 2: "height, width", 3: "depth, height, width"}
_LAYERS = "eagerflow.nn.layers."
_DOUBLE = ("float64", "complex128")
#: check of the nonlinearity of recurrent steps
NONLINEARITY = one_of("tanh", "relu")


def check_divides(name: str, parts: str, count: int, **sizes: int) -> None:
    """Raise unless all sizes are divisible by a count.

    Args:
        name: the name of the layer.
        parts: the name of the argument that holds ``count``.
        count: the number of equal parts, from 1.
        sizes: the sizes by the names of their arguments.
    """
    for what, size in sizes.items():
        if size % count:
            raise TensorValueError(
                f"{name}: {parts} does not divide {what}",
                given=f"{parts}={count}, {what}={size}",
                expected="equal parts",
            )


def check_one(layer: Any, x: Any, before: Any) -> None:
    """Raise if a layer of a `Sequential` gets a tuple, which would be stacked if shapes permit.

    Args:
        layer: the layer to be called; functions and users' modules may take any argument.
        x: its input.
        before: the layer whose output ``x`` is; None for the first layer.
    """
    if type(x) is not tuple or not type(layer).__module__.startswith(_LAYERS):
        return
    name = type(layer).__name__
    if name in ("Identity", "Sequential"):
        return
    kinds = ", ".join(str(part.type) if isinstance(part, ef.Tensor) else "(...)" for part in x)
    giver = "the layer before" if before is None else type(before).__name__
    raise TensorValueError(
        f"Sequential: {name} takes a tensor, and {giver} gives a tuple",
        given=f"({kinds})",
        hint="recurrent layers give (output, state): put a function between, "
        f"Sequential(..., lambda pair: pair[0], {name}(...)); "
        "the output of the last step is pair[0][-1], or pair[0][:, -1] with batch_first",
    )


def linear_error(layer: Any, x: Any, error: ShapeError) -> ShapeError:
    """The error for an input that does not fit a linear layer, in place of an op's error."""
    given = ef.asarray(x).type
    images = given.ndim > 2 and math.prod(given.shape[1:]) == layer.in_features
    return ShapeError(
        f"Linear: the last axis of the input does not have {layer.in_features} elements",
        given=f"x={given}",
        expected=f"[..., {layer.in_features}]",
        hint="flatten images first: ef.nn.Flatten()" if images else None,
        source=error.source,
    )


def check_channels(layer: Any, x: Any, axes: int | None = None) -> None:
    """Raise unless an input has as many channels as its layer.

    Args:
        layer: the layer.
        x: its input.
        axes: number of axes after the channels, with or without a batch axis before them; None:
            any number, and a batch axis.
    """
    shape = x.shape
    if axes is None:
        channels = layer.num_features
        fits = len(shape) > 1 and shape[1] == channels
        spatial = "..."
    else:
        channels = layer.in_channels
        fits = len(shape) in (axes + 1, axes + 2) and shape[-axes - 1] == channels
        spatial = _SPATIAL[axes]
    if not fits:
        plural = "channel" if channels == 1 else "channels"
        single = "" if axes is None else f" or [{channels}, {spatial}]"
        raise ShapeError(
            f"{type(layer).__name__}: the input does not have {channels} {plural}",
            given=f"x={ef.asarray(x).type}",
            expected=f"[batch, {channels}, {spatial}]{single}",
            hint=_channels_hint(tuple(shape), channels, axes),
        )


def _channels_hint(shape: tuple[Any, ...], channels: int, axes: int | None) -> str | None:
    """A hint about the likely mistake behind an input of this shape, if any."""
    batched = axes is None or len(shape) == axes + 2
    if len(shape) > 2 and shape[-1] == channels:
        return f"channels come before the spatial axes: ef.moveaxis(x, -1, {1 if batched else 0})"
    if axes is not None and len(shape) == axes + 1:
        if channels == 1:
            return "an axis for the channel is missing: x[:, None]"
        return f"{len(shape)} axes are one sample, with {shape[0]} channels"
    return None


def note_precision(out: ef.Tensor, weight: ef.Variable) -> None:
    """Warn if an input in double precision made a layer of lower precision compute in double.

    The warning names the line that called the outermost module: there the input came from.

    Args:
        out: the output of the layer.
        weight: one of its variables.
    """
    dtype = weight.dtype
    if out.dtype is dtype or out.dtype.name not in _DOUBLE or dtype.name in _DOUBLE:
        return
    warn(
        f"inputs of {out.dtype.short} and parameters of {dtype.short}: all is computed in "
        f"{out.dtype.short}. Convert the data once, before the training: "
        f"ef.asarray(x, dtype=ef.{dtype.name}) or x.astype(ef.{dtype.name})",
        PrecisionWarning,
        Module.__call__.__code__,
    )


def check_positions(name: str, x: Any) -> None:
    """Raise unless an input has an axis of positions before its last."""
    if len(x.shape) < 2:
        raise ShapeError(
            f"{name}: the input has no axis of positions",
            given=f"{ef.asarray(x).type}",
            expected="[..., length, size]",
        )
