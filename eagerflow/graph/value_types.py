"""Types that occur in graphs only: of Python numbers, and of references without an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, final

from eagerflow.types import TensorSpec, TensorType


@final
@dataclass(slots=True, unsafe_hash=True, repr=False)
class NumberType:
    """The type of a Python number in a graph: weak, computed by Python's own arithmetic.

    Numbers are on the host, so it is the spec of a number as well: a type without a device.

    Attributes:
        kind: int, float or complex.
    """

    kind: type[int] | type[float] | type[complex]
    shape: ClassVar[tuple[int, ...]] = ()
    device: ClassVar[None] = None

    @property
    def type(self) -> NumberType:
        """The type itself."""
        return self

    def __str__(self) -> str:
        return self.kind.__name__

    __repr__ = __str__


ValueType = TensorType | NumberType
#: a type and the device of a value
ValueSpec = TensorSpec | NumberType


@final
@dataclass(slots=True, eq=False, repr=False)
class Reference:
    """A name in a text that stands for an object that was not given.

    Attributes:
        kind: ``"resource"``, ``"array"`` or ``"device"``.
        name: as in the text.
        type: of an array.
    """

    kind: Literal["resource", "array", "device"]
    name: str
    type: TensorType | None = None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}, not given>"
