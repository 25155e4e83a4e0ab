"""Loops with an inner axis, several rows at once: vectors across rows that lie side by side."""

from __future__ import annotations

from typing import final

from eagerflow_kernels.native.form import BLOCK, BYTES, REDUCTIONS, STRANDS, Loops
from eagerflow_kernels.native.llvm.emitter import Emitter, type_of
from eagerflow_kernels.native.llvm.passes import RowPass, passes_of
from eagerflow_kernels.native.llvm.reductions import empty, fold, push, stack_bytes, start
from eagerflow_kernels.native.llvm.rows import inner_step
from eagerflow_kernels.native.llvm.terms import apply, combine, constant, convert

#: vectors of rows at once, so that whole lines of the cache are used
_COPIES = 4


def render_columns(loops: Loops, width: int, declared: set[str]) -> str:
    """The text of the function ``columns``."""
    columns = _Columns(loops, width, Emitter(declared))
    return columns.e.function("void @columns(ptr %args, ptr %dims, ptr %steps)", columns.render)


@final
class _Columns:
    """Writes the function.

    Attributes:
        e: writes it.
        length: of the inner axis, an i64.
        bases: pointers to the first of the rows of a group, of each array.
        steps: along the inner axis, of the arrays that have it.
        values: vectors of the terms of the rows, one for each copy.
        memory: for each reduction its waiting strands and its strands.
    """

    def __init__(self, loops: Loops, width: int, e: Emitter) -> None:
        self.loops, self.width, self.e = loops, width, e
        self.arrays = (*loops.inputs, *loops.outputs)
        self.length = ""
        self.bases: list[str] = []
        self.steps: dict[int, str] = {}
        self.values: dict[int, list[str]] = {}
        self.memory: dict[int, tuple[str, str]] = {}

    def render(self) -> None:
        """Write the body."""
        e, loops, width = self.e, self.loops, self.width
        rows, self.length = e.integer("%dims", 0), e.integer("%dims", 1)
        origins = [e.pointer("%args", i) for i in range(len(self.arrays))]
        for i, array in enumerate(self.arrays):
            if array.inner:
                self.steps[i] = e.integer("%steps", inner_step(loops, i))
        for number, term in enumerate(loops.terms):
            if term.operation in REDUCTIONS:
                count = STRANDS * _COPIES
                stack = e.slot("i8", stack_bytes(term.kind, width, count))
                self.memory[number] = stack, e.slot(type_of(term.kind, width), count)

        def group(r: str, copies: int, mask: str | None) -> None:
            self.values = {}
            self.bases = [
                e.item(o, r, BYTES[a.kind]) for o, a in zip(origins, self.arrays, strict=True)
            ]
            for row_pass in passes_of(loops):
                self._row_terms(row_pass, copies, mask)
                self._pass(row_pass, copies, mask)
            self._store_rows(copies, mask)

        def full(r: str, _carried: list[str]) -> list[str]:
            group(r, _COPIES, None)
            return []

        def rest(r: str, _carried: list[str]) -> list[str]:
            group(r, 1, e.mask(width, e.value(f"sub i64 {rows}, {r}")))
            return []

        whole = e.value(f"and i64 {rows}, {-_COPIES * width}")
        e.loop(whole, _COPIES * width, full)
        e.loop(rows, width, rest, start=whole)

    def _at(self, array: int, copy: int) -> str:
        size = BYTES[self.arrays[array].kind]
        return self.e.offset(self.bases[array], str(copy * self.width * size))

    def _row_terms(self, row_pass: RowPass, copies: int, mask: str | None) -> None:
        e, width = self.e, self.width
        for number in row_pass.row_terms:
            term = self.loops.terms[number]
            kinds = tuple(self.loops.terms[x].kind for x in term.operands)
            found = []
            for copy in range(copies):
                if term.operation == "load":
                    x = e.load(term.kind, width, self._at(term.constant, copy), mask)
                elif term.operation == "constant":
                    x = constant(term.constant, term.kind, width)
                elif term.operation == "size":
                    x = e.splat(term.kind, width, convert(e, "i64", term.kind, 1, self.length))
                else:
                    operands = [self.values[x][copy] for x in term.operands]
                    x = apply(e, term, kinds, width, operands)
                found.append(x)
            self.values[number] = found

    def _store_rows(self, copies: int, mask: str | None) -> None:
        first_output = len(self.loops.inputs)
        for i, (x, array) in enumerate(zip(self.loops.results, self.loops.outputs, strict=True)):
            for copy in range(copies) if not array.inner else ():
                at = self._at(first_output + i, copy)
                self.e.store(array.kind, self.width, self.values[x][copy], at, mask)

    def _pass(self, row_pass: RowPass, copies: int, mask: str | None) -> None:
        e = self.e
        if row_pass.reductions:

            def block(first: str, _carried: list[str]) -> list[str]:
                self._block(row_pass, first, copies, mask)
                return []

            e.loop(self.length, BLOCK, block)
            for number in row_pass.reductions:
                self.values[number] = self._folded(number, copies)
        elif row_pass.stores:

            def each(j: str, _carried: list[str]) -> list[str]:
                for copy in range(copies):
                    self._element(row_pass, j, copy, mask)
                return []

            e.loop(self.length, 1, each)

    def _element(self, row_pass: RowPass, j: str, copy: int, mask: str | None) -> dict[int, str]:
        """Compute and write a vector of element ``j`` of the rows; gives the values."""
        e, loops, width = self.e, self.loops, self.width
        values = {number: found[copy] for number, found in self.values.items()}
        first_output = len(loops.inputs)
        for number in row_pass.terms:
            term = loops.terms[number]
            if number in row_pass.kept or term.operation == "load":
                kept = row_pass.kept.get(number)
                array = term.constant if kept is None else first_output + kept
                at = e.item(self._at(array, copy), j, self.steps[array])
                values[number] = e.load(term.kind, width, at, mask)
            else:
                kinds = tuple(loops.terms[x].kind for x in term.operands)
                operands = [values[x] for x in term.operands]
                values[number] = apply(e, term, kinds, width, operands)
        for output, x in row_pass.stores:
            array = first_output + output
            at = e.item(self._at(array, copy), j, self.steps[array])
            e.store(loops.terms[x].kind, width, values[x], at, mask)
        return values

    def _block(self, row_pass: RowPass, first: str, copies: int, mask: str | None) -> None:
        e, width = self.e, self.width
        for number in row_pass.reductions:
            term = self.loops.terms[number]
            of, size = type_of(term.kind, width), width * BYTES[term.kind]
            strands, neutral = self.memory[number][1], start(term.operation, term.kind, width)

            def clear(i: str, _carried: list[str], of: str = of, size: int = size,
                      strands: str = strands, neutral: str = neutral) -> list[str]:  # fmt: skip
                e.line(f"store {of} {neutral}, ptr {e.item(strands, i, size)}, align 16")
                return []

            e.loop(str(STRANDS * copies), 1, clear)

        def each(j: str, _carried: list[str]) -> list[str]:
            strand = e.value(f"and i64 {j}, {STRANDS - 1}")
            place = e.value(f"mul i64 {strand}, {copies}")
            for copy in range(copies):
                values = self._element(row_pass, j, copy, mask)
                at = e.value(f"add i64 {place}, {copy}")
                for number in row_pass.reductions:
                    self._add(number, at, values)
            return []

        last = e.least(self.length, e.value(f"add i64 {first}, {BLOCK}"))
        e.loop(last, 1, each, start=first)
        index = e.value(f"lshr i64 {first}, {BLOCK.bit_length() - 1}")
        for number in row_pass.reductions:
            term = self.loops.terms[number]
            stack, strands = self.memory[number]
            push(e, term.operation, term.kind, stack, strands, index, STRANDS * copies)

    def _add(self, number: int, at: str, values: dict[int, str]) -> None:
        e, width, term = self.e, self.width, self.loops.terms[number]
        of = type_of(term.kind, width)
        place = e.item(self.memory[number][1], at, width * BYTES[term.kind])
        before = e.value(f"load {of}, ptr {place}, align 16")
        x = values[term.operands[0]]
        total = combine(e, REDUCTIONS[term.operation], term.kind, width, before, x)
        e.line(f"store {of} {total}, ptr {place}, align 16")

    def _folded(self, number: int, copies: int) -> list[str]:
        """The results of a reduction, a vector for each copy."""
        e, width, term = self.e, self.width, self.loops.terms[number]
        stack, strands = self.memory[number]
        of, size = type_of(term.kind, width), width * BYTES[term.kind]

        def nothing() -> None:
            for copy in range(copies):
                initial = empty(term.operation, term.kind, width)
                e.line(f"store {of} {initial}, ptr {e.offset(strands, str(copy * size))}, align 16")

        def total() -> None:
            more = e.value(f"add i64 {self.length}, {BLOCK - 1}")
            blocks = e.value(f"lshr i64 {more}, {BLOCK.bit_length() - 1}")
            fold(e, term.operation, term.kind, stack, strands, blocks, STRANDS * copies, copies)

        e.when(e.value(f"icmp eq i64 {self.length}, 0"), nothing, total)
        return [
            e.value(f"load {of}, ptr {e.offset(strands, str(copy * size))}, align 16")
            for copy in range(copies)
        ]
