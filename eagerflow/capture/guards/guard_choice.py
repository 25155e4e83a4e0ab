"""`collect`: finds the reads of a function from outside, by name, and the kind of guard of each.

Attributes of objects and classes: `capture/attributes.py`; items: `container_guards.py` beside
this; the comparisons at later calls: `guard_kinds.py`.
"""

from __future__ import annotations

import builtins
import enum
import functools
import importlib.util
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence, Sized
from operator import attrgetter
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, Final, final

from eagerflow.capture.access_paths import GONE, AccessPath, Root, instance_dict, joined
from eagerflow.capture.attributes import Attributes, is_plain_member
from eagerflow.capture.bytecode import facts_of, nested
from eagerflow.capture.code_facts import Facts, Load
from eagerflow.capture.equality import is_plain
from eagerflow.capture.escapes import CONTAINERS, NEVER_ESCAPING, Escapes
from eagerflow.capture.findings import asks_types, find_calls, note_hidden_state, unwatched
from eagerflow.capture.guards.container_guards import LIMIT, CapturedContainers
from eagerflow.capture.library_code import (
    CACHED,
    MODULES,
    LibraryMembers,
    is_library,
    is_library_class,
    is_own_code,
)
from eagerflow.capture.reads import Finding, Holder, Reads, Site
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.hardware import Device, as_device
from eagerflow.types import DType

_NUMBERS: Final = frozenset({int, float, complex})
_ATOMS: Final = frozenset(
    {str, bytes, bool, type(None), type(...), type(NotImplemented), range, slice, DType, Device}
)
#: attributes by which wrappers of libraries hold the wrapped function
_WRAPPERS: Final = frozenset({"fn", "func", "__wrapped__"})
_BUILTINS: Final = Root(builtins, "builtins")
#: number of access paths at which the search ends
MOST: Final = 20_000
_CALLABLE: Final = (FunctionType, MethodType, functools.partial)


def collect(
    function: Callable[..., Any],
    roots: Sequence[tuple[str, Any]] = (),
    classes: Collection[type] = (),
) -> Reads:
    """The reads of ``function`` from outside.

    Args:
        function: a function, bound method, partial, or any other callable object.
        roots: static arguments, such as ``("self", model)``: objects whose attributes and items
            the function may read.
        classes: the classes of other arguments, whose methods it may call.
    """
    collector = Collector(function)
    for cls in classes:
        collector.add_class(cls)
    for text, value in roots:
        collector.visit(Root(value, text, weak=True), value)
    collector.is_given = collector.is_given or bool(roots or classes)
    return collector.run()


@final
class Collector:
    """The state of one collection.

    Attributes:
        reads: the result.
        names: of attributes that reachable code reads.
        asked: names that may be arguments of `getattr` and `hasattr`.
        later: names of attributes whose values are passed to `ef.py_call`.
        stored: names of attributes that are set.
        every: whether names are made at run time.
        global_paths: the access paths of global names, by id of the namespace and name.
        is_given: whether there are roots besides a plain function.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        named = isinstance(function, FunctionType)
        self.reads = Reads(Root(function, function.__name__ if named else ""))
        self.names: set[str] = set()
        self.asked: set[str] = set()
        self.later: set[str] = set()
        self.stored: set[str] = set()
        self.every = False
        self.containers = CapturedContainers(self)
        self.attributes = Attributes(self)
        self.escapes = Escapes(self)
        self._seen: dict[int, AccessPath | Root] = {}
        self._alive: list[Any] = []  # the objects in `_seen`, so that no id is used again
        self._pending: deque[tuple[AccessPath | Root, Any]] = deque()
        self.global_paths: dict[tuple[int, str], AccessPath] = {}
        self._codes: set[tuple[int, int]] = set()
        self._array = as_device("cpu:0").backend.array_type
        self._libraries = LibraryMembers()
        #: functions whose attributes no code has named yet
        self._functions: list[Holder] = []
        self._owners: set[str] = set()  # names of values whose attributes are read or set
        self._doubtful = False  # whether code names more than eagerflow and its members
        self.is_given = not named
        self.visit(self.reads.root, function)

    def add_class(self, cls: type) -> None:
        """Note the class of an argument; the key of the call holds its identity."""
        root = Root(cls, cls.__qualname__.rpartition(".")[2], weak=True)
        self.attributes.add_class(root, cls, constructs=False)

    def visit(self, path: AccessPath | Root, value: Any) -> None:
        """Queue a value: its owner is noted first."""
        self._pending.append((path, value))

    def run(self) -> Reads:
        """Collect until nothing is added, then note the facts that depend on all reads."""
        before, whole = -1, False
        while self._drain():
            size = self._size()
            if whole and size == before:
                break
            # new objects first; all again only where these add nothing
            whole = size == before
            before = size
            self._scan(whole=whole)
        self.attributes.finish()
        self.containers.finish(self.reads)
        self.escapes.finish()
        if self._doubtful or self.is_given:
            note_hidden_state(self.reads)
        if self._doubtful or "config" in self.names:  # the only name of `ef` with a rule
            find_calls(self.reads)
        self.reads.asks_types = self._doubtful and asks_types(self.reads)
        # they refer to the collector: a cycle would keep the user's objects
        del self.attributes, self.containers, self.escapes
        return self.reads

    def _drain(self) -> bool:
        """Visit all queued values; return False if there are too many."""
        while self._pending:
            if len(self.reads.reads) > MOST:
                self.reads.findings.append(Finding(
                    "unwatched", self.reads.root.text or "the function",
                    f"reaches more than {MOST:,} values: changes in the others are not seen",
                    "pass the values that it needs as arguments", None,
                ))  # fmt: skip
                return False
            self._look(*self._pending.popleft())
        return True

    def _size(self) -> int:
        """Number of known facts, which grows whenever there may be more to find."""
        reads = self.reads
        known: tuple[Sized, ...] = (
            self.names, self.stored, self.escapes, reads.sites, reads.reads, reads.objects,
            reads.classes, reads.containers,
        )  # fmt: skip
        return sum(map(len, known)) + self.every + self.containers.changes

    def wants(self, name: str) -> bool:
        """Whether reachable code may read an attribute of this name."""
        return self.every or name in self.names

    def _scan(self, *, whole: bool) -> None:
        """Visit attributes, members and items: all of them, or those new since last time."""
        self._find_owners()
        self.attributes.scan(whole=whole)
        if whole:
            self._scan_libraries()
        for path, value in self.containers.new_items(whole=whole):
            self.visit(path, value)

    def _find_owners(self) -> None:
        """Note the functions of which code names attributes, unset attributes included."""
        functions, self._functions = self._functions, []
        for one in functions:
            names = {one.path.text.rpartition(".")[2], getattr(one.value, "__name__", "")}
            if not names & self._owners:
                self._functions.append(one)
            else:
                self.reads.objects.append(one)

    # --- values ---

    def _look(self, path: AccessPath | Root, value: Any) -> None:
        kind = type(value)
        if kind in _NUMBERS:
            fixed = not isinstance(path, AccessPath) or path.fixed
            self.reads.add(path, "value" if fixed else "number", value)
        elif kind in _ATOMS or (issubclass(kind, enum.Enum) and is_plain_member(value)):
            self.reads.add(path, "value", value)
        elif id(value) in self._seen:
            self._look_again(path, value)
        else:
            self._seen[id(value)] = path
            self._alive.append(value)
            self._note_path(path, value)
            self._look_first(path, value)

    def _note_path(self, path: AccessPath | Root, value: Any) -> None:
        """Note an access path to a value that may escape."""
        if not issubclass(type(value), NEVER_ESCAPING):
            self.escapes.add_path(path, value)

    def _look_again(self, path: AccessPath | Root, value: Any) -> None:
        """Note another access path to a known object."""
        if issubclass(type(value), ModuleType):
            self._libraries.add(path, value)
        self.reads.add(path, "alias", self._seen[id(value)])
        self._note_path(path, value)
        self.containers.widen(path, value)
        if issubclass(type(value), type):
            self.attributes.constructs(value)

    def _look_first(self, path: AccessPath | Root, value: Any) -> None:
        kind = type(value)
        if kind is Tensor:
            self.reads.add(path, "tensor", value)
        elif issubclass(kind, (self._array, bytearray)):
            self.reads.add(path, "content", value)
        elif kind is FunctionType:
            self._look_at_function(path, value)
        elif kind is MethodType or issubclass(kind, functools.partial):
            self._look_at_wrapper(path, value)
        elif issubclass(kind, type):
            self.reads.add(path, "identity", value)
            if not is_library_class(value):
                self.attributes.add_class(path, value, constructs=True)
        elif issubclass(kind, ModuleType):
            library = self._libraries.add(path, value)
            self.reads.add(path, "member" if library else "identity", value)
            if not library:
                self._add_object(path, value)
        elif issubclass(kind, CONTAINERS):
            self._look_at_container(path, value)
        else:
            self._look_at_object(path, value)

    def _look_at_wrapper(self, path: AccessPath | Root, value: Any) -> None:
        """Visit the parts of a bound method or a partial."""
        self.reads.add(path, "type", value)
        parts = ("__func__", "__self__") if type(value) is MethodType else (
            "func", "args", "keywords")  # fmt: skip
        for name in parts:
            text = _joined(path, "" if name in ("__func__", "func") else f".{name}")
            text = "self" if text == "__self__" else text
            self.visit(AccessPath(path, "attribute", name, text, True), getattr(value, name))
        if type(value) is not MethodType:
            self._functions.append(Holder(path, value))

    def _look_at_container(self, path: AccessPath | Root, value: Any) -> None:
        self.reads.add(path, "type", value)
        self.reads.containers.append(Holder(path, value))
        self.containers.add(path, value)
        if isinstance(value, deque):  # an append to a full deque removes an item
            longest = AccessPath(path, "attribute", "maxlen", _joined(path, ".maxlen"), True)
            self.visit(longest, value.maxlen)
        if not is_library_class(type(value)):
            self._add_object(path, value)

    def _look_at_object(self, path: AccessPath | Root, value: Any) -> None:
        cls = type(value)
        library = is_library_class(cls)
        if cls is CACHED:  # the cached function runs outside of the trace
            self.reads.add(path, "identity", value)
            return
        finding = unwatched(path, value, self.reads)
        if cls is MappingProxyType and len(value) <= LIMIT and all(map(is_plain, value.values())):
            self.reads.add(path, "items", value)
        elif finding is not None:
            self.reads.add(path, "identity", value)
            self.reads.findings.append(finding)
            if not library and not isinstance(value, Iterator):
                self._add_object(path, value)
        elif library and cls.__module__.partition(".")[0] == "eagerflow":
            hidden = self._look_at_hidden(path, value)
            self.reads.add(path, "type" if hidden else "identity", value)
        elif not library or self._has_attributes(value):
            self.reads.add(path, "identity", value)
            self._add_object(path, value)
            if library:
                self._look_at_hidden(path, value)
        else:
            getter = isinstance(value, attrgetter)
            self.reads.add(path, "identity" if getter else "value", value)
            if getter:  # it reads attributes as the code would
                names = value.__reduce__()[1]
                self.names.update(part for name in names for part in name.split("."))
            if isinstance(value, (BuiltinFunctionType, MethodWrapperType)) and isinstance(
                value.__self__, (*CONTAINERS, Tensor, Iterator)
            ):
                owner = AccessPath(path, "attribute", "__self__", _joined(path, ""), True)
                self.visit(owner, value.__self__)
            elif hasattr(value, "__wrapped__"):
                inner = AccessPath(path, "attribute", "__wrapped__", _joined(path, ""), True)
                self.visit(inner, value.__wrapped__)

    def _has_attributes(self, value: Any) -> bool:
        return instance_dict(value) is not None and not issubclass(type(value), AbstractArray)

    def _look_at_hidden(self, path: AccessPath | Root, value: Any) -> bool:
        """Visit the functions that an object of a library holds; return whether there are any."""
        if not callable(value):
            return False
        hidden = False
        for name, inner in list((instance_dict(value) or {}).items()):
            if isinstance(inner, _CALLABLE) or (name in _WRAPPERS and callable(inner)):
                hidden = True
                self.visit(AccessPath(path, "dict", name, _joined(path, ""), True), inner)
        return hidden

    def _add_object(self, path: AccessPath | Root, value: Any) -> None:
        self.reads.objects.append(Holder(path, value))
        cls = type(value)
        if not is_library_class(cls):
            text = cls.__qualname__.rpartition(".")[2]
            self.attributes.add_instance(AccessPath(path, "class", None, text, True), value)

    # --- functions ---

    def _look_at_function(self, path: AccessPath | Root, function: FunctionType) -> None:
        self.reads.add(path, "function", function)
        library = is_library(function.__globals__)
        codes = nested(function.__code__)
        loaded = {x.name for c in codes for x in facts_of(c).loads if x.kind == "cell"}
        later = {name for c in codes for kind, name in facts_of(c).later if kind == "cell"}
        now = {x.name for c in codes for x in _now(facts_of(c)) if x.kind == "cell"}
        for i, name in enumerate(function.__code__.co_freevars):
            if name not in loaded:  # only set
                continue
            made = AccessPath(path, "cell", i, name, library)
            value = made.get()
            if value is GONE:  # not bound yet, or not any more
                self.reads.add(made, "absent", None)
            elif name in later - now:
                self.reads.add(made, "identity", value)
            else:
                self.visit(made, value)
        if path is not self.reads.root:
            self._look_at_defaults(path, function)
        else:
            for name in ("__code__", "__defaults__", "__kwdefaults__"):
                made = AccessPath(path, "attribute", name, name, True)
                if getattr(function, name) is not None:
                    self.reads.add(made, "member", getattr(function, name))
        if library:
            return
        owners = self.reads.objects if function.__dict__ else self._functions
        owners.append(Holder(path, function))
        for code in codes:
            self._look_at_code(Site(code, function, path))

    def _look_at_defaults(self, path: AccessPath | Root, function: FunctionType) -> None:
        for name in ("__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value:
                text = f"the defaults of {_joined(path, '')}"
                self.visit(AccessPath(path, "attribute", name, text, True), value)

    def _look_at_code(self, site: Site) -> None:
        key = (id(site.code), id(site.function.__globals__))
        known = key in self._codes
        self._codes.add(key)
        self.reads.sites.append(site)
        facts = facts_of(site.code)
        if not known:
            for load in facts.loads:
                self.reads.loads.setdefault((load.kind, load.name), []).append((site.code, load))
        self.names |= facts.attributes
        self.later |= {name for kind, name in facts.later if kind == "attribute"}
        self.names |= facts.strings
        self.asked |= facts.strings
        self._owners |= facts.owners
        self.stored.update(name for kind, name in facts.stores if kind == "attribute")
        if facts.every_attribute:
            self.every = True
        if not is_own_code(site.function):
            self.escapes.note(site)
        if facts.imports or any(load.kind == "cell" for load in facts.loads):
            self._doubtful = True
        if not known:
            for name in sorted(facts.globals):
                self._look_at_global(site, name)
            for module, level in facts.imports:
                self._look_at_import(site, module, level)

    def _look_at_global(self, site: Site, name: str) -> None:
        namespace = site.function.__globals__
        key = (id(namespace), name)
        if key in self.global_paths:
            return
        value = namespace.get(name)
        if not isinstance(value, ModuleType) or value.__name__ != "eagerflow":
            self._doubtful = True
        text, home = name, self.reads.sites[0].function.__globals__
        if namespace is not home:
            text = f"{str(namespace.get('__name__', '')).rpartition('.')[2]}.{name}".lstrip(".")
        path = AccessPath(site.path, "global", name, text)
        if ("global", name) in facts_of(site.code).later:
            if name in namespace:
                self.reads.add(path, "identity", namespace[name])
            return
        self.global_paths[key] = path
        if name in namespace:
            self.visit(path, namespace[name])
        elif hasattr(builtins, name) or not name.startswith("__"):
            self.reads.add(path, "absent", None)
            builtin = getattr(builtins, name, None)
            if not (builtin is None or _is_exception(builtin) or is_own_code(site.function)):
                made = AccessPath(_BUILTINS, "attribute", name, f"builtins.{name}", True)
                self.reads.add(made, "member", builtin)

    def _look_at_import(self, site: Site, module: str, level: int) -> None:
        try:
            package = site.function.__globals__.get("__package__")
            name = importlib.util.resolve_name("." * level + module, package)
        except (ImportError, TypeError):
            return
        while name:
            imported = sys.modules.get(name)
            if isinstance(imported, ModuleType) and not is_library(vars(imported)):
                self.visit(AccessPath(MODULES, "item", name, name, True), imported)
            name = name.rpartition(".")[0]

    def _scan_libraries(self) -> None:
        """Visit the values that the user's code reads by name from library modules."""
        for path, value, kind in self._libraries.new(self.reads, self.asked):
            if kind is None:
                self.visit(path, value)
            else:
                self.reads.add(path, kind, value)


def _is_exception(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def _now(facts: Facts) -> Iterator[Load]:
    """The loads of values that are not only called later."""
    return (load for load in facts.loads if (load.kind, load.name) not in facts.later)


def _joined(path: AccessPath | Root, end: str) -> str:
    return joined(path.text, end).lstrip(".") or "the function"
