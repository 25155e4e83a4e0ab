"""The layer that each node works for: in the forward pass, in derivatives and in updates alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from eagerflow.graph.edit import flat_items
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.passes.rewrite import effect_of

#: stands for several layers, where only one can be named
_SEVERAL: Final = "\0"


def layers_of(graph: Graph, nodes: Sequence[Node], parents: Sequence[int]) -> list[str]:
    """For each node the name scope of the layer that it works for; empty for none, or for several.

    An op of a forward pass is in the layer whose name scope it has. A derivative works for the
    layer of its op. A node that only serves to update variables works for the layer that reads
    them elsewhere: optimisers have scopes of their own, and the cost of a layer includes its
    training.

    Args:
        graph: the graph of the nodes.
        nodes: all its nodes, in subgraphs too, each before the nodes of its subgraphs.
        parents: for each node the number of the node whose subgraph it is in; -1 for none.

    >>> from eagerflow.watching.graph_columns import NodeIndex
    >>> w = ef.Variable(1.0)
    >>> @ef.trace
    ... def step(x):
    ...     with ef.name_scope("net"):
    ...         y = x * w
    ...     with ef.name_scope("update"):
    ...         w.assign(w - 0.1)
    ...     return y
    >>> _ = step(ef.tensor(2.0))
    >>> index = NodeIndex(step.graph(ef.tensor(2.0)))
    >>> [layer for node, layer in zip(index.nodes, index.layers) if node.op == "subtract"]
    ['net']
    """
    layers = _scopes(nodes, parents)
    numbers = {id(node): number for number, node in enumerate(nodes)}
    for number, node in enumerate(nodes):
        of = None if node.forward is None else numbers.get(id(node.forward))
        if of is not None:
            layers[number] = layers[of]
    _Updates(graph, nodes, parents, layers).assign_layers()
    return layers


def _scopes(nodes: Sequence[Node], parents: Sequence[int]) -> list[str]:
    """The name scope of each node, prefixed by the scope of the node whose subgraph it is in."""
    scopes: list[str] = []
    for node, parent in zip(nodes, parents, strict=True):
        outer = scopes[parent] if parent >= 0 else ""
        is_within = not outer or node.scope == outer or node.scope.startswith(f"{outer}/")
        scopes.append(node.scope if is_within else f"{outer}/{node.scope}".rstrip("/"))
    return scopes


@final
class _Updates:
    """The nodes outside subgraphs that only serve to update variables, and their layers."""

    def __init__(
        self, graph: Graph, nodes: Sequence[Node], parents: Sequence[int], layers: list[str]
    ) -> None:
        self._layers = layers
        self._numbers = {
            id(node): number
            for number, node in enumerate(nodes) if parents[number] < 0
        }  # fmt: skip
        self._nodes = graph.nodes
        self._outputs = {id(value.node) for value in graph.outputs if value.node is not None}
        self._resources = {id(resource) for resource in graph.resources.values()}
        self._users: dict[int, list[Node]] = {}
        for node in graph.nodes:
            for value in node.inputs:
                if value.node is not None:
                    self._users.setdefault(id(value.node), []).append(node)

    def assign_layers(self) -> None:
        """Give each updating node the layer that it works for, in place of its scope."""
        updating = self._updating()
        homes: dict[int, str] = {}
        for node in self._nodes:
            if id(node) not in updating:
                for resource in self._used(node):
                    homes.setdefault(resource, self._layer(node))
        served: dict[int, str] = {}
        for node in reversed(self._nodes):
            if id(node) in updating:
                written = [homes[r] for r in self._used(node) if r in homes]
                served[id(node)] = _one(
                    [*written, *(served.get(id(u), "") for u in self._users.get(id(node), ()))]
                )
        for node in self._nodes:
            if id(node) in updating:
                # no layer reads an optimiser's state, but the value assigned to it is of a layer
                made = _one(self._layer(v.node) for v in node.inputs if v.node is not None)
                layer = served[id(node)] or made
                self._layers[self._numbers[id(node)]] = "" if layer == _SEVERAL else layer

    def _updating(self) -> set[int]:
        """The nodes from which some write is reached, but no derivative and no output."""
        updates: set[int] = set()
        for node in reversed(self._nodes):
            users = self._users.get(id(node), ())
            writes = effect_of(node) == "writes" or bool(users)
            serves = all(id(user) in updates for user in users)
            if node.forward is None and id(node) not in self._outputs and writes and serves:
                updates.add(id(node))
        return updates

    def _used(self, node: Node) -> Iterator[int]:
        for item in flat_items(node.attrs.values()) if node.attrs else ():
            if id(item) in self._resources:
                yield id(item)

    def _layer(self, node: Node) -> str:
        number = self._numbers.get(id(node))
        return "" if number is None else self._layers[number]


def _one(layers: Iterable[str]) -> str:
    """The only layer among ``layers``; `_SEVERAL` for several, and empty for none."""
    known = {layer for layer in layers if layer}
    return known.pop() if len(known) == 1 else _SEVERAL if known else ""
