"""Why a node runs where it does, in words.

A placement notes its reasons in the nodes that it puts elsewhere. Of all others the reason follows
from the graph, so it is found when somebody asks for it.
"""

from __future__ import annotations

from typing import Any

from eagerflow.core.op import find_op
from eagerflow.graph.devices import decision
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.signatures import kind_of
from eagerflow.resources.kinds import kind_name


def reason_of(node: Node) -> str:
    """Why ``node`` runs on its device."""
    if node.because:
        return node.because
    kind = kind_of(node.op)
    if kind == "number":
        return "numbers are in the memory of the host"
    if kind in ("call", "branches", "loop"):
        return "where the nodes in it run"
    op = find_op(node.op)
    if op is not None and op.moves:
        return _of_move(node)
    resource = node.attrs.get("resource")
    if getattr(resource, "device", None) is not None:
        return f"where its state is: {resource_text(resource)} on {resource.device}"  # type: ignore[union-attr]
    operand = next((v for v in node.inputs if v.device is not None), None)
    if operand is not None:
        return f"where its operands are: {_decided(operand)}"
    if node.device is None:
        return "the graph does not say where: its inputs decide it when it runs"
    if kind == "constant":
        return f"made for {node.device}; a copy is made for each other device that needs it"
    return f"made on {node.device}, as the program says"


def resource_text(resource: Any) -> str:
    """A resource in the words of users."""
    name = getattr(resource, "name", None)
    text = f"the {kind_name(type(resource))}"
    return text if name is None else f"{text} {name!r}"


def _of_move(node: Node) -> str:
    (value,) = node.inputs
    return f"moves %{value.name} from {value.device} to {node.outputs[0].device}"


def _decided(value: Value) -> str:
    """Where a value is, and what decided it."""
    text = f"%{value.name} on {value.device}"
    origin = decision(value)
    node = origin.node
    if node is None:
        which = "which is an input" if origin is value else f"as the input %{origin.name}"
        return f"{text}, {which}"
    if node.because:
        return f"{text}{'' if origin is value else f', as %{origin.name}'} ({node.because})"
    where = "" if node.source is None else f" at {node.source}"
    made = "made there" if origin is value else f"as %{origin.name}, made there"
    return f"{text}, {made}{where}"
