"""Remedies where an operator has a tensor of eagerflow and an array of another framework."""

from __future__ import annotations

import re
from typing import Any, Final

import eagerflow as ef
from eagerflow.hints.refused_calls import last_frame

_OURS: Final = (ef.Tensor, ef.Variable)
#: Python's text
_REFUSAL: Final = re.compile(r"^unsupported operand type\(s\) for \S+: '(\w+)' and '(\w+)'")


def remedy(error: TypeError) -> str | None:
    """The remedy where Python found no operator, if one operand is an array of another framework.

    Arrays of other frameworks are recognised by DLPack, the variables that are the operands by the
    names of their types.

    Args:
        error: as Python raised it, with its traceback.
    """
    match, frame = _REFUSAL.match(str(error)), last_frame(error)
    if match is None or frame is None:
        return None
    names = (*frame.f_code.co_varnames, *frame.f_code.co_names, *frame.f_code.co_freevars)
    values = {n: frame.f_locals.get(n, frame.f_globals.get(n)) for n in names}
    operands = {n: v for n, v in values.items() if type(v).__name__ in match.groups()}
    if not any(isinstance(v, _OURS) for v in operands.values()):
        return None
    others = (f"{n}, a {_kind(v)}: ef.asarray({n})" for n, v in operands.items() if _is_other(v))
    return "; ".join(others) or None


def _is_other(value: Any) -> bool:
    return hasattr(value, "__dlpack__") and not isinstance(value, _OURS)


def _kind(value: Any) -> str:
    kind = type(value)
    return f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
