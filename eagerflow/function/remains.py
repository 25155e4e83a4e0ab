"""What the user's objects still hold of a trace when it has ended, and the one run that fills it.

A tensor is a handle: it gets its value of the call that traced, wherever it is held. A number is
replaced by its value in what holds it. Where that cannot be done, the trace is refused.
"""

from __future__ import annotations

import copy
import gc
import operator
from collections import deque
from collections.abc import Callable, Sequence
from types import CellType, FrameType
from typing import Any, Final, final
from weakref import ref

from eagerflow.autograph.conversion.syntax import OPERATORS
from eagerflow.capture.paths import Location, refill
from eagerflow.capture.snapshot import Held
from eagerflow.core.tensor import Tensor
from eagerflow.errors import TraceError
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.runtime.replay import replay
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.symbols import Symbol

#: tuples in tuples that are made anew where a number in them is replaced
_DEEP: Final = 4


@final
class FirstRun:
    """The run of the call that traced, which gives values to what is held of the trace.

    Args:
        graph: as traced.
        remains: what is held.
        failure: the exception that ended the function, None if none did.
        last: or the node that raises it.
    """

    def __init__(
        self, graph: Graph, remains: Remains, failure: Exception | None, last: Node | None
    ) -> None:
        self._count = len(graph.outputs)
        self._remains = remains
        self._failure = failure
        self._graph = copy.copy(graph)
        self._graph.outputs = [*graph.outputs, *remains.values]
        self._end: Graph | None = None
        if last is not None:
            self._graph.nodes = [node for node in graph.nodes if node is not last]
            self._graph.outputs += last.inputs
            self._end = Graph(graph.name)
            self._end.inputs, self._end.nodes = list(dict.fromkeys(last.inputs)), [last]

    def run(self, run: Callable[[Graph], Sequence[Any]], finish: Callable[..., Any]) -> Any:
        """Run the graph node by node.

        Args:
            run: gives the values of the outputs of a graph.
            finish: makes the result of these, and puts back what is stored outside.
        """
        values = dict(zip(self._graph.outputs, outputs := run(self._graph), strict=True))
        self._remains.fill([values[v] for v in self._remains.values])
        result = finish(outputs[: self._count])
        if self._end is not None:
            replay(self._end, [values[v] for v in self._end.inputs])
        if self._failure is not None:
            raise self._failure
        return result

    def drop(self) -> None:
        """Let it be: what is held stays without a value, and the function has failed.

        Raises:
            Exception: the failure.
        """
        self._remains.forget()
        if self._failure is not None:
            raise self._failure


@final
class Remains:
    """The tensors and numbers of a trace that are held when it has ended.

    Args:
        handed_out: all that it made.
        failed: whether the function has raised: the traceback holds its variables.

    Attributes:
        values: what they are in the graph, where that is to be known.
        texts: that what holds them will not be given others by runs of the graph.

    Raises:
        TraceError: what holds a number cannot hold its value.
    """

    def __init__(self, handed_out: list[ref[Any]], *, failed: bool = False) -> None:
        self._handed_out = handed_out
        self._numbers: list[TracedNumber] = []  # those that only a run of the graph knows
        self._handles: list[Tensor] = []
        self.texts: list[str] = []
        if not failed and not _are_held(handed_out):
            self.values: list[Value] = []
            return
        alive = [x for one in handed_out if (x := one()) is not None]
        numbers = [x for x in alive if type(x) is TracedNumber]
        self._numbers = [x for x in numbers if x.varies and x.tracer.parent is None]
        self._handles = _handles_of([x for x in alive if type(x) is Symbol])
        self.values = [x.value for x in self._numbers] + [x._data.value for x in self._handles]
        kept = [x.value for x in numbers if _is_kept(x, [alive, numbers, self._numbers])]
        kept += [x._data.value for x in self._handles if _is_kept(x, [self._handles])]
        lines = dict.fromkeys("" if v.node is None else f" made at {v.node.source}" for v in kept)
        self.texts = [f"something keeps a value{line} and no trace can follow it" for line in lines]
        for x in [x for x in numbers if not x.varies]:
            _replace(x, x.number)  # in the lists here, too

    def fill(self, values: Sequence[Any]) -> None:
        """Give them their values."""
        count = len(self._numbers)
        for number, value in zip(self._numbers, values[:count], strict=True):
            _replace(number, value)
        for handle, value in zip(self._handles, values[count:], strict=True):
            handle._data, handle._lane, handle._mark = value._data, value._lane, value._mark
        self.forget()

    def forget(self) -> None:
        """Leave them as they are: their use is an error."""
        self._numbers, self._handles = [], []
        self._handed_out.clear()


def _are_held(handed_out: Sequence[ref[Any]]) -> bool:
    """Whether something outside of the trace holds some; what only holds itself does not count."""
    for generation in (1, 2):  # most that the trace left behind is young
        if all(one() is None for one in handed_out):
            return False
        gc.collect(generation)
    return any(one() is not None for one in handed_out)


def _handles_of(symbols: Sequence[Symbol]) -> list[Tensor]:
    """The tensors that hold values of the graph of the whole function.

    Raises:
        TraceError: the value of another one is known in a branch or an iteration alone.
    """
    if not symbols:
        return []
    known = set(map(id, symbols))
    found = [x for x in gc.get_referrers(*symbols) if type(x) is Tensor and id(x._data) in known]
    inner = [x for x in found if x._data.tracer.parent is not None]
    for x in inner:
        if _is_kept(x, [found, inner], (FrameType, CellType)):
            made = x._data.value.node
            raise TraceError(
                "a tensor that is made in a branch or a loop of the graph is kept outside",
                given=repr(x),
                hint="return it, or bind it to a name, an attribute or an item",
                source=None if made is None else made.source,
            )
    return [x for x in found if x._data.tracer.parent is None]


def _is_kept(x: Any, ours: Sequence[Any], variables: Any = (FrameType,)) -> bool:
    """Whether more than these lists and the variables of calls hold ``x``."""
    known = set(map(id, ours))
    return any(
        id(holder) not in known and not _is_frame(holder, variables)
        for holder in gc.get_referrers(x)
    )


def _is_frame(holder: Any, variables: Any = (FrameType,)) -> bool:
    """Whether it is what a debugger or an exception knows of the variables of a call."""
    if type(holder) is not dict:
        return type(holder) in variables
    return OPERATORS in holder or any(type(x) is FrameType for x in gc.get_referrers(holder))


# --- numbers ----------------------------------------------------------------------------------


def _replace(x: Any, value: Any, depth: int = 0) -> None:
    """Put ``value`` in the place of ``x`` in all that holds it, but for local variables."""
    for holder in gc.get_referrers(x):
        if not _is_frame(holder) and not _put(holder, x, value, depth):
            raise TraceError(
                f"a {type(holder).__name__} keeps a number of the trace",
                given=f"the number {value!r}" if depth == 0 else f"in {value!r}",
                hint="give it the number itself: int(k) or float(k), which makes k static",
            )


def _put(holder: Any, x: Any, value: Any, depth: int) -> bool:
    """Put ``value`` in the place of ``x`` in one holder; whether that can be done."""
    if isinstance(holder, dict):
        refill(holder, {value if k is x else _settled(k): value if v is x else v
                        for k, v in list(holder.items())})  # fmt: skip
    elif isinstance(holder, set):
        refill(holder, [value if item is x else _settled(item) for item in list(holder)])
    elif isinstance(holder, (list, deque)):
        refill(holder, [value if item is x else item for item in list(holder)])
    elif isinstance(holder, tuple) and depth < _DEEP:
        items = [value if item is x else item for item in holder]
        kind: Any = type(holder)
        made = kind(*items) if hasattr(kind, "_fields") else tuple.__new__(kind, items)
        _replace(holder, made, depth + 1)
    elif isinstance(holder, CellType):
        holder.cell_contents = value
    elif isinstance(holder, BaseException) and holder.args is x:
        holder.args = value
    else:
        names = [k for k, held in Held("attributes", holder, "").entries() if held is x]
        for name in names:
            Location("attribute", holder, name, name).set(value)
        return bool(names)
    return True


def _settled(x: Any) -> Any:
    """Another key, or item of a set, which is put in again: without numbers, as they have no hash.

    They asked for themselves when they were put in first, so that they are static.
    """
    if type(x) is TracedNumber:
        return x.number
    if type(x) is not tuple:
        return x
    items = tuple(map(_settled, x))
    return x if all(map(operator.is_, items, x)) else items
