"""`Guard`: one fact about the outside that a trace relies on. `GuardWriter` generates the check.

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
``keys``        a dict of the same class with these keys, in this order
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

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    ModuleType,
)
from typing import Any, Final, NamedTuple, final
from weakref import ref

from eagerflow.capture.access_paths import (
    GONE,
    AccessPath,
    Root,
    contents,
    instance_dict,
    read_item,
    shows_contents,
)
from eagerflow.capture.equality import content_of, same_items, same_value
from eagerflow.capture.inputs_and_stores import CapturedInput, fits
from eagerflow.capture.reads import Read, describe, with_article
from eagerflow.capture.snapshot import attributes_of
from eagerflow.core.tensor import AbstractArray
from eagerflow.core.to_tensor import as_tensor


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


def _same_code(function: Any, expected: tuple[CodeType, ref[Any], int]) -> bool:
    """Whether a function has the expected code and namespace."""
    code, _, namespace = expected
    return type(function) is FunctionType and id(function.__globals__) == namespace and (
        function.__code__ is code or function.__code__ == code
    )  # fmt: skip


def _flat(value: Any) -> list[Any]:
    """The items in order, those of a dict with their keys."""
    if isinstance(value, (dict, MappingProxyType)):
        return [x for item in value.items() for x in item]
    return list(value)


class _Kind(NamedTuple):
    """The check of guards of one kind.

    Attributes:
        fails: code of the negated test, with the value ``x``, the contents of a container ``c``,
            the expectation ``e`` and, for some, more: see `GuardWriter`.
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
    "keys": _Kind(  # texts that are equal need no closer look
        "{x}.__class__ is not {e}[0] or [*{c}] != {e}[1] or {e}[2] and not "
        "same_items([*{c}], {e}[1])",
        lambda x: (type(x), [*contents(x)], not all(type(key) is str for key in contents(x))),
        "has other keys",
    ),
    "unless": _Kind(
        "{x}.__class__ is not {e}[0] and {e}[1]({x})", lambda x: (type(x[0]), x[1])
    ),
    "items": _Kind(
        "{x}.__class__ is not {e}[0] or not same_items(flat({c}), {e}[1])",
        lambda x: (type(x), _flat(contents(x))), "has other items",
    ),
    "content": _Kind("content_of({x}) != {e}", content_of, "has other elements"),
    "absent": _Kind("{e}", lambda _: None),
    "decided": _Kind("{e}"),
    "input": _Kind(""),  # `GuardWriter` writes them
    "holding": _Kind("not {e} <= {x}.keys()"),
    "lacking": _Kind("not {x}.keys().isdisjoint({e})"),
}  # fmt: skip


def _describe(read: Read) -> str:
    value = read.value
    if read.kind in ("unless", "input"):  # not reported, or described otherwise
        return ""
    if read.kind == "decided":
        return str(value.result)
    if read.kind == "alias":
        return f"the object {read.value.text}"
    if read.kind == "distinct":
        return "another object"
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


#: expressions for access paths, given the name of the variable that holds the owner
_READ: Final = {
    "global": "{owner}.__globals__[{key}]",
    "cell": "{owner}.__closure__[{key}].cell_contents",
    "attribute": "{owner}.{name}",
    "dict": "own({owner})[{key}]",
    "class": "{owner}.__class__",
    "base": "{owner}.__mro__[{key}[0]].__dict__[{key}[1]]",
    "call": "{owner}(*{key}[0], **{key}[1])",
}


@final
class GuardWriter:
    """Writes the function that checks guards: straight Python code, each access path read once.

    A loop over guards would take three times as long, at each call of a traced function. The code
    refers to the user's objects weakly where Python allows that.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "own": instance_dict, "item": read_item, "bound": _bound, "flat": _flat,
            "contents": contents, "same_value": same_value, "same_items": same_items,
            "same_code": _same_code, "content_of": content_of, "attributes_of": attributes_of,
            "as_tensor": as_tensor, "fits": fits,
            "tuple_item": tuple.__getitem__,
        }  # fmt: skip
        self.variables: dict[AccessPath | Root, str] = {}
        self._tensors: dict[AccessPath | Root, str] = {}  # of arrays of NumPy

    def write(
        self,
        guards: Sequence[Guard],
        captured: Sequence[AccessPath],
        last: Sequence[Callable[[], bool]] = (),
    ) -> Callable[[], tuple[Any, ...] | None]:
        """The function that checks the guards and returns the captured values.

        Args:
            guards: the guards.
            captured: the access paths of the values.
            last: further conditions, called after all guards.
        """
        for guard in guards:
            self._guard(guard, "return None")
        names = [self._tensors.get(path) or self._variable(path) for path in captured]
        self.lines += [f"if not {self._constant(holds)}(): return None" for holds in last]
        self.lines.append(f"return ({''.join(f'{x}, ' for x in names)})")
        return self._function()

    def failing(self, guards: Sequence[Guard]) -> list[Guard]:
        """The guards that do not hold, or cannot be checked."""
        failing: list[Guard] = []
        self.names["failing"] = failing
        for guard in guards:
            fails = f"failing.append({self._constant(guard)})"
            lines, self.lines = self.lines, []
            try:
                self._guard(guard, fails)
            except Exception:  # a path leads nowhere now
                self.lines.append(fails)
            self.lines = [*lines, "try:", *[f" {x}" for x in self.lines],
                          f"except Exception: {fails}"]  # fmt: skip
        self._function()()
        return failing

    def _function(self) -> Callable[[], tuple[Any, ...] | None]:
        body = "\n  ".join(self.lines)
        text = f"def read():\n try:\n  {body}\n except Exception:\n  return None\n"
        module = compile(text, "<guards>", "exec")
        code = next(c for c in module.co_consts if isinstance(c, CodeType))
        return FunctionType(code, self.names)

    def _key(self, value: Any) -> str:
        return repr(value) if type(value) in (int, str) else self._constant(value)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def _variable(self, path: AccessPath | Root) -> str:
        known = self.variables.get(path)
        if known is None:
            # the owner gets its variable first, so the number is known only afterwards
            expression = self._root(path) if isinstance(path, Root) else self._read(path)
            known = f"v{len(self.variables)}"
            self.variables[path] = known
            self.lines.append(f"{known} = {expression}")
        return known

    def _root(self, root: Root) -> str:
        return f"{self._constant(root.get)}()" if root.weak else self._constant(root.get())

    def _read(self, path: AccessPath) -> str:
        key = self._key(path.key)
        parent = path.parent
        if isinstance(parent, Root) and not parent.weak and path.how in ("global", "cell"):
            # the function itself, whose namespace and cells stay the same objects
            if path.how == "global":
                return f"{self._namespace(path)}[{key}]"
            return f"{self._constant(parent.get().__closure__[path.key])}.cell_contents"
        owner = self._variable(parent)
        if path.how == "item":
            kind = type(parent.get())
            if kind in (list, tuple, dict):
                return f"{owner}[{key}]"
            if issubclass(kind, tuple):  # named tuples too; raises for other types
                return f"tuple_item({owner}, {key})"
            return f"item({owner}, {key})"
        if path.how == "attribute" and not path.key.isidentifier():
            return f"getattr({owner}, {key})"
        return _READ[path.how].format(owner=owner, key=key, name=path.key)

    def _namespace(self, path: AccessPath) -> str:
        """The namespace that a path reads a global name from."""
        parent = path.parent
        if isinstance(parent, Root) and not parent.weak:
            return self._constant(parent.get().__globals__)
        return f"{self._variable(parent)}.__globals__"

    def _member(self, path: AccessPath) -> str:
        """The expression for a member of a library, read once; modules get a variable."""
        owner = path.parent.get()
        if path in self.variables or path.how != "attribute" or isinstance(path.get(), ModuleType):
            return self._variable(path)
        if isinstance(owner, ModuleType) and path.key in vars(owner):
            if isinstance(path.parent, AccessPath):
                self._variable(path.parent)
            # where modules compute attributes, asking them takes five times as long
            return f"{self._constant(vars(owner))}[{path.key!r}]"
        return f"{self._variable(path.parent)}.{path.key}"

    def _is_other(self, path: AccessPath, one: CapturedInput) -> str:
        """The test that a tensor or array does not have the type of an input of the graph."""
        x = self._variable(path)
        if one.foreign:
            self.lines.append(f"t{x} = as_tensor({x})")
            x = self._tensors[path] = f"t{x}"
        shape = f"{x}._data.shape"
        lane, pattern = self._constant(one.lane), self._constant(one.pattern)
        test = f"{x}._lane is not {lane} or {shape} != {pattern}"
        if None in one.pattern:
            test += f" and not fits({shape}, {pattern})"
        return (
            test if one.data is None else f"{test} or {x}._data is not {self._constant(one.data)}"
        )

    def _guard(self, guard: Guard, fails: str) -> None:
        if guard.kind == "absent":
            assert isinstance(guard.path, AccessPath)
            key = guard.path.key
            if guard.path.how == "cell":
                there = f"bound({self._variable(guard.path.parent)}.__closure__[{key}])"
            elif guard.path.how == "attribute":
                there = f"{key!r} in attributes_of({self._variable(guard.path.parent)})"
            else:
                there = f"{key!r} in {self._namespace(guard.path)}"
            self.lines.append(f"if {there}: {fails}")
            return
        if guard.kind == "input":
            self.lines.append(f"if {self._is_other(guard.path, guard.expected)}: {fails}")
            return
        x = self._member(guard.path) if guard.kind == "member" else self._variable(guard.path)
        expected, namespace = guard.expected, ""
        if guard.kind == "alias":
            e = self._variable(expected)
        elif guard.kind == "distinct":
            e = ", ".join(f"id({self._variable(path)})" for path in expected)
            namespace = str(len(expected) + 1)
        elif guard.kind == "decided":
            e = expected.fails.format(*map(self._variable, expected.sources))
        elif guard.kind == "function":
            e = self._constant(expected[0])
            function = expected[1]()
            namespace = self._constant(None if function is None else function.__globals__)
        else:
            e = self._constant(expected) + ("()" if guard.weak else "")
        g = self._constant(expected) if guard.kind == "function" else ""
        test = KINDS[guard.kind].fails
        plain = "{c}" not in test or shows_contents(guard.path.get())
        test = test.format(x=x, c=x if plain else f"contents({x})", e=e, g=g, n=namespace)
        if guard.weak:  # a dead reference gives None, which may be the present value
            test = f"{x} is None or {test}"
        self.lines.append(f"if {test}: {fails}")


def _bound(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - the access raises
    except ValueError:
        return False
    return True
