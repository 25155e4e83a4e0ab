"""Operands of `bind` that are no tensors: variables are read, others refused."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from eagerflow.errors import DTypeError
from eagerflow.formatting import kind_of

if TYPE_CHECKING:
    from eagerflow.core.op import Op

#: operands that an error shows; others are described
_SHOWN: Final = (bool, int, float, complex, str, bytes, list, tuple, np.ndarray, np.generic)


def read_operands(op: Op, inputs: Sequence[Any]) -> list[Any] | None:
    """The operands, variables read; None if all are tensors. An attribute of those was missing.

    Raises:
        DTypeError: an operand is neither.
    """
    if all(hasattr(x, "_data") for x in inputs):
        return None
    operands = list(inputs)
    for i, x in enumerate(inputs):
        if hasattr(x, "_data"):
            continue
        operands[i] = x.__tensor__() if hasattr(x, "_lane") else None
        if not hasattr(operands[i], "_data"):
            name = op.arguments[i] if i < len(op.arguments) else f"operand {i + 1}"
            raise DTypeError(
                f"bind of {op.name}: {name} is no tensor",
                given=reprlib.repr(x) if isinstance(x, _SHOWN) else kind_of(x),
                expected="tensors as operands; numbers may be attributes, by keyword",
                hint="ef.asarray(x) makes a tensor of a number, a list or an array",
            ) from None
    return operands
