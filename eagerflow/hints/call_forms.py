"""The form of a call: its function with the parameters, as errors show it."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

__all__ = ["form_of", "parameters_of", "text_of"]


def form_of(function: Any, name: str) -> str:
    """The form of a call: ``sum(x, /, axis=None, dtype=None, *, keepdims=False)``.

    Args:
        function: a function of Python, or a class.
        name: the name of the function in the text.

    >>> import eagerflow as ef
    >>> from eagerflow.hints.call_forms import form_of
    >>> form_of(ef.exp, "exp"), form_of(ef.nn.Identity, "ef.nn.Identity")
    ('exp(x, /)', 'ef.nn.Identity(*args, **kwargs)')
    """
    return f"{name}({text_of(parameters_of(function) or [])})"


def parameters_of(function: Any) -> list[inspect.Parameter] | None:
    """The parameters of a call, without the object of a method; None if they are unknown.

    Args:
        function: a function, a method or a class.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    return [p for p in parameters if p.name not in ("self", "cls")]


def text_of(parameters: Sequence[inspect.Parameter]) -> str:
    """The parameters as text, without types; defaults that are objects are left out.

    Args:
        parameters: of a function.
    """
    plain = [
        p.replace(annotation=p.empty, default=p.default if _is_plain(p.default) else ...)
        for p in parameters
    ]
    return str(inspect.Signature(plain))[1:-1].replace("=Ellipsis", "=...")


def _is_plain(default: Any) -> bool:
    return default is inspect.Parameter.empty or isinstance(
        default, (type(None), bool, int, float, str, tuple)
    )
