"""Common subexpressions: what is computed twice is computed once."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack
from typing import Any, Final, final

from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.passes.duplicate_carries import find_twins, is_read, with_twins
from eagerflow.graph.passes.report import Report
from eagerflow.graph.passes.rewrite import Inner, Rewriter, is_pure, shown
from eagerflow.graph.signatures import fits, is_loop
from eagerflow.graph.text.constants import content_name, has_values
from eagerflow.hardware import Device
from eagerflow.types import DType

__all__ = ["cse"]

#: arrays of more bytes are the same only if they are the same object
_CONTENT_LIMIT: Final = 1 << 20


def cse(graph: Graph) -> tuple[Graph, Report]:
    """Merge pure nodes of the same op, inputs, attributes, control edges and device."""
    rewriter = Rewriter("cse", graph)
    keys = _Keys()
    kept: dict[Node, Node] = {}  # what a merged node was merged into
    known: dict[Any, Node] = {}
    pure: dict[str, bool] = {}
    for node in graph.nodes:
        op, attrs = node.op, node.attrs
        if attrs:
            rewriter.inside(node, _within(rewriter, node, keys))
        free = pure.get(op)
        if free is None:
            free = is_pure(node)
            if not any(True for _ in node.subgraphs()):  # else it depends on what is in them
                pure[op] = free
        if not free or not node.outputs:
            continue
        form = rewriter.form(node) if attrs else None
        before = node.control_inputs
        key = (
            op,
            rewriter.inputs(node),
            keys.attrs(form.attrs) if form is not None else (),
            node.device,
            frozenset([kept.get(n, n) for n in before]) if before else None,
        )
        first = known.setdefault(key, node)
        if first is node or not _same_types(first, node):
            continue
        kept[node] = first
        rewriter.drop(node, first.outputs, f"merged {shown(node)} into {shown(first)}")
    return rewriter.finish()


def _within(rewriter: Rewriter, node: Node, keys: _Keys) -> Inner:
    """The pass for the subgraphs of ``node``: of equal loop-carried values, they read one.

    `prune` then takes the other out of the loop.
    """
    twins = find_twins(node, rewriter.inputs(node), keys.attrs) if is_loop(node.op) else {}
    twins = {i: j for i, j in twins.items() if is_read(rewriter.graph, node, i)}
    if not twins:
        return cse
    rewriter.replaced.update((node.outputs[i], node.outputs[j]) for i, j in twins.items())
    same = ", ".join(f"{node.outputs[i].name} as {node.outputs[j].name}" for i, j in twins.items())
    rewriter.note(f"in &{node.name}, loop-carried values are equal: {same}", node)
    return lambda graph: cse(with_twins("cse", graph, twins))


def _same_types(a: Node, b: Node) -> bool:
    """Sizes that depend on data have a name of their own in each node."""
    return all(
        x.device == y.device and (x.type is y.type or fits(x.spec, y.spec))
        for x, y in zip(a.outputs, b.outputs, strict=True)
    )


@final
class _Keys:
    """Hashable stand-ins for attributes, equal only where nothing can tell the two apart."""

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
        ):  # equal to no other kind: bools and floats come tagged
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
            if not has_values(value) or value.nbytes > _CONTENT_LIMIT:
                key: Any = (Tensor, id(value._data))
            else:  # strides decide in which order later sums add
                key = (Tensor, value.numpy().strides, content_name(value))
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
