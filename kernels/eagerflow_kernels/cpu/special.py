"""Special functions for the CPU: SciPy's, in the dtype of the input."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from eagerflow_kernels.table import special

Array = np.ndarray[Any, Any]


@cache
def _scipy() -> Any:
    import scipy.special  # noqa: PLC0415 - `import eagerflow` must not load SciPy

    return scipy.special


def _register(op: str, function: str) -> None:
    def kernel(*arrays: Array) -> Array:
        out: Array = getattr(_scipy(), function)(*arrays)
        return out.astype(arrays[0].dtype, copy=False)

    kernel.__doc__ = f"SciPy's {function}."
    special(op, "cpu")(kernel)


for _op in (
    "erf", "erfc", "erfinv", "gammainc", "gammaincc", "i0", "i0e", "i1", "i1e", "ndtri",
):  # fmt: skip
    _register(_op, _op)


@special("lgamma", "cpu")
def lgamma(x: Array) -> Any:
    """SciPy's gammaln, but infinite at negative infinity, as C's lgamma."""
    return np.where(x == -np.inf, np.inf, _scipy().gammaln(x)).astype(x.dtype, copy=False)


@special("zeta", "cpu")
def zeta(s: Array, q: Array) -> Array:
    """SciPy's zeta with its limits, but NaN for negative ``q`` and where an input is NaN."""
    with np.errstate(all="ignore"):
        out = np.where(s == np.inf, q**-s, _scipy().zeta(s, q))
    out = np.where((q >= 0) & (s == s), out, np.nan)
    return np.asarray(out, dtype=s.dtype)


@special("polygamma", "cpu")
def polygamma(x: Array, *, n: int) -> Array:
    """SciPy's polygamma; its digamma for order 0, which is faster."""
    out: Array = _scipy().psi(x) if n == 0 else _scipy().polygamma(n, x)
    return out.astype(x.dtype, copy=False)
