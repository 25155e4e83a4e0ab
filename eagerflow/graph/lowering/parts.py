"""Lowering of the whole graph, of calls and of branches into the flat graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from eagerflow.graph.edit import in_sizes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.lowering.flat import FlatGraph, Gate, first_teller, sizes_of, used_inputs
from eagerflow.graph.passes.rewrite import is_pure
from eagerflow.graph.signatures import is_control
from eagerflow.graph.value_types import ValueType

#: builds a branch at a path, from operands and the predicate; gives its outputs and effects
BranchBuilder = Callable[[Gate, Sequence[Value], Value], tuple[Sequence[Value], list[Node]]]


@final
class LoweredPart:
    """A graph whose nodes are put into the flat graph.

    Args:
        flat: the flat graph.
        graph: the graph to lower.
        operands: the values of its inputs.
        path: the frame path of its nodes.
        before: the nodes that its effects wait for.

    Attributes:
        effects: the nodes to wait for so that its effects have happened.
    """

    def __init__(
        self, flat: FlatGraph, graph: Graph, operands: Sequence[Value], path: Gate,
        before: Sequence[Node] = (),
    ) -> None:  # fmt: skip
        self.flat = flat
        self.source = graph
        self.path = path
        self.before = tuple(before)
        self.values: dict[Value, Value] = dict(zip(graph.inputs, operands, strict=True))
        self.sizes = sizes_of(graph, operands, flat)
        self.done: dict[Node, tuple[Node, ...]] = {}
        self.effects: list[Node] = []

    def run(self) -> list[Value]:
        """Append the nodes; returns the values of the outputs."""
        for node in self.source.nodes:
            inputs = [self.values[v] for v in node.inputs]
            after = [d for n in node.control_inputs for d in self.done[n]]
            pure = is_pure(node)
            if not pure:
                after += self.before
            if node.op == "call":
                outputs = self.call(node, inputs, after)
            elif is_control(node.op) and not self.flat.whole(node):
                make = self.branches if "branches" in node.attrs else self.loop
                outputs = make(node, inputs, after)
            else:
                outputs = self.plain(node, inputs, after, pure)
            self.values.update(zip(node.outputs, outputs, strict=True))
        return [self.values[v] for v in self.source.outputs]

    def teller(self, name: str) -> Value | None:
        """A value whose shape gives a size, of this part or an enclosing one."""
        return first_teller(name, self.values.values()) or self.path.teller(name)

    # --- nodes ---

    def add(
        self, op: str, inputs: Sequence[Value], types: Sequence[ValueType],
        attrs: Mapping[str, Any] | None = None, after: Sequence[Node] = (), *,
        name: str = "", pure: bool = True, path: Gate | None = None, **rest: Any,
    ) -> Node:  # fmt: skip
        """Append a node, which waits for its path to be reached."""
        path = path or self.path
        graph = self.flat.graph
        waits = list(after)
        if not pure or path.loose.issuperset(inputs):
            pivot = path.pivot(graph)
            waits += [pivot] if pivot is not None else []
        before = tuple(dict.fromkeys(waits))
        made = graph.add_node(
            op, inputs, types, attrs, name or op.lower(), control_inputs=before, **rest
        )
        if op == "constant":  # its readers hold it themselves, wherever they are
            path.loose.update(made.outputs)
        return made

    def plain(
        self, node: Node, inputs: Sequence[Value], after: Sequence[Node], pure: bool
    ) -> tuple[Value, ...]:
        attrs = {k: in_sizes(v, self.sizes) for k, v in node.attrs.items()}
        types = [in_sizes(v.type, self.sizes) for v in node.outputs]
        made = self.add(
            node.op, inputs, types, attrs, after, pure=pure,
            devices=[v.stated for v in node.outputs],
            name=node.name, reuses=node.reuses, device=node.device, because=node.because,
            scope=node.scope, source=node.source,
        )  # fmt: skip
        self.done[node] = (made,)
        if not pure:
            self.effects.append(made)
        return made.outputs

    def call(self, node: Node, inputs: Sequence[Value], after: Sequence[Node]) -> Sequence[Value]:
        part = LoweredPart(self.flat, node.attrs["body"], inputs, self.path, after)
        outputs = part.run()
        self.effects += part.effects
        ends = [v.node for v in outputs if v.node is not None and v.node.op != "Switch"]
        self.done[node] = tuple(dict.fromkeys([*part.effects, *ends])) or tuple(after)
        return outputs

    def branches(
        self, node: Node, inputs: Sequence[Value], after: Sequence[Node]
    ) -> Sequence[Value]:
        graphs = node.attrs["branches"]
        types = [in_sizes(v.type, self.sizes) for v in node.outputs]
        used = set[int]().union(*(used_inputs(g) for g in graphs))
        outputs, end = self.select(
            inputs, used, [self.builder(g) for g in graphs], types, after, node
        )
        self.done[node] = (*[v.node for v in outputs if v.node is not None], *end)
        self.effects += end
        return outputs

    def loop(self, node: Node, inputs: Sequence[Value], after: Sequence[Node]) -> Sequence[Value]:
        return self.flat.loop(self, node, inputs, after)

    def builder(self, graph: Graph) -> BranchBuilder:
        def build(
            path: Gate, operands: Sequence[Value], chosen: Value
        ) -> tuple[Sequence[Value], list[Node]]:
            part = LoweredPart(self.flat, graph, operands, path)
            return part.run(), part.effects

        return build

    def select(
        self, inputs: Sequence[Value], used: set[int], builders: Sequence[BranchBuilder],
        types: Sequence[ValueType], after: Sequence[Node], node: Node,
        path: Gate | None = None,
    ) -> tuple[list[Value], list[Node]]:  # fmt: skip
        """Append branches, of which the first of ``inputs`` chooses one.

        Args:
            inputs: the predicate, then the operands of the branches.
            used: the indices of the operands that some branch uses.
            builders: make the branches.
            types: of the results.
            after: the nodes that effects in the branches wait for.
            node: the node whose source line and scope the nodes get.
            path: the frame path around the branches.

        Returns:
            The results, and a node to wait for if there are effects.
        """
        predicate, *operands = inputs
        source, count, pure = node.source, len(builders), is_pure(node)
        switches: dict[Value, Node] = {}

        def switched(value: Value, after: Sequence[Node] = (), pure: bool = True) -> Node:
            if value not in switches:
                switches[value] = self.add(
                    "Switch", (value, predicate), [value.type] * count, after=after, path=path,
                    source=source, scope=node.scope, pure=pure,
                )  # fmt: skip
            return switches[value]

        around = self.teller if path is None else path.teller
        token = switched(predicate, after, pure)
        results, ends = list[Sequence[Value]](), list[tuple[Value, list[Node]]]()
        for i, build in enumerate(builders):
            given = [switched(v).outputs[i] if j in used else v for j, v in enumerate(operands)]
            chosen = token.outputs[i]
            outputs, effects = build(Gate(gate=chosen, teller=around), given, chosen)
            results.append(outputs)
            ends.append((chosen, effects))
        merged = [
            self.add("Merge", values, [kind], source=source, scope=node.scope).outputs[0]
            for values, kind in zip(zip(*results, strict=True), types, strict=True)
        ]
        if not any(effects for _, effects in ends):
            return merged, []
        last = [
            self.add("Identity", [v], [v.type], after=effects, name="end").outputs[0]
            for v, effects in ends
        ]
        return merged, [self.add("Merge", last, [predicate.type], name="end", source=source)]
