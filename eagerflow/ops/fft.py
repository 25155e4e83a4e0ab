"""Discrete Fourier transforms: `eagerflow.fft`."""

from eagerflow.counterparts import unknown_name
from eagerflow.ops.fourier import fft as fft
from eagerflow.ops.fourier import fftn as fftn
from eagerflow.ops.fourier import hfft as hfft
from eagerflow.ops.fourier import ifft as ifft
from eagerflow.ops.fourier import ifftn as ifftn
from eagerflow.ops.fourier import ihfft as ihfft
from eagerflow.ops.fourier import irfft as irfft
from eagerflow.ops.fourier import irfftn as irfftn
from eagerflow.ops.fourier import rfft as rfft
from eagerflow.ops.fourier import rfftn as rfftn
from eagerflow.ops.frequencies import fftfreq as fftfreq
from eagerflow.ops.frequencies import fftshift as fftshift
from eagerflow.ops.frequencies import ifftshift as ifftshift
from eagerflow.ops.frequencies import rfftfreq as rfftfreq

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
