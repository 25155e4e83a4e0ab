"""Name scopes: boxes around the nodes that are traced in a block.

Nodes that the rules of derivatives trace lie in the scope of the op they differentiate, and refer
to its node (`Node.forward`), so that placement treats both alike. Nodes that are traced again keep
their device scope.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextvars import ContextVar, Token
from typing import Any, Final, final

from eagerflow.errors import TraceError
from eagerflow.resources.kind_words import class_of, kind_name

_scope: Final[ContextVar[str]] = ContextVar("scope", default="")
current_scope: Final = _scope.get
_forward: Final[ContextVar[Any]] = ContextVar("forward", default=None)
#: the node of the forward pass whose derivative is traced now; None if no derivative is
current_forward: Final = _forward.get
_within: Final[ContextVar[Any]] = ContextVar("within", default=None)
#: the device scope of nodes that are traced again
current_within: Final = _within.get
#: names of resources, by id, for a trace that sees these resources for the first time
resource_names: Final[ContextVar[dict[int, str] | None]] = ContextVar("names", default=None)


@final
class name_scope:
    """Put the nodes traced within a ``with`` block into a scope; scopes nest.

    Pictures draw a scope as a box, and profiles add up its nodes. Eagerly it changes nothing.

    Args:
        name: such as ``"encoder"``.

    Raises:
        TraceError: the name is empty or no string.

    >>> @ef.trace
    ... def f(x):
    ...     with ef.name_scope("double"):
    ...         return x * 2
    >>> f.graph(ef.tensor(1.0)).nodes[-1].scope
    'double'
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name.strip("/"):
            raise TraceError("a scope needs a name", given=repr(name), expected="such as 'encoder'")
        self.name = name.strip("/")
        self._tokens: list[Token[str]] = []

    def __enter__(self) -> str:
        above = _scope.get()
        self._tokens.append(_scope.set(f"{above}/{self.name}" if above else self.name))
        return _scope.get()

    def __exit__(self, *raised: object) -> None:
        _scope.reset(self._tokens.pop())


@final
class belonging:
    """Put the nodes traced within a ``with`` block into this scope, whatever scopes are open.

    Args:
        scope: the whole name of the scope.
        forward: the node whose derivative they are part of, or None.
        within: the device scope that said where they run (`Node.within`).
    """

    __slots__ = ("_forward", "_scope", "_tokens", "_within")

    def __init__(self, scope: str, forward: Any = None, within: Any = None) -> None:
        self._scope, self._forward, self._within = scope, forward, within

    def __enter__(self) -> None:
        self._tokens = (
            _scope.set(self._scope), _forward.set(self._forward), _within.set(self._within),
        )  # fmt: skip

    def __exit__(self, *raised: object) -> None:
        scope, forward, within = self._tokens
        _within.reset(within)
        _forward.reset(forward)
        _scope.reset(scope)


def name_of(resource: Any, taken: Mapping[str, Any]) -> str:
    """A name for a resource of a graph.

    Args:
        resource: the resource.
        taken: the names of others.
    """
    base = (resource_names.get() or {}).get(id(resource)) or getattr(resource, "name", None)
    base = base or kind_name(class_of(resource))
    return free_name(base, taken)


def free_name(base: str, taken: Container[str]) -> str:
    """``base``, with a number if that name is taken."""
    name, count = base, 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    return name
