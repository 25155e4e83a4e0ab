"""Records of the reads of a function from outside: access paths, reading code, and findings.

`collect` starts at the function and follows all names in its code: the global names and cells that
it reads, the attributes of their values if the attribute's name occurs in reachable code, the
items of containers, and the code of functions, methods and properties found on the way, until
nothing is added. Library code is not entered.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Sequence
from operator import is_, is_not
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, final

from eagerflow.capture.access_paths import AccessPath, Root
from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.code_facts import Load
from eagerflow.source import Source


class Read(NamedTuple):
    """One access path, with its value when the function is traced and the kind of its guard.

    Attributes:
        path: the access path; for ``"absent"`` the path of an unbound name.
        kind: ``"tensor"``, ``"number"`` (may differ from call to call), or the kind of guard: see
            `eagerflow.capture.guards.guard_kinds`.
        value: the value read; for ``"alias"`` the path or root that leads to the same object, for
            ``"holding"`` and ``"lacking"`` the keys or names.
    """

    path: AccessPath
    kind: str
    value: Any


class Finding(NamedTuple):
    """An effect or a read that a trace cannot follow.

    Attributes:
        kind: ``"impure"`` (a call that runs only while tracing, or whose result is frozen then) or
            ``"unwatched"`` (changes of a value would go unnoticed).
        what: the expression or the object, as the user knows it.
        why: the consequence.
        hint: the remedy.
        source: the line.
    """

    kind: str
    what: str
    why: str
    hint: str
    source: Source | None

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source is not None else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.what} {self.why}{hint}{where}"


class Holder(NamedTuple):
    """A reachable object that has attributes or items.

    Attributes:
        path: the path by which it was reached first.
        value: the object.
    """

    path: AccessPath | Root
    value: Any


class Site(NamedTuple):
    """A reachable code object and the function that it belongs to.

    Attributes:
        code: the code.
        function: the function whose global names and cells the code uses.
        path: of the function.
    """

    code: CodeType
    function: Any
    path: AccessPath | Root


@final
class Reads:
    """The result of `collect`. It holds the user's objects: keep it only while tracing.

    Attributes:
        root: the root of paths from the function.
        reads: the access paths, owners before their members.
        findings: effects and reads that a trace cannot follow.
        sites: the reachable code of the user.
        objects: reachable objects with attributes: instances, modules, functions.
        classes: reachable classes of the user.
        containers: reachable lists, dicts, sets and deques.
        asks_types: whether code asks for types of objects, so that numbers must be Python's own.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self.reads: list[Read] = []
        self.findings: list[Finding] = []
        self.sites: list[Site] = []
        self.objects: list[Holder] = []
        self.classes: list[Holder] = []
        self.containers: list[Holder] = []
        self.loads: dict[tuple[str, str], list[tuple[CodeType, Load]]] = {}
        self.asks_types = False

    def add(self, path: AccessPath | Root, kind: str, value: Any) -> None:
        """Note the value of an access path; roots need no read."""
        if isinstance(path, AccessPath):
            self.reads.append(Read(path, kind, value))

    def below(self, value: Any) -> Reads:
        """The reads from one object that is a root, with the same code."""
        part = Reads(self.root)
        part.sites, part.loads = self.sites, self.loads
        part.reads = [r for r in self.reads if r.path.root.get() is value]
        for name in ("objects", "classes", "containers"):
            holders = [h for h in getattr(self, name) if h.path.root.get() is value]
            setattr(part, name, holders)
        return part

    def of_kind(self, *kinds: str) -> list[Read]:
        """The reads of these kinds."""
        return [r for r in self.reads if r.kind in kinds]

    def of_types(self, types: Container[type]) -> list[dict[int, AccessPath | Root]]:
        """Tensors and mutable objects by type and id: of these types, or all if identity counts."""
        groups: dict[type, dict[int, AccessPath | Root]] = {}
        every = self.asks_identity
        for path, value in self.holders:
            if isinstance(value, ModuleType | FunctionType):
                continue
            if every or type(value) in types:
                groups.setdefault(type(value), {})[id(value)] = path
        return list(groups.values())

    @property
    def holders(self) -> list[Holder]:
        """Tensors and mutable objects, with the paths by which they were reached first."""
        tensors = [Holder(r.path, r.value) for r in self.tensors]
        return [*self.containers, *self.objects, *tensors]

    @property
    def asks_identity(self) -> bool:
        """Whether code tells objects apart with ``is`` or `id`, under any name."""
        return self._knows(id, is_, is_not) or any(
            facts_of(site.code).asks_identity for site in self.sites
        )

    @property
    def asks_addresses(self) -> bool:
        """Whether code may keep or look up results of `id`."""
        return self._knows(id)

    def _knows(self, *functions: Any) -> bool:
        """Whether code reads one of these functions, under any name."""
        return any(r.value is function for r in self.reads for function in functions)

    @property
    def tensors(self) -> list[Read]:
        """The reads of tensors, each tensor once."""
        return self.of_kind("tensor")

    @property
    def numbers(self) -> list[Read]:
        """The reads of Python numbers for which a trace can substitute symbolic ones."""
        return self.of_kind("number")

    def line_of(self, path: AccessPath | Root) -> Source | None:
        """The first line that reads the name at the end of an access path."""
        if isinstance(path, AccessPath) and path.key == "__self__":  # code names the method
            path = path.parent
        loads = self.loads_of(path) if isinstance(path, AccessPath) else ()
        return next((Source(code, load.offset) for code, load in loads), None)

    def loads_of(self, path: AccessPath) -> Sequence[tuple[CodeType, Load]]:
        """The loads of the name at the end of an access path; they may read another value."""
        return self.loads.get(name_of(path), ())


def name_of(path: AccessPath) -> tuple[str, str]:
    """Kind and name by which code reads the value at the end of an access path."""
    if path.how in ("attribute", "dict"):
        return "attribute", path.key
    if path.how == "base":
        return "attribute", path.key[1]
    if path.how == "cell":
        return "cell", path.text
    return path.how, path.key if path.how == "global" else ""


def describe(value: Any) -> str:
    """A short text of a value of the user, for messages."""
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        return str(getattr(value, "__qualname__", value))
    if isinstance(value, ModuleType):  # of some, repr warns
        return f"module {value.__name__}"
    if value is sys.modules:
        return "sys.modules"
    try:
        text = _sorted(value) if type(value) in (set, frozenset) and value else repr(value)
    except Exception:  # of the user's class
        text = object.__repr__(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _sorted(value: set[Any] | frozenset[Any]) -> str:
    """The text of a set in one order, as that of a set itself differs between processes."""
    items = f"{{{', '.join(sorted(map(repr, value)))}}}"
    return items if type(value) is set else f"frozenset({items})"


def with_article(name: str) -> str:
    """The name of a class behind its article: ``an Adam``, ``an SGD``, ``a Linear``."""
    vowels = "AEFHILMNORSX" if name[:2].isupper() else "AEIOaeio"  # abbreviations are spelled
    return f"{'an' if name[:1] in vowels else 'a'} {name}"
