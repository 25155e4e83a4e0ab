"""Cases of the Fourier transforms, against the sums that define them."""

from __future__ import annotations

import numpy as np

from tests.ops.case import FLOATING, INEXACT, OpCase
from tests.ops.cases.linalg import ONE, shaped


def resized(x, n, axis):
    """``x`` cut to n elements along an axis, or padded with zeros."""
    x = np.moveaxis(x, axis, 0)
    out = np.zeros((n, *x.shape[1:]), dtype=x.dtype)
    k = min(n, len(x))
    out[:k] = x[:k]
    return np.moveaxis(out, 0, axis)


def transform(x, n, axis, norm, sign):
    """The transform along one axis, as a product with the matrix of exponentials."""
    x = np.moveaxis(resized(x.astype(np.complex128), n, axis), axis, 0)
    fractions = np.outer(np.arange(n), np.arange(n)) % n / n
    out = np.tensordot(np.exp(sign * 2j * np.pi * fractions), x, axes=1)
    scaled = {"backward": sign > 0, "forward": sign < 0}.get(norm)
    out = out * (n**-0.5 if norm == "ortho" else 1 / n if scaled else 1)
    return np.moveaxis(out, 0, axis)


def whole(x, n, axis):
    """The spectrum of n points, from its first half."""
    x = np.moveaxis(resized(x.astype(np.complex128), n // 2 + 1, axis), axis, 0)
    out = np.zeros((n, *x.shape[1:]), dtype=np.complex128)
    for k in range(n):
        out[k] = x[k] if k <= n // 2 else np.conj(x[n - k])
    for k in {0, n // 2} if n % 2 == 0 else {0}:
        out[k] = out[k].real
    return np.moveaxis(out, 0, axis)


def _size(x, n, axis):
    return x.shape[axis] if n is None else n


def fft(x, n=None, axis=-1, norm="backward"):
    return transform(x, _size(x, n, axis), axis, norm, -1)


def ifft(x, n=None, axis=-1, norm="backward"):
    return transform(x, _size(x, n, axis), axis, norm, 1)


def _half(x, axis):
    return np.take(x, range(x.shape[axis] // 2 + 1), axis=axis)


def rfft(x, n=None, axis=-1, norm="backward"):
    return _half(fft(x, n, axis, norm), axis)


def ihfft(x, n=None, axis=-1, norm="backward"):
    return _half(ifft(x, n, axis, norm), axis)


def irfft(x, n=None, axis=-1, norm="backward"):
    n = 2 * (x.shape[axis] - 1) if n is None else n
    return transform(whole(x, n, axis), n, axis, norm, 1).real


def hfft(x, n=None, axis=-1, norm="backward"):
    n = 2 * (x.shape[axis] - 1) if n is None else n
    return transform(whole(x, n, axis), n, axis, norm, -1).real


def along(*functions):
    """The transform along several axes: one function for the last of them, one for the rest."""
    last, rest = functions[0], functions[-1]

    def apply(x, s=None, axes=None, norm="backward"):
        axes = tuple(range(x.ndim)) if axes is None and s is None else axes
        axes = tuple(range(x.ndim - len(s), x.ndim)) if axes is None else axes
        sizes = [None if k == -1 else k for k in (s or [-1] * len(axes))]
        steps = [(rest, a, n) for a, n in zip(axes[:-1], sizes[:-1], strict=True)]
        step = (last, axes[-1], sizes[-1])
        for function, axis, n in [step, *steps] if last is rfft else [*steps, step]:
            x = function(x, n=n, axis=axis, norm=norm)
        return x

    return apply


def frequencies(n, d=1.0, dtype=None):
    return np.array([(k if k < (n + 1) // 2 else k - n) / (n * d) for k in range(n)])


def rolled(shift):
    def apply(x, axes=None):
        for axis in range(x.ndim) if axes is None else axes:
            n = x.shape[axis]
            order = [(k + shift(n)) % n for k in range(n)]
            x = np.take(x, order, axis=axis)
        return x

    return apply


_KWARGS = (
    {},
    {"axis": 0, "norm": "ortho"},
    {"n": 7, "norm": "forward"},
    {"n": 4},
    {"n": 9, "axis": 0},
    {"n": 1},
)
_KWARGS_N = (
    {},
    {"axes": (1, 0), "norm": "ortho"},
    {"axes": (0, 2), "s": (5, 3), "norm": "forward"},
    {"axes": (2, -2), "s": (2, -1)},
)


def _rows(name, reference, dtypes, shape, all_kwargs, op):
    def label(kwargs):
        return "-".join(f"{k}{v}".replace(" ", "") for k, v in kwargs.items())

    return [
        OpCase(f"fft.{name}", shaped(shape), reference, kwargs, dtypes, (0,), layouts=ONE,
               label=label(kwargs), tolerance=5, ops=(op,))
        for kwargs in all_kwargs
    ]  # fmt: skip


_FLAT, _DEEP = (3, 6), (2, 3, 4)
CASES = [
    *_rows("fft", fft, INEXACT, _FLAT, _KWARGS, "fft"),
    *_rows("ifft", ifft, INEXACT, _FLAT, _KWARGS, "fft"),
    *_rows("rfft", rfft, FLOATING, _FLAT, _KWARGS, "rfft"),
    *_rows("ihfft", ihfft, FLOATING, _FLAT, _KWARGS, "rfft"),
    *_rows("irfft", irfft, INEXACT, _FLAT, _KWARGS, "irfft"),
    *_rows("hfft", hfft, INEXACT, _FLAT, _KWARGS, "irfft"),
    *_rows("fftn", along(fft), INEXACT, _DEEP, _KWARGS_N, "fft"),
    *_rows("ifftn", along(ifft), INEXACT, _DEEP, _KWARGS_N, "fft"),
    *_rows("rfftn", along(rfft, fft), FLOATING, _DEEP, _KWARGS_N, "rfft"),
    *_rows("irfftn", along(irfft, ifft), INEXACT, _DEEP, _KWARGS_N, "irfft"),
    OpCase("fft.fftn", lambda s: (s.array(shape=(3,)),), lambda x, axes: x.astype(complex),
           {"axes": ()}, INEXACT, (0,), layouts=ONE, label="no-axes"),
    *(
        OpCase(f"fft.{name}", lambda s, n=n: (n,), lambda n, f=f, **kw: f(n, **kw), {"d": 0.5},
               ("float32",), no_grad="it takes no array", layouts=("matrix",), label=str(n),
               ops=("arange",))
        for n in (1, 2, 5, 8)
        for name, f in {
            "fftfreq": frequencies,
            "rfftfreq": lambda n, d: np.abs(frequencies(n, d)[: n // 2 + 1]),
        }.items()
    ),
    *(
        OpCase(f"fft.{name}", shaped(_FLAT), rolled(shift), kwargs, INEXACT, (0,), layouts=ONE,
               label="-".join(map(str, kwargs.values())), exact=True, ops=("roll",))
        for name, shift in {
            "fftshift": lambda n: (n + 1) // 2, "ifftshift": lambda n: n // 2,
        }.items()
        for kwargs in ({}, {"axes": (1,)})
    ),
]  # fmt: skip
