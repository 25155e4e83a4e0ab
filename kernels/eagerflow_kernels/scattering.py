"""``ufunc.at`` for arrays of any library and dtype."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from eagerflow_kernels.table import Array

#: the dtypes for which CuPy has loops (14.2: `cupy/_core/_routines_indexing.pyx`)
LOOPS: Final = {"add": "iIlLqQefd", "maximum": "iIlLqQfd", "minimum": "iIlLqQfd"}


def scatter(xp: Any, name: str, out: Array, where: Any, values: Array) -> None:
    """Combine values with elements of ``out``; several values may be for one element.

    Args:
        xp: the array namespace.
        name: of the ufunc that combines them, one of `LOOPS`.
        out: the array to write into.
        where: an index expression.
        values: broadcast against the selected elements.
    """
    ufunc = getattr(xp, name)
    if isinstance(out, np.ndarray) or out.dtype.char in LOOPS[name]:
        ufunc.at(out, where, values)
    elif out.dtype.kind == "c":  # sums of real and imaginary parts
        real, imag = out.real.copy(), out.imag.copy()
        ufunc.at(real, where, values.real)
        ufunc.at(imag, where, values.imag)
        out.real, out.imag = real, imag
    else:  # integers wrap around in the narrow dtype as they would have on the way
        wide = out.astype("float32" if out.dtype.kind == "f" else "int32")
        ufunc.at(wide, where, values.astype(wide.dtype))
        out[...] = wide.astype(out.dtype)
