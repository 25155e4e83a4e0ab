"""Lanes: the (dtype, device) pairs of values, and the kernels of operators cached there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.types import DType

if TYPE_CHECKING:
    from eagerflow.hardware.registry import Device


@final
class Lane:
    """The (dtype, device) pair of a value. One object per pair, so `is` compares both at once.

    A value in a trace, of which only the type is known, has the *symbolic* lane of its pair, for
    which there are never kernels.

    Args:
        dtype: the dtype of the value.
        device: where the value is, or will be.
        twin: the other lane of the pair, for a symbolic lane.

    Attributes:
        symbolic: whether it is the lane for values in a trace.
        twin: the symbolic lane of a lane, and the other way round.
        truth: the lane of comparisons.
    """

    __slots__ = ("array_type", "device", "dtype", "kernels", "symbolic", "truth", "twin", "weak")

    truth: Lane

    def __init__(self, dtype: DType, device: Device, twin: Lane | None = None) -> None:
        self.dtype = dtype
        self.device = device
        self.symbolic = twin is not None
        self.array_type = None if self.symbolic else device.backend.array_type
        #: the kernels that operators use when both operands are of this lane, by operator number
        self.kernels: list[Callable[..., Any] | None] = [None] * _MAX_OPERATORS
        #: Python numbers that the device's own kernels take as they are, without a change of dtype
        self.weak: frozenset[type] = _weak_types(dtype, device) if twin is None else twin.weak
        self.twin: Lane = Lane(dtype, device, self) if twin is None else twin

    def __repr__(self) -> str:
        return f"{self.dtype.short}@{self.device}{' in a trace' if self.symbolic else ''}"


_MAX_OPERATORS: Final = 32
_operators: dict[str, int] = {}


def operator_number(name: str) -> int:
    """The position of the operator ``name`` in `Lane.kernels`."""
    number = _operators.setdefault(name, len(_operators))
    assert number < _MAX_OPERATORS
    return number


def known_operator(name: str) -> int | None:
    """The position of the operator ``name``, None if there is no such operator."""
    return _operators.get(name)


def _weak_types(dtype: DType, device: Device) -> frozenset[type]:
    if not device.holds_data or not dtype.is_native:
        return frozenset()
    ranks = {"signed integer": 1, "unsigned integer": 1, "real floating": 2, "complex floating": 3}
    return frozenset((int, float, complex)[: ranks.get(dtype.category, 0)])
