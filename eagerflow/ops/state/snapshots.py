"""Snapshots: the values of several variables at one instant."""

from __future__ import annotations

from typing import Any, Final

from eagerflow.core import tree
from eagerflow.core.op import bind
from eagerflow.errors import VariableError
from eagerflow.formatting import kind_of
from eagerflow.hardware import Device
from eagerflow.ops.rules.type_rules import effect_op
from eagerflow.ops.state.variables import Variable
from eagerflow.resources.variable import VariableGroup, VariableState
from eagerflow.types import TensorType

__all__ = ["snapshot"]


def _types(*, resource: VariableGroup, device: Device | None = None) -> tuple[TensorType, ...]:
    return tuple([TensorType(s.dtype, s.shape) for s in resource.states])


def _devices(*, resource: VariableGroup, device: Device | None = None) -> tuple[Device, ...]:
    return tuple([s.device for s in resource.states])


_snapshot: Final = effect_op(
    "snapshot", VariableGroup, _types, "fence", devices=_devices, outputs=None
)


def snapshot(variables: object) -> Any:
    """The values of several variables at one instant, consistent under concurrent assignments.

    Separate reads may see values of different moments. A group of assignments may be seen in part,
    unless it and the snapshot are in sections of one `eagerflow.Mutex`.

    To derivatives the values are constants.

    Args:
        variables: a tree of variables.

    Returns:
        A tree of tensors, each on the device of its variable.

    Raises:
        VariableError: a leaf of the tree is no variable.

    >>> a, b = ef.Variable(1.0), ef.Variable([2.0, 3.0])
    >>> ef.snapshot({"a": a, "b": b})
    {'a': Tensor(1., f32[]@cpu:0), 'b': Tensor([2., 3.], f32[2]@cpu:0)}
    """
    leaves, treedef = tree.flatten(variables)
    for leaf in leaves:
        if not isinstance(leaf, Variable):
            raise VariableError("snapshot: an argument is not a variable", given=kind_of(leaf))
    states = [leaf.resource for leaf in leaves]
    if not states:
        return variables
    groups: dict[bool, list[VariableState]] = {}  # variables without values are grouped apart
    for state in dict.fromkeys(states):
        groups.setdefault(state.device.holds_data, []).append(state)
    value_of: dict[VariableState, Any] = {}
    for group in groups.values():
        values = bind(_snapshot, resource=VariableGroup(group), device=group[0].device)
        value_of.update(zip(group, values, strict=True))
    return tree.unflatten(treedef, [value_of[state] for state in states])
