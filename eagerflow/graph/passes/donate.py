"""Buffer donation: nodes that may write their result into an input without a later reader."""

from __future__ import annotations

from math import inf, prod
from typing import final

from eagerflow.core.op import find_op
from eagerflow.dims import same
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.passes.memory_layout import Memory, MemoryLayout, is_fresh, on_cpu
from eagerflow.graph.passes.rewrite import Change, Form, Report, Rewriter, is_large, is_pure, shown
from eagerflow.graph.value_types import NumberType
from eagerflow.hardware import as_device
from eagerflow.types import TensorType
from eagerflow_kernels import table


def donate(graph: Graph) -> tuple[Graph, Report]:
    """Set `Node.reuses` to the input whose buffer a node may write its output into.

    The node's kernel is a ufunc. The input is a fresh array of a kernel, or a view of one, has the
    type of the output, and lies in memory as the output would; no later node takes it or a value
    that may be a view of it.
    """
    rewriter = Rewriter("donate", graph)
    for node in graph.nodes:
        if node.attrs:
            rewriter.inside(node, donate)
    reuses = _Owners(graph).reuses() if any(map(is_large, graph.values())) else {}
    if not rewriter.forms and all(node.reuses == reuses.get(node) for node in graph.nodes):
        return rewriter.finish()
    for node, i in reuses.items():
        if node.reuses != i:
            text = f"{shown(node)} goes into the buffer of %{node.inputs[i].name}"
            rewriter.changes.append(Change(text, node.source))
    for node in graph.nodes:
        if node.reuses is not None and node not in reuses:
            rewriter.note(f"{shown(node)} goes into a buffer of its own", node)
    result = rewriter.build()
    for node, new in zip(graph.nodes, result.nodes, strict=True):
        new.reuses = reuses.get(node)
    return result, Report("donate", rewriter.changes, len(graph.nodes), len(result.nodes))


def _gives_all(node: Node) -> bool:
    """Whether the output of ``node`` has all elements of its input, as a view or a copy."""
    op = find_op(node.op)
    if op is None or op.storage == "fresh" or op.effect != "pure" or len(node.outputs) != 1:
        return False
    if len(node.inputs) != 1:
        return False
    before, after = node.inputs[0].type, node.outputs[0].type
    if isinstance(before, NumberType) or isinstance(after, NumberType):
        return False
    return before.dtype is after.dtype and same(prod(before.shape), prod(after.shape))


@final
class _Owners:
    """Groups of values that may share memory, and the last reader of each group."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.memory = Memory()
        self.parent: dict[Value, Value] = {}
        self.foreign: set[Value] = set(graph.inputs)  # roots of groups held outside of the graph
        self.last: dict[Value, float] = {}  # by root
        self.fresh: dict[Node, bool] = {}
        self.xp = as_device("cpu:0").xp
        for position, node in enumerate(graph.nodes):
            self._see(node, position)
        for value in graph.outputs:
            self.last[self._root(value)] = inf

    def _see(self, node: Node, position: int) -> None:
        form = Form(node.op, node.inputs, node.attrs)
        self.memory.see(form, node.outputs)
        for value in node.inputs:
            self.last[self._root(value)] = position
        for value in node.outputs:
            self.last[value] = position
        self.fresh[node] = fresh = is_fresh(node)
        if fresh:
            return
        together = [self._root(v) for v in (*node.inputs, *node.outputs)]
        # a constant, or the result of an effect or a subgraph, may be held elsewhere
        held = node.op == "constant" or not is_pure(node) or any(True for _ in node.subgraphs())
        for other in together[1:]:
            self._join(together[0], other)
        if held and together:
            self.foreign.add(self._root(together[0]))

    def _root(self, value: Value) -> Value:
        parent = self.parent
        while value in parent:
            above = parent[value]
            if above in parent:
                parent[value] = parent[above]
            value = above
        return value

    def _join(self, a: Value, b: Value) -> None:
        a, b = self._root(a), self._root(b)
        if a is not b:
            self.parent[b] = a
            self.last[a] = max(self.last.get(a, -1), self.last.get(b, -1))
            if b in self.foreign:
                self.foreign.add(a)

    def reuses(self) -> dict[Node, int]:
        """For each node that may reuse an input the index of that input."""
        reuses: dict[Node, int] = {}
        for position, node in enumerate(self.graph.nodes):
            if len(node.outputs) == 1 and is_large(node.outputs[0]) and self._in_place(node):
                for i, value in enumerate(node.inputs):
                    if self._may_go(value, node, position):
                        reuses[node] = i
                        break
        return reuses

    def _in_place(self, node: Node) -> bool:
        """Whether the kernel on a CPU is a ufunc, which takes an array to write into."""
        op, output = find_op(node.op), node.outputs[0].type
        if op is None or not op.elementwise or node.attrs or not node.inputs:
            return False
        kind = node.inputs[0].type
        if not isinstance(kind, TensorType) or not on_cpu(node.inputs[0]):
            return False
        # low-precision floats are computed in float32, by a function around the ufunc
        if not isinstance(output, TensorType) or not output.dtype.is_native:
            return False
        dtype = kind.dtype.name  # as `eagerflow.core.execute` chooses
        kernel = table.find(op.base, "cpu", (dtype,), self.xp) or table.find(
            op.base, "cpu", (dtype,) * len(node.inputs), self.xp
        )
        # a ufunc with a signature does not work element by element
        return isinstance(kernel, self.xp.ufunc) and kernel.signature is None

    def _may_go(self, value: Value, node: Node, position: int) -> bool:
        output = node.outputs[0]
        if not self._is_own(value):
            return False
        if value.spec != output.spec or not is_large(value) or not on_cpu(value):
            return False
        root = self._root(value)
        if root in self.foreign or self.last[root] != position:
            return False
        others = [v for v in node.inputs if v is not value]
        if any(self._root(v) is root for v in others):
            return False
        return (
            self.memory.lies_like(value, others)
            and self.memory.layout(value) > MemoryLayout.UNKNOWN
        )

    def _is_own(self, value: Value) -> bool:
        """Whether the memory of ``value`` is a kernel's fresh array, directly or through views."""
        maker = value.node
        while maker is not None and _gives_all(maker):
            maker = maker.inputs[0].node
        return maker is not None and self.fresh[maker] and len(maker.outputs) == 1
