"""Code of loops with an inner axis, vectorised across rows that lie side by side in memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, final

from eagerflow_kernels.native.llvm.elementwise import COPIES
from eagerflow_kernels.native.llvm.emitter import Emitter, type_of
from eagerflow_kernels.native.llvm.passes import RowPass, passes_of, scans_in
from eagerflow_kernels.native.llvm.reductions import empty, fold, halve, push, start
from eagerflow_kernels.native.llvm.rows import inner_step
from eagerflow_kernels.native.llvm.searches import first_extreme, more_extreme
from eagerflow_kernels.native.llvm.terms import apply, combine, constant, convert
from eagerflow_kernels.native.llvm.ticks import tick
from eagerflow_kernels.native.loop_form import BLOCK, BYTES, REDUCTIONS, SCANS, TALLIES, Loops

#: bytes across rows per tile: a page of memory where elements are read once, less where they are
#: read again and should still be in the cache, or where there are many tallies
_PAGE: Final = 4096
_PIECE: Final = 1024
_SHIFT: Final = TALLIES.bit_length() - 1


def _tile_of(loops: Loops, width: int) -> int:
    """Number of vectors of rows in a tile."""
    passes = [p for p in passes_of(loops, searching=True, joining=True) if p.reductions or p.stores]
    reductions = sum(len(p.reductions) for p in passes)
    size = _PIECE if len(passes) > 1 else max(_PIECE, _PAGE // max(1, reductions))
    widest = max(BYTES[a.kind] for a in (*loops.inputs, *loops.outputs))
    return 1 << (size // (width * widest)).bit_length() - 1


def _finds(row_pass: RowPass) -> bool:
    """Whether the only result of a pass is the index of an element."""
    return row_pass.condition is not None or row_pass.extreme is not None


def render_columns(loops: Loops, width: int, declared: set[str], weight: int = 0) -> str:
    """The text of the function ``columns``; ``weight`` as in `llvm.rows.render_rows`."""
    columns = _Columns(loops, width, Emitter(declared), weight)
    head = "void @columns(ptr %args, ptr %dims, ptr %steps, ptr %control)"
    return columns.e.function(head, columns.render)


@final
class _Columns:
    """The writer of the function ``columns``.

    Attributes:
        e: the emitter of the function.
        length: of the inner axis, an i64.
        one_block: an i1, whether a row is one block, whose tallies wait for no others.
        tallies: number of tallies in use, a power of 2; the others of a block are neutral.
        halvings: number of halvings of the tallies until one is left.
        tile: number of vectors of rows in a tile.
        bases: for each array the pointer to the first row of a tile.
        steps: strides along the inner axis, of the arrays that have it.
        rows: for each term of the rows the memory of its vectors.
        memory: for each reduction its waiting tallies and its tallies.
        states: for each scan the memory of its running values, a vector for each vector of the
            tile.
    """

    def __init__(self, loops: Loops, width: int, e: Emitter, weight: int) -> None:
        self.loops, self.width, self.e = loops, width, e
        self.passes = passes_of(loops, searching=True, joining=True)
        self.weight = weight and max(1, weight // len(self.passes))
        self.arrays = (*loops.inputs, *loops.outputs)
        self.length = self.one_block = self.tallies = self.halvings = ""
        self.tile = _tile_of(loops, width)
        self.bases: list[str] = []
        self.steps: dict[int, str] = {}
        self.rows: dict[int, str] = {}
        self.memory: dict[int, tuple[str, str]] = {}
        self.states: dict[int, str] = {}

    def render(self) -> None:
        """Write the body."""
        e, loops, width = self.e, self.loops, self.width
        rows, self.length = e.integer("%dims", 0), e.integer("%dims", 1)
        origins = [e.pointer("%args", i) for i in range(len(self.arrays))]
        for i, array in enumerate(self.arrays):
            if array.inner:
                self.steps[i] = e.integer("%steps", inner_step(loops, i))
        self._count_tallies()
        self._reserve()

        def tile(r: str, vectors: str, mask: str | None) -> None:
            self.bases = [
                o if a.shared else e.item(o, r, BYTES[a.kind])
                for o, a in zip(origins, self.arrays, strict=True)
            ]
            for row_pass in self.passes:
                self._row_terms(row_pass, vectors, mask)
                self._pass(row_pass, vectors, mask)
            self._store_rows(vectors, mask)

        whole = e.value(f"and i64 {rows}, {-width}")

        def some(r: str, _carried: list[str]) -> list[str]:
            left = e.value(f"lshr i64 {e.value(f'sub i64 {whole}, {r}')}, {width.bit_length() - 1}")
            tile(r, e.least(left, str(self.tile)), None)
            return []

        def rest(r: str, _carried: list[str]) -> list[str]:
            tile(r, "1", e.mask(width, e.value(f"sub i64 {rows}, {r}")))
            return []

        e.loop(whole, self.tile * width, some)
        e.loop(rows, width, rest, start=whole)

    def _count_tallies(self) -> None:
        e = self.e
        self.one_block = e.value(f"icmp sle i64 {self.length}, {BLOCK}")
        last = e.value(f"sub i64 {e.least(self.length, str(TALLIES))}, 1")
        zeros = e.call("i64", "llvm.ctlz.i64", f"i64 {last}, i1 false", "i64, i1")
        self.halvings = e.value(f"and i64 {e.value(f'sub i64 64, {zeros}')}, 63")  # 0 of nothing
        self.tallies = e.value(f"shl i64 1, {self.halvings}")

    def _reserve(self) -> None:
        """Reserve memory for the terms of the rows, and for the levels of tallies of the blocks."""
        e, width = self.e, self.width
        blocks = e.value(f"lshr i64 {self.length}, {BLOCK.bit_length() - 1}")
        zeros = e.call("i64", "llvm.ctlz.i64", f"i64 {blocks}, i1 false", "i64, i1")
        levels = e.value(f"sub i64 65, {zeros}")
        searched = {n for p in self.passes if _finds(p) for n in (*p.reductions, p.extreme)}
        for number, term in enumerate(self.loops.terms):
            if term.operation in SCANS:
                self.states[number] = e.slot(type_of(term.kind, width), self.tile)
            if term.inner:
                continue
            self.rows[number] = e.slot("i8", self.tile * width * BYTES[term.kind])
            if term.operation in REDUCTIONS and number not in searched:
                size = TALLIES * self.tile * width * BYTES[term.kind]
                stack = e.value(f"alloca i8, i64 {e.value(f'mul i64 {levels}, {size}')}, align 64")
                self.memory[number] = stack, e.slot(type_of(term.kind, width), TALLIES * self.tile)

    def _each(self, vectors: str, body: Callable[[str], None]) -> None:
        """Run ``body(k)`` for each vector of a tile."""

        def run(k: str, _carried: list[str]) -> list[str]:
            body(k)
            return []

        self.e.loop(vectors, 1, run)

    def _at(self, array: int, k: str) -> str:
        return self.e.item(self.bases[array], k, self.width * BYTES[self.arrays[array].kind])

    def _row_value(self, number: int, k: str) -> str:
        """Vector ``k`` of a term of the rows."""
        term = self.loops.terms[number]
        if term.operation == "constant":
            return constant(term.constant, term.kind, self.width)
        of = type_of(term.kind, self.width)
        return self.e.value(f"load {of}, ptr {self._row_place(number, k)}, align 1")

    def _row_place(self, number: int, k: str) -> str:
        kind = self.loops.terms[number].kind
        return self.e.item(self.rows[number], k, self.width * BYTES[kind])

    def _row_terms(self, row_pass: RowPass, vectors: str, mask: str | None) -> None:
        for number in row_pass.row_terms:
            if self.loops.terms[number].operation != "constant":
                self._each(vectors, partial(self._row_term, number, mask))

    def _row_term(self, number: int, mask: str | None, k: str) -> None:
        e, width, term = self.e, self.width, self.loops.terms[number]
        if term.operation == "load":
            x = e.load(term.kind, width, self._at(term.constant, k), mask)
        elif term.operation == "size":
            x = e.splat(term.kind, width, convert(e, "i64", term.kind, 1, self.length))
        else:
            kinds = tuple(self.loops.terms[i].kind for i in term.operands)
            x = apply(e, term, kinds, width, [self._row_value(i, k) for i in term.operands])
        e.line(f"store {type_of(term.kind, width)} {x}, ptr {self._row_place(number, k)}, align 1")

    def _store_rows(self, vectors: str, mask: str | None) -> None:
        first_output = len(self.loops.inputs)
        for i, (x, array) in enumerate(zip(self.loops.results, self.loops.outputs, strict=True)):
            if not array.inner:
                self._each(vectors, partial(self._store_row, first_output + i, x, mask))

    def _store_row(self, array: int, number: int, mask: str | None, k: str) -> None:
        kind = self.arrays[array].kind
        self.e.store(kind, self.width, self._row_value(number, k), self._at(array, k), mask)

    def _pass(self, row_pass: RowPass, vectors: str, mask: str | None) -> None:
        if row_pass.condition is not None:
            self._search(row_pass, row_pass.condition, vectors, mask)
            return
        if row_pass.extreme is not None:
            self._find_extreme(row_pass, row_pass.extreme, vectors, mask)
            return
        e = self.e
        for number in scans_in(self.loops, row_pass):
            self._each(vectors, partial(self._put_state, number, None))
        if row_pass.reductions:

            def block(first: str, _carried: list[str]) -> list[str]:
                left = e.least(e.value(f"sub i64 {self.length}, {first}"), str(BLOCK))
                self._tick(left, vectors)
                self._block(row_pass, first, left, vectors, mask)
                return []

            e.loop(self.length, BLOCK, block)
            for number in row_pass.reductions:
                self._fold(number, vectors)
        elif row_pass.stores:

            def side_by_side(copies: int, j: str, _carried: list[str]) -> list[str]:
                self._tick(str(copies), vectors)
                places = [j, *(e.value(f"add i64 {j}, {n}") for n in range(1, copies))]

                def vector(k: str) -> None:
                    self._elements(row_pass, places, k, mask)

                self._each(vectors, vector)
                return []

            whole = e.value(f"and i64 {self.length}, {-COPIES}")
            e.loop(whole, COPIES, partial(side_by_side, COPIES))
            e.loop(self.length, 1, partial(side_by_side, 1), start=whole)

    def _tick(self, length: str, vectors: str) -> None:
        """Count ``length`` elements of each row of a tile."""
        if self.weight:
            rows = self.e.value(f"mul i64 {vectors}, {self.width}")
            tick(self.e, self.e.value(f"mul i64 {rows}, {length}"), self.weight)

    def _elements(
        self, row_pass: RowPass, places: list[str], k: str, mask: str | None
    ) -> list[dict[int, str]]:
        """Compute and write vector ``k`` of some elements of the rows, term by term.

        Args:
            row_pass: the terms to compute.
            places: of the elements along the inner axis; with scans, all elements, in order.
            k: the index of the vector in the tile.
            mask: of the rows.

        Returns:
            The values of each element.
        """
        e, loops, width = self.e, self.loops, self.width
        reduced = () if _finds(row_pass) else row_pass.reductions
        wanted = {x for n in (*row_pass.terms, *reduced) for x in loops.terms[n].operands}
        wanted |= {x for _, x in row_pass.stores}
        of_rows = {x: self._row_value(x, k) for x in sorted(wanted) if not loops.terms[x].inner}
        values = [dict(of_rows) for _ in places]
        first_output = len(loops.inputs)
        for number in row_pass.terms:
            term, kept = loops.terms[number], row_pass.kept.get(number)
            kinds = tuple(loops.terms[x].kind for x in term.operands)
            for j, known in zip(places, values, strict=True):
                if kept is not None or term.operation == "load":
                    array = term.constant if kept is None else first_output + kept
                    known[number] = self._loaded(array, j, k, mask)
                elif term.operation == "index":
                    known[number] = e.splat("i64", width, j)
                elif number in self.states:
                    known[number] = self._scanned(number, known[term.operands[0]], k)
                else:
                    operands = [known[x] for x in term.operands]
                    known[number] = apply(e, term, kinds, width, operands)
        for output, x in row_pass.stores:
            array = first_output + output
            for j, known in zip(places, values, strict=True):
                at = e.item(self._at(array, k), j, self.steps[array])
                e.store(loops.terms[x].kind, width, known[x], at, mask)
        return values

    def _loaded(self, array: int, j: str, k: str, mask: str | None) -> str:
        """Vector ``k`` of element ``j`` of an array."""
        e, kind = self.e, self.arrays[array].kind
        if self.arrays[array].shared:
            at = e.item(self.bases[array], j, self.steps[array])
            return e.splat(kind, self.width, e.load(kind, 1, at))
        return e.load(kind, self.width, e.item(self._at(array, k), j, self.steps[array]), mask)

    def _scanned(self, number: int, given: str, k: str) -> str:
        """The next element of a scan."""
        term, width = self.loops.terms[number], self.width
        place = self.e.item(self.states[number], k, width * BYTES[term.kind])
        last = self.e.value(f"load {type_of(term.kind, width)}, ptr {place}, align 16")
        made = combine(self.e, SCANS[term.operation], term.kind, width, last, given)
        self._put_state(number, made, k)
        return made

    def _put_state(self, number: int, x: str | None, k: str) -> None:
        """Set the running value of a scan in vector ``k``; its initial value if ``x`` is None."""
        term, width = self.loops.terms[number], self.width
        x = start(term.operation, term.kind, width) if x is None else x
        place = self.e.item(self.states[number], k, width * BYTES[term.kind])
        self.e.line(f"store {type_of(term.kind, width)} {x}, ptr {place}, align 16")

    def _search(self, row_pass: RowPass, condition: int, vectors: str, mask: str | None) -> None:
        """The indices of the first elements that satisfy a condition, found from the last back.

        As in `rows`: the size if there is none, the largest integer for a row without elements.
        """
        e, (number,) = self.e, row_pass.reductions
        of, bools = type_of("i64", self.width), type_of("bool", self.width)
        nothing = e.value(f"icmp eq i64 {self.length}, 0")
        initial = empty("min", "i64", 1)
        none = e.value(f"select i1 {nothing}, i64 {initial}, i64 {self.length}")
        first = e.splat("i64", self.width, none)

        def put(x: str, k: str) -> None:
            e.line(f"store {of} {x}, ptr {self._row_place(number, k)}, align 1")

        def block(begin: str, _carried: list[str]) -> list[str]:
            count = e.least(e.value(f"sub i64 {self.length}, {begin}"), str(BLOCK))
            self._tick(count, vectors)
            last = e.value(f"sub i64 {self.length}, {e.value(f'add i64 {begin}, 1')}")

            def vector(k: str) -> None:
                def element(i: str, places: list[str]) -> list[str]:
                    j = e.value(f"sub i64 {last}, {i}")
                    (known,) = self._elements(row_pass, [j], k, mask)
                    at = e.splat("i64", self.width, j)
                    met = f"{bools} {known[condition]}"
                    return [e.value(f"select {met}, {of} {at}, {of} {places[0]}")]

                (place,) = e.loop(count, 1, element, [(of, self._row_value(number, k))])
                put(place, k)

            self._each(vectors, vector)
            return []

        self._each(vectors, partial(put, first))
        e.loop(self.length, BLOCK, block)

    def _find_extreme(
        self, row_pass: RowPass, extreme: int, vectors: str, mask: str | None
    ) -> None:
        """The extreme elements and their indices, block by block; indices as `_search` has them."""
        e, (number,) = self.e, row_pass.reductions
        term, of = self.loops.terms[extreme], type_of("i64", self.width)
        nothing = e.value(f"icmp eq i64 {self.length}, 0")
        none = e.value(f"select i1 {nothing}, i64 {empty('min', 'i64', 1)}, i64 0")

        def put(search: int, x: str, k: str) -> None:
            kind = type_of(self.loops.terms[search].kind, self.width)
            e.line(f"store {kind} {x}, ptr {self._row_place(search, k)}, align 1")

        def block(begin: str, _carried: list[str]) -> list[str]:
            count = e.least(e.value(f"sub i64 {self.length}, {begin}"), str(BLOCK))
            self._tick(count, vectors)

            def vector(k: str) -> None:
                def elements(at: list[str]) -> list[str]:
                    places = [e.value(f"add i64 {begin}, {i}") for i in at]
                    rows = self._elements(row_pass, places, k, mask)
                    return [known[term.operands[0]] for known in rows]

                x, index = first_extreme(e, term, self.width, count, elements)
                index = e.value(f"add {of} {index}, {e.splat('i64', self.width, begin)}")
                before = self._row_value(extreme, k), self._row_value(number, k)
                x, index = more_extreme(e, term, "i64", self.width, (x, index), before)
                put(extreme, x, k)
                put(number, index, k)

            self._each(vectors, vector)
            return []

        initial = start(term.operation, term.kind, self.width)
        self._each(vectors, partial(put, extreme, initial))
        self._each(vectors, partial(put, number, e.splat("i64", self.width, none)))
        e.loop(self.length, BLOCK, block)

    def _block(
        self, row_pass: RowPass, first: str, length: str, vectors: str, mask: str | None
    ) -> None:
        """The tallies of a block, each in a register until it is complete."""
        e = self.e

        def tally(t: str, _carried: list[str]) -> list[str]:
            place = e.value(f"mul i64 {t}, {vectors}")
            start_ = e.value(f"add i64 {first}, {t}")
            left = e.value(f"sub i64 {length}, {t}")
            rounds = e.value(f"ashr i64 {e.value(f'add i64 {left}, {TALLIES - 1}')}, {_SHIFT}")
            whole = e.value(f"and i64 {rounds}, {-COPIES}")

            def vector(k: str) -> None:
                totals = self._added(row_pass, COPIES, start_, ("0", whole), k, mask, None)
                totals = self._added(row_pass, 1, start_, (whole, rounds), k, mask, totals)
                at = e.value(f"add i64 {place}, {k}")
                for number, total in zip(row_pass.reductions, totals, strict=True):
                    kind = self.loops.terms[number].kind
                    to = e.item(self.memory[number][1], at, self.width * BYTES[kind])
                    e.line(f"store {type_of(kind, self.width)} {total}, ptr {to}, align 16")

            self._each(vectors, vector)
            return []

        e.loop(self.tallies, 1, tally)

        def wait() -> None:
            index = e.value(f"lshr i64 {first}, {BLOCK.bit_length() - 1}")
            count = e.value(f"mul i64 {vectors}, {TALLIES}")
            for number in row_pass.reductions:
                term = self.loops.terms[number]
                push(e, term.operation, term.kind, *self.memory[number], index, count)

        e.when(self.one_block, lambda: None, wait)

    def _added(
        self, row_pass: RowPass, copies: int, first: str, rounds: tuple[str, str], k: str,
        mask: str | None, totals: list[str] | None,
    ) -> list[str]:  # fmt: skip
        """One tally of each reduction, with the elements of some rounds added.

        Args:
            row_pass: the pass of the reductions.
            copies: number of rounds computed side by side.
            first: the element of round 0.
            rounds: the first round, and the end.
            k: the index of the vector in the tile.
            mask: of the rows.
            totals: the tallies so far, None at the beginning.
        """
        e, width = self.e, self.width
        terms = [self.loops.terms[n] for n in row_pass.reductions]
        totals = totals or [start(t.operation, t.kind, width) for t in terms]

        def some(u: str, tallies: list[str]) -> list[str]:
            steps = [e.value(f"add i64 {u}, {n}") for n in range(copies)]
            places = [
                e.value(f"add i64 {first}, {e.value(f'shl i64 {step}, {_SHIFT}')}")
                for step in steps
            ]
            for known in self._elements(row_pass, places, k, mask):
                given = [known[t.operands[0]] for t in terms]
                tallies = [
                    combine(e, REDUCTIONS[t.operation], t.kind, width, tally, x)
                    for t, tally, x in zip(terms, tallies, given, strict=True)
                ]
            return tallies

        carried = [(type_of(t.kind, width), x) for t, x in zip(terms, totals, strict=True)]
        return e.loop(rounds[1], copies, some, carried, start=rounds[0])

    def _fold(self, number: int, vectors: str) -> None:
        """Write the results of a reduction to the memory of its term."""
        e, width, term = self.e, self.width, self.loops.terms[number]
        of, size = type_of(term.kind, width), width * BYTES[term.kind]
        stack, tallies = self.memory[number]

        def put(x: str, k: str) -> None:
            e.line(f"store {of} {x}, ptr {self._row_place(number, k)}, align 1")

        def copy(k: str) -> None:
            put(e.value(f"load {of}, ptr {e.item(tallies, k, size)}, align 16"), k)

        def of_blocks() -> None:
            more = e.value(f"add i64 {self.length}, {BLOCK - 1}")
            blocks = e.value(f"lshr i64 {more}, {BLOCK.bit_length() - 1}")
            count = e.value(f"mul i64 {vectors}, {TALLIES}")
            fold(e, term.operation, term.kind, stack, tallies, blocks, count)

        def total() -> None:
            e.when(self.one_block, lambda: None, of_blocks)
            count = e.value(f"mul i64 {vectors}, {self.tallies}")
            halve(e, term.operation, term.kind, tallies, count, self.halvings)
            self._each(vectors, copy)

        initial = empty(term.operation, term.kind, width)
        e.when(
            e.value(f"icmp eq i64 {self.length}, 0"),
            lambda: self._each(vectors, partial(put, initial)),
            total,
        )
