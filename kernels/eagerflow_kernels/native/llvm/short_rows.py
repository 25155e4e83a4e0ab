"""Code of loops with a short inner axis: groups of rows are transposed, and computed side by side.

A row of few elements does not fill vectors, and the overhead of a row exceeds the time of its
elements. So a group of rows is copied into buffers in which rows lie side by side, `columns`
computes them there, and results are copied back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, final

from eagerflow_kernels.native.llvm.emitter import Emitter
from eagerflow_kernels.native.llvm.rows import SHORT, inner_step
from eagerflow_kernels.native.loop_form import BYTES, Kind, Loops

#: rows that are transposed at once: their elements stay in L1
_ROWS: Final = 128
#: rows and elements of a square that is transposed in registers
_SQUARE: Final = 8


def render_short_rows(loops: Loops, declared: set[str]) -> str:
    """The text of the function ``short``, and of the functions that it copies with."""
    e = Emitter(declared)
    short = _ShortRows(loops, e)
    arrays = [a for a in (*loops.inputs, *loops.outputs) if a.inner and not a.shared]
    sizes = sorted({BYTES[a.kind] for a in arrays})
    copies = [_transpose(size, back, declared) for size in sizes for back in (False, True)]
    head = "void @short(ptr %args, ptr %dims, ptr %steps, ptr %control)"
    return "".join([*copies, e.function(head, short.render)])


@final
class _ShortRows:
    """The writer of the function ``short``.

    Attributes:
        e: the emitter of the function.
        buffers: for each array the memory for a group of its rows.
    """

    def __init__(self, loops: Loops, e: Emitter) -> None:
        self.loops, self.e = loops, e
        self.arrays = (*loops.inputs, *loops.outputs)
        self.buffers = [
            e.pointer("%args", i)  # all rows read it in place
            if a.shared
            else e.slot("i8", _ROWS * BYTES[a.kind] * (SHORT if a.inner else 1))
            for i, a in enumerate(self.arrays)
        ]

    def render(self) -> None:
        """Write the body."""
        e, count = self.e, len(self.arrays)
        rows, length = e.integer("%dims", 0), e.integer("%dims", 1)
        inner = sum(a.inner for a in self.arrays)
        args, dims, steps = e.slot("ptr", count), e.slot("i64", 2), e.slot("i64", count + inner)
        e.line(f"store i64 {length}, ptr {e.offset(dims, '8')}, align 8")
        for i, (array, buffer) in enumerate(zip(self.arrays, self.buffers, strict=True)):
            size = BYTES[array.kind]
            self._put(args, i, f"ptr {buffer}")
            self._put(steps, i, f"i64 {size}")
            if array.inner:
                own = e.integer("%steps", inner_step(self.loops, i)) if array.shared else ""
                self._put(steps, inner_step(self.loops, i), f"i64 {own or _ROWS * size}")

        def some(first: str, _carried: list[str]) -> list[str]:
            here = e.least(e.value(f"sub i64 {rows}, {first}"), str(_ROWS))
            e.line(f"store i64 {here}, ptr {dims}, align 8")
            for i, array in enumerate(self.loops.inputs):
                if not array.shared:
                    self._read(i, first, here, length)
            e.line(f"call void @columns(ptr {args}, ptr {dims}, ptr {steps}, ptr %control)")
            for i in range(len(self.loops.inputs), count):
                self._write(i, first, here, length)
            return []

        e.loop(rows, _ROWS, some)

    def _put(self, array: str, index: int, x: str) -> None:
        self.e.line(f"store {x}, ptr {self.e.offset(array, str(8 * index))}, align 8")

    def _source(self, i: int, first: str) -> tuple[str, str]:
        """The address of the rows of an array from ``first`` on, and the step between rows."""
        step = self.e.integer("%steps", i)
        return self.e.item(self.e.pointer("%args", i), first, step), step

    def _read(self, i: int, first: str, rows: str, length: str) -> None:
        e, array, buffer = self.e, self.arrays[i], self.buffers[i]
        at, step = self._source(i, first)
        size = BYTES[array.kind]
        given = f"ptr {buffer}, ptr {at}, i64 {step}, i64 {rows}"

        def copy() -> None:
            if array.inner:
                e.line(f"call void @transpose.{size}({given}, i64 {length})")
            else:
                e.line(f"call void @gather.{size}({given})")

        same = e.value(f"icmp eq i64 {step}, 0")  # one row for all: it is copied once
        later = e.value(f"icmp sgt i64 {first}, 0")
        e.when(e.value(f"and i1 {same}, {later}"), lambda: None, copy)

    def _write(self, i: int, first: str, rows: str, length: str) -> None:
        e, array, buffer = self.e, self.arrays[i], self.buffers[i]
        at, step = self._source(i, first)
        size = BYTES[array.kind]
        if array.inner:
            given = f"ptr {buffer}, ptr {at}, i64 {step}, i64 {rows}, i64 {length}"
            e.line(f"call void @transpose.back.{size}({given})")
        else:
            e.line(f"call void @scatter.{size}(ptr {at}, i64 {step}, ptr {buffer}, i64 {rows})")


def _transpose(size: int, back: bool, declared: set[str]) -> str:
    """The function that copies rows into a buffer in which they lie side by side, or back.

    Squares are transposed in registers; the remainder is copied element by element, as are elements
    of one or two bytes, for which processors have no masked loads.
    """
    e = Emitter(declared)
    of = f"i{8 * size}"

    def element(row: str, j: str, _carried: list[str]) -> list[str]:
        there = e.item(e.item("%rows.at", row, "%step"), j, size)
        here = e.item(e.item("%buffer", j, _ROWS * size), row, size)
        source, target = (here, there) if back else (there, here)
        x = e.value(f"load {of}, ptr {source}, align {size}")
        e.line(f"store {of} {x}, ptr {target}, align {size}")
        return []

    def rest(first: str) -> None:
        def row(r: str, _carried: list[str]) -> list[str]:
            e.loop("%length", 1, partial(element, r))
            return []

        e.loop("%rows", 1, row, start=first)

    def body() -> None:
        if size < 4:
            rest("0")
            return
        whole = e.value(f"and i64 %rows, {-_SQUARE}")

        def square(r: str, j: str, mask: str | None) -> None:
            _square(e, size, back=back, at=(r, j), mask=mask)

        def squares(r: str, _carried: list[str]) -> list[str]:
            full = e.value(f"and i64 %length, {-_SQUARE}")

            def one(j: str, _carried: list[str]) -> list[str]:
                square(r, j, None)
                return []

            def last() -> None:
                square(r, full, e.mask(_SQUARE, e.value(f"sub i64 %length, {full}")))

            e.loop(full, _SQUARE, one)
            e.when(e.value(f"icmp slt i64 {full}, %length"), last)
            return []

        e.loop(whole, _SQUARE, squares)
        rest(whole)

    name = "transpose.back" if back else "transpose"
    head = f"void @{name}.{size}(ptr %buffer, ptr %rows.at, i64 %step, i64 %rows, i64 %length)"
    return e.function(head, body)


def _square(e: Emitter, size: int, *, back: bool, at: tuple[str, str], mask: str | None) -> None:
    """Transpose a square from the row and place ``at`` on, within the mask."""
    kind: Kind = "i32" if size == 4 else "i64"
    row, j = at
    rows = [e.item("%rows.at", e.value(f"add i64 {row}, {k}"), "%step") for k in range(_SQUARE)]
    rows = [e.item(one, j, size) for one in rows]
    beside = [
        e.item(e.item("%buffer", e.value(f"add i64 {j}, {k}"), _ROWS * size), row, size)
        for k in range(_SQUARE)
    ]
    load: Callable[[str], str] = partial(e.load, kind, _SQUARE)
    if back:
        for x, to in zip(_transposed(e, kind, [load(b) for b in beside]), rows, strict=True):
            e.store(kind, _SQUARE, x, to, mask)
    else:
        vectors = [e.load(kind, _SQUARE, one, mask) for one in rows]
        for x, to in zip(_transposed(e, kind, vectors), beside, strict=True):
            e.store(kind, _SQUARE, x, to)


def _transposed(e: Emitter, kind: str, vectors: list[str]) -> list[str]:
    """The transpose of a square of vectors.

    Each round swaps one bit of the index of the vector with the same bit of the place in it.
    """
    of = f"<{_SQUARE} x {kind}>"
    step = 1
    while step < _SQUARE:
        swapped = list(vectors)
        for i in range(_SQUARE):
            if not i & step:
                pair = f"{of} {vectors[i]}, {of} {vectors[i + step]}"
                low = [_SQUARE + p - step if p & step else p for p in range(_SQUARE)]
                high = [_SQUARE + p if p & step else p + step for p in range(_SQUARE)]
                for to, places in ((i, low), (i + step, high)):
                    which = ", ".join(f"i32 {p}" for p in places)
                    swapped[to] = e.value(f"shufflevector {pair}, <{_SQUARE} x i32> <{which}>")
        vectors = swapped
        step *= 2
    return vectors
