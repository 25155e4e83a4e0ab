"""Discrete Fourier transforms: `eagerflow.fft`."""

from eagerflow.counterparts import unknown_name
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


def __getattr__(name: str) -> object:
    """Word the error for a name that is not here, with the nearest one that is."""
    if name.startswith("__"):
        raise AttributeError(name)
    raise unknown_name("eagerflow.fft", name, {n: globals()[n] for n in __all__})


def __dir__() -> list[str]:
    return __all__
