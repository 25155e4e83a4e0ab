"""`cond`, `switch`, `while_loop`, `scan` and `map` in converted code: what they get may not raise.

Their functions are traced whether a run calls them or not. Where a statement decides, the graph
raises in the branch of the exception (`autograph/flow/conditionals.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagerflow.autograph.conversion.convert import converted_argument, replacements
from eagerflow.autograph.failures.raising import is_stated, is_users
from eagerflow.autograph.tracking.blocks import result_or_error
from eagerflow.control.branches import cond, switch
from eagerflow.control.loops import map as map_
from eagerflow.control.loops import scan, while_loop
from eagerflow.core import interpreter
from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.tensor import AbstractArray
from eagerflow.errors import TraceError
from eagerflow.source import user_line


def _refusing(function: Callable[..., Any], predicate: str = "") -> Callable[..., Any]:
    """The replacement for a function that gets branches or bodies.

    Args:
        function: the function.
        predicate: the name of its first parameter, if that decides which of them is called.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        chosen = kwargs.get(predicate, next(iter(args), None))

        def is_refused(error: BaseException) -> bool:
            if predicate:
                return _is_of_graph(chosen) and is_users(error)
            return interpreter.is_traced() and is_stated(error)

        options = {name: _converted(x) for name, x in kwargs.items()}
        result, raised = result_or_error(
            lambda: function(*map(_converted, args), **options), is_refused
        )
        if raised is None:
            return result
        raise TraceError(
            f"{function.__name__}: a function that it gets raises an exception when it is traced",
            given=type(raised).__name__,
            hint="raise it in an `if`, which may be in that function: there it is a part of the "
            "graph, and raised where a run comes to it",
            source=user_line(raised),
        ) from None  # its text may show values of the trace

    return call


def _converted(argument: Any) -> Any:
    """An argument, with converted functions, also in a list of branches."""
    if type(argument) in (list, tuple):
        return type(argument)(map(converted_argument, argument))
    return converted_argument(argument)


def _is_of_graph(predicate: Any) -> bool:
    """Whether the graph decides which branch is taken."""
    if not interpreter.is_traced():
        return False
    if issubclass(type(predicate), AbstractNumber):
        return bool(predicate.varies)
    return isinstance(predicate, AbstractArray)


replacements.update({cond: _refusing(cond, "pred"), switch: _refusing(switch, "index")})
replacements.update((loop, _refusing(loop)) for loop in (while_loop, scan, map_))
