"""Constant folding: nodes with constant inputs are computed once, when the graph is optimised."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, Final, final

from eagerflow.core.interpreter import BASE, use
from eagerflow.core.op import bind, functions, get_op
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import as_tensor
from eagerflow.dims import Dim
from eagerflow.graph.edit import flat_items
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.number_ops import NUMBER_OPS
from eagerflow.graph.passes.rewrite import Form, Report, Rewriter, is_pure, shown
from eagerflow.graph.text.constants import has_values
from eagerflow.graph.value_types import NumberType, Reference, ValueType
from eagerflow.hardware import Device, as_device
from eagerflow.types import LIST, TensorType

#: bytes that a constant may have even if it is larger than its inputs
_LIMIT: Final = 1 << 12
#: bits of the integers up to which powers are folded
_BITS: Final = 1 << 10


def fold(graph: Graph) -> tuple[Graph, Report]:
    """Run pure nodes whose inputs are all constants, on their device, and keep the results.

    Nodes are left as they are if their result is large and larger than their inputs together, if
    they raise, have unknown sizes or attributes, wait for other nodes, or are on devices of another
    process or without data.
    """
    rewriter = Rewriter("fold", graph)
    constants: dict[Value, Any] = {}
    xp = as_device("cpu:0").xp
    with use(BASE), xp.errstate(all="ignore"):
        for node in graph.nodes:
            if node.op == "constant":
                value = node.attrs.get("value")
                if node.outputs and not node.control_inputs and not isinstance(value, Reference):
                    constants[node.outputs[0]] = value
                continue
            if node.attrs:
                rewriter.inside(node, fold)
            inputs = node.inputs
            if all(v in constants for v in inputs):
                _fold_node(node, [constants[v] for v in inputs], rewriter, constants)
    return rewriter.finish()


def _fold_node(
    node: Node, inputs: list[Any], rewriter: Rewriter, constants: dict[Value, Any]
) -> None:
    if not node.outputs or node.control_inputs or node in rewriter.forms:
        return
    types = [v.type for v in node.outputs]
    if not _is_small(types, inputs) or not all(
        _is_known(v) for v in flat_items(node.attrs.values())
    ):
        return
    if not is_pure(node) or next(node.subgraphs(), None) is not None:
        return
    try:
        results = list(_run(node, inputs))
    except Exception:  # the step raises it again, at the user's line
        return
    if len(results) != len(types) or not all(map(_has_type, results, types)):
        return
    constants.update(zip(node.outputs, results, strict=True))
    forms = [Form("constant", (), {"value": result}) for result in results]
    rewriter.put(node, forms, f"computed {shown(node)} = {node.op}")


def _is_small(types: Iterable[ValueType], inputs: Iterable[Any]) -> bool:
    size = 0
    for kind in types:
        if isinstance(kind, TensorType):
            if any(type(d) is not int for d in kind.shape):
                return False
            if kind.dtype is LIST:  # a constant list has no text
                return False
            size += prod(kind.shape) * kind.dtype.itemsize
    return size <= _LIMIT or size <= sum(x.nbytes for x in inputs if isinstance(x, Tensor))


def _is_known(value: Any) -> bool:
    return type(value) is not Dim and not isinstance(value, Reference)


# --- running one node -------------------------------------------------------------------------


@final
class _NotHereError(Exception):
    """Raised for a value on a device of another process, or without data."""


def _run(node: Node, inputs: list[Any]) -> Iterable[Any]:
    op = node.op
    if op == "python_size":
        return [node.attrs["size"]]
    if op == "python_tensor":
        (value,) = node.outputs
        assert isinstance(value.type, TensorType)
        return [as_tensor(inputs[0], value.type.dtype, _device(value))]
    number = NUMBER_OPS.get(op)
    if number is not None and not number.compares:
        if number.widens:
            _check_power(*inputs)
        return [number.function(*inputs)]
    tensors = [_at(x, v) for x, v in zip(inputs, node.inputs, strict=True)]
    result: Any = bind(get_op(op), *tensors, **node.attrs)
    results = result if type(result) is tuple else (result,)
    if not all(has_values(x) for x in results):
        raise _NotHereError
    return results


def _check_power(base: Any, exponent: Any) -> None:
    if type(base) is int and type(exponent) is int and exponent * base.bit_length() > _BITS:
        raise OverflowError


def _at(constant: Any, value: Value) -> Tensor:
    """A constant, moved to the device of the value that it stands for."""
    if not isinstance(constant, Tensor) or not has_values(constant):
        raise _NotHereError
    device = _device(value)
    return constant if constant.device is device else functions["to_device"](constant, device)


def _device(value: Value) -> Device:
    given = value.device
    device = as_device("cpu:0") if given is None else given
    if type(device) is not Device or not device.holds_data:
        raise _NotHereError
    return device


def _has_type(result: Any, kind: ValueType) -> bool:
    if isinstance(kind, NumberType):
        return type(result) is kind.kind
    return isinstance(result, Tensor) and result.dtype is kind.dtype and result.shape == kind.shape
