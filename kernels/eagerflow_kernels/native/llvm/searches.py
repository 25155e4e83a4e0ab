"""Code of searches for the first element of a row that satisfies a condition, or is extreme.

Along a row, several vectors are tested at once, and vectors after the first match are not computed.
Across rows that lie side by side, each has its extreme element so far in a vector.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from eagerflow_kernels.native.llvm.elementwise import COPIES
from eagerflow_kernels.native.llvm.emitter import Emitter, type_of
from eagerflow_kernels.native.llvm.reductions import start
from eagerflow_kernels.native.llvm.terms import constant, convert
from eagerflow_kernels.native.loop_form import BITS, FLOATS, Kind, Term

#: computes vectors of truth that begin at some places, each with a mask or whole
Conditions = Callable[[list[str], list[str | None]], list[str]]


def first_true(e: Emitter, width: int, count: str, vectors: Conditions) -> str:
    """The index of the first element of a chunk that satisfies a condition, -1 if there is none.

    Args:
        e: the emitter of the function.
        width: number of elements of a vector.
        count: number of elements of the chunk, an i64.
        vectors: computes the condition.
    """
    size = width * COPIES
    of = type_of("bool", width)
    position = e.slot("i64")

    def some(first: str, *, masked: bool = False) -> str:
        places = [e.value(f"add i64 {first}, {k * width}") for k in range(COPIES)]
        left = [e.value(f"sub i64 {count}, {x}") if masked else "" for x in places]
        masks = [e.mask(width, x) if masked else None for x in left]
        bits = "0"
        for k, (x, mask) in enumerate(zip(vectors(places, masks), masks, strict=True)):
            true = x if mask is None else e.value(f"and {of} {x}, {mask}")
            part = e.value(f"zext i{width} {e.value(f'bitcast {of} {true} to i{width}')} to i64")
            bits = e.value(f"or i64 {bits}, {e.value(f'shl i64 {part}, {k * width}')}")
        at = e.call("i64", "llvm.cttz.i64", f"i64 {bits}, i1 false", "i64, i1")
        none = e.value(f"icmp eq i64 {bits}, 0")
        return e.value(f"select i1 {none}, i64 -1, i64 {e.value(f'add i64 {first}, {at}')}")

    whole = e.value(f"and i64 {count}, {-size}")
    e.line(f"store i64 {e.search(whole, size, some)}, ptr {position}, align 8")
    none = e.value(f"icmp slt i64 {e.value(f'load i64, ptr {position}, align 8')}, 0")
    rest = e.value(f"icmp slt i64 {whole}, {count}")

    def last() -> None:
        e.line(f"store i64 {some(whole, masked=True)}, ptr {position}, align 8")

    e.when(e.value(f"and i1 {none}, {rest}"), last)
    return e.value(f"load i64, ptr {position}, align 8")


def first_extreme(
    e: Emitter, term: Term, width: int, count: str, elements: Callable[[list[str]], list[str]]
) -> tuple[str, str]:
    """The first extreme elements of a block of rows side by side, and their indices, i64.

    Args:
        e: the emitter of the function.
        term: the reduction, ``max`` or ``min``.
        width: number of rows of a vector.
        count: number of elements of the block, an i64.
        elements: computes the elements of some indices.
    """
    # indices in a block are small: they have the width of elements, so that one vector holds them
    whole = BITS[term.kind] if term.kind in FLOATS else term.kind

    def some(copies: int, i: str, best: list[str]) -> list[str]:
        at = [i, *(e.value(f"add i64 {i}, {n}") for n in range(1, copies))]
        for one, x in zip(at, elements(at), strict=True):
            index = e.splat(whole, width, convert(e, "i64", whole, 1, one))
            best = more_extreme(e, term, whole, width, (x, index), (best[0], best[1]))
        return best

    of = type_of(term.kind, width), type_of(whole, width)
    best = [start(term.operation, term.kind, width), constant(0, whole, width)]
    end = e.value(f"and i64 {count}, {-COPIES}")
    best = e.loop(end, COPIES, partial(some, COPIES), list(zip(of, best, strict=True)))
    best = e.loop(count, 1, partial(some, 1), list(zip(of, best, strict=True)), start=end)
    return best[0], convert(e, whole, "i64", width, best[1])


def more_extreme(
    e: Emitter, term: Term, of_index: Kind, width: int, given: tuple[str, str],
    best: tuple[str, str],
) -> list[str]:  # fmt: skip
    """The more extreme of two elements with its index; ``best`` where neither is, or it is NaN.

    Zeros are equal, whatever their signs.
    """
    of, bools = type_of(term.kind, width), type_of("bool", width)
    order = "lt" if term.operation == "min" else "gt"
    if term.kind in FLOATS:
        beyond = e.value(f"fcmp u{order} {of} {given[0]}, {best[0]}")  # or NaN
        number = e.value(f"fcmp ord {of} {best[0]}, {best[0]}")
        met = e.value(f"and {bools} {beyond}, {number}")
    else:
        met = e.value(f"icmp s{order} {of} {given[0]}, {best[0]}")
    kinds = of, type_of(of_index, width)
    return [
        e.value(f"select {bools} {met}, {kind} {x}, {kind} {y}")
        for kind, x, y in zip(kinds, given, best, strict=True)
    ]
