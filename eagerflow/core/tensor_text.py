"""The text of tensors whose elements are known: their `repr` and `str`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from eagerflow.core.to_python import unmarked
from eagerflow.types import BYTES

if TYPE_CHECKING:
    from eagerflow.core.tensor import Tensor

_PREFIX: Final = "Tensor("
#: the greatest number of bytes shown of one element
_LONGEST: Final = 64
#: the number of elements up to which all are shown, and NumPy's default for its own setting
_SHOWN: Final = 200
_NUMPYS_SHOWN: Final = 1000


def shown(x: Tensor) -> str:
    """The `repr` of a tensor."""
    text = elements(x, _PREFIX)
    if x.size > _threshold():  # the type comes first, as it matters most here
        return f"{_PREFIX}{x.type},\n{' ' * len(_PREFIX)}{text})"
    return f"{_PREFIX}{text}, {x.type})"


def elements(x: Tensor, prefix: str = "") -> str:
    """The elements as text, of many the first and the last ones.

    Args:
        x: the tensor.
        prefix: the text before it, by whose length further lines are indented.
    """
    array = unmarked(x).numpy()
    if not x.dtype.is_native:
        array = array.astype(np.float32)
    if array.size == 0:
        return "[]" if array.ndim == 1 else f"empty{array.shape}"
    spelled: Any = {"object": _spelled} if x.dtype is BYTES else None
    separator = ", " if prefix else " "
    return np.array2string(
        array, separator=separator, prefix=prefix, formatter=spelled, threshold=_threshold()
    )


def _threshold() -> int:
    """The number of elements up to which all are shown: NumPy's setting, if it was changed."""
    chosen = np.get_printoptions()["threshold"]
    return _SHOWN if chosen == _NUMPYS_SHOWN else chosen


def _spelled(data: bytes) -> str:
    """The repr of bytes; of many the first ones, and their number."""
    return repr(data) if len(data) <= _LONGEST else f"{data[:_LONGEST]!r}… ({len(data)} bytes)"
