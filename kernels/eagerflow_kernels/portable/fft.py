"""Kernels of Fourier transforms."""

from __future__ import annotations

from typing import Any

from eagerflow_kernels.table import Array, portable

portable("rfft", "fft.rfft")
portable("irfft", "fft.irfft")


@portable("fft")
def fft(xp: Any, x: Array, *, axes: tuple[int, ...], norm: str, inverse: bool) -> Array:
    """The transform along some axes; the inverse has the opposite sign in the exponent."""
    if len(axes) == 1:
        function = xp.fft.ifft if inverse else xp.fft.fft
        return function(x, axis=axes[0], norm=norm)
    if not axes:
        return x.astype(xp.result_type(x.dtype, xp.complex64))
    function = xp.fft.ifftn if inverse else xp.fft.fftn
    return function(x, axes=axes, norm=norm)
