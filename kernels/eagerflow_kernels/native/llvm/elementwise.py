"""Loops without an inner axis: vectors along the rows."""

from __future__ import annotations

from eagerflow_kernels.native.form import BYTES, Kind, Loops
from eagerflow_kernels.native.llvm.emitter import Emitter
from eagerflow_kernels.native.llvm.streams import CHUNK, ChunkedArray
from eagerflow_kernels.native.llvm.terms import apply, constant


def render_elementwise(loops: Loops, width: int, declared: set[str]) -> str:
    """The text of the function ``body(args, dims, steps)``."""
    e = Emitter(declared)

    def body() -> None:
        count = e.integer("%dims", 0)
        streams = []
        for i, array in enumerate((*loops.inputs, *loops.outputs)):
            stream = ChunkedArray(e, array.kind, e.integer("%steps", i), width)
            stream.begin(e.pointer("%args", i))
            streams.append(stream)
        reads, writes = streams[: len(loops.inputs)], streams[len(loops.inputs) :]
        for stream in reads:
            stream.fill(width, count)
        beside = streams[0].beside
        for stream in streams[1:]:
            beside = e.value(f"and i1 {beside}, {stream.beside}")
        chunk = e.value(f"select i1 {beside}, i64 {count}, i64 {CHUNK}")

        def each(start: str, _carried: list[str]) -> list[str]:
            left = e.least(e.value(f"sub i64 {count}, {start}"), chunk)
            sources = [s.open(start, left, filled=True) for s in reads]
            targets = [s.open_to_write(start) for s in writes]
            vectors_of_chunk(
                e, left, width, lambda i, mask: _vector(e, loops, width, sources, targets, i, mask)
            )
            for stream in writes:
                stream.close(start, left)
            return []

        e.loop(count, e.value(f"add i64 {chunk}, 0"), each)

    return e.function("void @body(ptr %args, ptr %dims, ptr %steps)", body)


def vectors_of_chunk(e: Emitter, count: str, width: int, vector: object) -> None:
    """Run ``vector(i, mask)`` for each vector of ``count`` elements; the last may have a mask."""
    assert callable(vector)
    whole = e.value(f"and i64 {count}, {-width}")

    def full(i: str, _carried: list[str]) -> list[str]:
        vector(i, None)
        return []

    e.loop(whole, width, full)
    rest = e.value(f"sub i64 {count}, {whole}")
    some = e.value(f"icmp sgt i64 {rest}, 0")
    e.when(some, lambda: vector(whole, e.mask(width, rest)))


def _vector(
    e: Emitter,
    loops: Loops,
    width: int,
    sources: list[str],
    targets: list[str],
    i: str,
    mask: str | None,
) -> None:
    values: list[str] = []
    for term in loops.terms:
        kind: Kind = term.kind
        if term.operation == "load":
            at = e.item(sources[term.constant], i, BYTES[kind])
            values.append(e.load(kind, width, at, mask))
        elif term.operation == "constant":
            values.append(constant(term.constant, kind, width))
        else:
            kinds = tuple(loops.terms[x].kind for x in term.operands)
            values.append(apply(e, term, kinds, width, [values[x] for x in term.operands]))
    for target, x, array in zip(targets, loops.results, loops.outputs, strict=True):
        e.store(array.kind, width, values[x], e.item(target, i, BYTES[array.kind]), mask)
