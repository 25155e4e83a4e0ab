"""Code of the reduction tree: tallies of blocks, added like carries of a binary counter.

The tree is described in `loop_form`. Tallies lie in memory as vectors: the tallies of one row in
`TALLIES / width` of them, those of several rows side by side in one or more vectors per tally.
"""

from __future__ import annotations

from typing import Final

from eagerflow_kernels.native.llvm.emitter import Emitter, type_of
from eagerflow_kernels.native.llvm.terms import combine, constant
from eagerflow_kernels.native.loop_form import BYTES, REDUCTIONS, SCANS, TALLIES, Kind, start_of

#: levels of the tree, for more blocks than an array can have
LEVELS: Final = 56


def tree_functions(reduction: str, kind: Kind, width: int, declared: set[str]) -> str:
    """The functions that push tallies of a block, fold the waiting tallies, and halve the sums."""
    parts = (_push, _fold, _halve)
    return "".join(part(reduction, kind, width, declared) for part in parts)


def push(
    e: Emitter, reduction: str, kind: Kind, stack: str, tallies: str, block: str, count: int | str,
    level: int = 0,
) -> None:  # fmt: skip
    """Add the tallies of a block, ``count`` vectors, to the tallies of the blocks before.

    At a level above 0 they are tallies of 2**level blocks, of which ``block`` is the last.
    """
    given = f"ptr {stack}, ptr {tallies}, i64 {block}, i64 {count}, i64 {level}"
    e.line(f"call void @push.{reduction}.{kind}({given})")


def fold(
    e: Emitter, reduction: str, kind: Kind, stack: str, out: str, blocks: str, count: int | str
) -> None:
    """Add up the waiting tallies into ``count`` vectors at ``out``."""
    given = f"ptr {stack}, ptr {out}, i64 {blocks}, i64 {count}"
    e.line(f"call void @fold.{reduction}.{kind}({given})")


def halve(
    e: Emitter, reduction: str, kind: Kind, out: str, count: int | str, times: int | str
) -> None:
    """Halve the ``count`` vectors at ``out``, ``times`` times."""
    e.line(f"call void @halve.{reduction}.{kind}(ptr {out}, i64 {count}, i64 {times})")


def halved(e: Emitter, reduction: str, kind: Kind, width: int, places: list[str]) -> str:
    """The sum, in the order of `halve`, of the vectors at ``places``, a power of 2 of them."""
    of, operation = type_of(kind, width), REDUCTIONS[reduction]
    vectors = [e.value(f"load {of}, ptr {place}, align 16") for place in places]
    while len(vectors) > 1:
        half = len(vectors) // 2
        pairs = zip(vectors[:half], vectors[half:], strict=True)
        vectors = [combine(e, operation, kind, width, *pair) for pair in pairs]
    return vectors[0]


def across(e: Emitter, reduction: str, kind: Kind, width: int, x: str) -> str:
    """The reduction of one vector by halves."""
    while width > 1:
        of, half = type_of(kind, width), width // 2
        low, high = (
            e.value(f"shufflevector {of} {x}, {of} {x}, <{half} x i32> <{_indices(first, half)}>")
            if half > 1
            else e.value(f"extractelement {of} {x}, i32 {first}")
            for first in (0, half)
        )
        x = combine(e, REDUCTIONS[reduction], kind, half, low, high)
        width = half
    return x


def _indices(first: int, count: int) -> str:
    return ", ".join(f"i32 {i}" for i in range(first, first + count))


def start(reduction: str, kind: Kind, width: int) -> str:
    """The initial value of tallies."""
    return constant(start_of(reduction, kind), kind, width)


def scanned(
    e: Emitter, scan: str, kind: Kind, width: int, state: str, x: str
) -> str:  # fmt: skip
    """The next vector of a scan along its elements; ``state`` points to the running value."""
    of, element = type_of(kind, width), type_of(kind, 1)
    last = e.value(f"load {element}, ptr {state}, align 8")
    made = constant(0, kind, width)
    for lane in range(width):
        one = e.value(f"extractelement {of} {x}, i32 {lane}") if width > 1 else x
        last = combine(e, SCANS[scan], kind, 1, last, one)
        made = (
            e.value(f"insertelement {of} {made}, {element} {last}, i32 {lane}")
            if width > 1
            else last
        )
    e.line(f"store {element} {last}, ptr {state}, align 8")
    return made


def empty(reduction: str, kind: Kind, width: int) -> str:
    """The result of a reduction of no elements."""
    return constant(0 if reduction == "sum" else start_of(reduction, kind), kind, width)


def stack_bytes(kind: Kind, width: int, count: int) -> int:
    """The bytes of memory for waiting tallies of ``count`` vectors."""
    return LEVELS * count * width * BYTES[kind]


def vectors_of_row(width: int) -> int:
    """Number of vectors of the tallies of one row."""
    return TALLIES // width


def _push(reduction: str, kind: Kind, width: int, declared: set[str]) -> str:
    e = Emitter(declared)
    of, size = type_of(kind, width), width * BYTES[kind]

    def body() -> None:
        level_size = e.value(f"mul i64 %count, {size}")
        ones = e.value("xor i64 %block, -1")
        carries = e.call("i64", "llvm.cttz.i64", f"i64 {ones}, i1 false", "i64, i1")

        def each(i: str, _carried: list[str]) -> list[str]:
            place = e.item("%stack", i, size)
            x = e.value(f"load {of}, ptr {e.item('%tallies', i, size)}, align 16")

            def carry(level: str, values: list[str]) -> list[str]:
                waiting = e.value(f"load {of}, ptr {e.item(place, level, level_size)}, align 16")
                return [combine(e, REDUCTIONS[reduction], kind, width, waiting, values[0])]

            (total,) = e.loop(carries, 1, carry, [(of, x)], start="%level")
            e.line(f"store {of} {total}, ptr {e.item(place, carries, level_size)}, align 16")
            return []

        e.loop("%count", 1, each)

    head = (
        f"void @push.{reduction}.{kind}"
        "(ptr %stack, ptr %tallies, i64 %block, i64 %count, i64 %level)"
    )
    return e.function(head, body)


def _fold(reduction: str, kind: Kind, width: int, declared: set[str]) -> str:
    e = Emitter(declared)
    of, size = type_of(kind, width), width * BYTES[kind]

    def body() -> None:
        level_size = e.value(f"mul i64 %count, {size}")
        lowest = e.call("i64", "llvm.cttz.i64", "i64 %blocks, i1 false", "i64, i1")
        zeros = e.call("i64", "llvm.ctlz.i64", "i64 %blocks, i1 false", "i64, i1")
        levels = e.value(f"sub i64 64, {zeros}")
        second = e.value(f"add i64 {lowest}, 1")

        def each(i: str, _carried: list[str]) -> list[str]:
            place = e.item("%stack", i, size)
            x = e.value(f"load {of}, ptr {e.item(place, lowest, level_size)}, align 16")

            def add(level: str, values: list[str]) -> list[str]:
                rest = e.value(f"lshr i64 %blocks, {level}")
                waits = e.value(f"trunc i64 {rest} to i1")
                higher = e.value(f"load {of}, ptr {e.item(place, level, level_size)}, align 16")
                total = combine(e, REDUCTIONS[reduction], kind, width, higher, values[0])
                return [e.value(f"select i1 {waits}, {of} {total}, {of} {values[0]}")]

            (total,) = e.loop(levels, 1, add, [(of, x)], start=second)
            e.line(f"store {of} {total}, ptr {e.item('%out', i, size)}, align 16")
            return []

        e.loop("%count", 1, each)

    head = f"void @fold.{reduction}.{kind}(ptr %stack, ptr %out, i64 %blocks, i64 %count)"
    return e.function(head, body)


def _halve(reduction: str, kind: Kind, width: int, declared: set[str]) -> str:
    e = Emitter(declared)
    of, size = type_of(kind, width), width * BYTES[kind]

    def once(_time: str, values: list[str]) -> list[str]:
        half = e.value(f"lshr i64 {values[0]}, 1")

        def pair(i: str, _carried: list[str]) -> list[str]:
            low = e.item("%out", i, size)
            high = e.item("%out", e.value(f"add i64 {i}, {half}"), size)
            x = e.value(f"load {of}, ptr {low}, align 16")
            y = e.value(f"load {of}, ptr {high}, align 16")
            total = combine(e, REDUCTIONS[reduction], kind, width, x, y)
            e.line(f"store {of} {total}, ptr {low}, align 16")
            return []

        e.loop(half, 1, pair)
        return [half]

    def body() -> None:
        e.loop("%times", 1, once, [("i64", "%count")])

    return e.function(f"void @halve.{reduction}.{kind}(ptr %out, i64 %count, i64 %times)", body)
