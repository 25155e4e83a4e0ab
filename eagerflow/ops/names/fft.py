"""Discrete Fourier transforms: `eagerflow.fft`."""

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
