"""Access to arrays of any strides, in chunks of contiguous elements.

Contiguous elements are read and written in place. All others are copied into a buffer of one chunk
and back, so that there is one loop over vectors, whatever the strides are.
"""

from __future__ import annotations

from typing import Final, final

from eagerflow_kernels.native.llvm.emitter import Emitter, memory_type
from eagerflow_kernels.native.loop_form import BYTES, Kind

#: elements of a chunk: a multiple of a block, small enough that chunks of many arrays stay in L1
CHUNK: Final = 512


@final
class ChunkedArray:
    """An array along one axis.

    Attributes:
        kind: of its elements.
        beside: an i1, whether they are contiguous.
    """

    __slots__ = ("_base", "_buffer", "_constant", "_current", "_e", "_step", "beside", "kind")

    def __init__(self, e: Emitter, kind: Kind, step: str, width: int) -> None:
        self._e, self.kind, self._step = e, kind, step
        self._base = ""
        self._buffer = e.slot(memory_type(kind, width), CHUNK // width)
        self._current = e.slot("ptr")
        self.beside = e.value(f"icmp eq i64 {step}, {BYTES[kind]}")
        self._constant = e.value(f"icmp eq i64 {step}, 0")

    def begin(self, base: str) -> None:
        """Set the address of the first element."""
        self._base = base

    def fill(self, width: int, count: str) -> None:
        """If all elements are the same one, fill the buffer with it, for `open` with ``filled``."""
        e, size = self._e, BYTES[self.kind]

        def spread() -> None:
            x = e.value(f"load {memory_type(self.kind, 1)}, ptr {self._base}, align {size}")
            of = memory_type(self.kind, width)
            first = e.value(
                f"insertelement {of} zeroinitializer, {memory_type(self.kind, 1)} {x}, i32 0"
            )
            all_ = e.value(
                f"shufflevector {of} {first}, {of} zeroinitializer, <{width} x i32> zeroinitializer"
            )
            upto = e.least(count, str(CHUNK))

            def store(i: str, _carried: list[str]) -> list[str]:
                e.line(f"store {of} {all_}, ptr {e.item(self._buffer, i, size)}, align {size}")
                return []

            e.loop(upto, width, store)

        some = e.value(f"icmp sgt i64 {count}, 0")
        e.when(e.value(f"and i1 {self._constant}, {some}"), spread)

    def open(self, start: str, count: str, filled: bool = False) -> str:
        """The address from which the elements from ``start`` on can be read contiguously."""
        e = self._e

        def gather() -> None:
            origin = e.item(self._base, start, self._step)
            e.line(
                f"call void @gather.{BYTES[self.kind]}"
                f"(ptr {self._buffer}, ptr {origin}, i64 {self._step}, i64 {count})"
            )

        def copy() -> None:
            e.line(f"store ptr {self._buffer}, ptr {self._current}, align 8")
            if filled:
                e.when(self._constant, lambda: None, gather)
            else:
                gather()

        e.when(self.beside, lambda: self._direct(start), copy)
        return e.value(f"load ptr, ptr {self._current}, align 8")

    def open_to_write(self, start: str) -> str:
        """The address to which the elements from ``start`` on can be written contiguously."""
        e = self._e
        e.when(
            self.beside,
            lambda: self._direct(start),
            lambda: e.line(f"store ptr {self._buffer}, ptr {self._current}, align 8"),
        )
        return e.value(f"load ptr, ptr {self._current}, align 8")

    def close(self, start: str, count: str) -> None:
        """Copy written elements from the buffer to the array, unless written in place."""
        e = self._e

        def scatter() -> None:
            target = e.item(self._base, start, self._step)
            e.line(
                f"call void @scatter.{BYTES[self.kind]}"
                f"(ptr {target}, i64 {self._step}, ptr {self._buffer}, i64 {count})"
            )

        e.when(self.beside, lambda: None, scatter)

    def _direct(self, start: str) -> None:
        e = self._e
        at = e.item(self._base, start, BYTES[self.kind])
        e.line(f"store ptr {at}, ptr {self._current}, align 8")


def copy_functions(sizes: set[int], declared: set[str]) -> str:
    """The functions that copy chunks, for each size of elements."""
    return "".join(_gather(size, declared) + _scatter(size, declared) for size in sorted(sizes))


def _gather(size: int, declared: set[str]) -> str:
    e = Emitter(declared)
    of = f"i{8 * size}"

    def body() -> None:
        def copy(i: str, values: list[str]) -> list[str]:
            x = e.value(f"load {of}, ptr {values[0]}, align {size}")
            e.line(f"store {of} {x}, ptr {e.item('%to', i, size)}, align {size}")
            return [e.offset(values[0], "%step")]

        e.loop("%count", 1, copy, [("ptr", "%from")])

    return e.function(f"void @gather.{size}(ptr %to, ptr %from, i64 %step, i64 %count)", body)


def _scatter(size: int, declared: set[str]) -> str:
    e = Emitter(declared)
    of = f"i{8 * size}"

    def body() -> None:
        def copy(i: str, values: list[str]) -> list[str]:
            x = e.value(f"load {of}, ptr {e.item('%from', i, size)}, align {size}")
            e.line(f"store {of} {x}, ptr {values[0]}, align {size}")
            return [e.offset(values[0], "%step")]

        e.loop("%count", 1, copy, [("ptr", "%to")])

    return e.function(f"void @scatter.{size}(ptr %to, i64 %step, ptr %from, i64 %count)", body)
