"""Two kinds of things that occur in graphs only: Python numbers, and names without an object."""

from __future__ import annotations

from typing import Literal, final

from eagerflow.types import TensorSpec, TensorType

__all__ = ["NumberType", "Reference", "ValueSpec", "ValueType"]


@final
class NumberType:
    """The type of a Python number in a graph: weak, computed by Python's own arithmetic.

    Numbers are on the host, so this is the spec of one as well: a type without a device.

    Attributes:
        kind: int, float or complex.
    """

    __slots__ = ("kind",)

    def __init__(self, kind: type[int] | type[float] | type[complex]) -> None:
        self.kind = kind

    @property
    def shape(self) -> tuple[int, ...]:
        """No axes."""
        return ()

    @property
    def type(self) -> NumberType:
        """Itself."""
        return self

    @property
    def device(self) -> None:
        """No device."""
        return None

    def __str__(self) -> str:
        return self.kind.__name__

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumberType) and other.kind is self.kind

    def __hash__(self) -> int:
        return hash(self.kind)


ValueType = TensorType | NumberType
#: a type and the device of a value
ValueSpec = TensorSpec | NumberType


@final
class Reference:
    """What a text names without holding it, as long as the object is not given.

    Attributes:
        kind: ``"resource"``, ``"array"`` or ``"device"``.
        name: as in the text.
        type: of an array.
    """

    __slots__ = ("kind", "name", "type")

    def __init__(
        self,
        kind: Literal["resource", "array", "device"],
        name: str,
        type: TensorType | None = None,
    ) -> None:
        self.kind = kind
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}, not given>"
