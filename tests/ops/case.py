"""`OpCase`: one row of the table that drives all tests of ops.

A row says how to make arguments, which result is right (a reference independent of the kernel),
for which dtypes, and which arguments have a gradient. `tests/ops/test_table.py` runs every row in
every column (eager, traced; later partitioned, compiled).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTEGER = SIGNED + UNSIGNED
FLOATING = ("float16", "float32", "float64", "bfloat16")
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
COMPLEX = ("complex64", "complex128")
REAL = INTEGER + FLOATING
INEXACT = FLOATING + COMPLEX
NUMERIC = REAL + COMPLEX
ALL = BOOL + NUMERIC
BYTES = ("bytes",)

#: the layouts in which every array argument is made: shape, and whether it is strided
LAYOUTS: dict[str, tuple[tuple[int, ...], bool]] = {
    "0d": ((), False),
    "empty": ((0,), False),
    "vector": ((5,), False),
    "matrix": ((3, 4), False),
    "strided": ((4, 3), True),
}

SPECIALS = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0])

#: tolerances relative to the largest magnitude, by dtype of the result
TOLERANCE = {
    "float64": 1e-12,
    "complex128": 1e-12,
    "float32": 2e-6,
    "complex64": 4e-6,
    "float16": 4e-3,
    "bfloat16": 2e-2,
    "float8_e4m3fn": 0.13,
    "float8_e5m2": 0.26,
}


def np_dtype(name: str) -> np.dtype[Any]:
    """NumPy's dtype of a name, ml_dtypes included; `object` for the dtype bytes."""
    if name == "bytes":
        return np.dtype(object)
    return np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)


@dataclass
class Sample:
    """Makes the arguments of one test: same seed, same values.

    Attributes:
        rng: the source of the values.
        dtype: the dtype under test, by name.
        shape: the shape of the layout under test.
        strided: whether arrays are non-contiguous views (every second element, reversed).
        special: whether arrays hold NaN, infinities and signed zeros.
    """

    rng: np.random.Generator
    dtype: str
    shape: tuple[int, ...]
    strided: bool = False
    special: bool = False

    def array(
        self,
        low: float = -3.0,
        high: float = 3.0,
        shape: tuple[int, ...] | None = None,
        dtype: str | None = None,
    ) -> Any:
        """Values in [low, high) (rounded for integers, clipped at 0 for unsigned ones).

        Of dtype bytes: numbers written out, empty byte strings, and some that end in zeros.
        """
        shape = self.shape if shape is None else shape
        name = self.dtype if dtype is None else dtype
        made = tuple(2 * n for n in shape) if self.strided else shape
        values: Any = self.rng.uniform(low, high, made)
        kind = np_dtype(name)
        if self.special and kind.kind not in "biu":
            values = self.rng.choice(SPECIALS, made)
        if name == "bytes":
            texts = [b"%.2f" % x if x > 0 else bytes(int(-x)) for x in values.ravel().tolist()]
            made_of = np.empty(made, object)
            made_of.ravel()[:] = texts
            values = made_of
        elif name == "bool":
            values = values > (low + high) / 2
        elif kind.kind in "iu":
            values = np.floor(values)
            if kind.kind == "u":
                values = np.maximum(values, max(0.0, float(np.ceil(low))))
        elif kind.kind == "c":
            values = values + 1j * self.rng.uniform(low, high, made)
        values = np.asarray(values).astype(kind)
        if self.strided:
            values = values[(..., *(slice(None, None, -2) for _ in shape))]
        return values

    def ints(self, low: int, high: int, shape: tuple[int, ...], dtype: str = "int64") -> Any:
        """Integers in [low, high)."""
        return self.rng.integers(low, high, shape).astype(dtype)


@dataclass(frozen=True)
class OpCase:
    """One row of the table.

    Attributes:
        name: the public function, dotted under ``ef`` (``"linalg.qr"``).
        make: gives the positional arguments from a `Sample`; NumPy arrays in it (also within
            lists and tuples) become tensors, all else is passed as it is.
        reference: the right result, given the same arguments as NumPy arrays. Low-precision and
            half floats come as float32 or wider: compute in the precision given or better.
        kwargs: keyword arguments of the function (and of the reference, unless `plain` is set).
        dtypes: the dtypes to run, by name.
        grad: positions of the arguments to check gradients of, in float64 (and complex128 where
            the row has it); empty only with a reason in `no_grad`.
        no_grad: why there is no gradient to check.
        layouts: which of `LAYOUTS` to run.
        ops: the op records that the row exercises; by default the function's own name.
        tolerance: factor on `TOLERANCE`.
        compare: compares ``(got, want)`` instead of the table's own comparison, for results that
            are right up to a sign or an order; raises AssertionError.
        specials: run on NaN, infinities and signed zeros as well.
        exact: results must be equal bit for bit.
        label: distinguishes several rows of one function.
        second: check second-order gradients as well.
        plain: call the reference without the keyword arguments.
        specialises: why the function asks for a size or a number while it is traced, so that
            another size or number causes a retrace; empty if it asks for none.
        fixed: why there is no second size for its tensors; empty if there is.
        untraceable: why the function cannot be traced; empty if it can.
        seed: of the generator that the function draws from, made anew in each call, so that the
            function gives equal results for equal arguments.
    """

    name: str
    make: Callable[[Sample], Sequence[Any]]
    reference: Callable[..., Any]
    kwargs: dict[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = FLOATING
    grad: tuple[int, ...] = ()
    no_grad: str = ""
    layouts: tuple[str, ...] = tuple(LAYOUTS)
    ops: tuple[str, ...] = ()
    tolerance: float = 1.0
    compare: Callable[[Any, Any], None] | None = None
    specials: bool = False
    exact: bool = False
    label: str = ""
    second: bool = True
    plain: bool = False
    specialises: str = ""
    fixed: str = ""
    untraceable: str = ""
    seed: int | None = None

    def __post_init__(self) -> None:
        if bool(self.grad) == bool(self.no_grad):
            raise ValueError(f"{self.name}: give either grad or the reason for none (no_grad)")

    @property
    def id(self) -> str:
        """The row's name in test reports."""
        return f"{self.name}-{self.label}" if self.label else self.name

    def covers(self) -> tuple[str, ...]:
        """The op records that the row exercises."""
        return self.ops or (self.name.rpartition(".")[2],)
