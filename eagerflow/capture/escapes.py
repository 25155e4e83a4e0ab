"""`Escapes`: what gets into code that is not looked at, so that all that it holds counts.

Such code is what Python itself writes (comparisons, hashes and texts of dataclasses, of
`SimpleNamespace`) and that of libraries. What it reads of an object has no name in the user's code.
"""

from __future__ import annotations

from collections import deque
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.capture.access_paths import GONE, AccessPath, Root
from eagerflow.capture.bytecode import FORMATTERS, REFLECTIVE, UNNAMED, Load, facts_of
from eagerflow.capture.findings import CODE, is_of_library, value_of
from eagerflow.capture.library_code import (
    calls_methods,
    has_library_base,
    is_library_class,
    reads_itself,
)  # fmt: skip
from eagerflow.capture.reads import Finding, Site, name_of
from eagerflow.core.tensor import Tensor

if TYPE_CHECKING:
    from eagerflow.capture.guards.guard_choice import Collector


#: objects and containers that are compared as a whole
MOST: Final = 1000
#: those in which values are kept
CONTAINERS: Final = (list, tuple, dict, set, frozenset, deque)
#: what is looked at, wherever it gets
NEVER_ESCAPING: Final = (ModuleType, FunctionType, Tensor)
#: containers of the standard library that are written in Python
_WRAPPERS: Final = frozenset({"UserDict", "UserList", "ChainMap"})
#: builtins and methods of containers and texts that compare, hash or format what they get
_INSPECTING: Final = FORMATTERS | {
    "add", "count", "dict", "discard", "frozenset", "get", "groupby", "hash", "index", "max", "min",
    "pop", "remove", "set", "setdefault", "sorted",
}  # fmt: skip
#: methods by which Python does so
_PROTOCOL: Final = frozenset({
    "__eq__", "__format__", "__ge__", "__gt__", "__hash__", "__le__", "__lt__", "__mod__", "__ne__",
    "__reduce__", "__reduce_ex__", "__replace__", "__repr__", "__str__",
})  # fmt: skip
#: functions written in C, which have names but no code
_IN_C: Final = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, type)
#: modules whose functions read no attributes of objects that they get
_BLIND: Final = frozenset({
    "bisect", "builtins", "cmath", "collections", "contextlib", "eagerflow", "functools", "gc",
    "heapq", "itertools", "math", "numpy", "operator", "os", "random", "sys", "threading", "time",
    "types", "typing", "warnings", "weakref",
})  # fmt: skip
#: among them, those whose functions compare them
_COMPARING: Final = frozenset({"bisect", "heapq", "operator"})


@final
class Escapes:
    """Which of the objects and containers that were found escape.

    Args:
        visitor: what knows the code that can be reached.

    Attributes:
        formats: whether code makes texts of values.
    """

    def __init__(self, visitor: Collector) -> None:
        self._visitor = visitor
        self.formats = False
        #: kind and name of what is compared, made a key or formatted
        self._inspected: set[tuple[str, str]] = set()
        self._handed: set[tuple[str, str]] = set()  # and of what functions of libraries get
        #: ids of what escapes -> whether its numbers are to be what they are
        self._whole: dict[int, bool] = {}
        self._too_many = False
        self._paths: dict[int, list[AccessPath | Root]] = {}  # to objects and containers, by id

    def __len__(self) -> int:
        """What only grows."""
        return len(self._whole) + len(self._inspected) + len(self._handed)

    def note(self, site: Site) -> None:
        """Look at what code does with values."""
        facts = facts_of(site.code)
        self.formats |= facts.formats
        self._inspected |= facts.inspected
        for load in facts.loads:
            if load.name in _INSPECTING and not load.direct:  # as in show = str
                self._inspected.add(UNNAMED)
            if not _PROTOCOL.isdisjoint(load.attributes[:1]):  # as in x.__repr__()
                self._inspected.add((load.kind, load.name))
        if not _PROTOCOL.isdisjoint(facts.attributes | facts.strings):
            self._inspected.add(UNNAMED)
        for name, function, end in facts.given:
            value = GONE if function is None else value_of(site, function)
            module = getattr(value, "__module__", None) if type(value) in CODE else ""
            top = str(module or "builtins").partition(".")[0].lstrip("_")
            if value is GONE or top in _BLIND:
                if end in _INSPECTING or top in _COMPARING:
                    self._inspected |= {name, _receiver(function)}
            elif is_of_library(value):
                self._handed.add(name)
                self.formats = True

    def add_path(self, path: AccessPath | Root, value: Any) -> None:
        """Note a way to an object, which may be a known function under another name."""
        name = value.__name__ if type(value) in _IN_C else ""
        if name in REFLECTIVE and not (isinstance(path, AccessPath) and name_of(path)[1] == name):
            self._visitor.every = True
        if name in _INSPECTING or name in _PROTOCOL:
            self._inspected.add(UNNAMED)
            self.formats |= name in FORMATTERS
        self._paths.setdefault(id(value), []).append(path)

    def take(self, value: Any) -> bool:
        """Whether an object or a container escapes."""
        if id(value) not in self._whole:
            paths = self._paths.get(id(value), [])
            names = {name_of(path) if isinstance(path, AccessPath) else UNNAMED for path in paths}
            if not self._escapes(value, names):
                return False
            exactly = not names.isdisjoint(self._handed - {UNNAMED})
            self._whole[id(value)] = exactly or _is_made_by_library(type(value))
        return True

    def _escapes(self, value: Any, names: set[tuple[str, str]]) -> bool:
        cls = type(value)
        if issubclass(cls, NEVER_ESCAPING):
            return False
        named = names - {UNNAMED}
        if not named.isdisjoint(self._handed):
            return True
        container = issubclass(cls, CONTAINERS)
        if not (container or reads_itself(cls)):
            return False
        if not named.isdisjoint(self._inspected):
            return True
        if container or (is_library_class(cls) and callable(value)):
            return False
        all_loads = self._visitor.found.loads
        loads = [load for name in names for _, load in all_loads.get(name, ())]
        # it may get to where it has no name
        loose = any(not x.attributes for x in loads) or calls_methods(cls, self._visitor.names)
        if loose or not all(name for _, name in names):
            return has_library_base(cls) or UNNAMED in self._inspected | self._handed
        return False

    def take_part(self, value: Any, owner: Any) -> None:
        """Note that a value escapes with the object or container that holds it."""
        if len(self._whole) >= MOST:
            self._too_many = True
        elif issubclass(type(value), CONTAINERS) or reads_itself(type(value)):
            self._whole[id(value)] = self._whole[id(owner)] or self._whole.get(id(value), False)

    def finish(self) -> None:
        """Note what numbers have to be, and that what libraries do to their objects stays."""
        reads = self._visitor.found
        for i, read in enumerate(reads.reads):
            if read.kind == "number" and self._is_exact(read.path):
                reads.reads[i] = read._replace(kind="value")
        for holders in (reads.containers, reads.objects) if self._whole else ():
            holders[:] = [held for held in holders if not _is_in_library(held.path)]
        if self._too_many:
            reads.findings.append(Finding(
                "unwatched", reads.root.text or "the function",
                f"passes on what holds more than {MOST:,} objects: changes in the others are not "
                "seen", "pass on what it needs of them", None,
            ))  # fmt: skip

    def _is_exact(self, path: AccessPath) -> bool:
        """Whether a number has to be what it is."""
        return name_of(path) in self._handed or self._whole.get(id(path.parent.get()), False)


def _receiver(load: Load | None) -> tuple[str, str]:
    """Kind and name of the object of which a method is called."""
    if load is None or not load.attributes:
        return UNNAMED
    names = load.attributes[:-1]
    return ("attribute", names[-1]) if names else (load.kind, load.name)


def _is_in_library(path: AccessPath | Root) -> bool:
    """Whether an object of a library holds what is there."""
    while isinstance(path, AccessPath):
        path = path.parent
        if _is_made_by_library(type(path.get())):
            return True
    return False


def _is_made_by_library(cls: type) -> bool:
    """Whether objects of a class are what a library makes of them."""
    container = issubclass(cls, CONTAINERS) or cls.__name__ in _WRAPPERS
    return not container and is_library_class(cls) and has_library_base(cls)
