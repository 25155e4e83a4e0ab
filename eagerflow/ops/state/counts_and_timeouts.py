"""How many, and for how long: the counts and timeouts of ops that may have to wait.

What is known before the graph runs is an attribute. What only the run tells is an input: the count
first of all, the timeout last of all; attributes say which of them are there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any, Final, Unpack

from eagerflow.core.op import Op, bind
from eagerflow.core.op_records.op_facts import OpFacts, Positions
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.to_tensor import as_tensor
from eagerflow.dims import Dim, unknown
from eagerflow.dims.number_stand_ins import AbstractAsked
from eagerflow.errors import (
    CancelledError,
    DTypeError,
    QueueClosedError,
    TraceError,
    WaitTimeoutError,
)
from eagerflow.hardware import Device
from eagerflow.ops.rules.type_rules import REAL, effect_op, of_state
from eagerflow.resources.requests import check_count, check_seconds
from eagerflow.types import FLOAT64, INT64, TensorType

#: what ops raise that wait for others
WAITING: Final = (QueueClosedError, CancelledError, WaitTimeoutError)


def named(resource: Any) -> str:
    """The name of a resource, as texts of it begin; empty if it has none."""
    return "" if resource.name is None else f"{resource.name!r}, "


def integer(what: str, value: Any) -> int:
    """An option that is an integer.

    Raises:
        DTypeError: it is none.
        TraceError: only the run tells what it is.
    """
    try:
        return index(value)
    except TraceError:
        raise
    except TypeError:
        raise DTypeError(f"{what}: this is no integer", given=repr(value)) from None


def checked_count(what: str, n: Any) -> Any:
    """A number of elements; a size or a tensor that only the run tells stays one.

    Raises:
        TensorValueError: it is negative.
        DTypeError: it is no integer.
    """
    if type(n) is Dim:
        return n
    try:
        count = integer(what, n)
    except TraceError:
        return as_tensor(n, INT64)  # an integer, or another error would have come first
    check_count(what, count)
    return count


def timeout_of(what: str, seconds: Any) -> Any:
    """A timeout as a float; a number or a tensor that only the run tells becomes a tensor.

    Raises:
        TensorValueError: it is negative.
        DTypeError: it is no real number.
    """
    if seconds is None:
        return None
    if type(seconds) is float or type(seconds) is int:
        return check_seconds(what, seconds)
    if issubclass(type(seconds), AbstractAsked):
        return as_tensor(seconds, FLOAT64)
    array = isinstance(seconds, AbstractArray)
    if (seconds.dtype.kind not in REAL or seconds.shape) if array else not _is_real(seconds):
        raise DTypeError(
            f"{what}: this is no number of seconds",
            given=f"timeout={seconds!r}",
            expected="a real number, or a tensor without axes of one",
        )
    try:
        return check_seconds(what, float(seconds))
    except TraceError:
        return as_tensor(seconds, FLOAT64)


def _is_real(value: Any) -> bool:
    return hasattr(type(value), "__float__")


def bind_wait(
    op: Op,
    inputs: list[Tensor],
    device: Device | None,
    timeout: Any,
    count: Any = None,
    **attrs: Any,
) -> Any:
    """Bind an op that may have to wait.

    Args:
        op: the op.
        inputs: what it takes beside the count and the timeout.
        device: of the inputs and results.
        timeout: as `timeout_of` gives it.
        count: as `checked_count` gives it, if the op has one.
        attrs: more attributes.
    """
    if not inputs and count is None and type(timeout) is not Tensor:  # the usual one, fast
        return bind(op, device=device, timeout=timeout, **attrs)
    if type(timeout) is Tensor:
        inputs = [*inputs, as_tensor(timeout, None, device)]
        attrs["timed"] = True
    else:
        attrs["timeout"] = timeout
    if type(count) is Tensor:
        inputs = [as_tensor(count, None, device), *inputs]
    elif count is not None:
        attrs["count"] = count
    if not inputs:
        attrs["device"] = device
    return bind(op, *inputs, **attrs)


# --- ops --------------------------------------------------------------------------------------


def waiting_op(
    name: str,
    kind: type,
    outputs: Callable[..., tuple[TensorType, ...]],
    /,
    *,
    counted: bool = False,
    devices: Callable[..., Any] = of_state,
    **facts: Unpack[OpFacts],
) -> Op:
    """An op that may have to wait for what a resource gives, and takes nothing else.

    Args:
        name: of the op.
        kind: the class of its resource.
        outputs: ``outputs(resource, **attrs)`` gives the types of what is taken.
        counted: whether it says how many; then ``count`` is an attribute or an input.
        devices: its device rule.
        facts: what else is not as with others (see `eagerflow.core.op.define`).
    """

    def rule(
        *asked: TensorType, resource: Any, timeout: float | None = None, timed: bool = False,
        device: Device | None = None, **attrs: Any,
    ) -> tuple[TensorType, ...]:  # fmt: skip
        check_asked(asked, timed, counted and attrs.get("count") is None)
        return outputs(resource, **attrs)

    def asked_for(attrs: Mapping[str, Any]) -> Positions:
        count = (0,) if counted and attrs.get("count") is None else ()
        return (*count, -1) if attrs.get("timed") else count

    waits: OpFacts = {"outputs": None, "raises": WAITING, "host_inputs": asked_for, **facts}
    return effect_op(name, kind, rule, "blocks", devices=devices, **waits)


def check_asked(
    inputs: tuple[TensorType, ...], timed: bool, counted: bool = False
) -> tuple[TensorType, ...]:
    """Refuse a count or a timeout of another type; gives the inputs without them.

    Args:
        inputs: all inputs.
        timed: whether the last one is the timeout.
        counted: whether the first one is the count.

    Raises:
        DTypeError: another type.
    """
    if timed:
        *others, last = inputs
        _check(last, FLOAT64, "a timeout")
        inputs = tuple(others)
    if counted:
        first, *others = inputs
        _check(first, INT64, "a number of elements")
        inputs = tuple(others)
    return inputs


def _check(kind: TensorType, dtype: Any, what: str) -> None:
    if kind.dtype is not dtype or kind.shape:
        raise DTypeError(f"{what} is another type", expected=f"{dtype.short}[]")


def size_of(count: Any) -> Any:
    """The size of what a count asks for; None for one that is an input."""
    if count is None:
        return unknown("k", "how many elements were asked for is the value of a tensor")
    return count
