"""Python numbers in programs: what the nodes ``python_…`` do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from eagerflow.core.convert import scalar
from eagerflow.errors import GraphError, ShapeError
from eagerflow.hardware import Lane

__all__ = ["broadcast_sizes", "power", "to_array"]


def power(kind: type[complex]) -> Callable[[Any, Any], Any]:
    """``**`` whose result must be of that kind: ``2 ** -1`` is a float."""

    def raise_to(base: Any, exponent: Any) -> Any:
        result = base**exponent
        if type(result) is not kind:
            raise GraphError(
                f"{base!r} ** {exponent!r} is a {type(result).__name__}",
                expected=f"a {kind.__name__}, as when the function was traced",
            )
        return result

    return raise_to


def to_array(lane: Lane) -> Callable[[Any], Any]:
    """Makes a number an array without axes, as `eagerflow.core.convert.scalar` does."""

    def general(value: Any) -> Any:
        return scalar(value, lane)._data

    if lane.device.backend.array_type is not np.ndarray:
        return general
    dtype, array = lane.dtype.dtype, np.array

    def make(value: Any) -> Any:
        try:
            return array(value, dtype)
        except (OverflowError, ValueError):
            return general(value)  # finds the words

    return make


def broadcast_sizes(*sizes: int) -> int:
    """The size that sizes broadcast to."""
    stretched = sorted({s for s in sizes if s != 1})
    if len(stretched) > 1:
        raise ShapeError(
            "sizes do not broadcast",
            given=f"sizes {' and '.join(map(str, stretched))}",
            expected="sizes that are equal or 1",
        )
    return stretched[0] if stretched else 1
