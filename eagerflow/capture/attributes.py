"""Attributes, methods and properties of objects and classes that code may read by name."""

from __future__ import annotations

import enum
import functools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from inspect import getattr_static
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.capture.access_paths import (
    GONE,
    AccessPath,
    Root,
    instance_dict,
    joined,
)
from eagerflow.capture.equality import is_plain
from eagerflow.capture.library_code import is_bare_class, is_library_class
from eagerflow.capture.reads import Finding, Holder
from eagerflow.capture.snapshot import attributes_of
from eagerflow.core.tree import slots_of
from eagerflow.source import Source

if TYPE_CHECKING:
    from eagerflow.capture.guards.guard_choice import Collector


#: methods that Python calls by itself when an object is made
_CONSTRUCTORS: Final = frozenset({"__init__", "__new__", "__post_init__"})
#: methods whose results do not get into a graph
_IGNORED: Final = frozenset({"__del__", "__dir__", "__sizeof__"})
#: methods whose results get into a graph only where code makes texts or copies
_BY_LIBRARIES: Final = frozenset({
    "__copy__", "__deepcopy__", "__format__", "__getnewargs__", "__getstate__", "__reduce__",
    "__reduce_ex__", "__repr__", "__setstate__", "__str__",
})  # fmt: skip
#: attributes of every member of an enumeration
_OF_MEMBERS: Final = frozenset({"__objclass__", "_name_", "_sort_order_", "_value_"})


@final
@dataclass(slots=True, eq=False)
class _Class:
    """A class of the user's.

    Attributes:
        path: the path by which it was reached first.
        value: the class.
        constructs: whether code may call it.
        done: the members visited, by index of the base and name.
    """

    path: AccessPath | Root
    value: type
    constructs: bool
    done: set[tuple[int, str]] = field(default_factory=set)


@final
class Attributes:
    """Guards for the attributes of the objects and classes that were found.

    Args:
        visitor: the collector, which visits the values and knows the names that code reads.
    """

    def __init__(self, visitor: Collector) -> None:
        self._visitor = visitor
        self._classes: dict[int, _Class] = {}
        self._new: list[_Class] = []
        self._known: set[tuple[int, str]] = set()
        self._handed: set[tuple[int, str]] = set()  # attributes that are only called later
        self._scanned = 0  # number of objects

    def add_class(self, path: AccessPath | Root, cls: type, *, constructs: bool) -> None:
        """Note a class, unless a library defines it."""
        known = self._classes.get(id(cls))
        if known is not None:
            if constructs:
                self.constructs(cls)
        elif not is_library_class(cls):
            self._classes[id(cls)] = entry = _Class(path, cls, constructs)
            self._new.append(entry)
            self._visitor.reads.classes.append(Holder(path, cls))
            if not is_library_class(type(cls)):  # its metaclass may have properties
                text = type(cls).__qualname__.rpartition(".")[2]
                self.add_instance(AccessPath(path, "class", None, text, True), cls)

    def constructs(self, cls: type) -> None:
        """Note that code may make instances of the class."""
        known = self._classes.get(id(cls))
        if known is not None and not known.constructs:
            known.constructs = True
            self._new.append(known)

    def add_instance(self, path: AccessPath, value: Any) -> None:
        """Note an object; ``path`` is the path of its class."""
        self._visitor.reads.add(path, "identity", type(value))
        self.add_class(path, type(value), constructs=False)

    def scan(self, *, whole: bool) -> None:
        """Visit the attributes read by name, of all objects and classes or of the new ones."""
        objects = self._visitor.reads.objects
        first, self._scanned = 0 if whole else self._scanned, len(objects)
        for holder in objects[first:]:
            self._scan_object(holder)
        classes, self._new = list(self._classes.values()) if whole else self._new, []
        for one in classes:
            seen: set[str] = set()
            for i, base in enumerate(one.value.__mro__):
                if is_library_class(base):
                    continue
                for name, member in list(base.__dict__.items()):
                    if self._reads(one, name, member) and (i, name) not in one.done:
                        one.done.add((i, name))
                        self._look(one, i, name, member, overridden=name in seen)
                seen.update(base.__dict__)

    def _reads(self, one: _Class, name: str, member: Any) -> bool:
        if name.startswith("__") and name.endswith("__"):
            if not isinstance(member, (FunctionType, staticmethod, classmethod)):
                return False
            if name in _CONSTRUCTORS:
                return one.constructs
            if name in _IGNORED:
                return False
            if name in _BY_LIBRARIES and not self._visitor.escapes.formats:
                return False
            return not _is_generated(member, one.value)
        if self._visitor.wants(name):
            return True
        if isinstance(member, enum.Enum):  # code may iterate over the members
            return not is_plain_member(member)
        if _is_called_by_base(one.value, name):
            return True
        # setting a property runs it
        return name in self._visitor.stored and hasattr(type(member), "__set__")

    def _look(self, one: _Class, i: int, name: str, member: Any, *, overridden: bool) -> None:
        visit = self._visitor.visit
        text = f"{one.value.__qualname__.rpartition('.')[2]}.{name}"
        if isinstance(member, MemberDescriptorType):
            return
        through_base = overridden or isinstance(member, (staticmethod, classmethod))
        plain = isinstance(member, FunctionType) or not hasattr(type(member), "__get__")
        how = "base" if through_base or not plain else "attribute"
        path = AccessPath(one.path, how, (i, name) if how == "base" else name, text, True)
        if isinstance(member, (staticmethod, classmethod)):
            self._visitor.reads.add(path, "type", member)
            visit(AccessPath(path, "attribute", "__func__", text, True), member.__func__)
        elif isinstance(member, property):
            self._visitor.reads.add(path, "type", member)
            for part in ("fget", "fset", "fdel"):
                function = getattr(member, part)
                if function is not None:
                    visit(AccessPath(path, "attribute", part, text, True), function)
        elif isinstance(member, functools.cached_property):
            self._visitor.reads.add(path, "type", member)
            visit(AccessPath(path, "attribute", "func", text, True), member.func)
        else:
            visit(path, member)
        if name == "__getattribute__":
            self._doubt(member, text)

    def _doubt(self, member: Any, text: str) -> None:
        source = Source(member.__code__, 0) if isinstance(member, FunctionType) else None
        self._visitor.reads.findings.append(Finding(
            "unwatched", text, "decides the values of attributes: changes by it are not seen",
            "use __getattr__ or a property", source,
        ))  # fmt: skip

    # --- objects ---

    def _scan_object(self, holder: Holder) -> None:
        path, value = holder
        own = attributes_of(value)
        whole = self._visitor.escapes.take(value)
        every = whole or self._takes_every(value)
        if _computes(value):
            self._visitor.names.add("__getattr__")
        for name in self._wanted(own, every):
            self._look_at_attribute(path, value, name, own[name], whole=whole)

    def _wanted(self, names: Iterable[str], every: bool) -> list[str]:
        if every:
            return [n for n in names if isinstance(n, str)]
        return [n for n in names if n in self._visitor.names or n in self._visitor.later]

    def _look_at_attribute(
        self, path: AccessPath | Root, owner: Any, name: str, value: Any, *, whole: bool
    ) -> None:
        if whole:
            self._visitor.escapes.take_part(value, owner)
        module = issubclass(type(owner), ModuleType)
        key = (id(owner), name)
        if key in self._known or (module and (id(vars(owner)), name) in self._visitor.global_paths):
            return
        how = "attribute" if _is_plain(type(owner), name) else "dict"
        made = AccessPath(
            path, how, name, joined(path.text, f".{name}").lstrip(".") or "the function"
        )
        if not (whole or self._visitor.wants(name)):
            # the value is only called later: its identity counts
            if key not in self._handed:
                self._handed.add(key)
                self._visitor.reads.add(made, "identity", value)
            return
        self._known.add(key)
        if module:
            self._visitor.global_paths[id(vars(owner)), name] = made
        self._visitor.visit(made, value)

    def finish(self) -> None:
        """Add guards against new attributes with names that code reads."""
        self._finish_objects()
        self._finish_namespaces()

    def _finish_objects(self) -> None:
        """Add guards against new attributes of instances with names that code reads."""
        for path, value in self._visitor.reads.objects:
            every = self._takes_every(value) or self._visitor.escapes.take(value)
            self._finish_slots(path, value, every=every)
            own = instance_dict(value)
            if own is None or (is_library_class(type(value)) and isinstance(value, ModuleType)):
                continue
            entries = AccessPath(path, "attribute", "__dict__", path.text or "the function", True)
            if every:
                self._visitor.reads.add(entries, "keys", own)
                continue
            names = frozenset(n for n in self._visitor.names if not n.startswith("__")) - own.keys()
            if names:
                self._visitor.reads.add(entries, "lacking", names)

    def _finish_slots(self, path: AccessPath | Root, value: Any, *, every: bool) -> None:
        """Add guards that empty slots which code reads stay empty."""
        slots = slots_of(type(value))
        empty = self._wanted(set(slots).difference(attributes_of(value)), every) if slots else ()
        for name in empty:
            slot = AccessPath(path, "attribute", name, joined(path.text, f".{name}"))
            self._visitor.reads.add(slot, "absent", None)

    def _finish_namespaces(self) -> None:
        """Add guards against new names in classes and modules that code may ask for."""
        modules = [h for h in self._visitor.reads.objects if issubclass(type(h.value), ModuleType)]
        for path, value in (*modules, *self._bases()):
            entries = AccessPath(path, "attribute", "__dict__", path.text, True)
            if self._visitor.every:
                self._visitor.reads.add(entries, "keys", value.__dict__)
                continue
            names = frozenset(
                n
                for n in (self._visitor.names if _computes(value) else self._visitor.asked)
                if not n.startswith("__") and getattr_static(value, n, GONE) is GONE
            )
            if names:
                self._visitor.reads.add(entries, "lacking", names)

    def _bases(self) -> Iterator[Holder]:
        """The user's classes that were found, and their base classes of the user."""
        known: set[int] = set()
        for path, cls in self._visitor.reads.classes:
            for i, base in enumerate(cls.__mro__):
                if id(base) not in known and not is_library_class(base):
                    known.add(id(base))
                    text = base.__qualname__.rpartition(".")[2]
                    bases = AccessPath(path, "attribute", "__mro__", text, True)
                    yield Holder(AccessPath(bases, "item", i, text, True) if i else path, base)

    def _takes_every(self, value: Any) -> bool:
        """Whether attributes of an object may be read by names made at run time."""
        cls = type(value)
        return self._visitor.every and (is_bare_class(cls) or not is_library_class(cls))


def _is_called_by_base(cls: type, name: str) -> bool:
    """Whether a base class of the standard library has a method of this name, which it may call."""
    return any(
        isinstance(base.__dict__.get(name), (FunctionType, classmethod, staticmethod))
        and is_library_class(base)  # few have the name, and this takes longer
        and base.__module__.partition(".")[0] in sys.stdlib_module_names
        for base in cls.__mro__
    )


def is_plain_member(member: enum.Enum) -> bool:
    """Whether a member of an enumeration holds immutable plain values only."""
    own = instance_dict(member) or {}
    return _OF_MEMBERS.issuperset(own) and is_plain(own.get("_value_"))


def _computes(value: Any) -> bool:
    """Whether a module computes missing attributes, by ``__getattr__``."""
    return issubclass(type(value), ModuleType) and "__getattr__" in value.__dict__


def _is_plain(cls: type, name: str) -> bool:
    """Whether plain access to an attribute finds the instance's own entry."""
    for base in cls.__mro__:
        if "__getattribute__" in base.__dict__ and not is_library_class(base):
            return False
        member = base.__dict__.get(name)
        if member is not None and not isinstance(member, MemberDescriptorType):
            return not hasattr(type(member), "__get__")  # a descriptor runs without an own entry
    return True


def _is_generated(member: Any, cls: type) -> bool:
    """Whether `dataclasses` generated a method: it reads all fields, to compare them."""
    code = getattr(getattr(member, "__wrapped__", member), "__code__", None)
    return code is not None and code.co_filename == "<string>" and hasattr(
        cls, "__dataclass_fields__"
    )  # fmt: skip
