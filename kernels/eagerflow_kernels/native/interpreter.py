"""The reference interpreter of loops, element by element: it defines their meaning.

It is written to be read, not to be fast. Elements are scalars of NumPy, whose single operations
round once, as IEEE 754 requires.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import ml_dtypes
import numpy as np

from eagerflow_kernels.native.loop_form import (
    BITS,
    BLOCK,
    BYTES,
    FLOATS,
    LOW,
    PICK,
    REDUCTIONS,
    SCANS,
    SCATTER,
    TALLIES,
    Kind,
    Loops,
    Term,
    start_of,
    value_of,
)

DTYPES: Final[dict[Kind, Any]] = {
    "f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16,
}  # fmt: skip
_DIGITS: Final = {"f32": (24, -149), "f64": (53, -1074)}
_FORMATS: Final = {"f32": "<f", "f64": "<d", "i32": "<i", "i64": "<q"}


def interpret(loops: Loops, arrays: Sequence[Any], length: int = 0) -> tuple[Any, ...]:
    """The outputs of loops.

    Args:
        loops: the loops to run.
        arrays: a list of rows per input: numbers, or lists of numbers if it has an inner axis; for
            a table, all its rows. A table that is added to changes.
        length: of the inner axis, if no input has one.

    >>> from eagerflow_kernels.native.loop_form import LoopArray, LoopBuilder
    >>> b = LoopBuilder([LoopArray("f32", inner=True)])
    >>> interpret(b.build("total", [b.reduce("sum", b.load(0))]), [[[1, 2, 3], [4, 5, 6]]])
    (array([ 6., 15.], dtype=float32),)
    """
    rows = next(len(x) for x, of in zip(arrays, loops.inputs, strict=True) if not of.table)
    for x, of in zip(arrays, loops.inputs, strict=True):
        if of.inner and rows and len(x):
            length = len(x[0])
    shapes = [(rows, length) if of.inner else (rows,) for of in loops.outputs]
    outputs = tuple(
        np.empty(s, DTYPES[of.kind]) for s, of in zip(shapes, loops.outputs, strict=True)
    )
    with np.errstate(all="ignore"):
        for row in range(rows):
            given = zip(arrays, loops.inputs, strict=True)
            results = _row(loops, [x if of.table else x[row] for x, of in given], length)
            for output, of, values in zip(outputs, loops.outputs, results, strict=True):
                output[row] = values if of.inner else values[0]
    return outputs


def _row(loops: Loops, arrays: list[Any], length: int) -> list[list[Any]]:
    """The results of one row, each as a list of elements; per-row results have one element."""
    values: list[list[Any]] = []
    for term in loops.terms:
        operands = [values[x] for x in term.operands]
        if term.operation in REDUCTIONS:
            elements = operands[0] if loops.terms[term.operands[0]].inner else operands[0] * length
            values.append([reduced(term.operation, term.kind, elements)])
            continue
        if term.operation in SCANS:
            elements = operands[0] if loops.terms[term.operands[0]].inner else operands[0] * length
            values.append(scanned(term.operation, term.kind, elements))
            continue
        if term.operation == SCATTER:
            elements, (place,) = operands
            x = loops.terms[term.operands[0]]
            table, inner = arrays[term.constant], loops.inputs[term.constant].inner
            elements = elements * length if inner and not x.inner else elements
            values.append([_scattered(x.kind, table, int(place), elements, inner=inner)])
            continue
        count = length if term.inner else 1
        spread = [x if len(x) == count or not term.inner else x * count for x in operands]
        values.append(
            [_element(term, arrays, length, [x[i] for x in spread], i) for i in range(count)]
        )
    return [
        values[x] * length if of.inner and not loops.terms[x].inner else values[x]
        for x, of in zip(loops.results, loops.outputs, strict=True)
    ]


def _element(term: Term, arrays: list[Any], length: int, operands: list[Any], i: int) -> Any:
    if term.operation == "load":
        array = arrays[term.constant]
        return DTYPES[term.kind](array[i] if term.inner else array)
    if term.operation == PICK:
        return DTYPES[term.kind](arrays[term.constant][int(operands[0])][i])
    if term.operation == "constant":
        return DTYPES[term.kind](value_of(term.constant, term.kind))
    if term.operation == "size":
        return DTYPES[term.kind](length)
    if term.operation == "index":
        return DTYPES[term.kind](i)
    return applied(term, *operands)


def applied(term: Term, *operands: Any) -> Any:
    """The value of an operation of `OPERATIONS` on scalars.

    >>> applied(Term("add", "f32", False), np.float32(0.5), np.float32(1.5))
    np.float32(2.0)
    """
    return _OPERATIONS[term.operation](term, *operands)


def _scattered(kind: Kind, table: Any, place: int, elements: Sequence[Any], *, inner: bool) -> Any:
    """Add elements to a row of a table, if there is one of that number: whether there is."""
    there = 0 <= place < len(table)
    for i, x in enumerate(elements if there else ()):
        at = (place, i) if inner else place
        table[at] = _OPERATIONS["add"](Term("add", kind, False), table[at], x)
    return DTYPES["bool"](there)


def reduced(reduction: str, kind: Kind, elements: Sequence[Any]) -> Any:
    """A reduction, by the tree that `loop_form` describes.

    >>> reduced("sum", "f32", [np.float32(x) for x in (0.5, 1.5)])
    np.float32(2.0)
    """
    combine = _OPERATIONS[REDUCTIONS[reduction]]
    term = Term(REDUCTIONS[reduction], kind, False)
    start = DTYPES[kind](value_of(start_of(reduction, kind), kind))
    if not len(elements):
        return empty_of(reduction, kind)
    waiting: dict[int, list[Any]] = {}
    for first in range(0, len(elements), BLOCK):
        tallies = [start] * TALLIES
        for i, x in enumerate(elements[first : first + BLOCK]):
            tallies[i % TALLIES] = combine(term, tallies[i % TALLIES], x)
        level = 0
        while level in waiting:
            tallies = [
                combine(term, a, b) for a, b in zip(waiting.pop(level), tallies, strict=True)
            ]
            level += 1
        waiting[level] = tallies
    tallies, *others = (waiting[level] for level in sorted(waiting))
    for higher in others:
        tallies = [combine(term, a, b) for a, b in zip(higher, tallies, strict=True)]
    while len(tallies) > 1:
        half = len(tallies) // 2
        tallies = [combine(term, a, b) for a, b in zip(tallies[:half], tallies[half:], strict=True)]
    return tallies[0]


def scanned(scan: str, kind: Kind, elements: Sequence[Any]) -> list[Any]:
    """A scan: each element combined with all before it, one after the other.

    >>> scanned("running_sum", "f32", [np.float32(x) for x in (0.5, 1.5)])
    [np.float32(0.5), np.float32(2.0)]
    """
    combine = _OPERATIONS[SCANS[scan]]
    term = Term(SCANS[scan], kind, False)
    state = DTYPES[kind](value_of(start_of(scan, kind), kind))
    results = []
    for x in elements:
        state = combine(term, state, x)
        results.append(state)
    return results


def empty_of(reduction: str, kind: Kind) -> Any:
    """The result of a reduction of no elements: 0 for a sum, else its initial value."""
    return DTYPES[kind](0 if reduction == "sum" else value_of(start_of(reduction, kind), kind))


# --- operations -----------------------------------------------------------------------------


def rounded(value: Fraction, kind: Kind) -> float:
    """A number as the nearest float, ties to even; infinite if it is too large.

    >>> rounded(Fraction(1, 3), "f32").hex()
    '0x1.5555560000000p-2'
    """
    digits, least = _DIGITS[kind]
    if not value:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = max(exponent - digits + 1, least)
    whole = round(value / Fraction(2) ** unit)  # Python rounds a Fraction to even
    if whole.bit_length() + unit > (128 if kind == "f32" else 1024):
        return math.inf if value > 0 else -math.inf
    return math.copysign(math.ldexp(whole, unit), 1 if value > 0 else -1)


def _fma(term: Term, x: Any, y: Any, z: Any) -> Any:
    """X * y + z, rounded once."""
    of = DTYPES[term.kind]
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
        product = np.float64(x) * np.float64(y)  # may be infinite only where a factor is
        finite = np.isfinite(x) and np.isfinite(y)
        return of(np.float64(z) if finite else product + np.float64(z))
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    if exact:
        return of(rounded(exact, term.kind))
    negative = (np.signbit(x) != np.signbit(y)) and bool(np.signbit(z))
    if x and y and z:
        negative = False  # cancellation gives +0
    return of(-0.0 if negative else 0.0)


def _extreme(largest: bool) -> Callable[..., Any]:
    """The larger or the smaller of two numbers; NaN if either is; -0 is below 0."""

    def extreme(term: Term, x: Any, y: Any) -> Any:
        if x != x or y != y:
            return DTYPES[term.kind](np.nan)
        if x == y:
            return x if bool(np.signbit(x)) != largest else y
        return x if (x > y) == largest else y

    return extreme


def _convert(term: Term, x: Any) -> Any:
    of = DTYPES[term.kind]
    if term.kind in (*FLOATS, *LOW, "bool"):
        return of(x != 0) if term.kind == "bool" else of(x)
    if not isinstance(x, np.floating):
        return _wrapped(term, int(x))
    if x != x:
        return of(0)
    low, high = -(2 ** (8 * BYTES[term.kind] - 1)), 2 ** (8 * BYTES[term.kind] - 1) - 1
    if np.isinf(x):
        return of(high if x > 0 else low)
    return of(min(max(int(x), low), high))


def _wrapped(term: Term, whole: int) -> Any:
    """An integer wrapped around to the width of the kind."""
    width = 8 * BYTES[term.kind]
    whole &= (1 << width) - 1
    return DTYPES[term.kind](whole - (1 << width) if whole >> (width - 1) else whole)


def _arithmetic(
    of_floats: Callable[..., Any], of_integers: Callable[..., int]
) -> Callable[..., Any]:
    def operate(term: Term, *operands: Any) -> Any:
        if term.kind in FLOATS:
            return of_floats(*operands)
        return _wrapped(term, of_integers(*map(int, operands)))

    return operate


def _bits(term: Term, x: Any) -> Any:
    packed = struct.pack(_FORMATS[BITS[term.kind]], x)
    return DTYPES[term.kind](struct.unpack(_FORMATS[term.kind], packed)[0])


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda _term, *operands: function(*operands)


_OPERATIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": _arithmetic(np.add, int.__add__),
    "subtract": _arithmetic(np.subtract, int.__sub__),
    "multiply": _arithmetic(np.multiply, int.__mul__),
    "divide": _plain(np.divide),
    "fma": _fma,
    "negative": _plain(np.negative),
    "absolute": _plain(np.absolute),
    "copysign": _plain(np.copysign),
    "sqrt": _plain(np.sqrt),
    "round": _plain(np.rint),
    "floor": _plain(np.floor),
    "ceil": _plain(np.ceil),
    "trunc": _plain(np.trunc),
    "maximum": _extreme(largest=True),
    "minimum": _extreme(largest=False),
    "and": _plain(np.bitwise_and),
    "or": _plain(np.bitwise_or),
    "xor": _plain(np.bitwise_xor),
    "shift_left": lambda term, x: _wrapped(term, int(x) << term.constant),
    "shift_right": lambda term, x: _wrapped(term, int(x) >> term.constant),
    "equal": _plain(np.equal),
    "not_equal": _plain(np.not_equal),
    "less": _plain(np.less),
    "less_equal": _plain(np.less_equal),
    "select": lambda _term, condition, x, y: x if condition else y,
    "convert": _convert,
    "bits": _bits,
}
