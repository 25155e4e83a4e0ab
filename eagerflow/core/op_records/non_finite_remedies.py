"""Hints of errors about NaN and infinity: the usual remedy for each op, and in each gradient."""

from __future__ import annotations

from typing import Final

from eagerflow.errors import EagerflowError, NonFiniteError, note_origin
from eagerflow.source import Source

#: last, as it removes the message and not the cause
_PASS: Final = "ef.config(check_nan=False) lets it pass"
_LOG: Final = (
    "keep the operand positive, ef.log(ef.clip(x, min=1e-12)), or choose before: "
    "ef.log(ef.where(x > 0, x, 1.0)); instead of the log of a softmax or a sigmoid, log_softmax, "
    "cross_entropy and binary_cross_entropy_with_logits take its operand"
)
_DIVIDE: Final = "choose the denominator before dividing: x / ef.where(y != 0, y, 1.0)"
_EXP: Final = (
    "subtract the maximum first, ef.exp(x - x.max()); log of a sum of exponentials is ef.logsumexp"
)
_ROOT: Final = (
    "the root of a negative number: ef.sqrt(ef.clip(x, min=0.0)), or ef.sqrt(ef.where(x > 0, x, "
    "1.0))"
)
_POWER: Final = "choose the base before: ef.where(x > 0, x, 1.0) ** y"
_SQUARES: Final = "scale the operands down, or compute in float64: x.astype(ef.float64)"

#: by op
_REMEDIES: Final = {
    **dict.fromkeys(("log", "log2", "log10", "log1p"), _LOG),
    **dict.fromkeys(("divide", "reciprocal", "remainder", "floor_divide"), _DIVIDE),
    **dict.fromkeys(("exp", "exp2", "expm1", "sinh", "cosh"), _EXP),
    **dict.fromkeys(("sqrt", "rsqrt"), _ROOT),
    "pow": _POWER,
    **dict.fromkeys(("square", "multiply", "matmul", "sum", "prod"), _SQUARES),
}
#: by the op whose gradient it is
_IN_GRADIENTS: Final = {
    **_REMEDIES,
    **dict.fromkeys(
        ("sqrt", "rsqrt", "hypot"),
        "at 0 the slope of a root is infinite: ef.sqrt(x + 1e-12), or "
        "ef.where(x > 0, ef.sqrt(ef.where(x > 0, x, 1.0)), 0.0)",
    ),
    **dict.fromkeys(
        ("acos", "asin", "atanh", "acosh"),
        "at the end of its domain the slope is infinite: ef.clip(x, -1 + 1e-6, 1 - 1e-6) first",
    ),
}


def remedy(name: str) -> str:
    """The hint for an op that made a NaN or an infinity.

    Args:
        name: of the op.
    """
    return _joined(_REMEDIES.get(name))


def note_gradient(error: EagerflowError, name: str, source: Source | str | None) -> None:
    """Note in whose gradient an error was raised, with the remedy for the op that has it.

    Args:
        error: the error; the first note stays.
        name: the op that has the gradient.
        source: the line that applied it.
    """
    if isinstance(error, NonFiniteError) and error.origin is None:
        usual = _IN_GRADIENTS.get(name)
        error.hint = error.hint if usual is None else _joined(usual)
    note_origin(error, f"in the gradient of {name}, applied at {source}")


def _joined(usual: str | None) -> str:
    return _PASS if usual is None else f"{usual}; {_PASS}"
