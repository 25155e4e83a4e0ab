"""What classes define: methods, properties and values that instances share."""

from __future__ import annotations

import functools
from types import FunctionType, MemberDescriptorType
from typing import Any, Final, Protocol, final

from eagerflow.autograph.conversion.convert import is_library_class
from eagerflow.capture.paths import AccessPath, Root
from eagerflow.capture.reads import Finding, Holder, Reads
from eagerflow.source import Source

__all__ = ["Members"]

#: methods that Python calls by itself when an object is made
_CONSTRUCTORS: Final = frozenset({"__init__", "__new__", "__post_init__"})
#: and those whose results do not get into a graph
_IGNORED: Final = frozenset({
    "__class_getitem__", "__copy__", "__deepcopy__", "__del__", "__dir__", "__format__",
    "__getnewargs__", "__getstate__", "__init_subclass__", "__reduce__", "__reduce_ex__",
    "__repr__", "__set_name__", "__setstate__", "__sizeof__", "__str__",
})  # fmt: skip


class _Visitor(Protocol):
    found: Reads
    stored: set[str]

    def visit(self, path: AccessPath | Root, value: Any) -> None:
        """Look at a value later."""

    def wants(self, name: str) -> bool:
        """Whether reachable code may read an attribute of this name."""


@final
class _Class:
    """A class of the user's.

    Attributes:
        path: by which it was reached first.
        value: the class.
        constructs: whether code may call it.
        done: the members that were looked at.
    """

    __slots__ = ("constructs", "done", "path", "value")

    def __init__(self, path: AccessPath | Root, value: type, constructs: bool) -> None:
        self.path = path
        self.value = value
        self.constructs = constructs
        self.done: set[tuple[int, str]] = set()


@final
class Members:
    """The classes that were found.

    Args:
        visitor: what looks at the values of members, and knows which names are read.
    """

    def __init__(self, visitor: _Visitor) -> None:
        self._visitor = visitor
        self._classes: dict[int, _Class] = {}
        self._new: list[_Class] = []

    def add_class(self, path: AccessPath | Root, cls: type, *, constructs: bool) -> None:
        """Note a class, unless a library defines it."""
        known = self._classes.get(id(cls))
        if known is not None:
            if constructs:
                self.constructs(cls)
        elif not is_library_class(cls):
            self._classes[id(cls)] = entry = _Class(path, cls, constructs)
            self._new.append(entry)
            self._visitor.found.classes.append(Holder(path, cls))

    def constructs(self, cls: type) -> None:
        """Note that code may make instances of the class."""
        known = self._classes.get(id(cls))
        if known is not None and not known.constructs:
            known.constructs = True
            self._new.append(known)

    def add_instance(self, path: AccessPath, value: Any) -> None:
        """Note an object; ``path`` is that of its class."""
        self._visitor.found.add(path, "identity", type(value))
        self.add_class(path, type(value), constructs=False)

    def scan(self, *, whole: bool) -> None:
        """Look at the members whose names are read, of all classes or of the new ones."""
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
            return name not in _IGNORED and not _is_generated(member, one.value)
        if self._visitor.wants(name):
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
            self._visitor.found.add(path, "type", member)
            visit(AccessPath(path, "attribute", "__func__", text, True), member.__func__)
        elif isinstance(member, property):
            self._visitor.found.add(path, "type", member)
            for part in ("fget", "fset", "fdel"):
                function = getattr(member, part)
                if function is not None:
                    visit(AccessPath(path, "attribute", part, text, True), function)
        elif isinstance(member, functools.cached_property):
            self._visitor.found.add(path, "type", member)
            visit(AccessPath(path, "attribute", "func", text, True), member.func)
        else:
            visit(path, member)
        if name == "__getattribute__":
            self._doubt(member, text)

    def _doubt(self, member: Any, text: str) -> None:
        source = Source(member.__code__, 0) if isinstance(member, FunctionType) else None
        self._visitor.found.findings.append(Finding(
            "unwatched", text, "decides what attributes are: changes that it makes are not seen",
            "use __getattr__ or a property", source,
        ))  # fmt: skip


def _is_generated(member: Any, cls: type) -> bool:
    """Whether a method was written by `dataclasses`: it reads all fields, to compare them."""
    code = getattr(member, "__code__", None)
    return code is not None and code.co_filename == "<string>" and hasattr(
        cls, "__dataclass_fields__"
    )  # fmt: skip
