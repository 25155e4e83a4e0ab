"""Code of searches along a row for the first element that satisfies a condition.

Several vectors are tested at once, and vectors after the first match are not computed.
"""

from __future__ import annotations

from collections.abc import Callable

from eagerflow_kernels.native.llvm.elementwise import COPIES
from eagerflow_kernels.native.llvm.emitter import Emitter, type_of

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
