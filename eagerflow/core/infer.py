"""Inference of types and devices of outputs by the rules of an op, with the wording of errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from eagerflow.core.op import OPS_OF_BYTES, Op
from eagerflow.core.tensor import Tensor
from eagerflow.errors import (
    DTypeError,
    EagerflowError,
    OpDefinitionError,
    TensorIndexError,
    TensorValueError,
)
from eagerflow.source import user_line
from eagerflow.types import BYTES, TensorSpec, TensorType, text_of

#: by class of an error that a type rule of a user's raised, our class, which is one of these too
_OURS: Final[dict[type[Exception], type[EagerflowError]]] = {
    IndexError: TensorIndexError,
    ValueError: TensorValueError,
}


def infer(
    op: Op, types: Sequence[TensorType], attrs: dict[str, Any], devices: Sequence[Any] = ()
) -> Any:
    """Apply the type rule of ``op``; its errors name the op and its arguments.

    Args:
        op: the op.
        types: of the inputs.
        attrs: the attributes.
        devices: of the inputs, for the wording.

    Returns:
        A `TensorType`, or a tuple of them.

    Raises:
        EagerflowError: the rule refuses the inputs, or the rule of a user's raised something else,
            which is the cause.
    """
    assert op.infer is not None
    for kind in types:
        if kind.dtype is BYTES and not op.takes_bytes:
            raise DTypeError(
                f"{op.name}: it does not take bytes",
                given=describe(op, types, attrs, devices),
                expected="numbers or bool",
                hint=OPS_OF_BYTES,
            )
    for name, value in attrs.items():
        if isinstance(value, Tensor):
            raise DTypeError(
                f"{op.name}: the attribute {name} is a tensor",
                given=f"{name}={value.type}",
                expected="numbers and other values that are the same in each step as attributes",
                hint=f"make {name} an operand, by position, or take its number: float({name})",
            )
    try:
        return op.infer(*types, **attrs)
    except EagerflowError as error:
        raise _worded(error, op, types, attrs, devices) from None
    except RecursionError:  # it tells of the stack, not of the rule
        raise
    except Exception as error:
        raise _of_broken_rule(error, op, types, devices) from error


def infer_devices(
    op: Op, devices: Sequence[Any], attrs: dict[str, Any], types: Sequence[TensorType] = ()
) -> Any:
    """Apply the device rule of ``op``.

    Args:
        op: the op.
        devices: of the inputs; None where not known.
        attrs: the attributes.
        types: of the inputs, for the wording of errors.

    Returns:
        The device of the op and all its outputs, or a tuple with a device for each output.

    Raises:
        DeviceError: the inputs are on devices where the op does not take them.
    """
    try:
        return op.devices(*devices, **attrs)
    except EagerflowError as error:
        raise _worded(error, op, types, attrs, devices) from None


def infer_specs(op: Op, specs: Sequence[TensorSpec], attrs: dict[str, Any]) -> list[TensorSpec]:
    """Apply both rules of ``op``: the specs of its outputs from those of its inputs."""
    types, devices = [s.type for s in specs], [s.device for s in specs]
    inferred, where = infer(op, types, attrs, devices), infer_devices(op, devices, attrs, types)
    outputs = inferred if isinstance(inferred, tuple) else (inferred,)
    placed = where if isinstance(where, tuple) else (where,) * len(outputs)
    return [t.on(d) for t, d in zip(outputs, placed, strict=True)]


def describe(
    op: Op, types: Sequence[TensorType], attrs: dict[str, Any], devices: Sequence[Any] = ()
) -> str:
    """The inputs of an op as messages show them: ``x=f32[2,3]@cpu:0, axis=2``."""
    names = op.arguments[: len(types)] or (("x",) if len(types) == 1 else ())
    names += tuple(f"x{i + 1}" for i in range(len(names), len(types)))
    shown = map(text_of, types, devices or (None,) * len(types))
    parts = [f"{n}={t}" for n, t in zip(names, shown, strict=True)]
    return ", ".join(parts + [f"{k}={v!r}" for k, v in attrs.items()])


def _of_broken_rule(
    error: Exception, op: Op, types: Sequence[TensorType], devices: Sequence[Any]
) -> EagerflowError:
    """The error for one of Python's that the type rule of a user's raised, with the rule's line."""
    kind = next((ours for theirs, ours in _OURS.items() if isinstance(error, theirs)), None)
    failed = (kind or OpDefinitionError)(
        f"{op.base}: its type rule raised {type(error).__name__}: {error}",
        given=describe(op, types, {}, devices),  # the repr of an attribute may raise
    )
    line = user_line(error)
    if line is not None:
        failed.add_note(f"  type rule: {line}")
    return failed


def _worded(
    error: EagerflowError, op: Op, types: Sequence[TensorType], attrs: dict[str, Any],
    devices: Sequence[Any],
) -> EagerflowError:  # fmt: skip
    return type(error)(
        f"{op.base}: {error.wrong}",
        given=describe(op, types, attrs, devices),
        expected=error.expected,
        hint=error.hint,
    )
