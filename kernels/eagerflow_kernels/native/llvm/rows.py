"""Code of loops with an inner axis, row by row, vectorised along the inner axis.

The function ``body`` calls `columns` instead for rows that lie side by side in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, final

from eagerflow_kernels.native.llvm.elementwise import COPIES, Vectors, vectors_of_chunk
from eagerflow_kernels.native.llvm.emitter import Emitter, type_of
from eagerflow_kernels.native.llvm.passes import RowPass, passes_of, scans_in
from eagerflow_kernels.native.llvm.reductions import (
    across,
    empty,
    fold,
    halve,
    halved,
    push,
    scanned,
    stack_bytes,
    start,
    vectors_of_row,
)
from eagerflow_kernels.native.llvm.searches import first_true
from eagerflow_kernels.native.llvm.streams import CHUNK, ChunkedArray
from eagerflow_kernels.native.llvm.terms import apply, combine, constant, convert
from eagerflow_kernels.native.llvm.ticks import tick
from eagerflow_kernels.native.loop_form import (
    BLOCK,
    BYTES,
    PICK,
    REDUCTIONS,
    SCANS,
    TALLIES,
    Loops,
    Term,
)

#: the most elements of a short row: no tally gets more than one of them
SHORT: Final = TALLIES
#: rows from which on transposing them pays off
WORTH: Final = 16
#: the most terms of a pass that take less time than the latency of adding to a tally
_FEW: Final = 8
#: vectors of tallies that are updated side by side
_TALLIES_BESIDE: Final = 8


def inner_step(loops: Loops, array: int) -> int:
    """The index of an array's step along the inner axis among the steps that NumPy gives."""
    arrays = (*loops.inputs, *loops.outputs)
    return len(arrays) + sum(a.inner + a.table for a in arrays[:array])


def render_rows(loops: Loops, width: int, declared: set[str], weight: int = 0) -> str:
    """The text of the functions ``body`` and ``rows``.

    ``weight`` is the work counted for an element (see `llvm.ticks`), or 0.
    """
    rows = _Rows(loops, width, Emitter(declared), weight)
    head = "void @rows(ptr %args, ptr %dims, ptr %steps, ptr %control)"
    text = rows.e.function(head, rows.render)
    if not has_columns(loops):
        return text.replace("@rows(", "@body(", 1)
    return _choice(loops, width, declared) + text


def has_columns(loops: Loops) -> bool:
    """Whether rows may be computed side by side: no block, out of order then, has a scan."""
    if any(array.table for array in loops.inputs):
        return False  # each row picks another row of the table
    return not any(p.reductions and scans_in(loops, p) for p in passes_of(loops))


def _choice(loops: Loops, width: int, declared: set[str]) -> str:
    """The text of ``body``, which picks a way through the rows by their layout and length.

    Rows are computed side by side if they lie so in memory and the elements of the inner axis do
    not; side by side after a transposition if they are short; else one after the other.
    """
    e = Emitter(declared)
    arrays = (*loops.inputs, *loops.outputs)
    given = "(ptr %args, ptr %dims, ptr %steps, ptr %control)"

    def call(name: str) -> Callable[[], None]:
        return lambda: e.line(f"call void @{name}{given}")

    def body() -> None:
        rows, length = e.integer("%dims", 0), e.integer("%dims", 1)
        along = [
            e.value(f"icmp eq i64 {e.integer('%steps', inner_step(loops, i))}, {BYTES[a.kind]}")
            for i, a in enumerate(arrays) if a.inner and not a.shared
        ] or ["true"]  # fmt: skip
        beside = [
            e.value(f"icmp eq i64 {e.integer('%steps', i)}, {BYTES[a.kind]}")
            for i, a in enumerate(arrays) if not a.shared
        ]  # fmt: skip
        enough = e.value(f"icmp sge i64 {rows}, {min(width, 8)}")
        aside = e.value(f"xor i1 {along[0]}, true")
        many = e.value(f"icmp sge i64 {rows}, {WORTH}")
        some = e.value(f"icmp sge i64 {length}, 1")
        few = e.value(f"icmp sle i64 {length}, {SHORT}")

        def others() -> None:
            e.when(e.all_of([many, some, few, *along]), call("short"), call("rows"))

        e.when(e.all_of([enough, aside, *beside]), call("columns"), others)

    return e.function("void @body(ptr %args, ptr %dims, ptr %steps, ptr %control)", body)


@final
class _Rows:
    """The writer of the function ``rows``.

    Attributes:
        e: the emitter of the function.
        passes: over a row.
        length: of the inner axis, an i64.
        one_block: an i1, whether a row is one block, whose tallies wait for no others.
        streams: arrays with an inner axis, by number; outputs after inputs.
        bases: pointers to the row of each array.
        values: the terms of the row computed so far.
        memory: for each reduction its waiting tallies, its tallies, its result.
        states: for each scan the memory of its running value.
    """

    def __init__(self, loops: Loops, width: int, e: Emitter, weight: int) -> None:
        self.loops, self.width, self.e = loops, width, e
        self.passes = passes_of(loops, searching=True)
        #: of an element in one pass over a row
        self.weight = weight and max(1, weight // len(self.passes))
        self.arrays = (*loops.inputs, *loops.outputs)
        self.length = self.one_block = ""
        self.streams: dict[int, ChunkedArray] = {}
        self.bases: list[str] = []
        self.values: dict[int, str] = {}
        self.memory: dict[int, tuple[str, str, str]] = {}
        self.states: dict[int, str] = {}

    def render(self) -> None:
        """Write the body."""
        e, loops = self.e, self.loops
        self.length = e.integer("%dims", 1)
        self.one_block = e.value(f"icmp sle i64 {self.length}, {BLOCK}")
        steps = [e.integer("%steps", i) for i in range(len(self.arrays))]
        origins = [e.pointer("%args", i) for i in range(len(self.arrays))]
        for i, array in enumerate(self.arrays):
            if array.inner:
                step = e.integer("%steps", inner_step(loops, i))
                self.streams[i] = ChunkedArray(e, array.kind, step, self.width)
        parts = vectors_of_row(self.width)
        searched = {n for p in self.passes if p.condition is not None for n in p.reductions}
        for number, term in enumerate(loops.terms):
            if term.operation in REDUCTIONS and number not in searched:
                kind = term.kind
                stack = e.slot("i8", stack_bytes(kind, self.width, parts))
                tallies = e.slot(type_of(kind, self.width), parts)
                self.memory[number] = stack, tallies, e.slot(type_of(kind, 1))
            elif term.operation in SCANS:
                self.states[number] = e.slot(type_of(term.kind, 1))

        def row(r: str, _carried: list[str]) -> list[str]:
            self.values = {}
            self.bases = [e.item(o, r, s) for o, s in zip(origins, steps, strict=True)]
            for i, stream in self.streams.items():
                stream.begin(self.bases[i])
            for row_pass in self.passes:
                self._row_terms(row_pass)
                self._pick_rows(row_pass)
                self._pass(row_pass)
            self._store_row()
            return []

        e.loop(e.integer("%dims", 0), 1, row)

    # --- terms of the row -------------------------------------------------------------------

    def _row_terms(self, row_pass: RowPass) -> None:
        e = self.e
        for number in row_pass.row_terms:
            term = self.loops.terms[number]
            if term.operation == "load":
                x = e.load(term.kind, 1, self.bases[term.constant])
            elif term.operation == "constant":
                x = constant(term.constant, term.kind, 1)
            elif term.operation == "size":
                x = convert(e, "i64", term.kind, 1, self.length)
            else:
                kinds = tuple(self.loops.terms[i].kind for i in term.operands)
                x = apply(e, term, kinds, 1, [self.values[i] for i in term.operands])
            self.values[number] = x

    def _pick_rows(self, row_pass: RowPass) -> None:
        """Set the streams of tables to the rows that are picked."""
        e = self.e
        for number in row_pass.terms:
            term = self.loops.terms[number]
            if term.operation == PICK:
                array = term.constant
                step = e.integer("%steps", inner_step(self.loops, array) + 1)
                at = e.item(self.bases[array], self.values[term.operands[0]], step)
                self.streams[array].begin(at)

    def _store_row(self) -> None:
        places = self.bases[len(self.loops.inputs) :]
        for base, x, array in zip(places, self.loops.results, self.loops.outputs, strict=True):
            if not array.inner:
                self.e.store(array.kind, 1, self.values[x], base)

    def _splats(self, row_pass: RowPass) -> dict[int, str]:
        """Vectors of the terms of the row that are operands in a pass."""
        wanted = {
            x for n in (*row_pass.terms, *row_pass.reductions) for x in self.loops.terms[n].operands
        }
        wanted |= {x for _, x in row_pass.stores}
        splats = {}
        for x in sorted(wanted):
            term = self.loops.terms[x]
            if term.operation == "constant":
                splats[x] = constant(term.constant, term.kind, self.width)
            elif not term.inner and x in self.values:
                splats[x] = self.e.splat(term.kind, self.width, self.values[x])
        return splats

    # --- terms of the elements --------------------------------------------------------------

    def _pass(self, row_pass: RowPass) -> None:
        if not row_pass.reductions and not row_pass.stores:
            return
        if row_pass.condition is not None:
            self._search(row_pass, row_pass.condition)
            return
        e = self.e
        splats = self._splats(row_pass)
        self._start_scans(row_pass)
        reads = self._reads(row_pass)
        writes = {len(self.loops.inputs) + output for output, _ in row_pass.stores}

        def chunk(begin: str, _carried: list[str]) -> list[str]:
            count = e.least(e.value(f"sub i64 {self.length}, {begin}"), str(CHUNK))
            tick(e, count, self.weight)
            targets = {i: self.streams[i].open_to_write(begin) for i in sorted(writes)}
            sources = {i: self.streams[i].open(begin, count) for i in sorted(reads)}

            def vectors(at: list[str], masks: list[str | None]) -> list[dict[int, str]]:
                return self._vectors(row_pass, splats, sources, targets, begin, at, masks)

            if row_pass.reductions:
                self._blocks(row_pass, begin, count, vectors)
            else:
                vectors_of_chunk(e, count, self.width, vectors)
            for i in sorted(writes):
                self.streams[i].close(begin, count)
            return []

        e.loop(self.length, CHUNK, chunk)
        for number in row_pass.reductions:
            self.values[number] = self._folded(number)

    def _reads(self, row_pass: RowPass) -> set[int]:
        """The numbers of the arrays whose elements a pass reads."""
        terms, first_output = self.loops.terms, len(self.loops.inputs)
        loaded = {
            terms[n].constant for n in row_pass.terms if terms[n].operation in ("load", PICK)
        }  # fmt: skip
        return loaded | {first_output + output for output in row_pass.kept.values()}

    def _start_scans(self, row_pass: RowPass) -> None:
        for number in scans_in(self.loops, row_pass):
            kind, scan = self.loops.terms[number].kind, self.loops.terms[number].operation
            first = start(scan, kind, 1)
            self.e.line(f"store {type_of(kind, 1)} {first}, ptr {self.states[number]}, align 8")

    def _vectors(
        self, row_pass: RowPass, splats: dict[int, str], sources: dict[int, str],
        targets: dict[int, str], begin: str, places: list[str], masks: list[str | None],
    ) -> list[dict[int, str]]:  # fmt: skip
        """Compute and store vectors, term by term; returns the values of each."""
        e, loops, width = self.e, self.loops, self.width
        values = [dict(splats) for _ in places]
        first_output = len(loops.inputs)
        for number in row_pass.terms:
            term, kept = loops.terms[number], row_pass.kept.get(number)
            kinds = tuple(loops.terms[x].kind for x in term.operands)
            for i, mask, known in zip(places, masks, values, strict=True):
                if kept is not None or term.operation in ("load", PICK):
                    array = term.constant if kept is None else first_output + kept
                    at = e.item(sources[array], i, BYTES[term.kind])
                    known[number] = e.load(term.kind, width, at, mask)
                elif term.operation == "index":
                    known[number] = e.places(width, e.value(f"add i64 {begin}, {i}"))
                elif number in self.states:
                    given, state = known[term.operands[0]], self.states[number]
                    known[number] = scanned(e, term.operation, term.kind, width, state, given)
                else:
                    operands = [known[x] for x in term.operands]
                    known[number] = apply(e, term, kinds, width, operands)
        for output, x in row_pass.stores:
            kind = loops.terms[x].kind
            for i, mask, known in zip(places, masks, values, strict=True):
                at = e.item(targets[first_output + output], i, BYTES[kind])
                e.store(kind, width, known[x], at, mask)
        return values

    # --- the first element ------------------------------------------------------------------

    def _search(self, row_pass: RowPass, condition: int) -> None:
        """The index of the first element that satisfies a condition; the search stops there.

        It is the size if there is none. A row without elements has the largest integer, which is
        the least of no integers.
        """
        e, (number,) = self.e, row_pass.reductions
        splats, reads = self._splats(row_pass), sorted(self._reads(row_pass))

        def chunk(begin: str) -> str:
            count = e.least(e.value(f"sub i64 {self.length}, {begin}"), str(CHUNK))
            tick(e, count, self.weight)
            sources = {i: self.streams[i].open(begin, count) for i in reads}

            def vectors(at: list[str], masks: list[str | None]) -> list[str]:
                known = self._vectors(row_pass, splats, sources, {}, begin, at, masks)
                return [one[condition] for one in known]

            at = first_true(e, self.width, count, vectors)
            place = e.value(f"add i64 {begin}, {at}")
            return e.value(f"select i1 {e.value(f'icmp slt i64 {at}, 0')}, i64 -1, i64 {place}")

        place = e.search(self.length, CHUNK, chunk)
        none = e.value(f"icmp slt i64 {place}, 0")
        place = e.value(f"select i1 {none}, i64 {self.length}, i64 {place}")
        nothing = e.value(f"icmp eq i64 {self.length}, 0")
        initial = empty("min", "i64", 1)
        self.values[number] = e.value(f"select i1 {nothing}, i64 {initial}, i64 {place}")

    # --- blocks -----------------------------------------------------------------------------

    def _blocks(self, row_pass: RowPass, begin: str, count: str, vectors: Vectors) -> None:
        """The blocks of a chunk: as many side by side as possible, then fewer, single ones last."""
        e, end = self.e, "0"
        beside = self._blocks_beside(row_pass)
        while beside > 1:
            end = self._blocks_side_by_side(row_pass, begin, (end, count), vectors, beside)
            beside //= 2

        def one(first: str, _carried: list[str]) -> list[str]:
            length = e.least(e.value(f"sub i64 {count}, {first}"), str(BLOCK))
            steps = max(1, COPIES // vectors_of_row(self.width))
            whole = e.value(f"and i64 {length}, {-steps * TALLIES}")
            totals = self._steps(row_pass, vectors, first, ("0", whole), steps=steps)
            totals = self._steps(row_pass, vectors, first, (whole, length), totals, masked=True)
            self._push(row_pass, begin, first, totals)
            return []

        e.loop(count, BLOCK, one, start=end)

    def _blocks_side_by_side(
        self, row_pass: RowPass, begin: str, part: tuple[str, str], vectors: Vectors, blocks: int
    ) -> str:  # fmt: skip
        """Groups of ``blocks`` blocks side by side, as many as fit; returns their end."""
        e, (first_of_all, count) = self.e, part

        def several(first: str, _carried: list[str]) -> list[str]:
            totals = self._steps(row_pass, vectors, first, ("0", str(BLOCK)), blocks=blocks)
            self._push(row_pass, begin, first, totals)
            return []

        end = e.value(f"and i64 {count}, {-blocks * BLOCK}")
        e.loop(end, blocks * BLOCK, several, start=first_of_all)
        return end

    def _blocks_beside(self, row_pass: RowPass) -> int:
        """Number of blocks computed side by side, to hide the latency of adding to a tally."""
        if len(row_pass.terms) > _FEW or scans_in(self.loops, row_pass):
            return 1  # the other terms hide the latency; a scan runs from block to block
        vectors = vectors_of_row(self.width) * len(row_pass.reductions)
        return min(CHUNK // BLOCK, max(1, _TALLIES_BESIDE // vectors))

    def _steps(
        self, row_pass: RowPass, vectors: Vectors, first: str, part: tuple[str, str],
        totals: list[str] | None = None, *, blocks: int = 1, steps: int = 1, masked: bool = False,
    ) -> list[str]:  # fmt: skip
        """The tallies of some blocks with a part of their elements.

        Args:
            row_pass: the pass of the reductions.
            vectors: computes their operands.
            first: the first element of the first block.
            part: the first element in each block, and the end.
            totals: the tallies so far, None at the beginning.
            blocks: number of blocks.
            steps: number of elements of a tally computed at once.
            masked: whether the part may end within a step.

        Returns:
            For each block and reduction, the vectors of its tallies.
        """
        e, width, parts = self.e, self.width, vectors_of_row(self.width)
        terms = [self.loops.terms[n] for n in row_pass.reductions]
        slots = [t for _ in range(blocks) for t in terms for _ in range(parts)]
        totals = totals or [start(t.operation, t.kind, width) for t in slots]

        def step(i: str, tallies: list[str]) -> list[str]:
            results = list(tallies)
            for block in range(blocks):
                moves = [block * BLOCK + k * width for k in range(steps * parts)]
                inside = [e.value(f"add i64 {i}, {move}") for move in moves]
                places = [e.value(f"add i64 {first}, {x}") for x in inside]
                masks = [
                    e.mask(width, e.value(f"sub i64 {part[1]}, {x}")) if masked else None
                    for x in inside
                ]
                for n, known in enumerate(vectors(places, masks)):
                    for k, term in enumerate(terms):
                        slot = (block * len(terms) + k) * parts + n % parts
                        x = known[term.operands[0]]
                        results[slot] = self._added(term, results[slot], x, masks[n])
            return results

        carried = [(type_of(t.kind, width), x) for t, x in zip(slots, totals, strict=True)]
        return e.loop(part[1], TALLIES * steps, step, carried, start=part[0])

    def _push(self, row_pass: RowPass, begin: str, first: str, totals: list[str]) -> None:
        """Push the tallies of blocks, the first of which begins at ``first``."""
        e, parts = self.e, vectors_of_row(self.width)
        at = e.value(f"add i64 {begin}, {first}")
        index = e.value(f"lshr i64 {at}, {BLOCK.bit_length() - 1}")
        blocks = len(totals) // (parts * len(row_pass.reductions))
        last = e.value(f"add i64 {index}, {blocks - 1}")
        for k, number in enumerate(row_pass.reductions):
            term, (stack, tallies, _) = self.loops.terms[number], self.memory[number]
            of, size = type_of(term.kind, self.width), self.width * BYTES[term.kind]
            for part in range(parts):
                total = self._of_blocks(term, totals[k * parts + part :: len(totals) // blocks])
                to = e.offset(tallies, str(part * size))
                e.line(f"store {of} {total}, ptr {to}, align 16")
            level = blocks.bit_length() - 1
            given = e, term.operation, term.kind, stack, tallies, last, parts, level
            if blocks > 1:
                push(*given)
            else:
                e.when(self.one_block, lambda: None, partial(push, *given))

    def _of_blocks(self, term: Term, tallies: list[str]) -> str:
        """The sum of a tally over blocks, a power of 2 of them, added pairwise."""
        operation = REDUCTIONS[term.operation]
        while len(tallies) > 1:
            pairs = zip(tallies[::2], tallies[1::2], strict=True)
            tallies = [combine(self.e, operation, term.kind, self.width, *pair) for pair in pairs]
        return tallies[0]

    def _added(self, term: Term, tally: str, x: str, mask: str | None) -> str:
        """A tally with one more vector added, within the mask."""
        if mask is not None:
            neutral = start(term.operation, term.kind, self.width)
            of, bools = type_of(term.kind, self.width), type_of("bool", self.width)
            x = self.e.value(f"select {bools} {mask}, {of} {x}, {of} {neutral}")
        return combine(self.e, REDUCTIONS[term.operation], term.kind, self.width, tally, x)

    def _folded(self, number: int) -> str:
        """The result of a reduction."""
        e, width, term = self.e, self.width, self.loops.terms[number]
        stack, tallies, result = self.memory[number]
        of = type_of(term.kind, 1)

        parts = vectors_of_row(width)

        def of_blocks() -> None:
            more = e.value(f"add i64 {self.length}, {BLOCK - 1}")
            blocks = e.value(f"lshr i64 {more}, {BLOCK.bit_length() - 1}")
            fold(e, term.operation, term.kind, stack, tallies, blocks, parts)
            halve(e, term.operation, term.kind, tallies, parts, parts.bit_length() - 1)
            finish(e.value(f"load {type_of(term.kind, width)}, ptr {tallies}, align 16"))

        def of_one_block() -> None:
            places = [e.offset(tallies, str(i * width * BYTES[term.kind])) for i in range(parts)]
            finish(halved(e, term.operation, term.kind, width, places))

        def finish(x: str) -> None:
            x = across(e, term.operation, term.kind, width, x)
            e.line(f"store {of} {x}, ptr {result}, align 8")

        def total() -> None:
            e.when(self.one_block, of_one_block, of_blocks)

        nothing = e.value(f"icmp eq i64 {self.length}, 0")
        initial = empty(term.operation, term.kind, 1)
        e.when(nothing, lambda: e.line(f"store {of} {initial}, ptr {result}, align 8"), total)
        return e.value(f"load {of}, ptr {result}, align 8")
