"""Code of loops that add rows to the rows of a table, one row after the other.

Vectors go along the row. The code takes as many columns as fit into registers side by side, and
goes through all rows with these; the remaining columns in vectors of half the size, down to one. So
no vector has a mask, whose stores are slow and delay the next load of the same row of the table.
"""

from __future__ import annotations

from dataclasses import dataclass
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
@dataclass(frozen=True, slots=True)
class _Columns:
    """Columns that are added in one pass through the rows.

    Attributes:
        places: the first column of each vector.
        width: the number of columns of a vector.
        beside: whether the elements of a row are contiguous.
    """

    places: list[str]
    width: int
    beside: bool


@final
class _Scatters:
    """The writer of the function ``body``.

    Attributes:
        e: the emitter of the function.
        rows: their number, an i64.
        columns: the length of a row, an i64.
        sizes: the number of rows of each table, an i64.
    """

    def __init__(self, loops: Loops, width: int, e: Emitter) -> None:
        self.loops, self.width, self.e = loops, width, e
        self.arrays = (*loops.inputs, *loops.outputs)
        self.rows = e.integer("%dims", 0)
        self.columns = e.integer("%dims", 1)
        tables = [i for i, array in enumerate(loops.inputs) if array.table]
        self.sizes = {table: e.integer("%dims", 2 + k) for k, table in enumerate(tables)}
        self._origins = [e.pointer("%args", i) for i in range(len(self.arrays))]
        self._steps = [e.integer("%steps", i) for i in range(len(self.arrays))]
        self._along = {
            i: e.integer("%steps", inner_step(loops, i))
            for i, array in enumerate(self.arrays) if array.inner
        }  # fmt: skip
        numbers = [n for n, t in enumerate(loops.terms) if t.operation == SCATTER]
        by_table = {loops.terms[n].constant: n for n in numbers}
        self._with_elements = [n for t, n in by_table.items() if loops.inputs[t].inner]
        self._with_numbers = [n for t, n in by_table.items() if not loops.inputs[t].inner]
        self._next = {
            i: e.integer("%steps", inner_step(loops, i) + loops.inputs[i].inner) for i in tables
        }

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

        def one(column: str, _carried: list[str]) -> list[str]:
            places = [e.value(f"add i64 {column}, {k * width}") for k in range(copies)]
            e.loop(self.rows, 1, partial(self._add_row, _Columns(places, width, beside)))
            return []

        e.loop(end, width * copies, one, start=first)
        return end

    def _add_row(self, columns: _Columns, row: str, _carried: list[str]) -> list[str]:
        """Add a row to the rows of the tables that have its place."""
        e = self.e
        known = self._terms_of_row(row)
        values = self._values(columns, row, known)
        for scatter in self._with_elements:
            e.when(known[scatter], partial(self._add_elements, columns, scatter, known, values))
        if self._with_numbers:  # together with the first columns alone
            first = e.value(f"icmp eq i64 {columns.places[0]}, 0")
            e.when(first, partial(self._add_numbers, known))
        self._store(row, known)  # again for each group, which is less than another way through
        return []

    def _add_elements(
        self, columns: _Columns, scatter: int, known: dict[int, str], values: list[dict[int, str]]
    ) -> None:
        """Add vectors of a row to a row of a table."""
        e, term = self.e, self.loops.terms[scatter]
        x, number = term.operands
        kind, table = self.loops.terms[x].kind, term.constant
        base = e.item(self._origins[table], known[number], self._next[table])
        for place, given in zip(columns.places, values, strict=True):
            at = e.item(base, place, BYTES[kind] if columns.beside else self._along[table])
            self._add_to(kind, columns.width, at, given[x])

    def _add_numbers(self, known: dict[int, str]) -> None:
        """Add the numbers of a row to the tables that have its place."""
        for scatter in self._with_numbers:
            self.e.when(known[scatter], partial(self._add_number, scatter, known))

    def _add_number(self, scatter: int, known: dict[int, str]) -> None:
        """Add a number of a row to an element of a table without the inner axis."""
        term = self.loops.terms[scatter]
        x, number = term.operands
        at = self.e.item(self._origins[term.constant], known[number], self._next[term.constant])
        self._add_to(self.loops.terms[x].kind, 1, at, known[x])

    def _add_to(self, kind: Kind, width: int, at: str, given: str) -> None:
        e = self.e
        e.store(kind, width, combine(e, "add", kind, width, e.load(kind, width, at), given), at)

    def _store_all(self) -> None:
        """Add the numbers and write the results of all rows, if these have no elements."""

        def one(row: str, _carried: list[str]) -> list[str]:
            known = self._terms_of_row(row)
            self._add_numbers(known)
            self._store(row, known)
            return []

        self.e.loop(self.rows, 1, one)

    def _store(self, row: str, known: dict[int, str]) -> None:
        """Write the results of a row."""
        e, first = self.e, len(self.loops.inputs)
        for i, (x, array) in enumerate(zip(self.loops.results, self.loops.outputs, strict=True)):
            at = e.item(self._origins[first + i], row, self._steps[first + i])
            e.store(array.kind, 1, known[x], at)

    def _terms_of_row(self, row: str) -> dict[int, str]:
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
                size = self.sizes[term.constant]
                known[number] = e.value(f"icmp ult i64 {known[term.operands[1]]}, {size}")
            else:
                known[number] = self._applied(term, 1, known)
        return known

    def _values(self, columns: _Columns, row: str, known: dict[int, str]) -> list[dict[int, str]]:
        """The terms of elements of a row, in a vector for each place."""
        return [self._values_at(columns, place, row, known) for place in columns.places]

    def _values_at(
        self, columns: _Columns, place: str, row: str, of_row: dict[int, str]
    ) -> dict[int, str]:
        width = columns.width
        e, known = self.e, dict[int, str]()
        for number, term in enumerate(self.loops.terms):
            if not term.inner:
                known[number] = (
                    constant(term.constant, term.kind, width)
                    if term.operation == "constant"
                    else e.splat(term.kind, width, of_row[number])
                )
            elif term.operation == "load":
                array = term.constant
                base = e.item(self._origins[array], row, self._steps[array])
                at = e.item(base, place, BYTES[term.kind] if columns.beside else self._along[array])
                known[number] = e.load(term.kind, width, at)
            elif term.operation == "index":
                known[number] = e.places(width, place)
            else:
                known[number] = self._applied(term, width, known)
        return known

    def _applied(self, term: Term, width: int, known: dict[int, str]) -> str:
        kinds = tuple(self.loops.terms[x].kind for x in term.operands)
        return apply(self.e, term, kinds, width, [known[x] for x in term.operands])
