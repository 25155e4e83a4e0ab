"""Discrete Fourier transforms: `eagerflow.fft`."""

from eagerflow.counterparts import unknown_name
from eagerflow.ops.fft.frequencies import fftfreq as fftfreq
from eagerflow.ops.fft.frequencies import fftshift as fftshift
from eagerflow.ops.fft.frequencies import ifftshift as ifftshift
from eagerflow.ops.fft.frequencies import rfftfreq as rfftfreq
from eagerflow.ops.fft.transforms import fft as fft
from eagerflow.ops.fft.transforms import fftn as fftn
from eagerflow.ops.fft.transforms import hfft as hfft
from eagerflow.ops.fft.transforms import ifft as ifft
from eagerflow.ops.fft.transforms import ifftn as ifftn
from eagerflow.ops.fft.transforms import ihfft as ihfft
from eagerflow.ops.fft.transforms import irfft as irfft
from eagerflow.ops.fft.transforms import irfftn as irfftn
from eagerflow.ops.fft.transforms import rfft as rfft
from eagerflow.ops.fft.transforms import rfftn as rfftn

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
