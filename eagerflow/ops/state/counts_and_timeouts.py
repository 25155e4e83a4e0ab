"""Counts and timeouts of ops that may have to wait.

Values known before the graph runs are attributes. Values known only at run time are inputs: the
count is the first input, the timeout the last; attributes say which of them are inputs.
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
    RunnerFailedError,
    TraceError,
    WaitTimeoutError,
)
from eagerflow.hardware import Device
from eagerflow.ops.rules.type_rules import REAL, effect_op, of_state
from eagerflow.resources.requests import check_count, check_seconds
from eagerflow.types import FLOAT64, INT64, TensorType

#: errors of ops that wait for others
WAITING: Final = (QueueClosedError, RunnerFailedError, CancelledError, WaitTimeoutError)


def named(resource: Any) -> str:
    """The name of a resource, for the beginning of its repr; empty if it has no name."""
    return "" if resource.name is None else f"{resource.name!r}, "


def integer(what: str, value: Any) -> int:
    """An integer option as an int.

    Raises:
        DTypeError: the value is no integer.
        TraceError: the value is known only at run time.
    """
    try:
        return index(value)
    except TraceError:
        raise
    except TypeError:
        raise DTypeError(f"{what}: not an integer", given=repr(value)) from None


def checked_count(what: str, n: Any) -> Any:
    """A number of elements, checked; a size or a tensor known only at run time is unchanged.

    Raises:
        TensorValueError: the number is negative.
        DTypeError: the number is no integer.
    """
    if type(n) is Dim:
        return n
    try:
        count = integer(what, n)
    except TraceError:
        return as_tensor(n, INT64)  # an integer, or an earlier check would have failed
    check_count(what, count)
    return count


def timeout_of(what: str, seconds: Any) -> Any:
    """A timeout as a float; a number or a tensor known only at run time becomes a tensor.

    Raises:
        TensorValueError: the timeout is negative.
        DTypeError: the timeout is no real number.
    """
    if seconds is None:
        return None
    if type(seconds) is float or type(seconds) is int:
        return check_seconds(what, seconds)
    if issubclass(type(seconds), AbstractAsked):
        return as_tensor(seconds, FLOAT64)
    array = isinstance(seconds, AbstractArray)
    if (seconds.dtype.category not in REAL or seconds.shape) if array else not _is_real(seconds):
        raise DTypeError(
            f"{what}: timeout is not a number of seconds",
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
        inputs: its inputs besides the count and the timeout.
        device: device of the inputs and results.
        timeout: the result of `timeout_of`.
        count: the result of `checked_count`, if the op has a count.
        attrs: further attributes.
    """
    if not inputs and count is None and type(timeout) is not Tensor:  # fast path for the usual case
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
    """Define an op that takes values from a resource, may have to wait, and has no other inputs.

    Args:
        name: name of the op.
        kind: the class of its resource.
        outputs: ``outputs(resource, **attrs)`` returns the types of the values taken.
        counted: whether it has a count; then ``count`` is an attribute or an input.
        devices: its device rule.
        facts: its further facts (see `eagerflow.core.op.define`).
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
    """Refuse a count or a timeout of a wrong type; returns the inputs without both.

    Args:
        inputs: all inputs.
        timed: whether the last input is the timeout.
        counted: whether the first input is the count.

    Raises:
        DTypeError: count or timeout has another type.
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
        raise DTypeError(f"{what} has another type", expected=f"{dtype.short}[]")


def size_of(count: Any) -> Any:
    """The size for a count; None for a count that is an input."""
    if count is None:
        return unknown("k", "the number of requested elements is the value of a tensor")
    return count
