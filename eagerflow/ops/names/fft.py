"""Discrete Fourier transforms: `eagerflow.fft`."""

from eagerflow.ops.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from eagerflow.ops.fft.transforms import (
    fft,
    fftn,
    hfft,
    ifft,
    ifftn,
    ihfft,
    irfft,
    irfftn,
    rfft,
    rfftn,
)
from eagerflow.unknown_names import module_getattr

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

__getattr__ = module_getattr("eagerflow.fft", globals())


def __dir__() -> list[str]:
    return __all__
