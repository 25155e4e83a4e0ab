"""Snapshots of mutable objects: comparison with their later state, and restoring.

`Held` is one object. Which objects are held: in a branch or a body all that its code can reach
(`Reachable`), as tracing it must leave no effect in Python, and the graph then determines the value
of each location that it changes; in a traced function what it reads by name
(`capture/guards/guard_choice.py`) and stores (`capture/changes.py`), and the containers among the
arguments (`capture/argument_containers.py`).
"""

from __future__ import annotations

import copy
import functools
from collections import ChainMap, Counter, UserDict, UserList, deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from operator import is_
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final, final

from eagerflow.capture.access_paths import (
    GONE,
    AccessPath,
    Location,
    contents,
    instance_dict,
    refill,
)
from eagerflow.capture.bytecode import facts_of, nested
from eagerflow.capture.equality import ATOMS, same_items, same_value
from eagerflow.capture.library_code import is_bare_class, is_library, is_library_class
from eagerflow.core.abstract_symbols import number_now
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.core.tree import slots_of

#: kinds of objects with names or keys -> kind of their locations
_KEYED: Final = {"cell": "cell", "attributes": "attribute", "namespace": "item", "dict": "item"}
_CONTAINERS: Final = frozenset({"dict", "list", "deque", "set"})
#: kinds of objects with names -> kind of access paths
_HOW: Final = {"cell": "cell", "attributes": "attribute", "namespace": "global"}


def differs(old: Any, new: Any) -> bool:
    """Whether a location was set: to another object, or to another plain value."""
    return old is not new and not (type(old) in ATOMS and same_value(old, new))


@final
class Held:
    """A mutable object, with a copy of its contents.

    Args:
        kind: ``"cell"``, ``"attributes"``, ``"namespace"``, ``"dict"``, ``"list"``, ``"deque"``,
            or ``"set"``, or ``"memory"`` of an array.
        owner: the object.
        text: its name in messages.
        path: its access path, for the caller.
        names: names that are compared, of attributes and namespaces; it may grow. None for all.
    """

    __slots__ = ("before", "kind", "names", "owner", "path", "text")

    def __init__(
        self, kind: str, owner: Any, text: str, path: Any = None,
        names: Container[str] | None = None,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.owner = owner
        self.text = text
        self.path = path
        self.names = names
        now = self.now()
        # without running a class's own code for copying
        self.before: Any = _COPY[kind](now)

    @staticmethod
    def of_container(value: Any, text: str, path: Any = None) -> Held | None:
        """The snapshot of a dict, list, deque or set; None for other values."""
        for cls in (dict, list, deque, set):
            if isinstance(value, cls):
                return Held(cls.__name__, value, text, path)
        return None

    def now(self) -> Any:
        """The present contents of the object; not a copy, where these are a container."""
        owner = self.owner
        if self.kind == "cell":
            return {self.text: Location("cell", owner, None, "").get()}
        if self.kind in _CONTAINERS:
            return contents(owner)
        if self.kind != "attributes":
            return owner
        if isinstance(owner, type):
            return dict(owner.__dict__)
        return attributes_of(owner)

    def location(self, key: Any) -> Location:
        """The location of one of the names, keys or items."""
        if self.kind == "cell":
            text = self.text
        elif self.kind in ("attributes", "namespace"):
            text = f"{self.text}.{key}".lstrip(".")
        else:
            text = f"{self.text}[{key!r}]"
        return Location(_KEYED.get(self.kind, "item"), self.owner, key, text)

    def part(self, key: Any) -> AccessPath:
        """The access path of one of the names, keys or items."""
        how = _HOW.get(self.kind, "item")
        known: Any = self.text if how == "cell" else key
        if how == "cell":
            key = self.path.get().__code__.co_freevars.index(self.text)
        text = known if how in ("global", "cell") else self.location(key).text
        return AccessPath(self.path, how, key, text)

    def entries(self) -> Iterator[tuple[Any, Any]]:
        """The keys, names or indices in the copy, with the values; none of sets, deques, arrays."""
        if self.kind in _KEYED:
            yield from self.before.items()
        elif self.kind == "list":
            yield from enumerate(self.before)

    def changes(self) -> Iterator[tuple[Location, Any, Any]]:
        """The locations that were set, with the old and the new value.

        A list of another length gives a location of the kind ``"list"`` as well, with all old items
        and the items after them; a deque, set or array, and a dict whose keys have another order,
        give a location of the kind ``"other"`` with the whole contents.
        """
        before, now = self.before, self.now()
        if self.kind in _KEYED:
            for key, old, new in self._pairs(before, now):
                if differs(old, new):
                    yield self.location(key), old, new
            if self.kind == "dict" and _is_reordered(before, now):
                yield Location("other", self.owner, None, self.text), before, now
        elif self.kind == "list":
            if len(before) != len(now) or not all(map(is_, before, now)):
                for i, (old, new) in enumerate(zip(before, now, strict=False)):
                    if differs(old, new):
                        yield self.location(i), old, new
                if len(before) != len(now):
                    location = Location("list", self.owner, None, self.text)
                    yield location, before, now[len(before) :]
        elif not _SAME[self.kind](before, now):
            yield Location("other", self.owner, None, self.text), before, now

    def edits(self) -> Iterator[tuple[str, Any, Any, Any]]:
        """The changes in a form that can be repeated: kind, key, old and new value.

        The kinds are those of a `Store`: ``"set"`` and ``"delete"`` are for one key, ``"append"``
        has the appended items, ``"fill"`` all present contents; and ``"memory"``.
        """
        before, now, changes = self.before, self.now(), list(self.changes())
        if self.kind == "memory":
            yield from (("memory", None, before, now) for _ in changes)
            return
        grown = self.kind in ("list", "deque") and len(now) > len(before)
        if grown and not any(map(differs, before, now)):
            yield "append", None, before, list(now)[len(before) :]
        elif changes and (
            self.kind == "deque" or (self.kind == "list" and len(now) != len(before))
        ):
            yield "fill", None, before, list(now)
        elif changes and self.kind == "set":
            yield "fill", None, before, [number_now(x) for x in now]
        elif self.kind == "dict" and _is_reordered(before, now):
            yield "fill", None, before, {number_now(key): value for key, value in now.items()}
        else:
            for location, old, new in changes:
                yield "delete" if new is GONE else "set", number_now(location.key), old, new

    def _pairs(self, before: Any, now: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Keys that may differ, with old and new values."""
        same = len(before) == len(now) and all(map(is_, now.values(), before.values()))
        if same and list(now) == list(before):  # as of most
            return
        for key in {**before, **now}:
            if self.names is None or key in self.names:
                yield key, before.get(key, GONE), now.get(key, GONE)

    def restore(self, stays: Callable[[Held, Any, Any, Any], bool] | None = None) -> None:
        """Restore the contents from the copy.

        Args:
            stays: ``stays(held, key, old, new)`` says whether a change stays, such as the change
                of another thread.
        """
        owner, before, now = self.owner, self.before, self.now()
        kept = stays or (lambda *_: False)
        if self.kind == "dict":
            before = {k: now[k] if k in now and kept(self, k, v, now[k]) else v
                      for k, v in before.items()}  # fmt: skip
            if list(now) != list(before):
                refill(owner, before)
        if self.kind in _KEYED:
            for key, old, new in list(self._pairs(before, now)):
                if old is not new and not kept(self, key, old, new):
                    # locations that cannot be set were not set
                    with suppress(TypeError, AttributeError, ValueError):
                        self.location(key).set(old)
        elif self.kind == "list":
            if len(before) == len(now):
                pairs = enumerate(zip(before, now, strict=True))
                before = [new if kept(self, i, old, new) else old for i, (old, new) in pairs]
            if len(before) != len(now) or not all(map(is_, before, now)):
                refill(owner, before)
        elif not _SAME[self.kind](before, now):
            (_restore_memory if self.kind == "memory" else refill)(owner, before)


def _is_reordered(before: dict[Any, Any], now: dict[Any, Any]) -> bool:
    """Whether the old keys are in another order, or not before all new keys."""
    kept = [key for key in before if key in now]
    return list(now)[: len(kept)] != kept


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an instance itself, slots included; not a copy, if there are no slots."""
    own = instance_dict(value) or {}
    values = {name: getattr(value, name, GONE) for name in slots_of(type(value))}
    return {**own, **{n: x for n, x in values.items() if x is not GONE}} if values else own


#: classes by their modules and names: a program with an instance has loaded them
_ARRAYS: Final = frozenset({("builtins", "bytearray"), ("array", "array"), ("numpy", "ndarray")})
#: size in bytes above which memory is not compared
_MOST_BYTES: Final = 1 << 20


def is_memory(x: Any) -> bool:
    """Whether ``x`` is a `bytearray`, an `array`, or an array of NumPy, and not a large one."""
    kind = type(x)
    if (kind.__module__, kind.__name__) not in _ARRAYS:
        return False
    try:
        with memoryview(x) as view:
            return not view.readonly and view.nbytes <= _MOST_BYTES
    except (TypeError, ValueError, BufferError):  # of a dtype that no buffer has
        return False


def _same_memory(before: Any, now: Any) -> bool:
    dtype = getattr(now, "dtype", None)
    if dtype is None:
        return bytes(now) == bytes(before)
    if now.shape != before.shape or dtype != before.dtype:
        return False
    if dtype.hasobject:
        return same_items(now.ravel().tolist(), before.ravel().tolist())
    return bool(now.tobytes() == before.tobytes())


def _same_set(before: set[Any], now: set[Any]) -> bool:
    return set(map(id, before)) == set(map(id, now)) or before == now


def _same_deque(before: list[Any], now: Any) -> bool:
    return len(before) == len(now) and not any(map(differs, before, now))


def _restore_memory(owner: Any, before: Any) -> None:
    owner[... if getattr(owner, "shape", None) == () else slice(None)] = before


_COPY: Final[dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(_KEYED, dict), "list": list, "deque": list, "set": set, "memory": copy.copy,
}  # fmt: skip
_SAME: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "deque": _same_deque, "set": _same_set, "memory": _same_memory,
}  # fmt: skip


# --- all that functions can reach ----------------------------------------------------------------

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


_FOLLOWED: Final = (AbstractStandIn, dict, list, tuple, set, frozenset, deque)


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
        elif issubclass(kind, _FOLLOWED):
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
            (f"{text}.{k}", v) for k, v in vars(cls).items() if isinstance(v, _FOLLOWED)
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
