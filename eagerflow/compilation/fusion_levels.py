"""Dependences between instructions, and the levels at which they may be fused.

Each instruction has a *level*. A predecessor that may be in a kernel has a lower level, unless both
go through the same space; one that runs alone has the same level or a lower one. A path that leaves
a kernel therefore ends at a higher level, and never comes back to it: instructions of one space and
level can always run as one, however many ops alone lie before each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from eagerflow.compilation.instruction_roles import (
    Layout,
    Line,
    Program,
    Role,
    Space,
    layout_of,
    per_row,
    space_at,
)
from eagerflow.core.op import find_op
from eagerflow.graph.ir import Node
from eagerflow.graph.passes.rewrite import is_pure
from eagerflow.graph.signatures import kind_of
from eagerflow.types import LIST, TensorType

#: roles of instructions that give one element for each element of their space, or one per row
_BY_ELEMENT: Final = ("elements", "repeat", "view")


@final
class Order:
    """The dependences of each instruction, by positions.

    An instruction depends on the producers of its operands; if it reads or assigns variables, has
    another effect or may fail, also on earlier instructions of the program.

    Attributes:
        before: for each instruction, its predecessors.
        after: for each instruction, its successors.
        readers: of each value, the instructions that read it.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self.before: list[set[int]] = [set() for _ in lines]
        self.after: list[set[int]] = [set() for _ in lines]
        self.readers: dict[int, list[int]] = {}
        makers: dict[int, int] = {}
        states = _States()
        for position, line in enumerate(lines):
            needed = self.before[position]
            for register in line.reads:
                self.readers.setdefault(register, []).append(position)
                if register in makers:
                    needed.add(makers[register])
            makers.update((register, position) for register in line.outputs)
            states.order(position, line, needed)
            for other in needed:
                self.after[other].add(position)


@final
class _States:
    """The instructions so far that read and change state."""

    def __init__(self) -> None:
        self.barrier: int | None = None  # the last instruction that must stay where it is
        self.since: list[int] = []  # reads and assignments since then
        self.assigned: dict[int, int] = {}  # by variable, its last assignment
        self.read: dict[int, list[int]] = {}  # by variable, reads since its last assignment

    def order(self, position: int, line: Line, needed: set[int]) -> None:
        """Add the predecessors that an instruction has because of state."""
        node = line.single
        if node is not None and kind_of(node.op) == "constant":
            return
        op = None if node is None else find_op(node.op)
        variable = id(node.attrs["resource"]) if node and "resource" in node.attrs else 0
        if op is not None and (op.reads_variable or op.updates is not None or op.name == "assign"):
            if self.barrier is not None:
                needed.add(self.barrier)
            self.since.append(position)
            if variable in self.assigned:
                needed.add(self.assigned[variable])
            if op.reads_variable:
                self.read.setdefault(variable, []).append(position)
            else:
                needed.update(self.read.pop(variable, ()))
                self.assigned[variable] = position
        elif not _is_free(line, node):
            needed.update(self.since)
            if self.barrier is not None:
                needed.add(self.barrier)
            self.barrier, self.since = position, []


def _is_free(line: Line, node: Node | None) -> bool:
    """Whether an instruction may be moved across assignments."""
    if node is None:
        return not line.blocks
    if kind_of(node.op) == "number":  # others may divide by zero
        return node.op in ("python_tensor", "python_size")
    op = find_op(node.op)
    if op is None or not is_pure(node):
        return False
    values = (*node.inputs, *node.outputs)
    if any(isinstance(v.type, TensorType) and v.type.dtype is LIST for v in values):
        return False  # generated code may write into it
    failing = op.failing(node.attrs)
    known = all(type(size) is int for v in values for size in v.type.shape)
    return failing == "nothing" or (failing == "sizes" and known)


@final
class FusionLevels:
    """The level of each instruction, and the space that it runs through in a kernel.

    Args:
        program: the program that the instructions belong to.
        lines: the instructions.
        roles: the role of each instruction that may be in a kernel.
        order: their dependences.

    Attributes:
        level: of each instruction.
        space: of each, None if it runs alone.
        layouts: of the spaces and levels in which an instruction goes along axes.
        per_row: positions of instructions with one element for each row of their space.
        gives_rows: positions of instructions that give such values, perhaps besides others.
    """

    def __init__(
        self, program: Program, lines: Sequence[Line], roles: dict[int, Role], order: Order
    ) -> None:
        self._program, self._lines, self._roles, self._order = program, lines, roles, order
        self.level: list[int] = []
        self.space: list[Space | None] = []
        self.layouts: dict[tuple[Space, int], Layout] = {}
        self.per_row: set[int] = set()
        self.gives_rows: set[int] = set()
        for position in range(len(lines)):
            self._place(position)
        for position in reversed(range(len(lines))):
            self._delay(position)

    def _place(self, position: int) -> None:
        role = self._roles.get(position)
        if role is not None and role.what in _BY_ELEMENT and self._joins_rows(position):
            return
        if role is not None and role.what == "view":  # nothing to compute
            del self._roles[position]
            role = None
        space = None if role is None or role.what == "read" else role.space
        if role is None or not role.axes:
            self._append(space, self._least(position, space))
            return
        layout = layout_of(role.axes, len(role.space))
        if layout is None:
            del self._roles[position]
            self._append(None, self._least(position, None))
            return
        level = self._least(position, space)
        while self.layouts.setdefault((role.space, level), layout) != layout:
            level += 1
        self._append(space, level)
        if role.what == "reduction":
            self.per_row.add(position)
        if role.what == "reduction" or len(self._lines[position].outputs) > 1:
            self.gives_rows.add(position)

    def _append(self, space: Space | None, level: int) -> None:
        self.space.append(space)
        self.level.append(level)

    def _least(self, position: int, space: Space | None) -> int:
        """The lowest level at which all predecessors of an instruction have run."""
        return max(
            [
                self.level[other] + (self.space[other] not in (None, space))
                for other in self._order.before[position]
            ],
            default=0,
        )

    def _joins_rows(self, position: int) -> bool:
        """Whether an instruction computes with per-row values of a kernel, and so belongs to it."""
        own = space_at(self._program, self._lines[position].outputs[0])
        for other in self._order.before[position]:
            space = self.space[other]
            if other not in self.gives_rows or space is None:
                continue
            level = self._least(position, space)
            if level != self.level[other] or own == space:
                continue
            if own in per_row(space, self.layouts[space, level]):
                self._append(space, level)
                self.per_row.add(position)
                self.gives_rows.add(position)
                return True
        return False

    def _delay(self, position: int) -> None:
        """Move an instruction to the level of its readers, if that keeps no more in memory."""
        role, space = self._roles.get(position), self.space[position]
        after = self._order.after[position]
        if role is None or role.what not in _BY_ELEMENT or position in self.per_row or not after:
            return
        line = self._lines[position]
        if any(r not in self._order.readers for r in line.outputs):
            return
        level = min(
            self.level[x] - (space is None or self.space[x] != space or x in self.per_row)
            for x in after
        )
        if level <= self.level[position]:
            return
        held = 0
        for register in dict.fromkeys(line.inputs):
            if register in self._program.constants or not space_at(self._program, register):
                continue
            readers = self._order.readers.get(register, ())
            held += all(self.level[x] < level for x in readers if x != position)
        if held <= 1:
            self.level[position] = level
