"""Python numbers in programs: what the nodes ``python_…`` do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from eagerflow.core.convert import scalar
from eagerflow.errors import GraphError, ShapeError
from eagerflow.hardware import Lane

__all__ = ["EXPRESSIONS", "OPERATORS", "broadcast_sizes", "power", "to_array"]

#: the same as functions and as expressions of Python, by op
OPERATORS: Final[dict[str, Callable[..., Any]]] = {
    "python_int": int,
    "python_float": float,
    "python_complex": complex,
    "python_neg": operator.neg,
    "python_pos": operator.pos,
    "python_abs": abs,
    "python_add": operator.add,
    "python_sub": operator.sub,
    "python_mul": operator.mul,
    "python_floordiv": operator.floordiv,
    "python_mod": operator.mod,
    "python_truediv": operator.truediv,
    "python_pow": operator.pow,
    "python_eq": operator.eq,
    "python_ne": operator.ne,
    "python_lt": operator.lt,
    "python_le": operator.le,
    "python_gt": operator.gt,
    "python_ge": operator.ge,
}
EXPRESSIONS: Final = {
    "python_int": "int({0})",
    "python_float": "float({0})",
    "python_complex": "complex({0})",
    "python_neg": "-{0}",
    "python_pos": "+{0}",
    "python_abs": "abs({0})",
    "python_add": "{0} + {1}",
    "python_sub": "{0} - {1}",
    "python_mul": "{0} * {1}",
    "python_floordiv": "{0} // {1}",
    "python_mod": "{0} % {1}",
    "python_truediv": "{0} / {1}",
    "python_eq": "{0} == {1}",
    "python_ne": "{0} != {1}",
    "python_lt": "{0} < {1}",
    "python_le": "{0} <= {1}",
    "python_gt": "{0} > {1}",
    "python_ge": "{0} >= {1}",
    "python_item": "{0}.item()",
}


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
