"""Regions: the maximal parts of a program that run as one native kernel each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeAlias, TypeVar, final

from eagerflow.compilation.fusion_levels import FusionLevels, Order
from eagerflow.compilation.instruction_roles import (
    IsOwn,
    Layout,
    Line,
    Program,
    Role,
    Space,
    role_of,
    space_at,
    takes_part,
)
from eagerflow.compilation.native_region_loops import Kernel, UnfitError, kernel_of
from eagerflow.graph.signatures import kind_of

#: the most ops of a region: the time of the code generator grows faster than the number of ops
_MOST: Final = 96
#: the most terms of elements of a kernel along rows, or along columns. Sums need registers besides:
#: longer computations are faster in a kernel of their own before (`tests.bench.regions`)
_LONGEST: Final = {"rows": 60, "columns": 50}
#: the lengths of rows for a kernel that only repeats values: NumPy takes 50 ns from one row to the
#: next (`tests.bench.vmap`). And the most ops of such a kernel: with more, this time matters less
_SHORT_ROWS: Final = range(4, 1025)
_FEW: Final = 4
#: the most arrays that a kernel reads and writes; NumPy's functions take 64
_ARRAYS: Final = 40

_L = TypeVar("_L", bound=Line)

#: the positions of instructions, and the other attributes of `Region`
_Chosen: TypeAlias = "tuple[tuple[int, ...], Kernel, Giving, tuple[int, ...]]"
#: makes a kernel that gives the values of these numbers
Giving: TypeAlias = Callable[[Sequence[int]], Kernel]


@final
@dataclass(frozen=True, eq=False)
class Region(Generic[_L]):
    """Instructions that run as one kernel.

    Attributes:
        lines: the instructions, in order.
        kernel: the kernel that runs them.
        giving: makes a kernel of them that gives other values.
        makes: the values that they compute, in order.
    """

    lines: tuple[_L, ...]
    kernel: Kernel
    giving: Giving
    makes: tuple[int, ...]

    @property
    def regions(self) -> tuple[Region[_L], ...]:
        """The region itself, as the only one."""
        return (self,)


@final
@dataclass(frozen=True, eq=False)
class JointRegions(Generic[_L]):
    """Independent regions with the same kernel: one call runs them all.

    Attributes:
        regions: at least two, which update variables and make nothing else.
    """

    regions: tuple[Region[_L], ...]


@final
@dataclass(frozen=True)
class KernelPlan(Generic[_L]):
    """The parts of a program with native kernels.

    Attributes:
        units: the regions and all other instructions, in an order in which they can run.
        alone: by position, the reason why an instruction on arrays is in no region.
    """

    units: list[JointRegions[_L] | Region[_L] | _L]
    alone: dict[int, str] = field(default_factory=dict)

    @property
    def regions(self) -> Iterator[Region[_L]]:
        """All regions, in order."""
        for unit in self.units:
            if isinstance(unit, (JointRegions, Region)):
                yield from unit.regions


def plan_of(
    program: Program, lines: Sequence[_L], outputs: Iterable[int], is_own: IsOwn
) -> KernelPlan[_L]:
    """Find the regions among the instructions of one block.

    Args:
        program: the program that the instructions belong to.
        lines: the instructions.
        outputs: the values that are read after them.
        is_own: whether an instruction runs eagerflow's own kernel.
    """
    reasons: dict[int, str] = {}
    roles: dict[int, Role] = {}
    for position, line in enumerate(lines):
        role = role_of(program, line, is_own)
        if isinstance(role, Role):
            roles[position] = role
        else:
            reasons[position] = role
    order = Order(lines)
    finder = _Finder(program, lines, set(outputs), order)
    while True:  # refused instructions are left out; each time there are fewer roles
        choice = finder.run(dict(roles))
        if not choice.refused:
            break
        for position, reason in choice.refused.items():
            roles.pop(position, None)
            reasons[position] = reason
    inside = {x for positions, *_ in choice.regions for x in positions}
    alone = {
        position: reasons.get(position, "no neighbour runs through the same elements")
        for position, line in enumerate(lines)
        if position not in inside and line.single is not None and kind_of(line.single.op) == "op"
    }
    return KernelPlan(_sorted(lines, order, choice.regions), alone)


@final
@dataclass(frozen=True)
class _RegionChoice:
    """Regions by the positions of their instructions, and the instructions that fit into none."""

    regions: list[_Chosen] = field(default_factory=list)
    refused: dict[int, str] = field(default_factory=dict)


@final
class _Finder:
    """Finds regions for given roles.

    Args:
        program: the program that the instructions belong to.
        lines: the instructions.
        outputs: the values that are read after them.
        order: their dependences.
    """

    def __init__(
        self, program: Program, lines: Sequence[Line], outputs: set[int], order: Order
    ) -> None:
        self._program, self._lines, self._outputs, self._order = program, lines, outputs, order

    def run(self, roles: dict[int, Role]) -> _RegionChoice:
        self._roles = roles
        self._levels = FusionLevels(self._program, self._lines, roles, self._order)
        choice = _RegionChoice()
        for members in self._components():
            if not any(roles[x].axes for x in members):
                members = self._with_reads(members)
            self._add(members, choice)
        return choice

    def _add(self, members: list[int], choice: _RegionChoice) -> None:
        """Make a region of instructions, or refuse the ones that prevent it."""
        roles = self._roles
        inside = set(members)
        for position in members:
            role = roles[position]
            if role.what == "repeat" and self._escapes(position, inside):
                choice.refused[position] = "its repeated value is read as an array"
        if any(position in choice.refused for position in members):
            return
        computing = sum(roles[x].what not in _FREE for x in members)
        first = next(x for x in members if roles[x].what != "read")
        space, level = self._levels.space[first], self._levels.level[first]
        assert space is not None
        picking = any(roles[x].what == "pick" for x in members)
        reducing = [x for x in members if roles[x].axes]
        repeats = not reducing and self._repeats_along_rows(members, space)
        if computing < 2 and (picking or not (reducing or repeats)):
            return
        layout: Layout | None = None
        if reducing:
            layout = self._levels.layouts[space, level]
        elif repeats or self._lies_apart(members, space):
            layout = "rows", 1
        if reducing and (computing > _MOST or self._count_arrays(members) > _ARRAYS):
            choice.refused.update((x, "the kernel would be too large") for x in reducing)
            return
        try:
            giving = partial(
                kernel_of, self._program, [self._lines[x] for x in members],
                [roles[x] for x in members],
                [i for i, x in enumerate(members) if x in self._levels.per_row],
                space=space, layout=layout,
            )  # fmt: skip
            kernel = giving(self._wanted(members))
        except UnfitError as error:
            blamed = [x for x in members if roles[x].what in error.blamed] or members
            choice.refused.update((x, str(error)) for x in blamed)
            return
        if reducing and layout is not None and _count_terms(kernel) > _LONGEST[layout[0]]:
            why = "it is faster to compute its operand first"
            choice.refused.update((x, why) for x in reducing)
            return
        makes = [r for x in members if roles[x].what not in _FREE for r in self._lines[x].outputs]
        choice.regions.append((tuple(members), kernel, giving, tuple(makes)))

    def _repeats_along_rows(self, members: Sequence[int], space: Space) -> bool:
        """Whether some values have one element per row, of short rows, and others one per element.

        An example is ``g[:, None] * x``, which computes per-sample gradients of weights.
        """
        if len(space) < 2 or space[-1] not in _SHORT_ROWS or len(members) > _FEW:
            return False
        if any(self._roles[x].what != "elements" for x in members):
            return False
        shapes = self._given(members)
        return _has_rows(shapes, space) and any(
            s[-1:] == (1,) and any(n != 1 for n in s) for s in shapes
        )

    def _lies_apart(self, members: Sequence[int], space: Space) -> bool:
        """Whether a region of single elements takes parts of arrays, or writes into a part of one.

        Then it goes along rows: NumPy would call a kernel of single elements for each row, and no
        threads would share them.
        """
        roles = {self._roles[x].what for x in members}
        if len(space) < 2 or not roles <= {"elements", "repeat", "view", *_PLACED}:
            return False
        apart = not roles.isdisjoint(_PLACED) or any(takes_part(self._lines[x]) for x in members)
        return apart and _has_rows(self._given(members), space)

    def _given(self, members: Sequence[int]) -> list[Space]:
        """The shapes of the values that a region takes, but for constants."""
        made = {r for x in members for r in self._lines[x].outputs}
        given = {r for x in members for r in self._lines[x].inputs} - made
        return [space_at(self._program, r) for r in given if r not in self._program.constants]

    def _escapes(self, position: int, inside: set[int]) -> bool:
        """Whether a result of an instruction is read outside of a region."""
        return any(
            r in self._outputs or not inside.issuperset(self._order.readers.get(r, ()))
            for r in self._lines[position].outputs
        )

    def _wanted(self, members: Sequence[int]) -> list[int]:
        """The values of a region that are read outside of it."""
        inside = set(members)
        return [
            r
            for position in members
            if self._roles[position].what != "read"
            for r in self._lines[position].outputs
            if r in self._outputs or not inside.issuperset(self._order.readers.get(r, ()))
        ]

    def _components(self) -> list[list[int]]:
        """Instructions of one space and level, joined by dependences or shared values, in order."""
        groups: dict[tuple[Space, int], list[int]] = {}
        for position, role in self._roles.items():
            space = self._levels.space[position]
            if space is not None and role.what != "read":
                groups.setdefault((space, self._levels.level[position]), []).append(position)
        return [
            part
            for positions in groups.values()
            for whole in self._connected(sorted(positions))
            for part in self._cut(whole)
        ]

    def _connected(self, positions: list[int]) -> list[list[int]]:
        home = {x: x for x in positions}

        def root(x: int) -> int:
            while home[x] != x:
                home[x] = home[home[x]]
                x = home[x]
            return x

        def join(one: int, other: int) -> None:
            a, b = root(one), root(other)
            home[max(a, b)] = min(a, b)

        first: dict[int, int] = {}
        for position in positions:
            line = self._lines[position]
            for other in self._order.before[position]:
                if other in home:  # in two kernels, they might wait for each other
                    join(position, other)
            for register in (*line.inputs, *line.outputs):
                if register in self._program.constants:
                    continue
                if not space_at(self._program, register) and self._levels.space[position]:
                    continue  # a number that many instructions share
                join(first.setdefault(register, position), position)
        parts: dict[int, list[int]] = {}
        for position in positions:
            parts.setdefault(root(position), []).append(position)
        return list(parts.values())

    def _cut(self, positions: list[int]) -> list[list[int]]:
        """Cut instructions into parts that are not too large; later parts depend on earlier ones.

        Instructions with a reduction among them stay whole.
        """
        if any(self._roles[x].axes for x in positions):
            return [positions]
        parts: list[list[int]] = [[]]
        arrays: set[int] = set()
        for position in positions:
            line = self._lines[position]
            more = arrays | {*line.inputs, *line.outputs}
            if len(parts[-1]) >= _MOST or self._count(more, parts[-1]) > _ARRAYS:
                parts.append([])
                more = {*line.inputs, *line.outputs}
            parts[-1].append(position)
            arrays = more
        return parts

    def _count_arrays(self, members: Sequence[int]) -> int:
        lines = [self._lines[x] for x in members]
        return self._count({r for line in lines for r in (*line.inputs, *line.outputs)}, members)

    def _count(self, registers: set[int], members: Sequence[int]) -> int:
        """The most values among these that a region of these instructions reads or writes."""
        inside = set(members)
        own = {
            r
            for x in members
            for r in self._lines[x].outputs
            if r not in self._outputs and inside.issuperset(self._order.readers.get(r, ()))
        }
        return len(registers - own)

    def _with_reads(self, members: list[int]) -> list[int]:
        """Instructions with the reads of variables whose only readers they are."""
        inside = set(members)
        reads = [
            other
            for position in members
            for other in self._order.before[position]
            if (role := self._roles.get(other)) is not None
            and role.what == "read"
            and not self._outputs.intersection(self._lines[other].outputs)
            and self._order.readers.get(self._lines[other].outputs[0])
            and inside.issuperset(self._order.readers[self._lines[other].outputs[0]])
            and not self._is_assigned_before(other, inside)
        ]
        return sorted({*members, *reads})

    def _is_assigned_before(self, read: int, inside: set[int]) -> bool:
        """Whether an instruction outside of a region depends on a read, such as an assignment."""
        return any(x not in inside for x in self._order.after[read])


def _has_rows(shapes: Iterable[Space], space: Space) -> bool:
    """Whether values of these shapes have the rows of a space, or one element for each row."""
    return all(s[-1:] in ((), (1,), space[-1:]) for s in shapes)


def _count_terms(kernel: Kernel) -> int:
    """The number of terms computed for each element of a row."""
    return sum(term.inner for term in kernel.loops.terms)


#: roles that forward results into larger arrays
_PLACED: Final = ("frame", "join")
#: roles that compute nothing
_FREE: Final = ("read", "repeat", "view")


def _sorted(
    lines: Sequence[_L], order: Order, regions: list[_Chosen]
) -> list[JointRegions[_L] | Region[_L] | _L]:
    """Sort regions and other instructions topologically.

    Otherwise they stay where they are, a region where the last of its instructions was. Updates of
    variables by one kernel wait for each other, to be joined.
    """
    unit = {x: -1 - i for i, (positions, *_) in enumerate(regions) for x in positions}
    units: dict[int, Region[_L] | _L] = {
        -1 - i: Region(tuple([lines[x] for x in positions]), kernel, giving, makes)
        for i, (positions, kernel, giving, makes) in enumerate(regions)
    }
    places = {-1 - i: positions[-1] for i, (positions, *_) in enumerate(regions)}
    for position, line in enumerate(lines):
        if position not in unit:
            unit[position], units[position], places[position] = position, line, position
    waits: dict[int, set[int]] = {name: set() for name in units}
    for position, before in enumerate(order.before):
        waits[unit[position]].update(unit[x] for x in before if unit[x] != unit[position])
    after: dict[int, list[int]] = {name: [] for name in units}
    for name, others in waits.items():
        for other in others:
            after[other].append(name)
    missing = {name: len(others) for name, others in waits.items()}
    ready = [(places[name], name) for name, count in missing.items() if not count]
    heapify(ready)
    updating = Counter(kernel.name for _, kernel, *_ in regions if kernel.only_updates)
    waiting: dict[str, list[int]] = {}  # updates by kernel, held until nothing else can run
    result: list[JointRegions[_L] | Region[_L] | _L] = []
    ended = 0
    while ready or waiting:
        if ready:
            _, name = heappop(ready)
            one = units[name]
            if isinstance(one, Region) and updating[one.kernel.name] > 1:
                waiting.setdefault(one.kernel.name, []).append(name)
                continue
            names = [name]
            result.append(one)
        else:
            names = waiting.pop(max(waiting, key=lambda kernel: len(waiting[kernel])))
            updates = [one for x in names if isinstance(one := units[x], Region)]
            result.append(JointRegions(tuple(updates)) if len(updates) > 1 else updates[0])
        ended += len(names)
        for name in names:
            for other in after[name]:
                missing[other] -= 1
                if not missing[other]:
                    heappush(ready, (places[other], other))
    assert ended == len(units), "regions wait for each other"
    return result
