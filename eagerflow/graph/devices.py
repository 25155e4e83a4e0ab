"""Where nodes and values are: what follows from the rules of ops, and which line decided it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from eagerflow.core.op import get_op, infer_devices
from eagerflow.errors import EagerflowError
from eagerflow.graph.ir import Node, Value
from eagerflow.graph.kinds import Reference
from eagerflow.graph.signatures import signatures

__all__ = ["STRUCTURED", "decision", "is_derivable", "settle", "split_places"]

#: nodes whose operands may be on several devices: what is in their subgraphs says where each is
STRUCTURED: Final = frozenset({"call", "cond", "scan", "switch", "while_loop"})


def split_places(where: Any, devices: Sequence[Any], attrs: dict[str, Any]) -> tuple[Any, Any]:
    """What a device rule gives, as the device of the node and those that its outputs state.

    An op that says where each output is runs where its inputs are.

    Args:
        where: a device, or a tuple with one for each output.
        devices: of the inputs.
        attrs: the attributes of the op.
    """
    if not isinstance(where, tuple):
        return where, None
    return (_first(devices) if devices else attrs.get("device")), where


def settle(node: Node, said: Sequence[Any], on: Any) -> None:
    """Put a node that was read where its text says, or else where the rule of its op does.

    Args:
        node: the node.
        said: for each output what stands behind its type, None where nothing does.
        on: what stands behind ``on``, which wins.
    """
    operands = [v.device for v in node.inputs]
    device, stated = split_places(_rule(node, operands), operands, node.attrs)
    if stated is not None:
        node.device = on if on is not None or node.op in STRUCTURED else device
        for value, own, place in zip(node.outputs, said, stated, strict=False):
            value.stated = place if own is None else own
        return
    node.device = next((d for d in (on, *said, device) if d is not None), None)
    for value, own in zip(node.outputs, said, strict=True):
        value.stated = own if on is None and own not in (None, node.device) else None


def is_derivable(node: Node) -> bool:
    """Whether the text of a node without ``on`` says where it is."""
    if node.device is None or any(v.stated is None and v.device is not None for v in node.outputs):
        return True
    operands = [v.device for v in node.inputs]
    return bool(split_places(_rule(node, operands), operands, node.attrs)[0] == node.device)


def decision(value: Value) -> Value:
    """The value by whose device it was decided where ``value`` is.

    It is an input of the graph, or made by a node that was not put where its operands are: one
    that makes or moves a tensor, takes it from state, or was placed.
    """
    while value.node is not None and value.stated is None and not value.node.reason:
        before = next((v for v in value.node.inputs if v.device is not None), None)
        if before is None:
            break
        value = before
    return value


def _rule(node: Node, operands: Sequence[Any]) -> Any:
    """What the rule of the op gives; where it gives nothing, what holds for most ops."""
    if node.op in STRUCTURED:
        return tuple(_results(node, _first(operands)))
    attrs = {key: _named(value) for key, value in node.attrs.items()}
    if node.op not in signatures and not any(type(v) is Reference for v in attrs.values()):
        try:
            return infer_devices(get_op(node.op), operands, attrs)
        except (EagerflowError, TypeError, AttributeError):  # `verify` says what is wrong
            pass
    found = _first(operands)
    return attrs.get("device") if found is None else found


def _named(item: Any) -> Any:
    """A device that this process lacks by its name."""
    return item.name if type(item) is Reference and item.kind == "device" else item


def _results(node: Node, otherwise: Any) -> Iterator[Any]:
    """Where the subgraphs give the outputs."""
    bodies = [graph for key, graph in node.subgraphs() if key in ("body", "branches[0]")]
    outputs = bodies[0].outputs if bodies else []
    for i in range(len(node.outputs)):
        found = outputs[i].device if i < len(outputs) else None
        yield otherwise if found is None else found


def _first(devices: Iterable[Any]) -> Any:
    return next((d for d in devices if d is not None), None)
