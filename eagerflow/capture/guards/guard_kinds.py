"""`Guard`: one fact about the outside that a trace relies on.

The kind of guard for a value is chosen in `eagerflow.capture.guards.guard_choice`.

A guard consists of an access path, a kind, and an expected value or property:

==============  ===============================================================================
``tensor``      any tensor
``input``       a tensor of a lane and a shape, or an array of NumPy that makes one
``number``      a Python number of this type, whatever its value
``array``       any NumPy array
``value``       an equal value of the same type; -0.0 and 0.0, 1 and True differ
``identity``    the same object
``member``      the same object, of a library, which keeps it alive
``alias``       the object that another access path leads to
``distinct``    an object other than those at other access paths, which are all different
``function``    a function with equal code and the same global names
``type``        an object of exactly this class
``length``      a container of the same class with as many items
``size``        a container with this number of items
``keys``        a dict with these keys, in this order
``names``       a dict of the same class with these very keys, in this order
``unless``      an object of the same class, or one for which a test is false
``items``       a container with equal items
``content``     an array with equal elements
``absent``      no such global name, an enclosing name that is not bound, or an empty slot
``decided``     numbers for which a condition has the same result
``holding``     a dict with these keys among others
``lacking``     a dict, or the names of an instance, without these keys
==============  ===============================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Final, NamedTuple, final
from weakref import ref

from eagerflow.capture.access_paths import GONE, contents
from eagerflow.capture.equality import content_of
from eagerflow.capture.reads import Read, describe, with_article
from eagerflow.core.tensor import AbstractArray


@final
class Guard:
    """One guard: a kind of comparison at an access path.

    Attributes:
        path: the access path.
        kind: as in the table of this module.
        expected: the expected value or property; for ``"identity"`` a weak reference, if possible.
        weak: whether ``expected`` is a weak reference.
        was: description of the value when the function was traced.
    """

    __slots__ = ("expected", "kind", "path", "was", "weak")

    def __init__(self, read: Read) -> None:
        self.path = read.path
        self.kind = read.kind
        self.was = _describe(read)
        self.weak = False
        self.expected = KINDS[read.kind].expect(read.value)
        if read.kind == "identity":
            with suppress(TypeError):
                self.expected, self.weak = ref(read.value), True

    def difference(self, value: Any) -> str:
        """Description of how the present value differs."""
        if value is GONE:
            return f"{self.path.described} is gone, was {self.was}"
        if self.kind == "absent":
            hides = ", hides the builtin" if self.path.how == "global" else ""
            return f"{self.path.described} is there now{hides}"
        if self.kind == "function" and isinstance(value, FunctionType):
            return f"{self.path.text} was redefined"
        if self.kind == "decided":
            was = self.expected.result
            return f"{self.expected.described}: was {was}, now {not was}"
        if self.kind == "lacking":
            names = ", ".join(sorted(map(str, self.expected & value.keys())))
            own = "its own " if self.path.key == "__dict__" else ""
            return f"{self.path.text} has {own}{names} now"
        if self.kind == "holding":
            names = ", ".join(sorted(map(str, self.expected - value.keys())))
            return f"{self.path.text} has no {names} any more"
        if self.kind == "input":
            return str(self.expected.difference(value))
        if self.kind == "distinct":
            return f"{self.path.described} or another one of its type is one object under two names"
        if self.kind == "alias":
            return f"{self.path.described} is not {self.was} any more"
        now = _describe(Read(self.path, self.kind, value))
        if now == self.was:
            return f"{self.path.described} {KINDS[self.kind].changed}: {now}"
        return f"{self.path.described}: was {self.was}, now {now}"


def same_code(function: Any, expected: tuple[CodeType, ref[Any], int]) -> bool:
    """Whether a function has the expected code and namespace."""
    code, _, namespace = expected
    return type(function) is FunctionType and id(function.__globals__) == namespace and (
        function.__code__ is code or function.__code__ == code
    )  # fmt: skip


def flat(value: Any) -> list[Any]:
    """The items in order, those of a dict with their keys."""
    if isinstance(value, (dict, MappingProxyType)):
        return [x for item in value.items() for x in item]
    return list(value)


class _Kind(NamedTuple):
    """The check of guards of one kind.

    Attributes:
        fails: code of the negated test, with the value ``x``, the contents of a container ``c``,
            the expectation ``e`` and, for some, more: see `eagerflow.capture.guards.writer`.
        expect: makes the expectation from the value that was read.
        changed: text for a difference between values with equal descriptions.
    """

    fails: str
    expect: Callable[[Any], Any] = lambda value: value
    changed: str = "is another object"


_TYPE: Final = _Kind("{x}.__class__ is not {e}", type)
_ITSELF: Final = _Kind("{x} is not {e}")
KINDS: Final = {
    "tensor": _TYPE,
    "number": _TYPE,
    "array": _TYPE,
    "type": _TYPE,
    "value": _Kind("{x} is not {e} and not same_value({x}, {e})"),
    "identity": _ITSELF,
    "member": _ITSELF,
    "alias": _ITSELF,
    "distinct": _Kind("len({{id({x}), {e}}}) != {n}"),
    "function": _Kind(
        "({x}.__code__ is not {e} or {x}.__globals__ is not {n}) and not same_code({x}, {g})",
        lambda f: (f.__code__, ref(f), id(f.__globals__)),
    ),
    "length": _Kind(
        "{x}.__class__ is not {e}[0] or len({c}) != {e}[1]", lambda x: (type(x), len(contents(x)))
    ),
    "size": _Kind("len({c}) != {e}"),
    "keys": _Kind(
        "{x}.__class__ is not {e}[0] or not same({c}, {e}[1]) and not same_items([*{c}], {e}[1])",
        lambda x: (type(x), list(contents(x))), "has other keys",
    ),
    "names": _Kind(
        "{x}.__class__ is not {e}[0] or [*{c}] != {e}[1] or {e}[2] and not same({c}, {e}[1])",
        lambda x: (type(x), list(x), not all(type(key) is str for key in x)),
    ),
    "unless": _Kind(
        "{x}.__class__ is not {e}[0] and {e}[1]({x})", lambda x: (type(x[0]), x[1])
    ),
    "items": _Kind(
        "{x}.__class__ is not {e}[0] or not same_items(flat({c}), {e}[1])",
        lambda x: (type(x), flat(contents(x))), "has other items",
    ),
    "content": _Kind("content_of({x}) != {e}", content_of, "has other elements"),
    "absent": _Kind("{e}", lambda _: None),
    "decided": _Kind("{e}"),
    "input": _Kind(""),  # `Writer` writes them
    "holding": _Kind("not {e} <= {x}.keys()"),
    "lacking": _Kind("not {x}.keys().isdisjoint({e})"),
}  # fmt: skip


def _describe(read: Read) -> str:
    value = read.value
    if read.kind in ("names", "unless", "input"):  # not reported, or described otherwise
        return ""
    if read.kind == "decided":
        return str(value.result)
    if read.kind == "alias":
        return f"the object {read.value.text}"
    if read.kind == "distinct":
        return "another object"
    if read.kind == "size":
        return f"{value if isinstance(value, int) else len(contents(value))} items"
    if read.kind == "length":
        return f"{with_article(type(value).__name__)} of {len(contents(value))}"
    if read.kind in ("content", "array") and hasattr(value, "shape"):
        return f"an array {value.dtype}{list(value.shape)}"
    if read.kind in ("keys", "items", "content") or isinstance(value, (list, dict, set)):
        return describe(value)
    if isinstance(value, AbstractArray):
        return str(value.type)
    if isinstance(value, ModuleType):
        return f"module {value.__name__}"
    kind = type(value)
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)) or kind.__repr__ in _PLAIN:
        return describe(value)
    return with_article(kind.__name__)


#: the reprs of builtin types: others may run code of the user
_PLAIN: Final = tuple(  # not a set: methods of some extension types have no hash
    k.__repr__ for k in (int, float, complex, str, bytes, bool, type(None), tuple, range)
)
