"""Cached arrays of constants: NumPy takes an array faster than a Python number."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np


@cache
def constant(value: int, dtype: Any) -> Any:
    """An array without axes; it is never written into."""
    made = np.array(value, dtype)
    made.flags.writeable = False
    return made
