"""The loop form: the intermediate representation of native kernels.

`Loops` compute arrays from arrays. They run over *rows*, any number of them, independent of each
other; within a row they may run along one *inner axis*. A *term* is one value: an element of an
input, a constant, an operation on other terms, or a reduction along the inner axis. A term that is
the same for all elements of a row is a term of the row. A *scan* combines each element of a row
with all before it, one after the other. Loops without an inner axis are elementwise. A *table* is
an array of which a row is picked by its number, a term of the row, which must be in range; or to
whose rows the rows of the loops are added, in their order, which is then part of the meaning. A
*shared* array has one row, which is the same for all rows of the loops.

Grammar of the text (`loop_text.show`):

    loops      = "loops" name "(" array,… ")" "->" array,… ":" term… "return" "%n",…
    array      = kind | kind "[n]"               # one element per row, or one per element of it
               | kind "[=n]"                     # the same for all rows
               | kind "[*,n]"                    # a table
    term       = "%n" "=" operation operand… [":" kind] ["[n]"]
    kind       = "f32" | "f64" | "i32" | "i64" | "bool" | "f16" | "bf16"

Every operation is defined for all operands (`interpreter`): there is no undefined behaviour, no
trap, and no operation that rounds in more than one way. Integers wrap around, shifts are by
constants below the width, conversions to integers saturate and make 0 of NaN, `max` and `min` give
NaN where an operand is NaN and order -0 before 0. Sign and payload of a NaN are left open.

The low kinds, f16 and bf16, have no arithmetic: they are converted to f32 and from it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final, Literal, final

Kind = Literal["f32", "f64", "i32", "i64", "bool", "f16", "bf16"]

FLOATS: Final = ("f32", "f64")
INTEGERS: Final = ("i32", "i64")
LOW: Final = ("f16", "bf16")
KINDS: Final[tuple[Kind, ...]] = ("f32", "f64", "i32", "i64", "bool", "f16", "bf16")
BYTES: Final[dict[Kind, int]] = {
    "f32": 4, "f64": 8, "i32": 4, "i64": 8, "bool": 1, "f16": 2, "bf16": 2
}  # fmt: skip
#: the kind of the same width to which `bits` reinterprets a value
BITS: Final[dict[Kind, Kind]] = {"f32": "i32", "i32": "f32", "f64": "i64", "i64": "f64"}

_FORMATS: Final = {
    "f32": ("<f", "<I"),
    "f64": ("<d", "<Q"),
    "i32": ("<i", "<I"),
    "i64": ("<q", "<Q"),
}


@final
@dataclass(frozen=True, slots=True)
class Operation:
    """The signature of an operation.

    Attributes:
        operands: number of operands.
        kinds: their possible kinds, one for all (of `select`, for all after the first).
        result: the kind of the result: as the operands, bool, or as `Term.kind` states.
    """

    operands: int
    kinds: tuple[str, ...]
    result: Literal["same", "bool", "stated"] = "same"


_ALL = (*FLOATS, *INTEGERS, "bool")
_NUMBERS = (*FLOATS, *INTEGERS)

#: operations on single elements
OPERATIONS: Final[dict[str, Operation]] = {
    "add": Operation(2, _NUMBERS),
    "subtract": Operation(2, _NUMBERS),
    "multiply": Operation(2, _NUMBERS),
    "divide": Operation(2, FLOATS),
    "fma": Operation(3, FLOATS),
    "negative": Operation(1, FLOATS),
    "absolute": Operation(1, FLOATS),
    "copysign": Operation(2, FLOATS),
    "sqrt": Operation(1, FLOATS),
    "round": Operation(1, FLOATS),  # ties to even
    "floor": Operation(1, FLOATS),
    "ceil": Operation(1, FLOATS),
    "trunc": Operation(1, FLOATS),
    "maximum": Operation(2, _NUMBERS),
    "minimum": Operation(2, _NUMBERS),
    "and": Operation(2, (*INTEGERS, "bool")),
    "or": Operation(2, (*INTEGERS, "bool")),
    "xor": Operation(2, (*INTEGERS, "bool")),
    "shift_left": Operation(1, INTEGERS),  # by `Term.constant` bits
    "shift_right": Operation(1, INTEGERS),  # likewise; the sign is repeated
    "equal": Operation(2, _ALL, "bool"),
    "not_equal": Operation(2, _ALL, "bool"),
    "less": Operation(2, _NUMBERS, "bool"),
    "less_equal": Operation(2, _NUMBERS, "bool"),
    "select": Operation(3, _ALL),
    "convert": Operation(1, (*_ALL, *LOW), "stated"),
    "bits": Operation(1, _NUMBERS, "stated"),
}

#: reductions along the inner axis, with the operations that combine elements
REDUCTIONS: Final[dict[str, str]] = {
    "sum": "add", "product": "multiply", "max": "maximum", "min": "minimum",
}  # fmt: skip

#: scans along the inner axis, with the operation that combines element i with the result of
#: elements 0 to i - 1; their initial values are those of reductions
SCANS: Final[dict[str, str]] = {
    "running_sum": "add", "running_product": "multiply",
    "running_max": "maximum", "running_min": "minimum",
}  # fmt: skip

#: A reduction adds element i of a row to the *tally* i % TALLIES of the *block* i // BLOCK, one
#: after the other; the tallies of blocks are added pairwise, tally by tally, like the carries of a
#: binary counter; then the tallies of the result are halved: k and k + 8, k and k + 4, … So the
#: tree depends on the length alone.
TALLIES: Final = 16
BLOCK: Final = 128

#: the operation that adds the elements of a row to the row of a table whose number, an i64, is its
#: second operand, or a number of the row to an element of a table without the inner axis; rows do
#: so in their order. It is true, or false if the table has no such row: then nothing changes
SCATTER: Final = "scatter_add"

#: operations without operands
SOURCES: Final = ("load", "constant", "size", "index")

#: the operation that gives the elements of the row of a table whose number, an i64, is its operand
PICK: Final = "pick"


@final
@dataclass(frozen=True, slots=True)
class Term:
    """A value in loops.

    Attributes:
        operation: of `OPERATIONS`, `REDUCTIONS`, `SCANS` or `SOURCES`, `PICK`, or `SCATTER`.
        kind: of the result.
        inner: whether there is a value for each element of a row, or one for the row.
        operands: the numbers of the operand terms.
        constant: the bits of a constant, the number of the array that is loaded, picked from or
            added to, or the number of bits of a shift.
    """

    operation: str
    kind: Kind
    inner: bool
    operands: tuple[int, ...] = ()
    constant: int = 0


@final
@dataclass(frozen=True, slots=True)
class LoopArray:
    """An array that loops read or write.

    Attributes:
        kind: of its elements.
        inner: whether it has an element for each element of a row, or one for each row.
        table: whether it has rows of its own, of which each row picks one, or adds to one. Its
            rows are its last axis, after the inner axis if it has that.
        shared: whether it has the inner axis only: its step from row to row is 0.
    """

    kind: Kind
    inner: bool = False
    table: bool = False
    shared: bool = False


@final
@dataclass(frozen=True, slots=True)
class LoopSignature:
    """The interface of loops to callers.

    Attributes:
        name: for messages, and of the function.
        inputs: the arrays that are read.
        outputs: the arrays that are written.
        inner: whether there is an inner axis.
    """

    name: str
    inputs: tuple[LoopArray, ...]
    outputs: tuple[LoopArray, ...]
    inner: bool

    @property
    def head(self) -> str:
        """The signature as text: the name, and the kinds of arrays.

        >>> LoopSignature("sum", (LoopArray("f32", True),), (LoopArray("f32"),), True).head
        'sum(f32[n]) -> f32'
        """
        given, made = (", ".join(map(_shown, arrays)) for arrays in (self.inputs, self.outputs))
        return f"{self.name}({given}) -> {made}"

    @staticmethod
    def read(head: str) -> LoopSignature:
        """Parse a head; there is an inner axis if an array has it.

        >>> LoopSignature.read("sum(f32[n]) -> f32").inputs
        (LoopArray(kind='f32', inner=True, table=False, shared=False),)
        """
        name, _, rest = head.partition("(")
        inputs, outputs = (
            tuple([_read(array) for array in part.split(", ")]) for part in rest.split(") -> ")
        )
        return LoopSignature(name, inputs, outputs, any(a.inner for a in (*inputs, *outputs)))


#: the text of the axes of an array, by whether it has the inner axis, is a table, and is shared
_AXES: Final = {
    (False, False, False): "", (True, False, False): "[n]", (True, False, True): "[=n]",
    (True, True, False): "[*,n]", (False, True, False): "[*]",
}  # fmt: skip


def _shown(array: LoopArray) -> str:
    return f"{array.kind}{_AXES[array.inner, array.table, array.shared]}"


def _read(text: str) -> LoopArray:
    kind = text.partition("[")[0]
    axes = text.removeprefix(kind)
    for (inner, table, shared), shown in _AXES.items():
        if shown == axes:
            return LoopArray(_kind(kind), inner, table, shared)
    raise ValueError(f"{text!r} has axes that no array has")


def _kind(text: str) -> Kind:
    for kind in KINDS:
        if kind == text:
            return kind
    raise ValueError(f"{text!r} is no kind")


@final
@dataclass(frozen=True, slots=True)
class Loops:
    """A computation of arrays from arrays in the loop form.

    Attributes:
        name: for messages, and of its function.
        inputs: the arrays that are read.
        outputs: the arrays that are written.
        terms: in an order in which they can be computed.
        results: for each output, the number of the term that is written.
    """

    name: str
    inputs: tuple[LoopArray, ...]
    outputs: tuple[LoopArray, ...]
    terms: tuple[Term, ...]
    results: tuple[int, ...]

    @property
    def signature(self) -> LoopSignature:
        """The interface to callers."""
        return LoopSignature(self.name, self.inputs, self.outputs, self.inner)

    @property
    def inner(self) -> bool:
        """Whether there is an inner axis."""
        return any(a.inner for a in (*self.inputs, *self.outputs)) or any(
            t.inner or t.operation in REDUCTIONS for t in self.terms
        )


def bits_of(value: float, kind: Kind) -> int:
    """The bits of a constant, as an unsigned integer.

    Raises:
        ValueError: the kind has no such value.

    >>> hex(bits_of(1.0, "f32"))
    '0x3f800000'
    """
    if kind == "bool":
        return int(bool(value))
    as_value, as_bits = _FORMATS[kind]
    if kind in INTEGERS:
        return int(struct.unpack(as_bits, struct.pack(as_value, int(value)))[0])
    packed = struct.pack(as_value, value)
    if value == value and struct.unpack(as_value, packed)[0] != value:
        raise ValueError(f"{value!r} is no {kind}")
    return int(struct.unpack(as_bits, packed)[0])


def value_of(bits: int, kind: Kind) -> float | int | bool:
    """The value of the constant with given bits.

    >>> value_of(0x3F800000, "f32")
    1.0
    """
    if kind == "bool":
        return bool(bits)
    as_value, as_bits = _FORMATS[kind]
    value: float | int = struct.unpack(as_value, struct.pack(as_bits, bits))[0]
    return value


def start_of(reduction: str, kind: Kind) -> int:
    """The bits of the neutral initial value of a tally, or a scan.

    >>> value_of(start_of("max", "f32"), "f32")
    -inf
    """
    operation = SCANS.get(reduction) or REDUCTIONS[reduction]
    if operation == "add":
        return bits_of(-0.0, kind) if kind in FLOATS else 0  # -0.0 + x is x, for x = -0.0 too
    if operation == "multiply":
        return bits_of(1, kind)
    least = operation == "maximum"
    if kind in FLOATS:
        return bits_of(-math.inf if least else math.inf, kind)
    lowest = 1 << (8 * BYTES[kind] - 1)
    return lowest if least else lowest - 1


@final
class LoopBuilder:
    """Builds loops term by term; equal terms are merged.

    >>> b = LoopBuilder([LoopArray("f32", inner=True)])
    >>> total = b.reduce("sum", b.load(0))
    >>> b.build("mean", [b.apply("divide", total, b.size("f32"))]).outputs
    (LoopArray(kind='f32', inner=False, table=False, shared=False),)
    """

    __slots__ = ("_numbers", "inputs", "terms")

    def __init__(self, inputs: list[LoopArray]) -> None:
        self.inputs = inputs
        self.terms: list[Term] = []
        self._numbers: dict[Term, int] = {}

    def _append(self, term: Term) -> int:
        number = self._numbers.get(term)
        if number is None:
            number = self._numbers[term] = len(self.terms)
            self.terms.append(term)
        return number

    def kind(self, x: int) -> Kind:
        """The kind of a term."""
        return self.terms[x].kind

    def load(self, array: int) -> int:
        """The element of an input."""
        of = self.inputs[array]
        return self._append(Term("load", of.kind, of.inner, (), array))

    def pick(self, x: int, place: int) -> int:
        """The elements of a row of the table that a term loads; its number is a term of the row."""
        table = self.terms[x]
        return self._append(Term(PICK, table.kind, True, (place,), table.constant))

    def scatter(self, array: int, x: int, place: int) -> int:
        """Add a term to a row of a table, an input; its number is a term of the row."""
        return self._append(Term(SCATTER, "bool", False, (x, place), array))

    def constant(self, value: float, like: int | Kind) -> int:
        """A constant of a kind, or of the kind of a term; exact, or a ValueError."""
        kind = self.kind(like) if isinstance(like, int) else like
        return self._append(Term("constant", kind, False, (), bits_of(value, kind)))

    def bit_pattern(self, bits: int, kind: Kind) -> int:
        """A constant with given bits."""
        return self._append(Term("constant", kind, False, (), bits))

    def size(self, kind: Kind) -> int:
        """The length of the inner axis, as a number of a kind."""
        return self._append(Term("size", kind, False))

    def index(self) -> int:
        """The index of an element in its row, from 0, an i64."""
        return self._append(Term("index", "i64", True))

    def apply(self, operation: str, *operands: int, kind: Kind | None = None, by: int = 0) -> int:
        """An operation on terms.

        Args:
            operation: a key of `OPERATIONS`.
            operands: numbers of terms.
            kind: of the result, for `convert`.
            by: number of bits, for shifts.
        """
        of = OPERATIONS[operation]
        if operation == "bits":
            kind = BITS[self.kind(operands[0])]
        elif of.result == "bool":
            kind = "bool"
        elif of.result == "same":
            kind = self.kind(operands[-1])
        if kind is None:
            raise ValueError(f"{operation}: the kind of the result is missing")
        if operation == "convert" and self.kind(operands[0]) == kind:
            return operands[0]
        inner = any(self.terms[x].inner for x in operands)
        return self._append(Term(operation, kind, inner, operands, by))

    def reduce(self, reduction: str, x: int) -> int:
        """The reduction of a term along the inner axis, a term of the row."""
        return self._append(Term(reduction, self.kind(x), False, (x,)))

    def scan(self, scan: str, x: int) -> int:
        """The scan of a term along the inner axis, a term of its elements."""
        return self._append(Term(scan, self.kind(x), True, (x,)))

    def build(self, name: str, results: list[int], inner: list[bool] | None = None) -> Loops:
        """The loops with given results.

        Args:
            name: of the loops.
            results: a term for each output.
            inner: for each output, whether it has the inner axis; as its term has it if None.
        """
        if inner is None:
            inner = [self.terms[x].inner for x in results]
        arrays = [LoopArray(self.kind(x), i) for x, i in zip(results, inner, strict=True)]
        terms, numbers = _used(self.terms, results)
        return Loops(
            name, tuple(self.inputs), tuple(arrays), terms, tuple(numbers[x] for x in results)
        )


def _used(terms: list[Term], results: list[int]) -> tuple[tuple[Term, ...], dict[int, int]]:
    """The terms that results need, and their new numbers."""
    needed = set(results)
    for number in range(len(terms) - 1, -1, -1):
        if number in needed:
            needed.update(terms[number].operands)
    numbers = {old: new for new, old in enumerate(sorted(needed))}
    kept = [terms[old] for old in numbers]
    return tuple(
        Term(t.operation, t.kind, t.inner, tuple(numbers[x] for x in t.operands), t.constant)
        for t in kept
    ), numbers


def scatters(loops: Loops) -> bool:
    """Whether rows add to the rows of a table, so that they depend on each other."""
    return any(term.operation == SCATTER for term in loops.terms)


def weight_of(loops: Loops) -> int:
    """The work of an element: its terms, and the arrays that it is read from or written to."""
    arrays = len(loops.inputs) + len(loops.outputs)
    return sum(t.operation not in SOURCES for t in loops.terms) + arrays
