"""Writes guards as straight Python code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from types import CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.capture.paths import AccessPath, Root, instance_dict
from eagerflow.core.tensor import Tensor

if TYPE_CHECKING:
    from eagerflow.capture.guards import Guard

__all__ = ["write"]

#: how an access path is read, given the name of the variable that holds its owner
_READ: Final = {
    "global": "{owner}.__globals__[{key}]",
    "cell": "{owner}.__closure__[{key}].cell_contents",
    "attribute": "{owner}.{name}",
    "dict": "own({owner})[{key}]",
    "class": "{owner}.__class__",
    "base": "{owner}.__mro__[{key}[0]].__dict__[{key}[1]]",
}
_TESTS: Final = {
    "tensor": "{x}.__class__ is not Tensor",
    "number": "{x}.__class__ is not {e}",
    "array": "{x}.__class__ is not {e}",
    "type": "{x}.__class__ is not {e}",
    "unshadowed": "not {x}.keys().isdisjoint({e})",
    "length": "{x}.__class__ is not {e}[0] or len({x}) != {e}[1]",
    "value": "{x} is not {e} and not holds({g}, {x})",
    "alias": "{x} is not {e}",
    "identity": "{x} is not {e}",
    "keys": "{x}.__class__ is not {e}[0] or not same({x}, {e}[1]) and not holds({g}, {x})",
    "items": "not holds({g}, {x})",
    "content": "not holds({g}, {x})",
    "function": "({x}.__code__ is not {e} or {x}.__globals__ is not {n}) and not holds({g}, {x})",
}


def write(
    guards: Sequence[Guard], captured: Sequence[AccessPath]
) -> Callable[[], tuple[Any, ...] | None]:
    """The function that checks all guards and gives the captured values.

    That the code of eagerflow itself stays what it is, is not looked at.
    """
    checked = [guard for guard in guards if not _is_settled(guard)]
    run: Callable[[], tuple[Any, ...] | None] = _Writer().write(checked, captured)
    return run


def _is_settled(guard: Guard) -> bool:
    """Whether it is about a part of eagerflow's own code."""
    path: AccessPath | Root = guard.path
    if isinstance(path, AccessPath) and _is_own_name(path, guard.kind):
        return True
    while isinstance(path, AccessPath):
        if _is_own_member(path):
            return True
        path = path.parent
    return False


def _is_own_name(path: AccessPath, kind: str) -> bool:
    """Whether it is a global name in eagerflow that stands for code."""
    if path.how != "global" or not _is_own(path.parent.get()):
        return False
    return kind in ("absent", "function") or isinstance(path.get(), type | ModuleType)


def _is_own_member(path: AccessPath) -> bool:
    """Whether it is a member of a class of eagerflow, a default or a constant there."""
    owner = path.parent.get()
    if path.how == "global":
        return _is_own(owner) and path.key.isupper()
    if path.how == "base":
        owner = owner.__mro__[path.key[0]]
    elif path.how not in ("attribute", "dict"):
        return False
    return isinstance(owner, type | FunctionType) and _is_own(owner)


def _is_own(code: Any) -> bool:
    """Whether a function or class is one of eagerflow."""
    name = getattr(code, "__module__", None)
    return isinstance(name, str) and name.startswith("eagerflow.")


@final
class _Writer:
    """Writes one function; each access path is read once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "Tensor": Tensor, "own": _own, "item": _item, "holds": _holds, "bound": _bound,
            "same": _same, "tuple_item": tuple.__getitem__,
        }  # fmt: skip
        self.variables: dict[AccessPath | Root, str] = {}

    def write(self, guards: Sequence[Guard], captured: Sequence[AccessPath]) -> Any:
        for guard in guards:
            self._guard(guard)
        names = [self._variable(path) for path in captured]
        self.lines.append(f"return ({''.join(f'{x}, ' for x in names)})")
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
            # its owner gets a variable first, so the number is not known before
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
            # the function itself, whose namespace and cells stay what they are
            function = parent.get()
            if path.how == "global":
                return f"{self._constant(function.__globals__)}[{key}]"
            return f"{self._constant(function.__closure__[path.key])}.cell_contents"
        owner = self._variable(parent)
        if path.how == "item":
            kind = type(parent.get())
            if kind in (list, tuple, dict):
                return f"{owner}[{key}]"
            if issubclass(kind, tuple):  # of a named tuple; on anything else it raises
                return f"tuple_item({owner}, {key})"
            return f"item({owner}, {key})"
        if path.how == "attribute" and not path.key.isidentifier():
            return f"getattr({owner}, {key})"
        return _READ[path.how].format(owner=owner, key=key, name=path.key)

    def _guard(self, guard: Guard) -> None:
        if guard.kind == "absent":
            assert isinstance(guard.path, AccessPath)
            owner, key = self._variable(guard.path.parent), guard.path.key
            there = f"{key!r} in {owner}.__globals__"
            if guard.path.how == "cell":
                there = f"bound({owner}.__closure__[{key}])"
            self.lines.append(f"if {there}: return None")
            return
        x = self._variable(guard.path)
        expected, namespace = guard.expected, ""
        if guard.kind == "alias":
            e = self._variable(expected)
        elif guard.kind == "function":
            e = self._constant(expected[0])
            function = expected[1]()
            namespace = self._constant(None if function is None else function.__globals__)
        else:
            e = self._constant(expected) + ("()" if guard.weak else "")
        test = _TESTS[guard.kind].format(x=x, e=e, g=self._constant(guard), n=namespace)
        if guard.weak:  # a dead reference gives None, which may be what is there now
            test = f"{x} is None or {test}"
        self.lines.append(f"if {test}: return None")


def _bound(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - asking is what raises
    except ValueError:
        return False
    return True


def _own(value: Any) -> Any:
    return instance_dict(value)


def _item(owner: Any, key: Any) -> Any:
    for kind in (dict, list, tuple):
        if isinstance(owner, kind):
            return kind.__getitem__(owner, key)  # type: ignore[index]  # the kind of the owner
    return owner[key]


def _same(keys: Any, expected: list[Any]) -> bool:
    """Whether they are the very same objects, in the same order."""
    return len(keys) == len(expected) and all(map(is_, keys, expected))


def _holds(guard: Guard, value: Any) -> bool:
    return guard.holds(value)
