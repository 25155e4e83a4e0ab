"""`Reachable`: a snapshot, by shallow copies, of all objects that functions can reach.

Tracing a branch or a body must leave no effect in Python: bindings, assignments and appends are
found by comparison with the snapshot, and undone. The graph then determines the value of each of
these locations. Reads of a traced function are found in another way, by names:
`capture/guards/guard_choice.py`.
"""

from __future__ import annotations

import functools
from collections import ChainMap, Counter, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final, final

from eagerflow.capture.access_paths import Location
from eagerflow.capture.bytecode import facts_of, nested
from eagerflow.capture.equality import ATOMS
from eagerflow.capture.library_code import is_bare_class, is_library, is_library_class
from eagerflow.capture.snapshot import Held, is_memory
from eagerflow.core.tensor import AbstractArray, Tensor

#: maximum number of objects that are followed
_MOST: Final = 20_000
#: containers of the standard library that are written in Python
_WRAPPERS: Final = (ChainMap, UserDict, UserList)


class AbstractStandIn:
    """A stand-in for a container of Python.

    Attributes:
        held: its contents, in which the effects of branches and bodies are tracked.
    """

    held: dict[str, Any]


_CONTAINERS: Final = (AbstractStandIn, dict, list, tuple, set, frozenset, deque)


def handle_location(handle: Tensor) -> Location:
    """The location of the value of a tensor, which ``x += 1`` and ``x[i] = v`` change."""
    return Location("handle", handle, None, "a tensor that is updated in place")


def cells_of(*functions: Callable[..., Any]) -> dict[str, CellType]:
    """The cells of variables that functions share with enclosing functions, by name."""
    cells: dict[str, CellType] = {}
    for function in functions:
        code: Any = function.__code__
        cells.update(zip(code.co_freevars, function.__closure__ or (), strict=True))
    return cells


@final
class Reachable:
    """A snapshot of the state that functions can reach.

    Args:
        functions: user code.

    Attributes:
        tensors: the tensors that were reached, with their data.
        globals: the global names that the code mentions: namespace, name and value.
    """

    def __init__(self, functions: Sequence[Any]) -> None:
        self._seen: dict[int, Any] = {}
        self._held: list[Held] = []
        self._stored: set[str] = set()  # names that the code sets in modules
        self.tensors: list[tuple[Tensor, Any]] = []
        self.globals: list[tuple[dict[str, Any], str, Any]] = []
        self._pending: deque[tuple[str, Any]] = deque(("", f) for f in functions)
        self._drain()

    def follow(self, text: str, value: Any) -> None:
        """Add an object, and all that it reaches, to the snapshot."""
        self._pending.append((text, value))
        self._drain()

    def _drain(self) -> None:
        while self._pending and len(self._seen) < _MOST:
            self._look(*self._pending.popleft())

    # --- finding ---

    def _look(self, text: str, value: Any) -> None:
        kind = type(value)
        if kind is Tensor:
            self.tensors.append((value, value._data))
        if kind in ATOMS or kind is range or issubclass(kind, AbstractArray) or self.knows(value):
            return
        self._seen[id(value)] = value
        if kind is FunctionType:
            self._look_at_function(value)
        elif kind is MethodType:
            self._pending += [("self", value.__self__), (text, value.__func__)]
        elif issubclass(kind, functools.partial):
            self._pending += [(text, value.func), (text, value.args), (text, value.keywords)]
        elif issubclass(kind, _CONTAINERS):
            self._look_at_container(text, value)
            if not is_library_class(kind):
                self._look_at_object(text, value)
        elif issubclass(kind, ModuleType):
            self._look_at_module(text, value)
        elif issubclass(kind, type):
            self._look_at_class(text, value)
        elif not is_library_class(kind) or is_bare_class(kind) or kind in _WRAPPERS:
            self._look_at_object(text, value)
        elif is_memory(value):
            self._held.append(Held("memory", value, text))

    def _look_at_container(self, text: str, value: Any) -> None:
        if isinstance(value, AbstractStandIn):
            self._held.append(Held("dict", value.held, text))
            return
        held = Held.of_container(value, text)
        if held is not None:
            self._held.append(held)
        entries = [] if held is None else [(f"{text}[{k!r}]", v) for k, v in held.entries()]
        self._pending += entries or [(f"{text}[...]", v) for v in value]

    def _look_at_function(self, function: FunctionType) -> None:
        for name, cell in cells_of(function).items():
            if id(cell) not in self._seen:
                self._seen[id(cell)] = cell
                self._held.append(Held("cell", cell, name))
                self._pending.append((name, self._held[-1].before[name]))
        if is_library(function.__globals__):
            return
        self._look_at_attributes(function.__name__, function)
        codes = nested(function.__code__)
        names = {name for code in codes for name in code.co_names}
        stores = (key for code in codes for key in facts_of(code).stores)
        self._stored.update(name for kind, name in stores if kind != "cell")
        namespace = function.__globals__
        self._look_at_names("", namespace)
        known = [(n, namespace[n]) for n in names if n in namespace]
        self.globals.extend((namespace, *one) for one in known)
        self._pending += known

    def _look_at_names(self, text: str, namespace: dict[str, Any]) -> None:
        """Note the names of a module that the code sets; others may be set by other threads."""
        if id(namespace) not in self._seen:
            self._seen[id(namespace)] = namespace
            self._held.append(Held("namespace", namespace, text, names=self._stored))

    def _look_at_module(self, text: str, module: ModuleType) -> None:
        names = vars(module)
        if not is_library(names):
            self._look_at_names(text, names)
            self._pending += [("", v) for v in list(names.values()) if type(v) is FunctionType]

    def _look_at_class(self, text: str, cls: type) -> None:
        if is_library_class(cls):
            return
        self._held.append(Held("attributes", cls, text))
        members = [getattr(v, "__func__", getattr(v, "fget", v)) for v in vars(cls).values()]
        self._pending += [("", v) for v in members if type(v) is FunctionType]
        self._pending += [
            (f"{text}.{k}", v) for k, v in vars(cls).items() if isinstance(v, _CONTAINERS)
        ]
        self._pending += [("", base) for base in cls.__bases__]

    def _look_at_object(self, text: str, value: Any) -> None:
        self._pending.append((type(value).__name__, type(value)))
        self._look_at_attributes(text, value)

    def _look_at_attributes(self, text: str, value: Any) -> None:
        own = getattr(value, "__dict__", None)
        if type(own) is dict and id(own) in self._seen:  # objects may share a dict
            return
        self._seen[id(own)] = own
        held = Held("attributes", value, text)
        if type(own) is dict or held.before:
            self._held.append(held)
            self._pending += [(f"{text}.{k}", v) for k, v in held.before.items()]

    # --- comparing ---

    def changes(self) -> Iterator[tuple[Location, Any, Any]]:
        """The locations that changed, with their old and new values."""
        for held in self._held:
            yield from held.changes()

    def restore(self) -> None:
        """Restore all locations."""
        for held in self._held:
            held.restore()

    def knows(self, value: Any) -> bool:
        """Whether ``value`` was reached."""
        return self._seen.get(id(value)) is value

    @functools.cached_property
    def references(self) -> Counter[int]:
        """The number of references that the copies hold to each tensor, by id."""
        kept: list[Iterable[Any]] = [
            held.before.values() if isinstance(held.before, dict) else held.before
            for held in self._held
            if held.kind != "memory"
        ]
        counts = Counter(id(x) for values in kept for x in values if type(x) is Tensor)
        counts.update(id(x) for _, _, x in self.globals if type(x) is Tensor)
        counts.update(id(x) for x, _ in self.tensors)
        return counts

    def holders(self, value: Any) -> Iterator[Location]:
        """The locations that held ``value``."""
        for held in self._held:
            yield from (held.location(key) for key, x in held.entries() if x is value)
