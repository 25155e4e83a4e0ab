"""Hints of errors about NaN and infinity: the usual remedy for each op, and in each gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eagerflow.error_messages import note_origin
from eagerflow.errors import EagerflowError, NonFiniteError
from eagerflow.source import Source

if TYPE_CHECKING:
    from eagerflow.core.op import Op

#: last, as it removes the message and not the cause
_PASS: Final = "ef.config(check_nan=False) lets it pass"


def remedy(op: Op) -> str:
    """The hint for an op that made a NaN or an infinity.

    Args:
        op: the op.
    """
    return _joined(op.remedy)


def note_gradient(error: EagerflowError, op: Op | str, source: Source | str | None) -> None:
    """Note in whose gradient an error was raised, with the remedy for the op that has it.

    Args:
        error: the error; the first note stays.
        op: the op that has the gradient, or the name of a function that has it.
        source: the line that applied it.
    """
    if isinstance(error, NonFiniteError) and error.origin is None:
        usual = "" if isinstance(op, str) else op.gradient_remedy or op.remedy
        error.hint = _joined(usual) if usual else error.hint
    name = op if isinstance(op, str) else op.name
    note_origin(error, f"in the gradient of {name}, applied at {source}")


def _joined(usual: str) -> str:
    return f"{usual}; {_PASS}" if usual else _PASS
