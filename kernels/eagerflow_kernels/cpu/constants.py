"""Numbers as arrays: NumPy takes these at once, and looks long at a number of Python."""

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
