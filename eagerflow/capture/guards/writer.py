"""Generates the code that checks guards: straight Python code, each access path read once.

A loop over guards would take three times as long, at each call of a traced function. The code
refers to the user's objects weakly where Python allows that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, Final, final

from eagerflow.capture.access_paths import (
    AccessPath,
    Root,
    contents,
    instance_dict,
    read_item,
    shows_contents,
)
from eagerflow.capture.equality import content_of, same_items, same_value
from eagerflow.capture.guards.guard_kinds import KINDS, Guard, flat, same_code
from eagerflow.capture.inputs_and_stores import CapturedInput, fits
from eagerflow.capture.snapshot import attributes_of
from eagerflow.core.to_tensor import as_tensor

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
class Writer:
    """Writes one function; each access path is read once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "own": instance_dict, "item": read_item, "bound": _bound, "same": _same, "flat": flat,
            "contents": contents, "same_value": same_value, "same_items": same_items,
            "same_code": same_code, "content_of": content_of, "attributes_of": attributes_of,
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


def _same(keys: Any, expected: list[Any]) -> bool:
    """Whether keys are the very same objects, in the same order."""
    return len(keys) == len(expected) and all(map(is_, keys, expected))
