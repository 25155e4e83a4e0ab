"""Checks of what layers are made with, and of their inputs.

Library code for traces: that a layer reads its sizes to check them, or to word an error, is no
reason to guard them at each call.
"""

from __future__ import annotations

import math
from typing import Any

import eagerflow as ef
from eagerflow.errors import ShapeError, TensorValueError

__all__ = ["check_channels", "check_positions", "check_sizes", "linear_error"]

_PLACES = ("height", "width")


def check_sizes(name: str, **sizes: int) -> None:
    """Raise unless all sizes are integers from 1."""
    for what, size in sizes.items():
        if type(size) is not int or size < 1:
            raise TensorValueError(
                f"{name}: {what} is no size",
                given=f"{what}={size!r}",
                expected="an integer from 1",
            )


def linear_error(layer: Any, x: Any, error: ShapeError) -> ShapeError:
    """The error for an input that does not fit a linear layer, instead of that of an op."""
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
        layer: whose input it is.
        x: the input.
        axes: how many axes there are after that of the channels, with or without one of the batch
            before it; None: any number, and one of the batch.
    """
    shape = x.shape
    if axes is None:
        channels = layer.num_features
        fits = len(shape) > 1 and shape[1] == channels
        places = "..."
    else:
        channels = layer.in_channels
        fits = len(shape) in (axes + 1, axes + 2) and shape[-axes - 1] == channels
        places = ", ".join(_PLACES) if axes == 2 else "length"
    if not fits:
        raise ShapeError(
            f"{type(layer).__name__}: the input does not have {channels} channels",
            given=f"x={ef.asarray(x).type}",
            expected=f"[batch, {channels}, {places}]",
            hint="images with channels last: ef.moveaxis(x, -1, 1)" if axes == 2 else None,
        )


def check_positions(name: str, x: Any) -> None:
    """Raise unless an input has an axis of positions before its last."""
    if len(x.shape) < 2:
        raise ShapeError(
            f"{name}: the input has no axis of positions",
            given=f"{ef.asarray(x).type}",
            expected="[..., length, size]",
        )
