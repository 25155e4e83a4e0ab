"""The reason of a node's placement, in words.

A placement notes its reasons in the nodes that it puts elsewhere. Of all others the reason follows
from the graph, so it is found when somebody asks for it. Of a value, `device_text` says it.
"""

from __future__ import annotations

from typing import Any, Final

from eagerflow.graph.devices import device_text
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.signatures import is_transfer, kind_of, lead_of
from eagerflow.graph.value_types import NumberType
from eagerflow.resources.kind_words import class_of, kind_name

_STATE: Final = "where its state is"
_OPERANDS: Final = "where its operands are"


def reason_of(node: Node) -> str:
    """The reason why ``node`` runs on its device."""
    if node.because:
        forward = node.forward
        if forward is None:
            return node.because
        return f"{node.because}, as for &{forward.name}, of whose derivative it is part"
    general = general_reason(node)
    if isinstance(node.leeway, Value):
        return general
    detail = _detail(node, _general(node))
    return f"{general}: {detail}" if detail else general


def general_reason(node: Node) -> str:
    """The reason in words that many nodes share, found without a look at the rest of the graph."""
    reason, leeway = _general(node), node.leeway
    if node.because or leeway is None:
        return reason
    if isinstance(leeway, Value):
        return f"colocated with %{leeway.name}"
    return f"{reason}, as the scope {leeway} leaves it open"


def _general(node: Node) -> str:
    if node.because:
        return node.because
    kind = kind_of(node.op)
    if "edge" in node.attrs:
        sends = lead_of(node.op) == "send"
        return "where the value it sends is" if sends else "where the value it receives is needed"
    if node.outputs and all(isinstance(v.type, NumberType) for v in node.outputs):
        return "numbers are in the memory of the host"
    if kind in ("call", "branches", "loop"):
        return "where the nodes in it run"
    if is_transfer(node.op):
        return "moves a value"
    if getattr(node.attrs.get("resource"), "device", None) is not None:
        return _STATE
    if kind != "constant" and (scope := _scope_of(node)):
        return scope
    if any(v.device is not None for v in node.inputs):
        return _OPERANDS
    if node.device is None:
        return "the graph does not say where: its inputs decide it when it runs"
    if kind == "number":
        return "made of numbers where the program says"
    if kind == "constant":
        return "a constant, of which each device that needs it has a copy"
    return "made where the program says"


def _scope_of(node: Node) -> str:
    """The device scope that says where a node runs, in words; empty if none does, or a pattern."""
    if isinstance(node.within, str):
        return node.within
    forward = node.forward
    if forward is None or forward.device != node.device or not isinstance(forward.within, str):
        return ""
    return f"{forward.within}, as for the op whose derivative it is part of"


def _detail(node: Node, general: str) -> str:
    if general == _OPERANDS:
        return _operand_text(next(v for v in node.inputs if v.device is not None))
    if general == _STATE:
        resource = node.attrs["resource"]
        return f"{resource_text(resource)} on {resource.device}"
    if "edge" in node.attrs:
        return str(node.attrs["edge"])
    if is_transfer(node.op):
        (value,) = node.inputs
        return f"%{value.name}, from {value.device} to {node.outputs[0].device}"
    return ""


def _operand_text(value: Value) -> str:
    """The device of an operand, and its reason; for a moved operand the value that was moved.

    A reader of a table of ops does not see the node that moves it.
    """
    maker = value.node
    if maker is None or not is_transfer(maker.op):
        return device_text(value)
    first = value
    while first.node is not None and is_transfer(first.node.op):
        first = first.node.inputs[0]
    by = "" if maker.source is None else f", by {maker.source}"
    return f"%{first.name} moved to {value.device}{by}"


def resource_text(resource: Any) -> str:
    """The kind and name of a resource, in the words of users."""
    name = getattr(resource, "name", None)
    text = f"the {kind_name(class_of(resource))}"
    return text if name is None else f"{text} {name!r}"
