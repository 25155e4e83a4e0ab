"""Lowering: branches and loops as nodes that steer tokens, so that they can be cut in pieces.

After Yu et al., "Dynamic Control Flow in Large-Scale Machine Learning" (EuroSys 2018). A lowered
graph has no subgraphs for what was lowered; these nodes take their place:

- ``Switch(value, predicate)`` gives the value at one of its outputs, for a bool the first if it is
  true; the tokens at the other outputs are *dead*.
- ``Merge(value, …)`` gives the input that is not dead. In a loop it has one input and the attribute
  ``back``, the name of the ``NextIteration`` that gives its value in later iterations.
- ``Enter(value) {frame=…, loop=…}`` takes a value into a loop, for its first iteration, or for all
  iterations if it is ``invariant``; ``Exit(value)`` takes a value out. The frame is one activation
  of the loop, whose op and name are in ``loop``: a loop in a graph that is called twice has two
  frames. The length of a reversed scan is marked ``backwards``, as its iterations are counted from
  the end.
- ``NextIteration(value)`` takes a value to the next iteration.
- ``Identity(value)`` waits for control edges, or is the node that they start from.
- ``Slice(values, iteration)`` is one element along the first axis.

Effects keep their order: an effect in a branch waits for the branch to be taken, and a loop with
effects carries the number of the iteration, for which its effects wait, so that the effects of an
iteration come after all effects of the iteration before.
"""

from __future__ import annotations

from collections.abc import Callable

from eagerflow.graph.edit import devices_in
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.lowering.flat import FlatGraph, Gate
from eagerflow.graph.lowering.lowered_loops import lower_loop
from eagerflow.graph.lowering.parts import LoweredPart
from eagerflow.graph.lowering.steering import is_steering
from eagerflow.graph.passes.rewrite import is_pure
from eagerflow.graph.signatures import kind_of

__all__ = ["is_on_one_device", "is_steering", "is_whole", "lower"]


def is_whole(node: Node) -> bool:
    """Whether ``node`` should stay one node: it is pure, and lies on one device."""
    return is_pure(node) and is_on_one_device(node)


def is_on_one_device(node: Node) -> bool:
    """Whether ``node``, with its subgraphs, is on one device."""
    return len(devices_in([node])) <= 1


def lower(graph: Graph, whole: Callable[[Node], bool] = is_whole) -> Graph:
    """The graph with branches and loops lowered, and calls inlined; itself if it has none.

    Args:
        graph: the graph. It stays as it is.
        whole: predicate of the ``cond``, ``switch``, ``while_loop`` and ``scan`` nodes to keep.

    >>> from eagerflow.graph.lowering import lower
    >>> graph = ef.Graph.parse('''
    ...     graph halve(%x: f32[]@cpu:0) {
    ...       %y = while_loop(%x) {
    ...         cond=graph (%x: f32[]@cpu:0) { %p = isfinite(%x) : bool[]@cpu:0 return %p },
    ...         body=graph (%x: f32[]@cpu:0) { %z = exp(%x) : f32[]@cpu:0 return %z }
    ...       } : f32[]@cpu:0
    ...       return %y
    ...     }''')
    >>> print(lower(graph, whole=lambda node: False))
    graph halve(%x: f32[]@cpu:0) {
      %enter = Enter(%x) {frame="while_loop", loop=("while_loop", "y"), ...} : f32[]@cpu:0
      %merge = Merge(%enter) {back="next"} : f32[]@cpu:0
      %p = isfinite(%merge) : bool[]@cpu:0
      %switch.0, %switch.1 = Switch(%merge, %p) : f32[]@cpu:0, f32[]@cpu:0
      %z = exp(%switch.0) : f32[]@cpu:0
      &next: NextIteration(%z)
      %exit = Exit(%switch.1) : f32[]@cpu:0
      return %exit
    }
    """
    if not any(_is_opened(node, whole) for node in graph.nodes):
        return graph
    flat = FlatGraph(graph.name, whole, lower_loop)
    flat.graph.resources = dict(graph.resources)
    operands = [flat.graph.add_input(v.type, v.name, v.device) for v in graph.inputs]
    part = LoweredPart(flat, graph, operands, Gate())
    flat.graph.outputs = part.run()
    return flat.graph


def _is_opened(node: Node, whole: Callable[[Node], bool]) -> bool:
    """Whether lowering replaces a node by others."""
    kind = kind_of(node.op)
    return kind == "call" or (kind in ("branches", "loop") and not whole(node))
