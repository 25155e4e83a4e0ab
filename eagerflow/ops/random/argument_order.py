"""The order of a draw's arguments: the shape first, where NumPy has it last."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from eagerflow.core.tensor import AbstractArray, type_of
from eagerflow.errors import ShapeError

_P = ParamSpec("_P")
_R = TypeVar("_R")


def shape_first(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a draw so that NumPy's order of arguments, ``uniform(0, 1, 5)``, is refused.

    A number in front would be a shape, and the draw another one than meant. So where parameters
    follow by position, the shape is a tuple, and they are none.

    Args:
        function: whose first parameter is ``shape``.

    Raises:
        ShapeError: at a call in another order.
    """
    name = function.__name__
    parameters = inspect.signature(function).parameters.values()
    others = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
    names = [p.name for p in others]
    alone = all(p.default is not p.empty for p in others)

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if len(args) > 1 and not (
            isinstance(args[0], tuple) and not any(isinstance(a, tuple) for a in args[1:])
        ):
            raise _refusal(name, names, alone, args)
        return function(*args, **kwargs)

    return call


def _refusal(name: str, names: Sequence[str], alone: bool, args: Sequence[Any]) -> ShapeError:
    given = ", ".join(map(_text, args))
    hints = (_numpy(name, names, args), _alone(name, args) if alone else "")
    by_name = " and ".join(f"{n}=" for n in names)
    return ShapeError(
        f"{name}: the shape comes first, as one tuple",
        given=f"{name}({given})",
        expected=f"{name}((2, 3), {', '.join(names)}), or {by_name} by name",
        hint="; ".join(filter(None, hints)) or None,
    )


def _text(x: object) -> str:
    return str(type_of(x)) if isinstance(x, AbstractArray) else repr(x)


def _numpy(name: str, names: Sequence[str], args: Sequence[Any]) -> str:
    """The call that NumPy's order stands for."""
    if isinstance(args[0], tuple) or len(args) > len(names) + 1:
        return ""
    last_is_shape = isinstance(args[-1], tuple) or len(args) > len(names)
    sizes, rest = (args[-1], args[:-1]) if last_is_shape else ((), args)
    first = names[: len(names) - len(rest)]  # of PyTorch's randint(10, (3,))
    shape = sizes if isinstance(sizes, tuple) else (sizes,)
    parts = [repr(shape), *first, *map(_text, rest)]
    return f"in NumPy's order this is {name}({', '.join(parts)})"


def _alone(name: str, args: Sequence[Any]) -> str:
    """The call with all arguments as sizes, in PyTorch's habit."""
    if not all(type(x) is int for x in args):
        return ""
    return f"a shape alone is one tuple: {name}({args!r})"
