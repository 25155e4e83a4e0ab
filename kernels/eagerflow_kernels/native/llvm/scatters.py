"""Code of loops that add rows to the rows of a table, one row after the other.

Vectors go along the row. The code takes as many columns as fit into registers side by side, and
goes through all rows with these; the remaining columns in vectors of half the size, down to one. So
no vector has a mask, whose stores are slow and delay the next load of the same row of the table.
"""

from __future__ import annotations

from functools import partial
from typing import Final, final

from eagerflow_kernels.native.llvm.emitter import Emitter
from eagerflow_kernels.native.llvm.rows import inner_step
from eagerflow_kernels.native.llvm.terms import apply, combine, constant, convert
from eagerflow_kernels.native.loop_form import BYTES, SCATTER, Kind, Loops, Term

#: vectors of a row that are added side by side
_BESIDE: Final = 4


def render_scatters(loops: Loops, width: int, declared: set[str]) -> str:
    """The text of the function ``body``."""
    e = Emitter(declared)
    head = "void @body(ptr %args, ptr %dims, ptr %steps, ptr %control)"
    return e.function(head, _Scatters(loops, width, e).render)


def elements_of(loops: Loops) -> set[Kind]:
    """The kinds of the vectors that are computed along rows."""
    return {t.kind for t in loops.terms if t.inner} | {a.kind for a in loops.inputs if a.inner}


@final
class _Scatters:
    """The writer of the function ``body``.

    Attributes:
        e: the emitter of the function.
        rows: their number, an i64.
        columns: the length of a row, an i64.
        size: the number of rows of the table, an i64.
    """

    def __init__(self, loops: Loops, width: int, e: Emitter) -> None:
        self.loops, self.width, self.e = loops, width, e
        self.arrays = (*loops.inputs, *loops.outputs)
        self.rows = e.integer("%dims", 0)
        self.columns = e.integer("%dims", 1)
        self.size = e.integer("%dims", 2)
        self._origins = [e.pointer("%args", i) for i in range(len(self.arrays))]
        self._steps = [e.integer("%steps", i) for i in range(len(self.arrays))]
        self._along = {
            i: e.integer("%steps", inner_step(loops, i))
            for i, array in enumerate(self.arrays) if array.inner
        }  # fmt: skip
        self._number = next(n for n, t in enumerate(loops.terms) if t.operation == SCATTER)
        table = loops.terms[self._number].constant
        self._next = e.integer("%steps", inner_step(loops, table) + 1)

    def render(self) -> None:
        """Write the body."""
        e = self.e
        beside = e.all_of([
            e.value(f"icmp eq i64 {step}, {BYTES[self.arrays[i].kind]}")
            for i, step in self._along.items()
        ])  # fmt: skip
        e.when(beside, self._vectors, self._elements)
        nothing = e.value(f"icmp eq i64 {self.columns}, 0")
        e.when(nothing, self._store_all)

    def _vectors(self) -> None:
        """Add all columns of arrays whose rows are contiguous."""
        first = self._all_columns("0", self.width, _BESIDE, beside=True)
        width = self.width
        while width:
            first = self._all_columns(first, width, 1, beside=True)
            width //= 2

    def _elements(self) -> None:
        """Add all columns of arrays of any strides, one by one."""
        self._all_columns("0", 1, 1, beside=False)

    def _all_columns(self, first: str, width: int, copies: int, *, beside: bool) -> str:
        """Add the columns from ``first`` on in groups of vectors, as many as fit; their end."""
        e = self.e
        left = e.value(f"sub i64 {self.columns}, {first}")
        end = e.value(f"add i64 {first}, {e.value(f'and i64 {left}, {-width * copies}')}")

        def group(column: str, _carried: list[str]) -> list[str]:
            places = [e.value(f"add i64 {column}, {k * width}") for k in range(copies)]
            e.loop(self.rows, 1, partial(self._add, places, width, beside))
            return []

        e.loop(end, width * copies, group, start=first)
        return end

    def _add(
        self, places: list[str], width: int, beside: bool, row: str, _carried: list[str]
    ) -> list[str]:  # fmt: skip
        """Add vectors of a row to the row of the table."""
        e, term = self.e, self.loops.terms[self._number]
        known = self._of_row(row)
        values = [self._of_elements(known, row, place, width, beside) for place in places]
        x, number = term.operands
        kind, table = self.loops.terms[x].kind, term.constant

        def add() -> None:
            base = e.item(self._origins[table], known[number], self._next)
            for place, given in zip(places, values, strict=True):
                at = e.item(base, place, BYTES[kind] if beside else self._along[table])
                total = combine(e, "add", kind, width, e.load(kind, width, at), given)
                e.store(kind, width, total, at)

        e.when(known[self._number], add)
        self._store(row, known)  # again for each group, which is less than another way through
        return []

    def _store_all(self) -> None:
        """Write the results of all rows, if these have no elements."""

        def one(row: str, _carried: list[str]) -> list[str]:
            self._store(row, self._of_row(row))
            return []

        self.e.loop(self.rows, 1, one)

    def _store(self, row: str, known: dict[int, str]) -> None:
        """Write the results of a row."""
        e, first = self.e, len(self.loops.inputs)
        for i, (x, array) in enumerate(zip(self.loops.results, self.loops.outputs, strict=True)):
            at = e.item(self._origins[first + i], row, self._steps[first + i])
            e.store(array.kind, 1, known[x], at)

    def _of_row(self, row: str) -> dict[int, str]:
        """The terms of a row."""
        e, known = self.e, dict[int, str]()
        for number, term in enumerate(self.loops.terms):
            if term.inner:
                continue
            if term.operation == "load":
                at = e.item(self._origins[term.constant], row, self._steps[term.constant])
                known[number] = e.load(term.kind, 1, at)
            elif term.operation == "constant":
                known[number] = constant(term.constant, term.kind, 1)
            elif term.operation == "size":
                known[number] = convert(e, "i64", term.kind, 1, self.columns)
            elif term.operation == SCATTER:  # unsigned, negative numbers are large
                known[number] = e.value(f"icmp ult i64 {known[term.operands[1]]}, {self.size}")
            else:
                known[number] = self._applied(term, 1, known)
        return known

    def _of_elements(
        self, row_terms: dict[int, str], row: str, place: str, width: int, beside: bool
    ) -> str:  # fmt: skip
        """A vector of the elements that are added."""
        e, known = self.e, dict[int, str]()
        for number, term in enumerate(self.loops.terms):
            if not term.inner:
                known[number] = (
                    constant(term.constant, term.kind, width)
                    if term.operation == "constant"
                    else e.splat(term.kind, width, row_terms[number])
                )
            elif term.operation == "load":
                array = term.constant
                base = e.item(self._origins[array], row, self._steps[array])
                at = e.item(base, place, BYTES[term.kind] if beside else self._along[array])
                known[number] = e.load(term.kind, width, at)
            elif term.operation == "index":
                known[number] = e.places(width, place)
            else:
                known[number] = self._applied(term, width, known)
        return known[self.loops.terms[self._number].operands[0]]

    def _applied(self, term: Term, width: int, known: dict[int, str]) -> str:
        kinds = tuple(self.loops.terms[x].kind for x in term.operands)
        return apply(self.e, term, kinds, width, [known[x] for x in term.operands])
