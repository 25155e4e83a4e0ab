"""`call_in_scope`: a function whose nodes are grouped in pictures of the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from eagerflow.autograph.conversion.convert import call as converted
from eagerflow.graph.scopes import name_scope, resource_names
from eagerflow.ops.state.variables import Variable

__all__ = ["call_in_scope"]


def call_in_scope(
    function: Callable[..., Any],
    args: Iterable[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    scope: str,
    names: Iterable[tuple[str, Variable]] | None = None,
) -> Any:
    """``function(*args, **kwargs)``, whose nodes are in a name scope in a trace.

    The function is the user's, or leads to such code: `if` and `for` on tensors become parts of
    graphs there, as they do in what a traced function calls itself.

    Args:
        function: the function to call.
        args: its arguments.
        kwargs: likewise.
        scope: a name, such as ``"encoder"``; see `eagerflow.name_scope`.
        names: names for variables that the trace meets in the call for the first time; of
            two names the first counts. None leaves the names as they are.

    >>> from eagerflow.extending.tracing import call_in_scope
    >>> w = ef.Variable([1.0, 2.0])
    >>> def encode(x):
    ...     return x * w
    >>> @ef.trace
    ... def f(x):
    ...     return call_in_scope(encode, (x,), scope="encoder", names=[("encoder.w", w)])
    >>> graph = f.graph(ef.tensor([1.0, 1.0]))
    >>> graph.nodes[-1].scope, "encoder.w" in str(graph)
    ('encoder', True)
    """
    with ExitStack() as stack:
        if names is not None:
            known: dict[int, str] = {}
            for name, variable in names:
                known.setdefault(id(variable.resource), name)
            stack.callback(resource_names.reset, resource_names.set(known))
        stack.enter_context(name_scope(scope))
        return converted(function)(*args, **(kwargs or {}))
