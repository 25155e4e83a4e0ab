"""Errors for operands on wrong devices, with the lines that decided the devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eagerflow.core.tensor import Tensor
from eagerflow.errors import DeviceError
from eagerflow.graph.devices import device_text
from eagerflow.graph.ir import Value
from eagerflow.tracing.symbols import Symbol

if TYPE_CHECKING:
    from eagerflow.tracing.tracer import Tracer


def with_decisions(error: DeviceError, operands: Sequence[Value], tracer: Tracer) -> DeviceError:
    """The error, with the lines that decided the devices of the operands of an op.

    Args:
        error: the error of the op's device rule.
        operands: values of the graph that is traced.
        tracer: the trace; the lines may also be in traces around it.
    """
    around: dict[Value, Value] = {}
    part: Tracer | None = tracer
    while part is not None:
        begins = {operand.value: operand.given for operand in part.operands.values()}
        for value, x in (*begins.items(), *part.begins.items()):
            if type(x) is Tensor and type(x._data) is Symbol:
                around[value] = x._data.value
        part = part.parent
    decisions = [device_text(v, around) for v in operands if v.device is not None]
    return DeviceError(
        error.wrong, given="\n    ".join([str(error.given), *decisions]),
        expected=error.expected, hint=error.hint,
    )  # fmt: skip
