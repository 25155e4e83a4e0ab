"""Code of loops without an inner axis, vectorised along the rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eagerflow_kernels.native.llvm.emitter import Emitter
from eagerflow_kernels.native.llvm.streams import CHUNK, ChunkedArray
from eagerflow_kernels.native.llvm.terms import apply, constant
from eagerflow_kernels.native.llvm.ticks import tick
from eagerflow_kernels.native.loop_form import BYTES, Kind, Loops

#: vectors that are computed side by side, to hide the latency from each term to the next
COPIES: Final = 4

#: elements that are counted at once
_COUNTED: Final = 1 << 15

#: computes and stores vectors that begin at some places, each with a mask or whole
Vectors = Callable[[list[str], list[str | None]], Any]


def render_elementwise(loops: Loops, width: int, declared: set[str], weight: int = 0) -> str:
    """The text of the function ``body(args, dims, steps, control)``.

    ``weight`` is the work counted for an element (see `llvm.ticks`), or 0.
    """
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
        whole = str(_COUNTED) if weight else count
        chunk = e.value(f"select i1 {beside}, i64 {whole}, i64 {CHUNK}")

        def each(start: str, _carried: list[str]) -> list[str]:
            left = e.least(e.value(f"sub i64 {count}, {start}"), chunk)
            tick(e, left, weight)
            sources = [s.open(start, left, filled=True) for s in reads]
            targets = [s.open_to_write(start) for s in writes]

            def vectors(places: list[str], masks: list[str | None]) -> None:
                _vectors(e, loops, width, sources, targets, places, masks)

            vectors_of_chunk(e, left, width, vectors)
            for stream in writes:
                stream.close(start, left)
            return []

        e.loop(count, chunk, each)

    return e.function("void @body(ptr %args, ptr %dims, ptr %steps, ptr %control)", body)


def vectors_of_chunk(e: Emitter, count: str, width: int, vectors: Vectors) -> None:
    """Run ``vectors(places, masks)`` for all vectors of ``count`` elements.

    Only the last one has a mask.
    """

    def side_by_side(copies: int, start: str) -> str:
        """Run groups of ``copies`` whole vectors, as many as fit; returns their end."""
        end = e.value(f"and i64 {count}, {-copies * width}")

        def some(i: str, _carried: list[str]) -> list[str]:
            others = [e.value(f"add i64 {i}, {k * width}") for k in range(1, copies)]
            vectors([i, *others], [None] * copies)
            return []

        e.loop(end, copies * width, some, start=start)
        return end

    whole = side_by_side(1, side_by_side(COPIES, "0"))
    rest = e.value(f"sub i64 {count}, {whole}")
    e.when(e.value(f"icmp sgt i64 {rest}, 0"), lambda: vectors([whole], [e.mask(width, rest)]))


def _vectors(
    e: Emitter,
    loops: Loops,
    width: int,
    sources: list[str],
    targets: list[str],
    places: list[str],
    masks: list[str | None],
) -> None:
    """Compute and store the vectors at some places, term by term."""
    values: list[list[str]] = []
    for term in loops.terms:
        kind: Kind = term.kind
        if term.operation == "load":
            at = [e.item(sources[term.constant], i, BYTES[kind]) for i in places]
            values.append([e.load(kind, width, x, m) for x, m in zip(at, masks, strict=True)])
        elif term.operation == "constant":
            values.append([constant(term.constant, kind, width)] * len(places))
        else:
            kinds = tuple(loops.terms[x].kind for x in term.operands)
            operands = [[values[x][k] for x in term.operands] for k in range(len(places))]
            values.append([apply(e, term, kinds, width, given) for given in operands])
    for target, x, array in zip(targets, loops.results, loops.outputs, strict=True):
        for i, value, mask in zip(places, values[x], masks, strict=True):
            e.store(array.kind, width, value, e.item(target, i, BYTES[array.kind]), mask)
