"""Tensors and numbers of a trace that objects hold after its end, and the run that fills them.

A tensor is a handle: it gets its value in the call that traced, wherever it is held. A number is
replaced by its value in its holders. Where that is impossible, the trace is refused.
"""

from __future__ import annotations

import copy
import gc
import operator
from collections import deque
from collections.abc import Callable, Sequence
from types import CellType, FrameType, GeneratorType
from typing import Any, Final, final
from weakref import ref

from eagerflow.autograph.conversion.syntax import OPERATORS
from eagerflow.capture.access_paths import Location, refill
from eagerflow.capture.snapshot import Held
from eagerflow.core.tensor import Tensor
from eagerflow.errors import TraceError
from eagerflow.function.new_traces.referrers import Holders
from eagerflow.graph.ir import Graph, Value
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.numpy_arrays import TracedArray
from eagerflow.tracing.symbols import Symbol
from eagerflow.tracing.tracer import Tracer

#: maximum depth of nested tuples that are rebuilt to replace a number in them
_DEEP: Final = 4


@final
class FirstRun:
    """The run of the call that traced, if objects still hold tensors and numbers of the trace.

    Args:
        tracer: the trace.
        holders: finds the holders of objects.
        handles: weak references to the tensors that are outputs of the graph, by number.

    Attributes:
        values: values of the graph that are held, to be computed by the run.
        texts: notes that later runs of the graph will not update the holders.

    Raises:
        TraceError: a holder of a number cannot hold its value.
    """

    def __init__(
        self, tracer: Tracer, holders: Holders, handles: Sequence[tuple[int, ref[Tensor]]]
    ) -> None:
        handed_out = self._handed_out = tracer.whole.handed_out
        self._holders = holders
        self._outputs = handles
        self._numbers: list[TracedNumber] = []  # numbers that only a run of the graph computes
        self._handles: list[Tensor] = []
        self._arrays: list[TracedArray] = []
        self.texts: list[str] = []
        self.values: list[Value] = []
        if not _are_held(tracer, holders):
            return
        symbols = _alive(handed_out, Symbol)
        self._handles = _handles_of(symbols, holders)
        del symbols[:]
        numbers = _alive(handed_out, TracedNumber)
        self._numbers = [x for x in numbers if x.varies and x.tracer.parent is None]
        self.values = [x.value for x in self._numbers] + [x._data.value for x in self._handles]
        held_by = holders.of(self._handles)
        arrays = {id(x): x for those in held_by for x in those if type(x) is TracedArray}
        self._arrays = list(arrays.values())
        kept = [x.value for x in _kept(numbers, holders, [self._numbers])]
        kept += [x._data.value for x in _kept(self._handles, holders)]
        self.texts = _texts(kept)
        del held_by, arrays
        numbers = [x for x in numbers if not x.varies]
        _replace(numbers, [x.number for x in numbers], holders)

    def run(
        self, graph: Graph, run: Callable[[Graph], Sequence[Any]], finish: Callable[..., Any]
    ) -> Any:
        """Run the graph node by node, and give held tensors and numbers their values.

        Args:
            graph: as traced.
            run: returns the values of the outputs of a graph.
            finish: makes the result from these, and performs the stores.
        """
        graph, count = copy.copy(graph), len(graph.outputs)
        graph.outputs = [*graph.outputs, *self.values]
        outputs = list(run(graph))
        self._fill(outputs[count:])
        for i, handle in self._outputs:
            held = handle()
            outputs[i] = outputs[i] if held is None else held
        return finish(outputs[:count])

    def _fill(self, values: Sequence[Any]) -> None:
        """Give held tensors and numbers their values, and replace stand-ins by arrays of NumPy."""
        count = len(self._numbers)
        _replace(self._numbers, values[:count], self._holders)
        for handle, value in zip(self._handles, values[count:], strict=True):
            handle._data, handle._lane, handle._mark = value._data, value._lane, value._mark
        self._numbers, self._handles = [], []  # no holders themselves
        _replace(self._arrays, [x.maker(x.tensor) for x in self._arrays], self._holders)
        self.drop()

    def drop(self) -> None:
        """Give up: held tensors and numbers stay without a value, and their use is an error."""
        self.values, self._numbers, self._handles, self._arrays = [], [], [], []
        self._holders = Holders(())
        self._handed_out.clear()


def _alive(handed_out: Sequence[ref[Any]], kind: type[Any]) -> list[Any]:
    return [x for one in handed_out if type(x := one()) is kind]


def _are_held(tracer: Tracer, holders: Holders) -> bool:
    """Whether objects outside of the trace hold some of it, not counting unreachable cycles."""
    if not tracer.is_held:
        return False
    gc.collect(1)  # most garbage of the trace is young
    handed_out = tracer.whole.handed_out
    alive = [*_alive(handed_out, Symbol), *_alive(handed_out, TracedNumber)]
    if alive and holders.near(alive) is None:
        del alive[:]
        gc.collect()
    return tracer.is_held


def _texts(kept: Sequence[Value]) -> list[str]:
    """A text for each line whose values are kept: no trace can follow that."""
    lines = dict.fromkeys(_origin(v) for v in kept)
    return [f"an object keeps {line}, and no trace can follow it" for line in lines]


def _origin(value: Value) -> str:
    if value.node is None:
        return f"the value of {value.label}" if value.label else "a value"
    return "a value" if value.node.source is None else f"a value made at {value.node.source}"


def _handles_of(symbols: list[Symbol], holders: Holders) -> list[Tensor]:
    """The tensors that hold values of the graph of the whole function.

    Raises:
        TraceError: the value of another tensor is known in a branch or an iteration only.
    """
    handles = [x for held_by in holders.of(symbols) for x in held_by if type(x) is Tensor]
    inner = [x for x in handles if x._data.tracer.parent is not None]
    for x in _kept(inner, holders, [handles], (FrameType, CellType)):
        made = x._data.value.node
        raise TraceError(
            "a tensor that is made in a branch or a loop of the graph is kept outside",
            given=repr(x),
            hint="return it, or bind it to a name, an attribute or an item",
            source=None if made is None else made.source,
        )
    return [x for x in handles if x._data.tracer.parent is None]


def _kept(
    objects: list[Any], holders: Holders, own: Sequence[Any] = (), variables: Any = (FrameType,)
) -> list[Any]:
    """The objects with holders other than these lists and the local variables of calls."""
    held_by = holders.of(objects, own)
    frames = _frames_among(held_by, holders, variables)
    return [
        x
        for x, those in zip(objects, held_by, strict=True)
        if not all(id(holder) in frames for holder in those)
    ]


def _frames_among(
    held_by: Sequence[list[Any]], holders: Holders, variables: Any = (FrameType,)
) -> set[int]:
    """The ids of holders that are local variables of calls, or a dict of them for a debugger.

    Args:
        held_by: lists of holders.
        holders: finds the holders of these.
        variables: the types that count as local variables.
    """
    flat = {id(holder): holder for those in held_by for holder in those}
    frames = {key for key, holder in flat.items() if type(holder) in variables}
    dicts = [holder for holder in flat.values() if type(holder) is dict]
    frames.update(id(names) for names in dicts if OPERATORS in names)
    dicts = [names for names in dicts if OPERATORS not in names]
    for names, those in zip(dicts, holders.of(dicts, [flat, *held_by]), strict=True):
        if any(type(holder) is FrameType for holder in those):
            frames.add(id(names))
    return frames


# --- numbers ----------------------------------------------------------------------------------


def _replace(objects: list[Any], values: Sequence[Any], holders: Holders) -> None:
    """Replace objects by values in all their holders, but for local variables."""
    for depth in range(_DEEP + 1):
        held_by = holders.of(objects)
        frames = _frames_among(held_by, holders)
        kept_in = {id(x): x for those in held_by for x in those if id(x) not in frames}
        new = {id(x): value for x, value in zip(objects, values, strict=True)}
        del held_by  # or it would be a holder in the next round
        holding = list(kept_in.values())
        del kept_in
        objects, values = _put_all(holding, new, depth)
        del holding


def _put_all(kept_in: list[Any], new: dict[int, Any], depth: int) -> tuple[list[Any], list[Any]]:
    """Put new values into mutable holders; return the tuples among them, and their replacements.

    Args:
        kept_in: the holders of the old values.
        new: the new values, by the ids of the old ones.
        depth: depth of nested tuples rebuilt so far.

    Raises:
        TraceError: a holder is immutable.
    """
    tuples = [x for x in kept_in if isinstance(x, tuple)] if depth < _DEEP else []
    known = set(map(id, tuples))
    for holder in kept_in:
        if id(holder) in known or _put(holder, new):
            continue
        if not _is_in_flight(holder, kept_in):
            value = next(new[id(x)] for x in gc.get_referents(holder) if id(x) in new)
            raise TraceError(
                f"a {type(holder).__name__} keeps a number of the trace",
                given=f"the number {value!r}" if depth == 0 else f"in {value!r}",
                hint="give it a plain number: int(k) or float(k), which makes k static",
            )
    return tuples, [_made_anew(x, new) for x in tuples]


def _is_in_flight(kept: Any, own: list[Any]) -> bool:
    """Whether an object is held only by the stack of code that runs in another thread.

    That thread read a number during the trace, and is still using it. Suspended generators on its
    stack count as the stack.
    """
    known, left = {id(own)}, [kept]
    known.add(id(left))
    while left:
        around = gc.get_referrers(left.pop())
        if not all(id(x) in known or type(x) in (FrameType, GeneratorType) for x in around):
            return False
        left += [x for x in around if type(x) is GeneratorType and id(x) not in known]
        known.update(map(id, left))
        del around[:]
    return True


def _made_anew(old: tuple[Any, ...], new: dict[int, Any]) -> Any:
    items = [new.get(id(x), x) for x in old]
    kind: Any = type(old)
    return kind(*items) if hasattr(kind, "_fields") else tuple.__new__(kind, items)


def _put(holder: Any, new: dict[int, Any]) -> bool:
    """Put new values, by the ids of the old, into one holder; return whether that is possible."""
    if isinstance(holder, dict):
        refill(holder, {_key(k, new): new.get(id(v), v) for k, v in list(holder.items())})
    elif isinstance(holder, set):
        refill(holder, [_key(x, new) for x in list(holder)])
    elif isinstance(holder, (list, deque)):
        refill(holder, [new.get(id(x), x) for x in list(holder)])
    elif isinstance(holder, CellType):
        holder.cell_contents = new[id(holder.cell_contents)]
    elif isinstance(holder, BaseException) and id(holder.args) in new:
        holder.args = new[id(holder.args)]
    else:
        held = Held("attributes", holder, "").entries()
        known = [(name, new[id(x)]) for name, x in held if id(x) in new]
        for name, value in known:
            Location("attribute", holder, name, name).set(value)
        return bool(known)
    return True


def _key(x: Any, new: dict[int, Any]) -> Any:
    """The new form of a key, or an item of a set, when it is inserted again."""
    return new[id(x)] if id(x) in new else _settled(x)


def _settled(x: Any) -> Any:
    """A key, or an item of a set, with symbolic numbers replaced, as these have no hash.

    The numbers became static when they were first inserted.
    """
    if type(x) is TracedNumber:
        return x.number
    if type(x) is not tuple:
        return x
    items = tuple(map(_settled, x))
    return x if all(map(operator.is_, items, x)) else items
