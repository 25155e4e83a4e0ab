"""`move`: moves variables to another device, between steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from math import prod
from typing import Any, Final, NamedTuple

from eagerflow.core import tree
from eagerflow.core.interpreter import is_traced
from eagerflow.core.tensor import Tensor
from eagerflow.errors import DeviceError, PlacementError, hides_frames
from eagerflow.function.lookup.lookup import forget_moved
from eagerflow.graph.placement_reasons import resource_text
from eagerflow.hardware import Device, as_device, copied, devices, memory, out_of_memory
from eagerflow.ops.state.variables import Variable
from eagerflow.placement.constraints import holds_data
from eagerflow.placement.rules import here
from eagerflow.resources.variable import VariableState, in_order

_TAKES: Final = "variables, modules, optimisers, or trees of them"
_PLAIN: Final = (bool, int, float, complex, str, bytes, type(None))


class _Held(NamedTuple):
    """A variable that a tree holds.

    Attributes:
        path: of the variable in the tree.
        state: the state of the variable.
    """

    path: str
    state: VariableState


@hides_frames
def move(tree: object, device: Device | str) -> None:
    """Move variables to a device, between steps.

    Their values stay the same. The state that an optimiser keeps for a parameter moves with it, and
    the parameters of an optimiser with the optimiser. Traced functions that use the variables are
    traced again at their next call, since the devices of their ops may differ.

    Tensors are values and do not move; ``x.to(device)`` gives another tensor. Queues and other
    resources stay where they were made. A generator has no device: random numbers are drawn where
    ops run.

    Args:
        tree: a variable, a module, an optimiser, or a tree of these.
        device: the target.

    Raises:
        PlacementError: there is no such device, the variables exceed its limit, or a leaf of
            ``tree`` is no variable. Then none was moved.
        OutOfMemoryError: the device has too much other data to hold them. None was moved.

    >>> v = ef.Variable([1.0, 2.0])
    >>> with ef.config(cpu_devices=2):
    ...     ef.move({"w": v}, "cpu:1")
    ...     v
    Variable([1., 2.], f32[2]@cpu:1)
    """
    if is_traced():
        raise PlacementError(
            "move: variables move between steps, not in a traced function",
            given=f"a move to {device}",
            hint="call ef.move outside, before or after the step",
        )
    target = _target(device)
    held = list(_variables(tree))
    if not held:
        raise PlacementError("move: there is no variable", given=repr(tree), expected=_TAKES)
    states = in_order(s for one in held for s in (one.state, *(one.state.companions or ())))
    states = [state for state in states if state.device is not target]
    _check(held, states, target)
    with ExitStack() as locks:
        for state in states:
            locks.enter_context(state.lock)
        try:
            data = [copied(state.array(), state.device, target) for state in states]
        except MemoryError as error:
            raise out_of_memory("move", target, error) from None
        for state, there in zip(states, data, strict=True):
            state.move(there, target.lanes[state.dtype])
    if states:
        names = list(dict.fromkeys(resource_text(state) for state in states))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        forget_moved(states, f"{names[0]}{more} moved to {target}")


def _target(device: Any) -> Device:
    if device is None or (isinstance(device, str) and "*" in device):
        raise PlacementError(
            "move: the target is not one device", given=repr(device), expected=f"one of {here()}"
        )
    try:
        return as_device(device)
    except DeviceError as error:
        raise PlacementError(
            f"move: {error.wrong}", given=error.given or repr(device), expected=f"one of {here()}",
            hint=error.hint,
        ) from None  # fmt: skip


def _variables(given: Any) -> Iterator[_Held]:
    leaves, treedef = tree.flatten(given)
    for leaf, path in zip(leaves, tree.paths(treedef), strict=True):
        state = getattr(leaf, "state", None)
        if isinstance(leaf, Variable):
            yield _Held(path, leaf.resource)
        elif isinstance(state, Mapping) and not isinstance(leaf, Tensor):
            for name, value in state.items():
                if isinstance(value, Variable):
                    yield _Held(f"{path}.{name}", value.resource)
        elif not isinstance(leaf, _PLAIN):
            raise _no_variable(leaf, path)


def _no_variable(leaf: Any, path: str) -> PlacementError:
    kind = type(leaf).__name__
    is_tensor = isinstance(leaf, Tensor)
    hint = None
    if is_tensor:
        hint = "values do not change: x.to(device) gives another one"
    elif getattr(leaf, "resource", None) is not None:
        hint = f"it stays where it was made; make another {kind} for elements there"
    return PlacementError(
        f"move: {_article(kind)} cannot be moved",
        given=f"tree{path} is {leaf.type if is_tensor else _article(kind)}",
        expected=_TAKES,
        hint=hint,
    )


def _article(kind: str) -> str:
    return f"{'an' if kind[:1] in 'AEIO' else 'a'} {kind}"


def _check(held: Iterable[_Held], states: Iterable[VariableState], target: Device) -> None:
    """Refuse moves that lose values, take shared variables, or exceed the limit of a device.

    Raises:
        PlacementError: the move would do one of these.
    """
    paths = {one.state: one.path for one in held}
    need = 0
    for state in states:
        need += prod(state.shape) * state.dtype.itemsize
        if state.is_shared:
            raise PlacementError(
                f"move: {resource_text(state)} is in a container that other clients share",
                given=_told(paths.get(state), state),
                hint="assign its value to another variable",
            )
        if holds_data(state.device) and not holds_data(target):
            raise PlacementError(
                f"move: {target} holds no values, so {resource_text(state)} would lose its own",
                given=_told(paths.get(state), state),
                expected=f"one of {here()}",
            )
    if not _has_room(target, need):
        first = next(iter(states))
        raise PlacementError(
            f"move: the variables take {need:,} bytes, and {target} may hold "
            f"{memory(target).limit:,}",
            given=_told(paths.get(first), first),
            expected=f"one of {here([d for d in devices() if _has_room(d, need)])}",
        )


def _has_room(device: Device, need: int) -> bool:
    limit = memory(device).limit
    return limit is None or need <= limit


def _told(path: str | None, state: VariableState) -> str:
    made = "" if state.made is None else f", made at {state.made}"
    if path is None:  # moved along with another variable
        return f"{state!r}{made}"
    return f"tree{path} is {state!r}{made}"
