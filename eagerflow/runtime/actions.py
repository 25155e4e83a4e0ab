"""Actions: what an entry of the scheduler does when it runs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, final

from eagerflow import events
from eagerflow.errors import CancelledError, EagerflowError, relocate
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.printer import print_node
from eagerflow.graph.signatures import signatures
from eagerflow.runtime.codegen import Code, choose_branch, generate
from eagerflow.runtime.failures import failure
from eagerflow.runtime.instructions import flatten
from eagerflow.runtime.observe import Observer
from eagerflow_kernels import table

__all__ = [
    "HEAVY",
    "HERE",
    "LIGHT",
    "EntryAction",
    "RegionCode",
    "asynchronous",
    "checking",
    "native",
    "placed_error",
]

LIGHT: Final = 0
HEAVY: Final = 1
HERE: Final = 2

#: what starts ops that wait without holding a thread, by op: ``start(node, inputs, completion)``,
#: which may give a function that is called if nobody waits any more
asynchronous: Final[dict[str, Callable[..., Callable[[], object] | None]]] = {}


@final
class _Checking(threading.local):
    """Whom the code of this thread asks whether to go on."""

    ask: Callable[[], bool] | None = None


checking: Final = _Checking()
_lock: Final = threading.Lock()
_codes: Final[weakref.WeakSet[RegionCode]] = weakref.WeakSet()


def _check(index: int, start: float, *outputs: Any) -> float:
    ask = checking.ask
    if ask is not None and ask():
        raise CancelledError("the step was cancelled")
    return 0.0


@final
class RegionCode:
    """The nodes of a region as one function of raw arrays and numbers; gives a tuple.

    Args:
        graph: the nodes as a graph of their own.
        number: of the program that they belong to, for events.
        name: of that program's graph.

    Attributes:
        graph: the same.
        checked: whether it asks between ops whether to go on (see `checking`), where it is told to.

    Raises:
        GraphError: something in it cannot run.
    """

    __slots__ = ("__weakref__", "_checked", "_code", "_instructions", "_name", "_number",
                 "_observed", "_ops", "checked", "graph")  # fmt: skip

    def __init__(self, graph: Graph, number: int, name: str) -> None:
        self.graph = graph
        self._instructions = flatten(graph)
        self._number = number
        self._name = name
        nodes = [line.node for line in self._instructions.all if line.node is not None]
        self._ops = {node.op for node in nodes}
        #: code without ops cannot be interrupted between them
        self.checked = any(op not in signatures for op in self._ops)
        self._code: Code | None = generate(name, self._instructions)
        self._checked: Code | None = None
        self._observed: Code | None = None
        with _lock:
            _codes.add(self)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        """Run it.

        Raises:
            EagerflowError: what eager code would raise, with the line of the node.
        """
        code = self._ready()
        try:
            return code.run(*inputs)
        except CancelledError:
            raise
        except Exception as error:
            failed = failure(self._instructions, code, error)
        try:
            raise failed
        finally:
            del failed, inputs  # an exception whose frame holds them would keep them alive

    def _ready(self) -> Code:
        if events.listening():
            if self._observed is None:
                observer = Observer(self._number, self._name, self._instructions)
                self._observed = generate(self._name, self._instructions, observer.note)
            return self._observed
        if checking.ask is not None and self.checked:
            if self._checked is None:
                self._checked = generate(self._name, self._instructions, _check)
            return self._checked
        if self._code is None:
            self._code = generate(self._name, self._instructions)
        return self._code

    def _forget(self) -> None:
        self._code = self._checked = self._observed = None

    def uses(self, op: str) -> bool:
        """Whether a kernel of that op is called."""
        return op in self._ops


def _kernels_changed(name: str) -> None:
    with _lock:
        found = [code for code in _codes if code.uses(name)]
    for code in found:
        code._forget()


table.on_change(_kernels_changed)


@final
class EntryAction:
    """One entry of the scheduler, for who performs it.

    Attributes:
        call: takes what the slots of its inputs hold; gives a tuple for those of its outputs, and
            of a ``Switch`` the port. None where tokens only pass through.
        inputs: slots, in the frame that it lies in.
        outputs: slots; of an ``enter`` or an ``exit`` in the frame where they lead to.
        node: the node, or the first of a region.
        chooses: whether it is a ``Switch``.
        queue: `LIGHT`, `HEAVY` (worth a thread of its own), or `HERE` (only the thread that started
            the step may run it, as it calls Python code of the user).
        begin: of an op that waits without a thread, what starts it.
        stays: whether its input stays where it is: it goes into all turns of a loop.
        writes: the resource that it has written to when it is done; None for nothing.
    """

    __slots__ = ("begin", "call", "chooses", "inputs", "node", "outputs", "queue", "stays",
                 "writes")  # fmt: skip

    def __init__(
        self, node: Node | None, call: Callable[..., Any] | None = None,
        outputs: Sequence[int] = (), inputs: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self.node = node
        self.call = call
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.chooses = False
        self.queue = LIGHT
        self.begin: Callable[..., Callable[[], object] | None] | None = None
        self.stays = False
        self.writes: Any = None


def native(node: Node) -> Callable[..., Any] | None:
    """What a node that only lowered graphs have does when it runs; None if tokens pass."""
    if node.op == "Switch":
        return _choose_of(len(node.outputs), _is_bool(node))
    return _NATIVE.get(node.op)


def _is_bool(node: Node) -> bool:
    return getattr(getattr(node.inputs[1].type, "dtype", None), "kind", "") == "bool"


def _choose_of(count: int, is_bool: bool) -> Callable[[Any, Any], int]:
    if is_bool:
        return lambda value, chooser: 0 if chooser else 1
    return lambda value, chooser: choose_branch(chooser, count)


def _same(value: Any) -> tuple[Any]:
    return (value,)


def _slice(values: Any, turn: int) -> tuple[Any]:
    return (values[turn, ...],)


_NATIVE: Final[dict[str, Callable[..., Any]]] = {"Identity": _same, "Slice": _slice}


def placed_error(error: BaseException, node: Node) -> BaseException:
    """An error of a node that is not part of a region, with its line."""
    if isinstance(error, EagerflowError):
        relocate(error, node.source)
    error.add_note(f"  node: {print_node(node, None).split(' # ')[0]}")
    return error
