"""The state that Python code can reach, before and after it ran: how effects are tracked.

Tracing a branch must leave no effect in Python: what it bound, set or appended is found by
comparing the state that its function reaches with a copy, one level deep, and is put back. The
graph then determines the value of each of these *slots*.
"""

from __future__ import annotations

import dis
import functools
from collections import ChainMap, Counter, UserDict, UserList, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from operator import is_
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple, final

from eagerflow.autograph.conversion.convert import is_bare_class, is_library, is_library_class
from eagerflow.autograph.conversion.syntax import OPERATORS
from eagerflow.autograph.tracking.slots import Attributes, HeldMemory, memory_of, slots_of
from eagerflow.core.tensor import AbstractArray, Tensor

__all__ = ["CACHED", "UNBOUND", "AbstractStandIn", "Slot", "Snapshot", "cells_of", "handle_slot"]

#: the class of functions with a cache
CACHED: Final = type(lru_cache(lambda: None))
#: the most objects that are followed
_MOST: Final = 20_000


@final
class _Unbound:
    def __repr__(self) -> str:
        return "unbound"


#: in place of the value of a name that is not bound, or of a missing key
UNBOUND: Final = _Unbound()


class AbstractStandIn:
    """A stand-in for a container of Python.

    Attributes:
        held: its contents, in which the effects of branches and bodies are tracked.
    """

    held: dict[str, Any]


class Slot(NamedTuple):
    """A location that holds a value.

    Attributes:
        kind: ``"cell"`` (a variable), ``"entry"`` (of a dict, a namespace or an object) or
            ``"item"`` (of a list), ``"list"`` (items appended to it) or ``"handle"`` (the value of
            tensor).
        owner: the cell, dict, list or tensor.
        key: in it.
        text: in the user's words.
        cls: of the attributes of an object, its class, which has values for some.
    """

    kind: str
    owner: Any
    key: Any
    text: str
    cls: type | None = None

    @property
    def identity(self) -> tuple[str, int, Any]:
        """The identity of the slot."""
        owner = self.owner.owner if type(self.owner) is Attributes else self.owner
        return self.kind, id(owner), self.key

    def get(self) -> Any:
        """Its value, or `UNBOUND`."""
        if self.kind == "cell":
            return _content(self.owner)
        if self.kind == "handle":
            return self.owner
        if self.kind == "entry":
            value = self.owner.get(self.key, UNBOUND)
            return _of_class(self.cls, self.key) if value is UNBOUND else value
        return [] if self.kind == "list" else self.owner[self.key]

    def set(self, value: Any) -> None:
        """Set its value."""
        if self.kind == "cell":
            _fill(self.owner, value)
        elif self.kind == "list":
            self.owner.extend(value)
        elif value is UNBOUND:
            self.owner.pop(self.key, None)
        else:
            self.owner[self.key] = value


def _of_class(cls: type | None, name: Any) -> Any:
    """The value that a class has for an attribute of its objects, or `UNBOUND`."""
    for base in cls.__mro__ if cls is not None else ():
        if name in base.__dict__:
            value = base.__dict__[name]
            return UNBOUND if hasattr(type(value), "__get__") else value
    return UNBOUND


def handle_slot(handle: Tensor) -> Slot:
    """The slot of the value of a tensor, which ``x += 1`` and ``x[i] = v`` change."""
    return Slot("handle", handle, None, "a tensor that is updated in place")


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def _fill(cell: CellType, value: Any) -> None:
    if value is UNBOUND:
        try:
            del cell.cell_contents
        except ValueError:
            return
    else:
        cell.cell_contents = value


def cells_of(*functions: Callable[..., Any]) -> dict[str, CellType]:
    """The variables that functions share with those around them."""
    cells: dict[str, CellType] = {}
    for function in functions:
        code: Any = function.__code__
        cells.update(zip(code.co_freevars, function.__closure__ or (), strict=True))
    return cells


@final
class Snapshot:
    """A copy of the state that functions can reach.

    Args:
        functions: user code.

    Attributes:
        tensors: those that were reached, with their data.
        globals: the names of modules that the code mentions, with their values.
    """

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self._seen: dict[int, Any] = {}
        self._cells: list[tuple[str, CellType, Any]] = []
        self._dicts: list[tuple[str, dict[Any, Any] | Attributes, dict[Any, Any], type | None]] = []
        self._lists: list[tuple[str, list[Any], list[Any]]] = []
        self._others: list[tuple[str, Any, Any]] = []
        self._memories: list[tuple[str, HeldMemory]] = []
        self._spaces: list[tuple[str, dict[str, Any], dict[str, Any]]] = []  # modules
        self._stored: set[str] = set()  # names that the code sets there
        self.tensors: list[tuple[Tensor, Any]] = []
        self.globals: list[tuple[dict[str, Any], str, Any]] = []
        self._pending: deque[tuple[str, Any]] = deque(("", f) for f in functions)
        while self._pending and len(self._seen) < _MOST:
            self._look(*self._pending.popleft())

    # --- finding ---

    def _look(self, text: str, value: Any) -> None:
        kind = type(value)
        if kind is Tensor:
            self.tensors.append((value, value._data))
        if kind in _ATOMS or id(value) in self._seen or issubclass(kind, AbstractArray):
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
        else:
            self._look_at_library(text, value)

    def _look_at_library(self, text: str, value: Any) -> None:
        """An object of a class of libraries: their own code is not looked into."""
        memory = memory_of(value)
        if memory is not None:
            self._memories.append((text, memory))
        elif type(value) is CACHED:
            self._pending.append((text, value.__wrapped__))

    def _look_at_container(self, text: str, value: Any) -> None:
        kind = type(value)
        if issubclass(kind, AbstractStandIn):
            self._dicts.append((text, value.held, dict(value.held), None))
        elif issubclass(kind, dict):
            self._dicts.append((text, value, dict(value), None))
            self._pending += [(f"{text}[{k!r}]", v) for k, v in value.items()]
        elif issubclass(kind, list):
            self._lists.append((text, value, list(value)))
            self._pending += [(f"{text}[{i}]", v) for i, v in enumerate(value)]
        else:
            if not issubclass(kind, (tuple, frozenset)):
                self._others.append((text, value, value.copy()))
            self._pending += [(f"{text}[...]", v) for v in value]

    def _look_at_function(self, function: FunctionType) -> None:
        library = is_library(function.__globals__)
        for name, cell in cells_of(function).items():
            if id(cell) in self._seen or name == OPERATORS:
                continue
            self._seen[id(cell)] = cell
            content = _content(cell)
            self._cells.append((name, cell, content))
            self._pending.append((name, content))
        if library:
            return
        self._look_at_attributes(function.__name__, function, None)
        names, stored = _names(function.__code__)
        self._stored |= stored
        namespace = function.__globals__
        self._look_at_names("", namespace)
        known = [(n, namespace[n]) for n in names if n in namespace]
        self.globals.extend((namespace, *one) for one in known)
        self._pending += known

    def _look_at_names(self, text: str, namespace: dict[str, Any]) -> None:
        """The names of a module."""
        if id(namespace) not in self._seen:
            self._seen[id(namespace)] = namespace
            self._spaces.append((text, namespace, dict(namespace)))

    def _look_at_module(self, text: str, module: ModuleType) -> None:
        names = vars(module)
        if not is_library(names):
            self._look_at_names(f"{text}.", names)
            self._pending += [("", v) for v in list(names.values()) if type(v) is FunctionType]

    def _look_at_class(self, text: str, cls: type) -> None:
        if is_library_class(cls):
            return
        self._dicts.append((f"{text}.", Attributes(cls), dict(vars(cls)), cls))
        members = [getattr(v, "__func__", getattr(v, "fget", v)) for v in vars(cls).values()]
        self._pending += [("", v) for v in members if type(v) is FunctionType]
        self._pending += [
            (f"{text}.{k}", v) for k, v in vars(cls).items() if isinstance(v, _CONTAINERS)
        ]
        self._pending += [("", base) for base in cls.__bases__]

    def _look_at_object(self, text: str, value: Any) -> None:
        cls = type(value)
        self._pending.append((cls.__name__, cls))
        self._look_at_attributes(text, value, cls)

    def _look_at_attributes(self, text: str, value: Any, cls: type | None) -> None:
        own = getattr(value, "__dict__", None)
        if type(own) is dict and id(own) not in self._seen:
            self._seen[id(own)] = own
            self._dicts.append((f"{text}.", own, dict(own), cls))
            self._pending += [(f"{text}.{k}", v) for k, v in own.items()]
        names = [] if cls is None else slots_of(cls)
        if names:
            entries = Attributes(value, names)
            self._dicts.append((f"{text}.", entries, entries.copy(), cls))
            self._pending += [(f"{text}.{k}", v) for k, v in entries.copy().items()]

    # --- comparing ---

    def changes(self) -> Iterator[tuple[Slot, Any, Any]]:
        """The slots that changed, with their old and new values."""
        for name, cell, before in self._cells:
            if _content(cell) is not before:
                yield Slot("cell", cell, name, name), before, _content(cell)
        yield from self._entries()
        for text, items, copy in self._lists:
            yield from _list_changes(text, items, copy)
        for text, other, saved in self._others:
            if not _same_items(other.copy(), saved):
                yield Slot("other", other, None, text), saved, other
        for text, memory in self._memories:
            if memory.changed:
                yield Slot("other", memory.owner, None, text), None, memory.owner

    def _entries(self) -> Iterator[tuple[Slot, Any, Any]]:
        """The entries of dicts, objects and modules that changed."""
        for text, names, held, cls in self._dicts:
            now = names.copy() if type(names) is Attributes else names
            if all(map(is_, now.values(), held.values())) and list(now) == list(held):
                continue  # as of most
            for key in {**held, **now}:
                old, new = held.get(key, UNBOUND), now.get(key, UNBOUND)
                if old is not new:
                    yield Slot("entry", names, key, _joined(text, key), cls), old, new
        for text, names, held in self._spaces:
            for key in self._stored:  # the others may belong to other threads
                old, new = held.get(key, UNBOUND), names.get(key, UNBOUND)
                if old is not new:
                    yield Slot("entry", names, key, _joined(text, key)), old, new

    def restore(self) -> None:
        """Put everything back."""
        for _, cell, before in self._cells:
            _fill(cell, before)
        for slot, old, _ in list(self._entries()):
            slot.set(old)
        for _, items, copy in self._lists:
            if not _same(items, copy):
                items[:] = copy
        for _, other, saved in self._others:
            if not _same_items(other.copy(), saved):
                other.clear()
                other.extend(saved) if isinstance(other, deque) else other.update(saved)
        for _, memory in self._memories:
            if memory.changed:
                memory.restore()

    def knows(self, value: Any) -> bool:
        """Whether ``value`` was reached."""
        return self._seen.get(id(value)) is value

    @functools.cached_property
    def references(self) -> Counter[int]:
        """The number of references that the copies hold to each tensor, by id."""
        saved: list[Iterable[Any]] = [held.values() for _, _, held, _ in self._dicts]
        saved += [held.values() for _, _, held in self._spaces]
        saved += [items for _, _, items in self._lists]
        saved += [kept.values() if isinstance(kept, dict) else kept for *_, kept in self._others]
        counts = Counter(id(x) for values in saved for x in values if type(x) is Tensor)
        counts.update(id(x) for _, _, x in (*self._cells, *self.globals) if type(x) is Tensor)
        counts.update(id(x) for x, _ in self.tensors)
        return counts

    def holders(self, value: Any) -> Iterator[Slot]:
        """The slots that held ``value``."""
        for name, cell, before in self._cells:
            if before is value:
                yield Slot("cell", cell, name, name)
        spaces = [(text, names, held) for text, names, held, _ in self._dicts] + self._spaces
        for text, names, held in spaces:
            yield from (Slot("entry", names, k, _joined(text, k)) for k, v in held.items()
                        if v is value)  # fmt: skip
        for text, items, copy in self._lists:
            yield from (Slot("item", items, i, f"{text}[{i}]") for i, v in enumerate(copy)
                        if v is value)  # fmt: skip


_CONTAINERS: Final = (AbstractStandIn, dict, list, tuple, set, frozenset, deque)
#: containers of the standard library that are written in Python
_WRAPPERS: Final = (ChainMap, UserDict, UserList)
_STORES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR"})
_ATOMS: Final = frozenset({int, float, complex, bool, str, bytes, type(None), Tensor, range})


def _list_changes(text: str, now: list[Any], before: list[Any]) -> Iterator[tuple[Slot, Any, Any]]:
    count = min(len(now), len(before))
    for i in range(count):
        if now[i] is not before[i]:
            yield Slot("item", now, i, f"{text}[{i}]"), before[i], now[i]
    if len(now) != len(before):
        yield Slot("list", now, None, text), before, now[len(before) :]


def _same_items(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and _same(a.values(), b.values())
    if isinstance(a, deque):
        return _same(a, b)
    return {id(x) for x in a} == {id(x) for x in b}


def _same(a: Iterable[Any], b: Iterable[Any]) -> bool:
    first, second = list(a), list(b)
    return len(first) == len(second) and all(map(lambda x, y: x is y, first, second))


def _joined(text: str, key: Any) -> str:
    if not text or text.endswith("."):
        return f"{text}{key}"
    return f"{text}[{key!r}]"


@lru_cache(maxsize=4096)
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The names that code mentions, and those that it sets as globals or attributes."""
    said, stored = set(code.co_names), set[str]()
    for one in dis.get_instructions(code):
        if one.opname in _STORES:
            stored.add(one.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            more = _names(inner)
            said |= more[0]
            stored |= more[1]
    return frozenset(said), frozenset(stored)
