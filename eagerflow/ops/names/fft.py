"""Discrete Fourier transforms: `eagerflow.fft`."""

from eagerflow.ops.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from eagerflow.ops.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)
from eagerflow.unknown_names import module_dir, module_getattr

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

__getattr__ = module_getattr("eagerflow.fft", globals())
__dir__ = module_dir(globals())
