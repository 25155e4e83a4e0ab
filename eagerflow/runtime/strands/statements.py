"""The statements of a strand: the work of a partition, in order.

A *guard* names the branches that a statement lies in, as pairs of a variable, which holds the
number of the branch that was chosen, and the number that it has to have. Values are variables by
name; a value that a steering node passes on keeps its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import final

from eagerflow.graph.ir import Node
from eagerflow.hardware import Backend, Device
from eagerflow.runtime.generated.generated_tier import RegionCode

Guard = tuple[tuple[str, int], ...]
#: variables, each with the backend of its array
Late = Sequence[tuple[str, Backend]]


@final
@dataclass(slots=True, eq=False)
class RunRegion:
    """Runs a region.

    Attributes:
        guard: the branches that it lies in.
        region: its number among the regions of all strands.
        code: its generated code.
        nodes: the nodes of the region.
        reads: the variables that it reads.
        makes: the variables that it sets.
        is_heavy: whether another thread may run it, while other strands go on.
        late: the variables that the host reads, and that it may have to wait for.
    """

    guard: Guard
    region: int
    code: RegionCode
    nodes: Sequence[Node]
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    is_heavy: bool = False
    late: Late = ()


@final
@dataclass(slots=True, eq=False)
class Await:
    """Runs an op that may have to wait, for an element of a queue, say.

    Attributes:
        guard: the branches that it lies in.
        node: the node of the op.
        number: its number among the statements of this kind in the strand.
        reads: the variables that it reads.
        makes: the variables that it sets.
    """

    guard: Guard
    node: Node
    number: int
    reads: tuple[str, ...]
    makes: tuple[str, ...]


@final
@dataclass(slots=True, eq=False)
class ReadOnHost:
    """Waits for a value of a device, and brings it into the memory of the host.

    Attributes:
        guard: the branches that it lies in.
        node: the producer of the value.
        device: the device of the value.
        reads: its variable.
        makes: the same.
    """

    guard: Guard
    node: Node
    device: Device
    reads: tuple[str, ...]
    makes: tuple[str, ...]


@final
@dataclass(slots=True, eq=False)
class PassOver:
    """Sends or receives a value, its shape, or the signal that a node has run.

    Attributes:
        guard: the branches that it lies in.
        node: the Send or the Recv.
        reads: the variable that is sent.
        makes: the variables that are received.
        late: the Send, if its device may still be making the value then.
    """

    guard: Guard
    node: Node
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    late: Node | None = None


@final
@dataclass(slots=True, eq=False)
class Assign:
    """Gives a variable a value.

    Attributes:
        guard: the branches that it lies in.
        node: the node that it is for.
        text: an expression.
        reads: the variables in the expression.
        makes: the variable.
        late: the variables that the host reads, and that it may have to wait for.
    """

    guard: Guard
    node: Node
    text: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    late: Late = ()


@final
@dataclass(slots=True, eq=False)
class Leave:
    """Leaves a loop if there is no other iteration.

    Attributes:
        guard: none.
        reads: the variable of the predicate, as the number of a branch: 0 for another iteration.
        makes: none.
    """

    reads: tuple[str, ...]
    guard: Guard = ()
    makes: tuple[str, ...] = ()


@final
@dataclass(slots=True, eq=False)
class Repeat:
    """Ends an iteration: loop-carried variables get their values for the next one.

    Attributes:
        guard: none.
        later: for each loop-carried variable that of its next value.
        sends: the Sends of the iteration.
        makes: none.
    """

    later: dict[str, str]
    sends: Sequence[Node]
    guard: Guard = ()
    makes: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """The next values."""
        return tuple(self.later.values())


@final
@dataclass(slots=True, eq=False)
class LoopStatement:
    """A loop, which repeats statements.

    Attributes:
        guard: the branches that it lies in.
        node: one of its Enter nodes.
        number: the variable that counts its iterations.
        length: of a loop that counts backwards, the variable with the number of its iterations.
        merges: the loop-carried variables.
        items: the statements of an iteration, with a `Leave` and, at the end, a `Repeat`.
    """

    guard: Guard
    node: Node
    number: str
    length: str = ""
    merges: tuple[str, ...] = ()
    items: list[Statement] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of the loop in events."""
        return str(self.node.attrs.get("loop", (None, self.node.attrs["frame"]))[1])

    @property
    def counted(self) -> str:
        """An expression for the number of an iteration as the program counts."""
        return f"{self.length} - 1 - {self.number}" if self.length else self.number

    @property
    def reads(self) -> tuple[str, ...]:
        """The variables read in it, its own included."""
        inner = [name for one in self.items for name in one.reads]
        return (*inner, *([self.length] if self.length else []))

    @property
    def makes(self) -> tuple[str, ...]:
        """The variables that can be set when it has ended."""
        leave = next(i for i, one in enumerate(self.items) if type(one) is Leave)
        return (*self.merges, *[name for one in self.items[:leave] for name in one.makes])


Statement = RunRegion | Await | ReadOnHost | PassOver | Assign | LoopStatement | Leave | Repeat


def all_of(statements: Iterable[Statement]) -> Iterator[Statement]:
    """All statements, including the statements in loops."""
    for one in statements:
        yield one
        if isinstance(one, LoopStatement):
            yield from all_of(one.items)
