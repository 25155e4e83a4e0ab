"""Translation of a region into loops, and the form in which its arrays are passed to them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, Literal, TypeAlias, final

from eagerflow.compilation.instruction_roles import (
    Layout,
    Line,
    Program,
    Role,
    Space,
    attributes_of,
    computed_in,
    kind_at,
    per_row,
    space_at,
    takes_part,
)
from eagerflow.resources.variable import VariableState
from eagerflow_kernels.native.fusion import FusedNode, fuse
from eagerflow_kernels.native.loop_form import FLOATS, LOW, Kind, LoopArray, Loops, bits_of
from eagerflow_kernels.native.op_rules import OPS

#: the form in which an array is passed to a kernel, or returned: as it is; with one element per
#: row; with the axes of a row as one last axis; as columns, with the axes of a row as one axis that
#: comes last; as a table, with its rows as the last axis; as the inside of a larger array; or as a
#: part of one, of which there are several side by side
Form: TypeAlias = Literal["whole", "row", "flat", "columns", "table", "frame", "part"]


@final
class UnfitError(Exception):
    """Instructions that cannot form a kernel.

    Attributes:
        blamed: the roles that prevent it; empty for all.
    """

    def __init__(self, why: str, *blamed: str) -> None:
        super().__init__(why)
        self.blamed = blamed


@final
@dataclass(frozen=True)
class KernelArgument:
    """An array that a kernel reads: a value, or the value of a variable.

    Attributes:
        source: the number of the value, or the variable.
        form: the form in which it is passed.
        keeps: whether an array with one element per row keeps the axes of a row, with size 1.
        places: for a table, the value with the numbers of the rows that are picked.
    """

    source: int | VariableState
    form: Form
    keeps: bool = False
    places: int = -1


@final
@dataclass(frozen=True)
class KernelResult:
    """An array that a kernel writes.

    Attributes:
        register: the number of the value; -1 if nothing reads it.
        form: the form in which it is returned.
        kind: of its elements.
        keeps: whether reduced axes stay, with size 1.
        state: the variable that the result is assigned to.
        frame: the attributes of the op that puts the result into a larger array.
        part: of the array that ``register`` is, which of its parts along the last axis this is, and
            how many there are.
    """

    register: int
    form: Form
    kind: Kind
    keeps: bool = False
    state: VariableState | None = None
    frame: Mapping[str, Any] | None = None
    part: tuple[int, int] = (0, 1)


@final
@dataclass(frozen=True, eq=False)
class Kernel:
    """A region as a kernel.

    Attributes:
        loops: the computation.
        layout: the axes of a row; None if the kernel goes through single elements.
        arguments: its inputs, in order.
        results: its outputs, in order.
        states: its variables, each with whether it is assigned.
        whole: an argument that has the shape of the space, -1 for none.
        by_rows: the values that must lie by rows, lest results lie in another order than the
            results of single ops.
        filled: values that must have elements.
        takes_parts: whether it goes through the single elements of parts of arrays.
    """

    loops: Loops
    layout: Layout | None
    arguments: tuple[KernelArgument, ...]
    results: tuple[KernelResult, ...]
    states: dict[VariableState, bool]
    whole: int
    by_rows: tuple[int, ...]
    filled: tuple[int, ...]
    takes_parts: bool

    @property
    def results_read(self) -> list[tuple[int, KernelResult]]:
        """The results that become values, with their positions; of parts, the first one."""
        return [
            (i, result)
            for i, result in enumerate(self.results)
            if result.register >= 0 and not result.part[0]
        ]

    @property
    def name(self) -> str:
        """The name, which is equal for kernels with the same computation."""
        return self.loops.name

    @property
    def only_updates(self) -> bool:
        """Whether the kernel updates variables, element by element, and gives nothing else."""
        return self.layout is None and all(result.state is not None for result in self.results)


def kernel_of(
    program: Program, lines: Sequence[Line], roles: Sequence[Role], per_row_of: Collection[int],
    wanted: Sequence[int], space: Space, layout: Layout | None,
) -> Kernel:  # fmt: skip
    """The kernel of a region.

    Args:
        program: the program that the instructions belong to.
        lines: the instructions.
        roles: their roles.
        per_row_of: the indices of the instructions with one element per row.
        wanted: the values that are read outside of the region.
        space: the shape that the region goes through.
        layout: the axes of a row.

    Raises:
        UnfitError: the region cannot be a kernel.
    """
    if 0 in space:
        raise UnfitError("it has no elements")
    writer = _Writer(program, space, layout)
    for i, (line, role) in enumerate(zip(lines, roles, strict=True)):
        writer.add(line, role, i in per_row_of)
    return writer.kernel(wanted)


#: the source of a value of a region: an argument, a constant, or the output of a node
_Source: TypeAlias = tuple[Literal["argument", "constant", "node"], int]


@final
class _Writer:
    """Builds the kernel of a region."""

    def __init__(self, program: Program, space: Space, layout: Layout | None) -> None:
        self._program, self._space, self._layout = program, space, layout
        self._rows = ((), ()) if layout is None else per_row(space, layout)
        self._arguments: dict[KernelArgument, int] = {}
        self._kinds: list[Kind] = []  # of arguments
        self._constants: dict[tuple[Kind, int], int] = {}
        self._nodes: list[tuple[str, tuple[_Source, ...], dict[str, Any], Kind | None]] = []
        self._values = 0  # of nodes
        self._made: dict[int, _Source] = {}  # by register
        self._per_row: set[int] = set()  # registers with one element per row
        self._assigned: dict[VariableState, tuple[int, _Source]] = {}
        self._states: dict[VariableState, bool] = {}
        self._frames: dict[int, Mapping[str, Any]] = {}  # by register
        self._joins: dict[int, tuple[_Source, ...]] = {}  # by register, the sources of the parts
        self._whole = -1
        self._filled: list[int] = []
        self._parts = False
        self._repeats = False
        self._reduces = False

    # --- nodes ---

    def add(self, line: Line, role: Role, per_row: bool) -> None:
        """Append an instruction."""
        node, (register, *_) = line.single, line.outputs
        assert node is not None
        self._parts |= takes_part(line)
        if role.what == "read":
            read = KernelArgument(node.attrs["resource"], self._form(register, False))
            self._made[register] = self._argument(read, kind_at(self._program, register))
            self._states.setdefault(node.attrs["resource"], False)
            return
        if role.what == "pick":
            self._pick(line, role)
            return
        aligned = per_row and role.what != "reduction"
        operands = tuple([self._operand(r, aligned) for r in line.inputs])
        if role.what == "join":
            if any(source[0] != "node" for source in operands):
                raise UnfitError("its parts are not computed in its region", "join")
            self._joins[register] = operands
            return
        self._per_row.update(line.outputs if per_row else line.outputs[1:])
        if role.what in ("repeat", "view", "frame"):
            self._repeats |= role.what == "repeat"
            if role.what == "frame":
                self._frames[register] = node.attrs
            self._made[register] = operands[0]
            return
        if role.what == "update":
            self._update(node.attrs["resource"], register, role.op, operands[0])
            return
        self._reduces |= bool(role.axes)
        if role.axes and OPS[role.op].needs_elements:
            self._need_elements(line.inputs[0])
        kind = kind_at(self._program, register)
        low = {k for k in (kind_at(self._program, r) for r in line.outputs) if k in LOW}
        if len(low) > 1:
            raise UnfitError("its results are of several 16-bit dtypes", role.what)
        rounds = low.pop() if low else None
        made = self._append(role.op, operands, attributes_of(node, kind), len(line.outputs), rounds)
        self._made.update(zip(line.outputs, made, strict=True))

    def _pick(self, line: Line, role: Role) -> None:
        """Append a pick of rows of a table; both operands are arguments, checked before use."""
        table, places = line.inputs
        if table in self._made or places in self._made:
            raise UnfitError("its table or its indices are computed in the same region", "pick")
        if self._program.constants.keys() & {table, places}:
            raise UnfitError("its table or its indices are constant", "pick")
        self._repeats = True
        whole = KernelArgument(table, "table", places=places)
        numbers = KernelArgument(places, self._form(places, True))
        given = [(x, kind_at(self._program, r)) for x, r in ((whole, table), (numbers, places))]
        operands = tuple([self._argument(x, kind) for x, kind in given])
        (self._made[line.outputs[0]],) = self._append(role.op, operands, {})

    def _append(
        self, op: str, operands: tuple[_Source, ...], attrs: dict[str, Any], count: int = 1,
        rounds: Kind | None = None,
    ) -> list[_Source]:  # fmt: skip
        """Append a node with ``count`` results, rounded to the low kind ``rounds`` if given."""
        self._nodes.append((op, operands, attrs, rounds))
        self._values += count
        return [("node", i) for i in range(self._values - count, self._values)]

    def _update(self, state: VariableState, register: int, op: str, value: _Source) -> None:
        if state in self._assigned:
            raise UnfitError("it assigns a variable twice", "update")
        made = value
        if op:
            kind = kind_at(self._program, register)
            old = self._argument(KernelArgument(state, "whole"), kind)
            rounds = kind if kind in LOW else None
            (made,) = self._append(op, (old, value), {}, rounds=rounds)
        self._states[state] = True
        self._assigned[state] = register, made
        self._made[register] = made

    def _need_elements(self, register: int) -> None:
        """Require elements: a reduction has no result without them. Known sizes are not 0."""
        if register in self._made:
            if any(type(n) is not int for n in self._space):
                raise UnfitError("there may be no elements to reduce", "reduction")
        elif any(type(n) is not int for n in space_at(self._program, register)):
            self._filled.append(register)

    # --- operands ---

    def _operand(self, register: int, aligned: bool) -> _Source:
        """The source of an operand of an instruction.

        Args:
            register: the value.
            aligned: whether the instruction has one element per row.
        """
        if register in self._made:
            return self._made[register]
        kind = kind_at(self._program, register)
        constant = self._program.constants.get(register)
        if constant is not None and constant.size == 1:
            # by its bits: 0.0 and -0.0 are equal, and NaN is not equal to itself
            kind = computed_in(kind)
            value = constant.item()  # of bfloat16 one that does not pack as a float
            key = (kind, bits_of(float(value) if kind in FLOATS else value, kind))
            return "constant", self._constants.setdefault(key, len(self._constants))
        form = self._form(register, aligned)
        more = not aligned or len(space_at(self._program, register)) > len(self._rows[0])
        return self._argument(KernelArgument(register, form, form == "row" and more), kind)

    def _argument(self, argument: KernelArgument, kind: Kind) -> _Source:
        number = self._arguments.setdefault(argument, len(self._arguments))
        if number == len(self._kinds):
            self._kinds.append(kind)
        return "argument", number

    def _form(self, register: int, aligned: bool) -> Form:
        """The form in which a value is passed."""
        shape = space_at(self._program, register)
        whole = shape == self._space and not aligned
        if whole:
            self._whole = register
        if self._layout is None:
            return "whole"
        if whole:
            return self._form_by_rows(shape) if self._layout[0] == "rows" else "columns"
        if all(n == 1 for n in shape):
            if self._layout[0] == "columns":
                raise UnfitError("a number goes into sums across rows", "reduction")
            return "row"
        if aligned:
            if shape in self._rows:
                return "row"
            raise UnfitError("values of rows are repeated", "reduction")
        if self._layout[0] == "rows":
            return self._form_by_rows(shape)
        if shape in self._rows:
            return "row"
        raise UnfitError("its operand is repeated along some axes", "reduction")

    def _form_by_rows(self, shape: Space) -> Form:
        assert self._layout is not None
        count = self._layout[1]
        inner = self._space[-count:]
        if shape[-count:] == inner:
            return "whole" if count == 1 else "flat"
        if len(shape) > count and all(n == 1 for n in shape[-count:]):
            return "row"
        raise UnfitError("its operand is repeated along some axes", "reduction")

    # --- the kernel ---

    def kernel(self, wanted: Sequence[int]) -> Kernel:
        """The kernel of the appended instructions that gives these values."""
        results = [
            KernelResult(r if r in wanted else -1, "whole", kind_at(self._program, r), state=state)
            for state, (r, _) in self._assigned.items()
        ]
        sources = [source for _, source in self._assigned.values()]
        updated = {r for r, _ in self._assigned.values()}
        for register in wanted:
            if register in self._joins:
                parts = self._joins[register]
                kind = kind_at(self._program, register)
                sources += parts
                results += [
                    KernelResult(register, "part", kind, part=(i, len(parts)))
                    for i in range(len(parts))
                ]
            elif register not in updated:
                results.append(self._result(register))
                sources.append(self._made[register])
        if not results:
            raise UnfitError("its results are not read")
        if any(s[0] == "constant" and r.kind in LOW for s, r in zip(sources, results, strict=True)):
            raise UnfitError("it is a constant")
        if self._layout is not None and self._assigned:
            raise UnfitError("its region also assigns variables", "reduction", "along")
        if (self._frames or self._joins) and (self._layout != ("rows", 1) or self._whole < 0):
            raise UnfitError("its region does not go along rows", "frame", "join")
        if (self._reduces or self._repeats) and not self._assigned and not self._has_shape(results):
            raise UnfitError("no value has all its elements", *_REPEATING)
        return Kernel(
            self._loops(results, sources), self._layout, tuple(self._arguments), tuple(results),
            self._states, self._whole, self._by_rows(), tuple(dict.fromkeys(self._filled)),
            self._layout is None and self._parts,
        )  # fmt: skip

    def _result(self, register: int) -> KernelResult:
        kind = kind_at(self._program, register)
        if register in self._frames:
            return KernelResult(register, "frame", kind, frame=self._frames[register])
        if self._layout is None:
            return KernelResult(register, "whole", kind)
        if register in self._per_row:
            keeps = space_at(self._program, register) != self._rows[0]
            return KernelResult(register, "row", kind, keeps)
        if self._layout[0] == "columns":
            return KernelResult(register, "columns", kind)
        return KernelResult(register, "whole" if self._layout[1] == 1 else "flat", kind)

    def _has_shape(self, results: Sequence[KernelResult]) -> bool:
        """Whether the shape of the space can be derived from the arguments."""
        if self._whole >= 0:
            return True
        if any(result.form in ("columns", "flat") for result in results):
            return False  # they take the shape of one value
        inner = 0 if self._layout is None else self._layout[1]
        missing, count = set(range(len(self._space))), len(self._space)
        for argument in self._arguments:
            source = argument.source
            shape: Space
            if isinstance(source, VariableState):
                shape = tuple(source.shape)
            else:
                shape = space_at(self._program, source)
            if argument.form == "table":
                missing.difference_update(range(count - inner, count))
                continue
            per_row = argument.form == "row"
            first = count - len(shape) - (inner if per_row and not argument.keeps else 0)
            last = count - inner if per_row else count
            missing -= {
                first + i
                for i, n in enumerate(shape)
                if first + i < last and n == self._space[first + i]
            }
        return not missing

    def _loops(self, results: Sequence[KernelResult], sources: Sequence[_Source]) -> Loops:
        inner = self._layout is not None
        arrays = [
            self._array(argument, kind)
            for argument, kind in zip(self._arguments, self._kinds, strict=True)
        ]
        first = {"argument": 0, "constant": len(arrays)}
        first["node"] = len(arrays) + len(self._constants)

        def number(source: _Source) -> int:
            return first[source[0]] + source[1]

        nodes = [
            FusedNode(op, tuple(map(number, xs)), attrs, rounds)
            for op, xs, attrs, rounds in self._nodes
        ]
        loops = fuse(
            "region", arrays, nodes, list(map(number, sources)),
            constants=list(self._constants),
            inner=[inner and result.form != "row" for result in results],
        )  # fmt: skip
        return replace(loops, name=f"region_{_digest(loops)}")

    def _array(self, argument: KernelArgument, kind: Kind) -> LoopArray:
        """The form of an argument in loops."""
        if self._layout is None or argument.form == "row":
            return LoopArray(kind)
        layout, count = self._layout
        shared = False
        if layout == "rows" and argument.form != "table" and isinstance(argument.source, int):
            axes = len(space_at(self._program, argument.source))
            shared = axes == count < len(self._space)  # it has a row's axes only
        return LoopArray(kind, True, argument.form == "table", shared)

    def _by_rows(self) -> tuple[int, ...]:
        """The values whose order in memory is visible in results, or is relied on."""
        values = [a.source for a in self._arguments if isinstance(a.source, int)]
        wide = [r for r in dict.fromkeys(values) if len(space_at(self._program, r)) > 1]
        # results of repeated values lie by rows, whatever the order of the only other array
        alone = len(wide) < 2 and not (self._states or self._repeats) and self._layout is None
        return () if alone else tuple(wide)


_REPEATING: Final = ("repeat", "reduction", "along", "pick")


def _digest(loops: Loops) -> str:
    """A digest that identifies loops."""
    whole = (loops.inputs, loops.outputs, loops.terms, loops.results)
    return sha256(repr(whole).encode()).hexdigest()[:12]
