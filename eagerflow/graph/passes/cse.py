"""Common-subexpression elimination: equal nodes are merged into one.

`cse` merges equal nodes, and loop-carried values that start equal and stay equal in each
iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from struct import pack
from typing import Any, Final, final

from eagerflow.core.tensor import Tensor, type_of
from eagerflow.dims import Dim
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.rewrite import Pass, Report, Rewriter, is_pure, shown
from eagerflow.graph.signatures import fits, is_loop
from eagerflow.hardware import Device
from eagerflow.types import BYTES, LIST, DType

#: arrays of more bytes are the same only if they are the same object
_CONTENT_LIMIT: Final = 1 << 20


def cse(graph: Graph) -> tuple[Graph, Report]:
    """Merge pure nodes of the same op, inputs, attributes, control edges and placement."""
    rewriter = Rewriter("cse", graph)
    keys = _Keys()
    kept: dict[Node, Node] = {}  # for each merged node the node that stands for it
    known: dict[Any, Node] = {}
    for node in graph.nodes:
        op, attrs = node.op, node.attrs
        if attrs:
            rewriter.inside(node, _within(rewriter, node, keys))
        if not node.outputs or not is_pure(node):
            continue
        form = rewriter.form(node) if attrs else None
        before = node.control_inputs
        key = (
            op,
            rewriter.inputs(node),
            keys.attrs(form.attrs) if form is not None else (),
            node.device,
            node.because,
            node.leeway,
            frozenset([kept.get(n, n) for n in before]) if before else None,
        )
        first = known.setdefault(key, node)
        if first is node or not _same_types(first, node):
            continue
        kept[node] = first
        rewriter.drop(node, first.outputs, f"merged {shown(node)} into {shown(first)}")
    return rewriter.finish()


def _within(rewriter: Rewriter, node: Node, keys: _Keys) -> Pass:
    """The pass for the subgraphs of ``node``, which reads only one of equal loop-carried values.

    `prune` then removes the others from the loop.
    """
    twins = _find_twins(node, rewriter.inputs(node), keys.attrs) if is_loop(node.op) else {}
    twins = {i: j for i, j in twins.items() if _is_read(rewriter.graph, node, i)}
    if not twins:
        return cse
    rewriter.replaced.update((node.outputs[i], node.outputs[j]) for i, j in twins.items())
    same = ", ".join(f"{node.outputs[i].name} as {node.outputs[j].name}" for i, j in twins.items())
    rewriter.note(f"in &{node.name}, loop-carried values are equal: {same}", node)
    return lambda graph: cse(_with_twins(graph, twins))


def _same_types(a: Node, b: Node) -> bool:
    """Whether the outputs have equal types; data-dependent sizes have other names in each node."""
    return all(
        x.device == y.device and (x.type is y.type or fits(x.spec, y.spec))
        for x, y in zip(a.outputs, b.outputs, strict=True)
    )


@final
class _Keys:
    """Hashable keys of attributes, equal only if the attributes cannot be distinguished."""

    def __init__(self) -> None:
        self._arrays: dict[int, tuple[Tensor, Any]] = {}  # by identity; kept alive

    def attrs(self, attrs: dict[str, Any]) -> Any:
        if len(attrs) == 1:
            ((name, value),) = attrs.items()
            return name, self.of(value)
        return frozenset([(k, self.of(v)) for k, v in attrs.items()])

    def of(self, value: Any) -> Any:
        kind = type(value)
        if (
            kind is int or kind is str or kind is bytes
        ):  # equal to no key of another kind: bools and floats are tagged
            return value
        if kind is tuple:
            return tuple([self.of(item) for item in value])
        if kind is Tensor:
            return self._array(value)
        form = _KEYS.get(kind)
        if form is not None:
            return form(value)
        if kind is slice:
            return slice, self.of(value.start), self.of(value.stop), self.of(value.step)
        return id(value), kind

    def _array(self, value: Tensor) -> Any:
        entry = self._arrays.get(id(value))
        if entry is None:
            no_content = value.dtype is LIST or not value.device.holds_data
            if no_content or type_of(value).nbytes > _CONTENT_LIMIT:
                key: Any = (Tensor, id(value._data))
            else:
                array = value.numpy()
                content = tuple(array.flat) if value.dtype is BYTES else array.tobytes()
                # strides decide the order of additions in later sums
                key = (value.dtype.name, array.shape, array.strides, content)
            entry = self._arrays[id(value)] = value, key
        return entry[1]


_KEYS: Final[dict[type, Callable[[Any], Any]]] = {
    type(None): lambda value: None,
    bool: lambda value: (bool, value),
    float: lambda value: pack("<d", value),
    complex: lambda value: pack("<dd", value.real, value.imag),
    type(...): lambda value: value,
    DType: lambda value: (DType, value.name),
    Device: lambda value: (Device, value.name),
    Dim: lambda value: (Dim, value.terms),
}


# --- loop-carried values -----------------------------------------------------------------------


def _find_twins(
    node: Node, inputs: Sequence[Hashable], attrs_key: Callable[[dict[str, Any]], Hashable]
) -> dict[int, int]:
    """Map the index of each loop-carried value that always equals an earlier one to its index.

    Values that start equal are taken for equal, until an iteration distinguishes them (Alpern,
    Wegman and Zadeck, "Detecting equality of variables in programs", 1988).

    Args:
        node: a loop.
        inputs: keys of its inputs; equal keys mean equal values.
        attrs_key: gives a key of attributes; equal keys mean equal attributes.
    """
    body: Graph = node.attrs["body"]
    count = node.attrs.get("carry", len(inputs))
    if len(set(inputs[:count])) == count:
        return {}
    starts = [(inputs[i], *_carry_types(node, i)) for i in range(count)]
    first: dict[Hashable, int] = {}
    leaders = [first.setdefault(start, i) for i, start in enumerate(starts)]
    groups = len(first)
    while groups < count:
        ends = _numbers(body, leaders, attrs_key)
        first = {}
        leaders = [first.setdefault((leaders[i], ends[i]), i) for i in range(count)]
        if len(first) == groups:
            break
        groups = len(first)
    return {i: leader for i, leader in enumerate(leaders) if leader != i}


def _carry_types(node: Node, i: int) -> tuple[str, ...]:
    body = node.attrs["body"]
    return tuple([str(v.spec) for v in (node.outputs[i], body.inputs[i], body.outputs[i])])


def _numbers(
    body: Graph, leaders: Sequence[int], attrs_key: Callable[[dict[str, Any]], Hashable]
) -> list[Hashable]:
    """A value number for each output, given that each input equals its leader."""
    numbers: dict[Value, Hashable] = {}
    for i, value in enumerate(body.inputs):
        numbers[value] = leaders[i] if i < len(leaders) else i
    known: dict[Hashable, Node] = {}
    for node in body.nodes:
        same, inputs = node, tuple([numbers[v] for v in node.inputs])
        if node.outputs and not node.control_inputs and is_pure(node):
            types = tuple([str(v.spec) for v in node.outputs])
            where = node.device, node.because, node.leeway
            key = node.op, inputs, attrs_key(node.attrs), where, types
            same = known.setdefault(key, node)
        pairs = zip(node.outputs, same.outputs, strict=True)
        numbers.update((v, numbers.get(first, first)) for v, first in pairs)
        if is_loop(node.op):
            twins = _find_twins(node, inputs, attrs_key)
            numbers.update((node.outputs[i], numbers[node.outputs[j]]) for i, j in twins.items())
    return [numbers[v] for v in body.outputs[: len(leaders)]]


def _is_read(graph: Graph, node: Node, i: int) -> bool:
    """Whether loop-carried value ``i`` of a loop has a reader other than its own update."""
    if _takes(graph, node.outputs[i], -1):
        return True
    return any(_takes(part, part.inputs[i], i) for _, part in node.subgraphs())


def _takes(graph: Graph, value: Value, but: int) -> bool:
    """Whether ``value`` is an operand of a node, or an output other than number ``but``."""
    return any(value in node.inputs for node in graph.nodes) or any(
        v is value for i, v in enumerate(graph.outputs) if i != but
    )


def _with_twins(graph: Graph, twins: dict[int, int]) -> Graph:
    """A subgraph of a loop in which each twin is replaced by the first of its group."""
    rewriter = Rewriter("cse", graph)
    rewriter.replaced = {graph.inputs[i]: graph.inputs[first] for i, first in twins.items()}
    return rewriter.build()
