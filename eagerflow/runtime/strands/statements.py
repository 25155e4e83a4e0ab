"""The statements of a strand: what a partition does, one after the other.

A *guard* says in which branches a statement lies, as pairs of a variable, which holds the number of
the branch that was chosen, and the number that it has to have. Values are variables by name; what a
steering node passes on has the name of what it takes.
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
        guard: in which branches.
        region: its number among those of the strand.
        code: what it runs.
        nodes: what that was made of.
        reads: what it takes.
        makes: what it gives.
        is_heavy: whether another thread may run it, while other strands go on.
        late: what it reads in the memory of the host, and may have to wait for.
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
        guard: in which branches.
        node: the op.
        number: of it among those of the strand.
        reads: what it takes.
        makes: what it gives.
    """

    guard: Guard
    node: Node
    number: int
    reads: tuple[str, ...]
    makes: tuple[str, ...]


@final
@dataclass(slots=True, eq=False)
class ReadOnHost:
    """Waits for a value of a device, which from there on is in the memory of the host.

    Attributes:
        guard: in which branches.
        node: what makes it.
        device: where.
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
        guard: in which branches.
        node: the Send or the Recv.
        reads: what is sent.
        makes: what is received.
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
        guard: in which branches.
        node: the node that it is for.
        text: an expression.
        reads: the variables in it.
        makes: the one variable.
        late: those of them that the host reads, and may have to wait for.
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
        reads: the variable that says so, as the number of a branch: 0 for another iteration.
        makes: none.
    """

    reads: tuple[str, ...]
    guard: Guard = ()
    makes: tuple[str, ...] = ()


@final
@dataclass(slots=True, eq=False)
class Repeat:
    """Ends an iteration: what is carried gets the values for the next one.

    Attributes:
        guard: none.
        later: for each loop-carried variable that of its next value.
        sends: what the iteration has sent.
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
    """Repeats statements.

    Attributes:
        guard: in which branches.
        node: one of those that open it.
        number: the variable that counts its iterations.
        length: of a loop that counts backwards, the variable with the number of its iterations.
        merges: the loop-carried variables.
        items: what an iteration does, `Leave` and, as the last, `Repeat` among it.
    """

    guard: Guard
    node: Node
    number: str
    length: str = ""
    merges: tuple[str, ...] = ()
    items: list[Statement] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What events call it."""
        return str(self.node.attrs.get("loop", (None, self.node.attrs["frame"]))[1])

    @property
    def counted(self) -> str:
        """The number of an iteration as the program counts them."""
        return f"{self.length} - 1 - {self.number}" if self.length else self.number

    @property
    def reads(self) -> tuple[str, ...]:
        """What is read in it, what it makes itself included."""
        inner = [name for one in self.items for name in one.reads]
        return (*inner, *([self.length] if self.length else []))

    @property
    def makes(self) -> tuple[str, ...]:
        """What can be there when it has ended."""
        leave = next(i for i, one in enumerate(self.items) if type(one) is Leave)
        return (*self.merges, *[name for one in self.items[:leave] for name in one.makes])


Statement = RunRegion | Await | ReadOnHost | PassOver | Assign | LoopStatement | Leave | Repeat


def all_of(statements: Iterable[Statement]) -> Iterator[Statement]:
    """All statements, those in loops included."""
    for one in statements:
        yield one
        if isinstance(one, LoopStatement):
            yield from all_of(one.items)
