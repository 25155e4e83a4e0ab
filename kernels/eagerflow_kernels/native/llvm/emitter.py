"""The emitter of LLVM functions as text: values, blocks, loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from eagerflow_kernels.native.compiler_slices import breathe
from eagerflow_kernels.native.loop_form import BYTES, Kind

_TYPES: Final[dict[Kind, str]] = {
    "f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "bool": "i1",
    "f16": "half", "bf16": "i16",
}  # fmt: skip
_SUFFIXES: Final[dict[Kind, str]] = {
    "f32": "f32", "f64": "f64", "i32": "i32", "i64": "i64", "bool": "i1",
    "f16": "f16", "bf16": "i16",
}  # fmt: skip

Names = Sequence[str]


def type_of(kind: Kind, width: int) -> str:
    """The type of a value: a vector of ``width`` elements, or one element if it is 1.

    >>> type_of("f32", 16), type_of("f64", 1)
    ('<16 x float>', 'double')
    """
    return _TYPES[kind] if width == 1 else f"<{width} x {_TYPES[kind]}>"


def memory_type(kind: Kind, width: int) -> str:
    """The type of a value in memory, where a bool has a byte."""
    element = "i8" if kind == "bool" else _TYPES[kind]
    return element if width == 1 else f"<{width} x {element}>"


def suffix(kind: Kind, width: int) -> str:
    """The suffix of names of intrinsics for values of this type."""
    return _SUFFIXES[kind] if width == 1 else f"v{width}{_SUFFIXES[kind]}"


@final
class Emitter:
    """A function of LLVM under construction.

    Attributes:
        lines: the instructions so far.
        declared: declarations of the intrinsics that it calls, for the whole module.
    """

    __slots__ = ("_block", "_count", "_entry", "_name", "declared", "lines")

    def __init__(self, declared: set[str]) -> None:
        self.lines: list[str] = []
        self.declared = declared
        self._entry: list[str] = []
        self._count = 0
        self._block = "entry"

    def function(self, head: str, body: Callable[[], str | None]) -> str:
        """The text of a function; ``body`` writes it and gives its return value, if any."""
        result = body()
        ending = "ret void" if result is None else f"ret {result}"
        inner = "\n".join(f"  {line}" if line[-1] != ":" else line for line in self.lines)
        slots = "".join(f"  {line}\n" for line in self._entry)
        return (
            f"define internal {head} noinline nounwind {{\nentry:\n{slots}{inner}\n  {ending}\n}}\n"
        )

    # --- values -----------------------------------------------------------------------------

    def _name_of(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def value(self, text: str) -> str:
        """Append an instruction; returns the name of its value."""
        breathe()
        name = self._name_of("%v")
        self.lines.append(f"{name} = {text}")
        return name

    def line(self, text: str) -> None:
        """Append an instruction without a value."""
        self.lines.append(text)

    def call(self, result: str, name: str, arguments: str, types: str) -> str:
        """Call an intrinsic, and declare it; returns the name of its value."""
        self.declared.add(f"declare {result} @{name}({types})")
        return self.value(f"call {result} @{name}({arguments})")

    def slot(self, type_name: str, count: int = 1) -> str:
        """Local memory of the function, aligned for vectors."""
        name = self._name_of("%m")
        self._entry.append(f"{name} = alloca {type_name}, i64 {count}, align 64")
        return name

    def all_of(self, conditions: Sequence[str]) -> str:
        """The conjunction of conditions, each an i1."""
        result, *others = conditions
        for condition in others:
            result = self.value(f"and i1 {result}, {condition}")
        return result

    def splat(self, kind: Kind, width: int, x: str) -> str:
        """A vector with one element repeated."""
        if width == 1:
            return x
        of = type_of(kind, width)
        first = self.value(f"insertelement {of} zeroinitializer, {type_of(kind, 1)} {x}, i32 0")
        return self.value(
            f"shufflevector {of} {first}, {of} zeroinitializer, <{width} x i32> zeroinitializer"
        )

    def least(self, x: str, y: str) -> str:
        """The smaller of two i64."""
        less = self.value(f"icmp slt i64 {x}, {y}")
        return self.value(f"select i1 {less}, i64 {x}, i64 {y}")

    def places(self, width: int, first: str) -> str:
        """A vector of consecutive i64 from ``first`` on."""
        if width == 1:
            return first
        of = type_of("i64", width)
        steps = ", ".join(f"i64 {i}" for i in range(width))
        return self.value(f"add {of} {self.splat('i64', width, first)}, <{steps}>")

    # --- memory -----------------------------------------------------------------------------

    def offset(self, pointer: str, bytes_: str) -> str:
        """A pointer advanced by bytes."""
        return self.value(f"getelementptr i8, ptr {pointer}, i64 {bytes_}")

    def item(self, pointer: str, index: str, step: int | str) -> str:
        """A pointer advanced by a number of steps."""
        if step == 1:
            return self.offset(pointer, index)
        return self.offset(pointer, self.value(f"mul i64 {index}, {step}"))

    def integer(self, pointer: str, index: int) -> str:
        """An element of an array of i64."""
        return self.value(f"load i64, ptr {self.offset(pointer, str(8 * index))}, align 8")

    def pointer(self, pointer: str, index: int) -> str:
        """An element of an array of pointers."""
        return self.value(f"load ptr, ptr {self.offset(pointer, str(8 * index))}, align 8")

    def load(self, kind: Kind, width: int, pointer: str, mask: str | None = None) -> str:
        """Load contiguous elements; elements outside of the mask are 0."""
        of = memory_type(kind, width)
        if mask is None:
            x = self.value(f"load {of}, ptr {pointer}, align {BYTES[kind]}")
        else:
            name = f"llvm.masked.load.{suffix_in_memory(kind, width)}.p0"
            x = self.call(
                of, name,
                f"ptr align {BYTES[kind]} {pointer}, <{width} x i1> {mask}, {of} zeroinitializer",
                f"ptr, <{width} x i1>, {of}",
            )  # fmt: skip
        if kind == "bool":
            x = self.value(f"icmp ne {of} {x}, {'0' if width == 1 else 'zeroinitializer'}")
        return x

    def store(self, kind: Kind, width: int, x: str, pointer: str, mask: str | None = None) -> None:
        """Store contiguous elements, except elements outside of the mask."""
        of = memory_type(kind, width)
        if kind == "bool":
            x = self.value(f"zext {type_of(kind, width)} {x} to {of}")
        if mask is None:
            self.line(f"store {of} {x}, ptr {pointer}, align {BYTES[kind]}")
            return
        name = f"llvm.masked.store.{suffix_in_memory(kind, width)}.p0"
        self.declared.add(f"declare void @{name}({of}, ptr, <{width} x i1>)")
        self.line(
            f"call void @{name}({of} {x}, ptr align {BYTES[kind]} {pointer}, <{width} x i1> {mask})"
        )

    def mask(self, width: int, count: str) -> str:
        """The mask of the first ``count`` elements of a vector, an i64; of all if it has fewer."""
        upto = self.splat("i64", width, count)
        indices = ", ".join(f"i64 {i}" for i in range(width))
        return self.value(f"icmp sgt <{width} x i64> {upto}, <{indices}>")

    # --- flow -------------------------------------------------------------------------------

    def _begin(self, block: str) -> None:
        self.lines.append(f"{block}:")
        self._block = block

    def loop(
        self,
        stop: str,
        step: str | int,
        body: Callable[[str, list[str]], list[str]],
        carried: Sequence[tuple[str, str]] = (),
        start: str = "0",
    ) -> list[str]:
        """Run ``body(i, values)`` for i from ``start`` to before ``stop``.

        Args:
            stop: an i64.
            step: the increment of i.
            body: writes the body, and gives the values for the next iteration.
            carried: type and initial value of each loop-carried value.
            start: the first i.

        Returns:
            The loop-carried values after the loop.
        """
        before, head = self._block, self._name_of("head")
        inside, after = self._name_of("body"), self._name_of("after")
        self.line(f"br label %{head}")
        self._begin(head)
        place = len(self.lines)
        index = self._name_of("%i")
        names = [self._name_of("%c") for _ in carried]
        self.line(f"{index}.go = icmp slt i64 {index}, {stop}")
        self.line(f"br i1 {index}.go, label %{inside}, label %{after}")
        self._begin(inside)
        values = body(index, names)
        self.line(f"{index}.next = add i64 {index}, {step}")
        self.line(f"br label %{head}")
        phis = [f"{index} = phi i64 [{start}, %{before}], [{index}.next, %{self._block}]"]
        for name, (of, first), value in zip(names, carried, values, strict=True):
            phis.append(f"{name} = phi {of} [{first}, %{before}], [{value}, %{self._block}]")
        self.lines[place:place] = phis
        self._begin(after)
        return names

    def search(self, stop: str, step: int, body: Callable[[str], str]) -> str:
        """Run ``body(i)`` until its result, an i64, is not negative.

        Args:
            stop: an i64.
            step: the increment of i, from 0 to before ``stop``.
            body: writes the body; gives an i64, which is negative if the search goes on.

        Returns:
            The first result that is not negative, an i64; -1 if there is none.
        """
        before, head = self._block, self._name_of("head")
        inside, after = self._name_of("body"), self._name_of("after")
        self.line(f"br label %{head}")
        self._begin(head)
        place = len(self.lines)
        index, result = self._name_of("%i"), self._name_of("%v")
        self.line(f"{index}.go = icmp slt i64 {index}, {stop}")
        self.line(f"br i1 {index}.go, label %{inside}, label %{after}")
        self._begin(inside)
        hit = body(index)
        self.line(f"{index}.next = add i64 {index}, {step}")
        self.line(f"{index}.on = icmp slt i64 {hit}, 0")
        self.line(f"br i1 {index}.on, label %{head}, label %{after}")
        last = self._block
        self.lines.insert(place, f"{index} = phi i64 [0, %{before}], [{index}.next, %{last}]")
        self._begin(after)
        self.line(f"{result} = phi i64 [-1, %{head}], [{hit}, %{last}]")
        return result

    def return_if(self, condition: str) -> None:
        """Return from the function, which has no result, if a condition holds."""
        leave, on = self._name_of("leave"), self._name_of("on")
        self.line(f"br i1 {condition}, label %{leave}, label %{on}")
        self._begin(leave)
        self.line("ret void")
        self._begin(on)

    def when(
        self, condition: str, then: Callable[[], None], other: Callable[[], None] | None = None
    ) -> None:
        """Run one of two branches, which give their results through memory."""
        yes, no, after = self._name_of("yes"), self._name_of("no"), self._name_of("after")
        self.line(f"br i1 {condition}, label %{yes}, label %{no}")
        self._begin(yes)
        then()
        self.line(f"br label %{after}")
        self._begin(no)
        if other is not None:
            other()
        self.line(f"br label %{after}")
        self._begin(after)


def suffix_in_memory(kind: Kind, width: int) -> str:
    """As `suffix`, for a value in memory."""
    return f"v{width}i8" if kind == "bool" else suffix(kind, width)
