"""Verification of loops before they are rendered, and of the rendered text.

Every operation of the form is defined for all operands, so the checks are that a term has operands
of the right kinds, that it comes after its operands, and that terms of rows and of elements are not
mixed up. `verify_llvm` reads the rendered text: no flag and no instruction may let a compiler round
in another way, or make a value undefined.
"""

from __future__ import annotations

import re
from typing import Final, final

from eagerflow_kernels.native.loop_form import (
    BITS,
    BYTES,
    KINDS,
    LOW,
    OPERATIONS,
    PICK,
    REDUCTIONS,
    SCANS,
    SCATTER,
    SOURCES,
    LoopArray,
    Loops,
    Term,
    scatters,
)
from eagerflow_kernels.native.loop_text import show_term


@final
class LoopError(ValueError):
    """Loops, or their rendered text, that break a rule."""


def verify(loops: Loops) -> None:
    """Check loops.

    Raises:
        LoopError: a term does not fit its operation, or a result its output.
    """
    for number, term in enumerate(loops.terms):
        wrong = _wrong(loops, number, term)
        if wrong:
            shown = term.operation if term.operation == "constant" else show_term(term)
            raise LoopError(f"{loops.name}: %{number} = {shown}: {wrong}")
    _check_scatters(loops)
    if any(a.shared and (a.table or not a.inner) for a in loops.inputs):
        raise LoopError(f"{loops.name}: a shared array has the inner axis, and no rows of its own")
    if any(array.shared for array in loops.outputs):
        raise LoopError(f"{loops.name}: rows write to one place")
    if len(loops.results) != len(loops.outputs):
        raise LoopError(f"{loops.name}: {len(loops.results)} results, {len(loops.outputs)} outputs")
    for x, array in zip(loops.results, loops.outputs, strict=True):
        if not 0 <= x < len(loops.terms) or loops.terms[x].kind != array.kind:
            raise LoopError(f"{loops.name}: %{x} is no result of kind {array.kind}")
        if loops.terms[x].inner and not array.inner:
            raise LoopError(f"{loops.name}: %{x} has elements, its output one place per row")


def _wrong(loops: Loops, number: int, term: Term) -> str | None:
    if term.kind not in KINDS:
        return "an unknown kind"
    if any(not 0 <= x < number for x in term.operands):
        return "an operand does not come before it"
    operands = [loops.terms[x] for x in term.operands]
    if term.operation in SOURCES:
        return _wrong_source(loops, term)
    if term.operation in REDUCTIONS:
        return _wrong_reduction(term, operands)
    if term.operation in SCANS:
        return _wrong_scan(term, operands)
    if term.operation == PICK:
        return _wrong_pick(loops, term, operands)
    if term.operation == SCATTER:
        return _wrong_scatter(loops, term, operands)
    if term.operation not in OPERATIONS:
        return "an unknown operation"
    return _wrong_operation(term, operands)


def _wrong_source(loops: Loops, term: Term) -> str | None:
    if term.operands:
        return "it takes no operands"
    if term.operation == "load":
        if not 0 <= term.constant < len(loops.inputs):
            return "there is no such input"
        of = loops.inputs[term.constant]
        fits = (of.kind, of.inner, of.table) == (term.kind, term.inner, False)
        return None if fits else "the input is of another kind"
    if term.operation == "index":
        return None if term.inner and term.kind == "i64" else "an index is an i64 of an element"
    if term.inner:
        return "it is the same for all elements of a row"
    if term.kind in LOW:
        return "there are only arrays of this kind"
    if term.operation == "size":
        return "a size is a number" if term.kind == "bool" else None
    return None if 0 <= term.constant < 1 << 8 * BYTES[term.kind] else "too many bits"


def _wrong_reduction(term: Term, operands: list[Term]) -> str | None:
    if not _takes_its_kind(term, operands):
        return "it takes one number of its own kind"
    return "it has one value per row" if term.inner else None


def _wrong_scan(term: Term, operands: list[Term]) -> str | None:
    if not _takes_its_kind(term, operands):
        return "it takes one number of its own kind"
    return None if term.inner else "it has one value per element"


def _wrong_pick(loops: Loops, term: Term, operands: list[Term]) -> str | None:
    if [(x.kind, x.inner) for x in operands] != [("i64", False)]:
        return "a row of a table has one number, an i64"
    if not 0 <= term.constant < len(loops.inputs):
        return "there is no such input"
    table = LoopArray(term.kind, term.inner, table=True)
    return None if term.inner and loops.inputs[term.constant] == table else "it is no such table"


def _takes_its_kind(term: Term, operands: list[Term]) -> bool:
    kinds = [x.kind for x in operands]
    return kinds == [term.kind] and term.kind not in (*LOW, "bool")


def _wrong_scatter(loops: Loops, term: Term, operands: list[Term]) -> str | None:
    if len(operands) != 2 or (operands[1].kind, operands[1].inner) != ("i64", False):
        return "it takes elements, and the number of a row of a table, an i64"
    if not 0 <= term.constant < len(loops.inputs):
        return "there is no such input"
    kind, table = operands[0].kind, loops.inputs[term.constant]
    if kind not in OPERATIONS["add"].kinds:
        return "elements of this kind cannot be added"
    if table != LoopArray(kind, inner=table.inner, table=True):
        return "the input is not a table of this kind"
    if operands[0].inner and not table.inner:
        return "the table has one element for a row"
    return "it is a bool of the row" if term.kind != "bool" or term.inner else None


def _check_scatters(loops: Loops) -> None:
    """Check that loops that scatter do nothing else but compute element by element.

    What rows read never changes while they run, and rows are in their order.
    """
    if not scatters(loops):
        return
    tables = [t.constant for t in loops.terms if t.operation == SCATTER]
    if len(set(tables)) < len(tables):
        raise LoopError(f"{loops.name}: it adds to a table twice")
    for number, term in enumerate(loops.terms):
        if term.operation in REDUCTIONS or term.operation in SCANS or term.operation == PICK:
            what = show_term(term)
            raise LoopError(f"{loops.name}: %{number} = {what}: not in loops that add to a table")
    if sum(array.table for array in loops.inputs) > len(tables):
        raise LoopError(f"{loops.name}: it has another table than those it adds to")
    if not loops.inputs[0].inner:
        raise LoopError(f"{loops.name}: its first input has no elements, so sizes are not in order")
    if any(array.inner for array in loops.outputs):
        raise LoopError(f"{loops.name}: it adds to a table, and its output has elements")


def _wrong_operation(term: Term, operands: list[Term]) -> str | None:
    of = OPERATIONS[term.operation]
    if len(operands) != of.operands:
        return f"it takes {of.operands} operands"
    kinds = [x.kind for x in operands]
    if term.operation == "select" and kinds.pop(0) != "bool":
        return "its first operand is a bool"
    if len(set(kinds)) > 1 or kinds[0] not in of.kinds:
        return "operands of these kinds are not taken"
    expected = {"same": kinds[0], "bool": "bool", "stated": term.kind}[of.result]
    if term.operation == "bits":
        expected = BITS[kinds[0]]
    if not {kinds[0], term.kind}.isdisjoint(LOW) and "f32" not in (kinds[0], term.kind):
        return "it is converted to f32 and from it"
    if term.kind != expected:
        return f"the result is of kind {expected}"
    shift = term.operation in ("shift_left", "shift_right")
    if term.constant and not shift:
        return "it takes no constant"
    if shift and not 0 <= term.constant < 8 * BYTES[term.kind]:
        return "a shift is by fewer bits than there are"
    return None if term.inner == any(x.inner for x in operands) else "it varies as its operands do"


#: flags by which LLVM may change a result, intrinsics that leave the rounding to it, instructions
#: that trap, and values that are no values
_FORBIDDEN: Final = re.compile(
    r"\b(fast|nnan|ninf|nsz|arcp|contract|afn|reassoc|nuw|nsw|exact|disjoint|nneg|samesign"
    r"|poison|undef|unreachable|[su]div|[su]rem|fpto[su]i|freeze)\b|fmuladd|llvm\.trap"
)
_ALLOWED: Final = re.compile(r"llvm\.fptosi\.sat")


def verify_llvm(text: str) -> None:
    """Check rendered text of LLVM.

    Raises:
        LoopError: a line allows another result than that of the loop form.
    """
    for line in text.splitlines():
        forbidden = _FORBIDDEN.search(_ALLOWED.sub("", line.partition(";")[0]))
        if forbidden:
            raise LoopError(f"{forbidden[0]!r} leaves the result open: {line.strip()}")
