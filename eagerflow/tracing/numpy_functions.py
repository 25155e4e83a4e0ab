"""Functions of NumPy that ops compute to the last bit, with their dtypes: `UFUNCS`, `FUNCTIONS`.

`tests/tracing/test_numpy_arrays.py` compares all of them with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from eagerflow.core.interpreter import current, tracer_among
from eagerflow.core.op import Op, functions, portable_form
from eagerflow.core.tensor import Tensor
from eagerflow.ops.names.numpy_counterparts import (
    IN_DOUBLE,
    OTHERS,
    REDUCTIONS,
    RENAMED,
    SAME_NAMES,
    TOTALS,
    VIEWS,
)

#: public functions by NumPy's function, which compute the same in the dtypes of NumPy's loops
UFUNCS: Final[dict[Any, str]] = {
    getattr(np, RENAMED.get(name, name)): name for name in (*RENAMED, *SAME_NAMES.split())
}
#: exponents of ``array ** number`` for which NumPy and the op compute the same, by kind of dtype
_POWERS: Final[dict[str, Iterable[int]]] = {"i": range(64), "u": range(64), "f": (1, 2)}


class Counterpart(NamedTuple):
    """A public function in place of a function of NumPy.

    Attributes:
        name: of the function.
        operands: NumPy's names of the positional parameters.
        common: for each of them, whether it is converted to the common dtype.
        options: the names of the keyword parameters.
        views: whether NumPy's result shares memory with the array.
        reduces: whether NumPy gives a scalar for a result without axes.
    """

    name: str
    operands: tuple[str, ...]
    common: tuple[bool, ...]
    options: tuple[str, ...]
    views: bool
    reduces: bool


def _counterparts() -> Iterator[Counterpart]:
    """The counterparts in the tables: parameters in capitals are operands of one common dtype."""
    for table in (VIEWS, REDUCTIONS, OTHERS):
        for row in table.replace("\n", "/").split("/"):
            if not row.strip():
                continue
            first, _, options = row.partition(":")
            name, *names = first.split()
            yield Counterpart(
                name, tuple(n.lower() for n in names), tuple(n.isupper() for n in names),
                tuple(options.split()), table is VIEWS, table is REDUCTIONS,
            )  # fmt: skip


METHODS: Final = {one.name: one for one in _counterparts()}
FUNCTIONS: Final[dict[Any, Counterpart]] = {
    getattr(np, name): one for name, one in METHODS.items() if hasattr(np, name)
}


def accumulator(name: str, dtype: Any) -> Any:
    """The dtype in which NumPy's function of this name computes."""
    if name in TOTALS:
        return np.sum(np.zeros(1, dtype)).dtype
    return np.dtype("f8") if name in IN_DOUBLE and dtype.kind in "biu" else dtype


def takes_power(dtype: Any, exponent: Any) -> bool:
    """Whether the op gives NumPy's ``array ** exponent``, which is special for some numbers."""
    known = exponent in _POWERS.get(dtype.kind, ())
    return known and (dtype.kind == "f" or type(exponent) is int)


def cast(x: Tensor, dtype: Any) -> Tensor:
    """The elements in a dtype of NumPy."""
    return x if x.dtype.dtype == dtype else functions["astype"](x, dtype)


def _mean(x: Tensor, **options: Any) -> Tensor:
    """`mean` as NumPy has it, which divides by a number of double precision."""
    total = functions["sum"](x, **options)
    count = x.size if total.size == 0 else x.size // total.size
    wide = np.dtype("c16" if x.dtype.is_complex else "f8")
    return cast(cast(total, wide) / count, x.dtype.dtype)


_COMPOSED: Final[dict[str, Callable[..., Tensor]]] = {
    "mean": _mean,
    "flatten": lambda x: functions["copy"](functions["ravel"](x)),
}


def function_of(name: str) -> Callable[..., Tensor]:
    """The public function of that name, or a composition of several."""
    return _COMPOSED.get(name) or functions[name]


@contextmanager
def calls_of_numpy() -> Iterator[None]:
    """Within the block, traced ops stand for a call of NumPy's and have its bits."""
    tracer = tracer_among(current())
    before = tracer is not None and tracer.follows_numpy
    if tracer is not None:
        tracer.follows_numpy = True
    try:
        yield
    finally:
        if tracer is not None:
            tracer.follows_numpy = before


def op_of_numpy(op: Op, inputs: Sequence[Tensor]) -> Op:
    """The op with NumPy's bits: the portable form, if a native kernel gives other bits."""
    dtypes = [x.dtype.name for x in inputs]
    rules = import_module("eagerflow_kernels.native.op_rules")  # loaded where NumPy is called
    return portable_form(op) if rules.has_own_bits(op.name, dtypes) else op
