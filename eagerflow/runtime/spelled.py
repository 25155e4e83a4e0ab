"""Ops that programs spell out, since a call of their kernel would cost more than what it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eagerflow.graph.ir import Node
from eagerflow.resources.variable import VariableState
from eagerflow.types import TensorType
from eagerflow_kernels.portable import elementwise, shape, state
from eagerflow_kernels.table import Kernel

__all__ = ["spelled"]


def spelled(
    kernel: Kernel, node: Node, operands: Sequence[str], types: Sequence[TensorType],
    bound: Callable[[Any, str], str],
) -> tuple[str, str] | None:  # fmt: skip
    """The expression that does what the kernel does, and what it has to stand under.

    None if there is none, which is so for every kernel but the one that comes with the op.

    Args:
        kernel: what runs the node.
        node: the node.
        operands: the expressions of its inputs.
        types: their types.
        bound: names an object.
    """
    known = getattr(kernel, "func", None)
    if known is shape.permute_dims:
        return f"{operands[0]}.transpose({node.attrs['axes']!r})", ""
    if known is shape.unstack and node.attrs["axis"] == 0 and node.outputs:
        return ", ".join([f"{operands[0]}[{i}, ...]" for i in range(len(node.outputs))]), ""
    if known is elementwise.cast and types[0].dtype.dtype.kind != "c":
        dtype = node.attrs["dtype"].dtype
        return f"{operands[0]}.astype({bound(dtype, 'dtype')})", ""
    variable = node.attrs.get("resource")
    if known is state.read and type(variable) is VariableState:
        lock = bound(variable.lock, "lock")
        return f"{bound(variable, 'variable')}._data[...]", f"with {lock}: "
    return None
