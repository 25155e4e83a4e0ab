"""Actions: the work of scheduled nodes in the scheduled tier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

from eagerflow.error_messages import note_place
from eagerflow.errors import EagerflowError, relocate
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import Lead, lead_of
from eagerflow.graph.text.printer import node_note
from eagerflow.hardware import Backend
from eagerflow.runtime.generated.generated_tier import RegionCode
from eagerflow.runtime.generated.written_before_failure import Written
from eagerflow.runtime.python_control import choose_branch
from eagerflow.runtime.scheduled.plan import ENTER, EXIT, MERGE, NEXT, RUN, SWITCH
from eagerflow.types import TensorType

Call = Callable[[list[Any]], Any]

LIGHT: Final = 0
HEAVY: Final = 1
HERE: Final = 2

#: functions that start ops that wait without a thread, by op: ``start(node, inputs, completion)``,
#: which may return a function to be called when the result is no longer wanted
asynchronous: Final[dict[str, Callable[..., Callable[[], object] | None]]] = {}
#: by op: gives for a node the function that runs it while it need not wait, or None. That function
#: takes the inputs, and returns a tuple of the results or the fourth argument of ``start``
at_once: Final[dict[str, Callable[[Node], Callable[[Sequence[Any]], Any] | None]]] = {}


@final
@dataclass(slots=True, eq=False)
class Action:
    """The work of a scheduled node.

    Attributes:
        call: takes a list of the values in its input slots, the last first, and may empty it;
            gives a tuple of the values for its output slots, or the port of a ``Switch``. None
            where tokens only pass through.
        inputs: slots, in the frame that it lies in.
        takes: the same, the last first.
        outputs: slots; of an ``enter`` or an ``exit``, in the frame that it leads to.
        node: the node, or the first of a region.
        chooses: whether it is a ``Switch``.
        queue: `LIGHT`, `HEAVY` (worth a thread of its own), or `HERE` (only the thread that started
            the step may run it, as it calls user code).
        begin: of an op that waits without a thread, the function that starts it.
        stays: whether its input stays in its slot, as it goes into all iterations of a loop.
        writes: the writes that are complete when it is done; None for none.
        late: the positions of inputs that it reads in the memory of the host, and that may come
            late, each with the backend of its device.
        region: its code, whose errors say where they were raised; None for other nodes.
    """

    node: Node
    call: Callable[..., Any] | None
    outputs: Sequence[int]
    inputs: tuple[int, ...] = ()
    takes: tuple[int, ...] = ()
    chooses: bool = False
    queue: int = LIGHT
    begin: Callable[..., Callable[[], object] | None] | None = None
    stays: bool = False
    writes: Written | None = None
    late: Sequence[tuple[int, Backend]] = ()
    region: RegionCode | None = None

    def blame(self, error: Exception) -> None:
        """Note in an error where it was raised; the code of a region does so itself."""
        if self.region is None:
            if isinstance(error, EagerflowError):
                relocate(error, self.node.source)
            note_place(error, node_note(self.node))

    def read(self, slots: Sequence[int]) -> None:
        """Set the slots that it reads."""
        self.inputs = tuple(slots)
        self.takes = self.inputs[::-1]


def _branch_of(node: Node) -> Call:
    """The `Action.call` of a ``Switch``, which returns the port."""
    count, predicate = len(node.outputs), node.inputs[1].type
    if isinstance(predicate, TensorType) and predicate.dtype.category == "bool":
        return lambda given: 0 if given[0] else 1
    return lambda given: choose_branch(given[0], count)


def _same(given: list[Any]) -> list[Any]:
    return given


def _slice(given: list[Any]) -> tuple[Any]:
    iteration, values = given
    return (values[iteration, ...],)


_KINDS: Final[dict[Lead, int]] = {
    "branch": SWITCH, "join": MERGE, "enter": ENTER, "leave": EXIT, "repeat": NEXT, "": RUN,
}  # fmt: skip


def steering(node: Node) -> tuple[int, Call | None]:
    """The scheduler's kind of a steering node, and its `Action.call`.

    The call is None where tokens only pass through.
    """
    kind = _KINDS[lead_of(node.op)]
    if kind == SWITCH:
        return kind, _branch_of(node)
    if kind == RUN:
        return kind, _slice if node.op == "Slice" else _same
    return kind, None
