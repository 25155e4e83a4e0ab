"""`Graph.run`: runs the part of a graph between any fed values and any fetched ones."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, final

from eagerflow.core.tensor import AbstractArray, Tensor, type_of
from eagerflow.core.to_tensor import as_tensor, scalar
from eagerflow.dims import evaluate, symbols
from eagerflow.errors import DTypeError, GraphError, PlacementError, ShapeError
from eagerflow.formatting import kind_of
from eagerflow.graph.devices import located
from eagerflow.graph.edit import copy_node, inner_nodes, named_axes, needed
from eagerflow.graph.ir import Graph, Node, OutsideInput, Value
from eagerflow.graph.placement_reasons import resource_text
from eagerflow.graph.signatures import is_read
from eagerflow.graph.value_types import NumberType
from eagerflow.graph.verify import check_nodes
from eagerflow.hardware import Device, as_device
from eagerflow.ops.rules.promotion import weak_fits
from eagerflow.resources.variable import VariableState
from eagerflow.runtime.executable import Executable
from eagerflow.runtime.replay import is_watched, replay
from eagerflow.types import TensorType
from eagerflow.unknown_names import nearest

_LIMIT: Final = 32  # executables of one graph
_SHOWN: Final = 4  # names in a message
_NUMBERS: Final = (bool, int, float, complex)

_lock: Final = threading.Lock()
_executables: Final[weakref.WeakKeyDictionary[Graph, OrderedDict[Any, Executable]]] = (
    weakref.WeakKeyDictionary()
)


def run(
    graph: Graph, fetches: Iterable[Value | Node | str], feeds: Mapping[Any, Any] | None = None
) -> list[Any]:
    """The implementation of `Graph.run`."""
    if isinstance(fetches, (Value, Node, str)) or not isinstance(fetches, Iterable):
        raise GraphError(
            "run: fetches is a list of values", given=repr(fetches),
            expected="values of the graph, or their names: graph.outputs, "
            f"[{', '.join([repr(v.name) for v in graph.outputs][:_SHOWN]) or '...'}]",
        )  # fmt: skip
    if not isinstance(feeds, Mapping | None):
        raise GraphError(
            "run: feeds is a dict, by value or name", given=kind_of(feeds),
            expected=f"{{{', '.join([f'{v.name!r}: ...' for v in graph.inputs][:_SHOWN])}}}",
        )  # fmt: skip
    names = _Names(graph)
    wanted = [names.fetch(v) for v in fetches]
    given = names.feeds(feeds or {})
    if any(getattr(resource, "moved", False) for resource in graph.resources.values()):
        _check_places(graph)
    usual = _usual_device(given)
    inputs = _inputs(given, usual)
    part = _executable(graph, tuple(wanted), tuple(given), _open_devices(given, inputs), usual)
    results = iter(replay(part.graph, inputs) if is_watched() else part.apply(inputs))
    return [next(results) if isinstance(one, Value) else None for one in wanted]


def _check_places(graph: Graph) -> None:
    """Refuse a graph that was made before a variable of its was moved to another device.

    Raises:
        PlacementError: a variable was moved.
    """
    for node in [*graph.nodes, *inner_nodes(graph.nodes)]:
        state = node.attrs.get("resource")
        if isinstance(state, VariableState) and node.device not in (None, state.device):
            raise PlacementError(
                f"run: {resource_text(state)} was moved after the graph was made",
                given=f"&{node.name} on {node.device}, and the variable on {state.device}",
                hint="trace again: f.graph(...) gives a graph for the new device; or move it back",
                source=node.source,
            )


@final
class _Names:
    """Lookup of the values of a graph by the names that users give."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._values: dict[str, Value] | None = None

    def find(self, key: Any, fed: Any = None) -> Value:
        """The value that ``key`` denotes, to be fetched or fed."""
        if isinstance(key, Value):
            return key
        if not isinstance(key, str):
            raise GraphError(
                "a fetch or a feed is not a value", given=repr(key), expected="a Value or its name"
            )
        if self._values is None:
            self._values = {v.name: v for v in self.graph.values()}
        name = key.removeprefix("%")
        if name not in self._values:
            raise self._unknown(name, fed)
        return self._values[name]

    def _unknown(self, name: str, fed: Any) -> GraphError:
        similar = nearest(name, [v.name for v in self.graph.values()])
        inputs = ", ".join([f"%{v.name}" for v in self.graph.inputs])
        expected = f"a value that print(graph) shows, such as its inputs {inputs}"
        hint = self._variable(name) or (f"did you mean %{similar}?" if similar else None)
        if hint is None and type(fed) in _NUMBERS:
            hint = (
                "an argument that is a Python number is a constant of the graph if the trace "
                f"looked at it: trace with ef.tensor({fed!r}) in its place, which is an input"
            )
        return GraphError(
            f"the graph has no value %{name}", given=repr(self.graph),
            expected=expected if inputs else None, hint=hint,
        )  # fmt: skip

    def _variable(self, name: str) -> str | None:
        """A hint for a name that is that of a variable of the graph."""
        name = name.removeprefix("@")
        mine = [n for n in self.graph.nodes if _is_of(n, name)]
        reads = [f"%{n.outputs[0].name}" for n in mine if is_read(n.op)]
        if reads:
            return f"@{name} is a variable; feed the value read from it: {', '.join(reads)}"
        return f"@{name} is a variable, and not read here: assign it before" if mine else None

    def feeds(self, feeds: Mapping[Any, Any]) -> dict[Value, Any]:
        """The feeds by value."""
        fed: dict[Value, Any] = {}
        for key, x in feeds.items():
            value = self.find(key, x)
            if value in fed:
                raise GraphError(
                    f"run: {value.name!r} is fed twice", given=", ".join(map(repr, feeds)),
                    expected="each value once, by itself or by its name",
                )  # fmt: skip
            fed[value] = x
        return fed

    def fetch(self, key: Any) -> Value | Node:
        """The value that ``key`` denotes, or the node if only its effect is wanted."""
        if isinstance(key, Node):
            return key
        if not isinstance(key, str) or not key.startswith("&"):
            return self.find(key)
        node = next((node for node in self.graph.nodes if node.name == key[1:]), None)
        if node is None:
            effects = [f"&{node.name}" for node in self.graph.nodes if not node.outputs]
            raise GraphError(
                f"there is no node {key}", given=repr(self.graph),
                expected=f"such as {', '.join(effects[:_SHOWN])}" if effects else None,
            )  # fmt: skip
        return node


def _is_of(node: Node, name: str) -> bool:
    """Whether a node reads or writes the variable of that name."""
    resource = node.attrs.get("resource")
    return isinstance(resource, VariableState) and resource.name == name


def _executable(
    graph: Graph, fetches: tuple[Value | Node, ...], fed: tuple[Value, ...],
    devices: tuple[Device | None, ...], usual: Device,
) -> Executable:  # fmt: skip
    """The executable of the part of a graph from ``fed`` to ``fetches``.

    Args:
        graph: the graph.
        fetches: the values and nodes wanted.
        fed: the values fed.
        devices: the device of each fed value, None if the graph says it.
        usual: the device of values for which neither the graph nor a fed value determines one.
    """
    key = (fetches, fed, len(graph.nodes), devices, usual)
    with _lock:
        known = _executables.setdefault(graph, OrderedDict())
        executable = known.get(key)
        if executable is not None:
            known.move_to_end(key)
            return executable
    part = located(extract(graph, fetches, fed), devices, usual)
    check_nodes(part)
    made = Executable(part)
    with _lock:
        known[key] = made
        if len(known) > _LIMIT:
            known.popitem(last=False)
    return made


def extract(graph: Graph, fetches: Sequence[Value | Node], fed: Sequence[Value]) -> Graph:
    """The part of ``graph`` that computes ``fetches`` from ``fed``, as a graph of its own.

    Args:
        graph: the graph.
        fetches: the values and nodes wanted; the values become the outputs of the result.
        fed: the inputs of the result.

    Raises:
        GraphError: an input of ``graph`` is needed and not fed, or a value is not of ``graph``.
    """
    known: set[Value | Node] = {*graph.values(), *graph.nodes}
    for one in (*fetches, *fed):
        if one not in known:
            mark = "&" if isinstance(one, Node) else "%"
            raise GraphError(f"{mark}{one.name} is not of this graph")
    result = Graph(graph.name)
    result.resources = dict(graph.resources)
    values: dict[Value, Value] = {v: result.add_input(v.type, v.name, v.device) for v in fed}
    nodes: dict[Node, Node] = {}
    wanted = needed(graph, fetches, fed)
    taken = dict.fromkeys([*chain.from_iterable(n.inputs for n in wanted), *fetches])
    missing = [v for v in graph.inputs if v in taken and v not in values]
    if missing:
        raise _not_fed(graph, missing)
    for node in wanted:
        inputs = [values[v] for v in node.inputs]
        before = tuple([nodes[n] for n in node.control_inputs if n in nodes])
        made = nodes[node] = copy_node(result, node, inputs, control_inputs=before)
        for value, copied in zip(node.outputs, made.outputs, strict=True):
            values.setdefault(value, copied)
    result.outputs = [values[v] for v in fetches if isinstance(v, Value)]
    return result


def _not_fed(graph: Graph, missing: Sequence[Value]) -> GraphError:
    """The error for inputs without a feed, which says where a traced function reads them."""
    names = ", ".join([repr(v.name) for v in missing])
    feeds = ", ".join([f'"{v.name}": {_present(v, graph.outside)}' for v in missing])
    read = [graph.outside[v.name].text for v in missing if v.name in graph.outside]
    return GraphError(
        f"run: {names} {'is' if len(missing) == 1 else 'are'} needed and not fed",
        expected=f"feeds such as {{{feeds}}}, of {', '.join([str(v.spec) for v in missing])}",
        hint=f"a call of the function reads {', '.join(read)} from outside" if read else None,
    )


def _present(value: Value, outside: Mapping[str, OutsideInput]) -> str:
    """A number that a traced function reads now; of a tensor, the expression that it reads."""
    if value.name not in outside:
        return "..."
    text, read = outside[value.name]
    now = read()
    return repr(now) if type(now) in _NUMBERS else text


# --- feeds ------------------------------------------------------------------------------------


def _usual_device(given: Mapping[Value, Any]) -> Device:
    """The device of values to which the graph gives none: that of the first such tensor fed.

    If no tensor is fed for them, it is the current device.
    """
    for value, x in given.items():
        if value.device is None and isinstance(x, AbstractArray):
            return x.device
    return as_device(None)


def _open_devices(given: Mapping[Value, Any], inputs: Sequence[Any]) -> tuple[Device | None, ...]:
    """The device of each fed value; None if the graph says it, and for numbers."""
    return tuple([
        x.device if v.device is None and isinstance(x, Tensor) else None
        for v, x in zip(given, inputs, strict=True)
    ])  # fmt: skip


def _inputs(given: Mapping[Value, Any], usual: Device) -> list[Any]:
    """A tensor or a number for each fed value, of its type and on its device.

    Args:
        given: the feeds.
        usual: the device for feeds that are no tensors, if the graph does not say it.

    Raises:
        DTypeError: a feed has another dtype, or is another kind of number.
        ShapeError: a feed has another shape, or sizes contradict each other.
        DeviceError: a value is on a device that this process lacks.
    """
    values = [_converted(v, x, usual) for v, x in given.items()]
    sizes: dict[str, int] = {}
    pairs = [(v, x) for v, x in zip(given, values, strict=True) if isinstance(v.type, TensorType)]
    for value, x in pairs:
        if len(x.shape) != len(value.type.shape):
            raise _misfit(value, x)
        for axis, name in named_axes(value.type):
            sizes.setdefault(name, x.shape[axis])
    for value, x in pairs:
        for size, actual in zip(value.type.shape, x.shape, strict=True):
            known = symbols((size,)) <= sizes.keys()
            if known and evaluate(size, sizes) != actual:
                raise _misfit(value, x, sizes)
    return values


def _misfit(value: Value, x: Tensor, sizes: Mapping[str, int] | None = None) -> ShapeError:
    known = ", ".join(f"{n}={s}" for n, s in (sizes or {}).items())
    return ShapeError(
        f"run: the shape of {value.name!r} is another",
        given=str(type_of(x)),
        expected=f"{value.spec}" + (f" with {known}" if known else ""),
    )


def _converted(value: Value, x: Any, usual: Device) -> Any:
    kind = value.type
    if isinstance(kind, NumberType):
        return _number(value, kind, x)
    if type(x) in _NUMBERS and not isinstance(x, AbstractArray):
        if not weak_fits(x, kind.dtype):
            raise _wrong_dtype(value, type(x).__name__)
        return scalar(x, as_device(value.device or usual).lanes[kind.dtype])
    plain = type(x) in (list, tuple) and weak_fits(x, kind.dtype)  # as for a single number
    where = None if isinstance(x, AbstractArray) else as_device(value.device or usual)
    tensor = as_tensor(x, kind.dtype if plain else None, where)
    if tensor.dtype is not kind.dtype:
        raise _wrong_dtype(
            value, str(type_of(tensor)), f"convert it: ef.astype(x, {kind.dtype.name!r})"
        )
    if value.device is not None and tensor.device != value.device:
        return tensor.to(as_device(value.device))
    return tensor


def _number(value: Value, kind: NumberType, x: Any) -> complex:
    ranks = (int, float, complex)
    if type(x) not in ranks or ranks.index(type(x)) > ranks.index(kind.kind):
        raise _wrong_dtype(value, repr(x))
    return kind.kind(x)


def _wrong_dtype(value: Value, given: str, hint: str | None = None) -> DTypeError:
    return DTypeError(
        f"run: {value.name!r} is of another dtype", given=given, expected=str(value.spec), hint=hint
    )
