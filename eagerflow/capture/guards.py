"""`Guards`: what a trace relied on outside, checked again at each call.

Which kind of guard a value gets is decided in `eagerflow.capture.collect`.

A guard is an access path, a kind and what is expected there:

==============  ===============================================================================
``tensor``      any tensor
``number``      a Python number of this type, whatever its value
``array``       any NumPy array
``value``       an equal value of the same type; -0.0 and 0.0, 1 and True differ
``identity``    the same object
``member``      the same object, of a library, which keeps it alive
``alias``       the object that another access path leads to
``distinct``    another object than those that other access paths lead to, all different ones
``function``    a function with equal code and the same global names
``type``        an object of this very class
``length``      a container of the same class with as many items
``size``        a container of so many items
``keys``        a dict with these keys, in this order
``items``       a container with equal items
``content``     an array with equal elements
``absent``      no such global name, or an enclosing name that is not bound
``unshadowed``  no names of these in an instance
==============  ===============================================================================

The checks are written as straight Python code, compiled at the first check: a loop over guards
would take three times as long, at each call of a traced function. They hold the user's objects
weakly where Python allows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from operator import is_
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final
from weakref import ref

from eagerflow.capture.equality import content_of, same_items, same_value
from eagerflow.capture.library import is_settled
from eagerflow.capture.paths import GONE, AccessPath, Root, instance_dict, read_item
from eagerflow.capture.reads import Read, Reads
from eagerflow.capture.static_keys import describe
from eagerflow.core.tensor import AbstractArray, Tensor

if TYPE_CHECKING:
    from eagerflow.capture.border import Store
    from eagerflow.capture.modules.structure import Structures


@final
class Guard:
    """One fact.

    Attributes:
        path: where.
        kind: as in the table of this module.
        expected: what is to be there; a weak reference for ``"identity"``, if there can be one.
        weak: whether it is a weak reference.
        was: what was there, in words.
    """

    __slots__ = ("expected", "kind", "path", "was", "weak")

    def __init__(self, read: Read) -> None:
        self.path = read.path
        self.kind = read.kind
        self.was = _describe(read)
        self.weak = False
        self.expected = _KINDS[read.kind].expect(read.value)
        if read.kind == "identity":
            with suppress(TypeError):
                self.expected, self.weak = ref(read.value), True

    def holds(self, value: Any) -> bool:
        """Whether the value that was read is as expected; slow and plain."""
        if self.kind == "absent":
            return value is GONE
        if value is GONE:
            return False
        expected = self.expected() if self.weak else self.expected
        if self.weak and expected is None:  # it is dead, and None is another value
            return False
        try:
            return _KINDS[self.kind].holds(value, expected)
        except Exception:
            return False

    def difference(self, value: Any) -> str:
        """How what is there now differs."""
        if value is GONE:
            return f"{self.path.described} is gone, was {self.was}"
        if self.kind == "absent":
            hides = ", hides the builtin" if self.path.how == "global" else ""
            return f"{self.path.described} is there now{hides}"
        if self.kind == "function" and isinstance(value, FunctionType):
            return f"{self.path.text} was redefined"
        if self.kind == "unshadowed":
            names = ", ".join(sorted(self.expected & value.keys()))
            return f"{self.path.text} has its own {names} now"
        if self.kind == "distinct":
            return f"{self.path.described} or another one of its type is one object under two names"
        if self.kind == "alias":
            return f"{self.path.described} is not {self.was} any more"
        now = _describe(Read(self.path, self.kind, value))
        if now == self.was:
            return f"{self.path.described} {_KINDS[self.kind].changed}: {now}"
        return f"{self.path.described}: was {self.was}, now {now}"


def _same_code(value: Any, expected: tuple[CodeType, ref[Any], int]) -> bool:
    code, _, namespace = expected
    return type(value) is FunctionType and id(value.__globals__) == namespace and (
        value.__code__ is code or value.__code__ == code
    )  # fmt: skip


def _flat(value: Any) -> list[Any]:
    """The items in order, those of a dict with their keys."""
    if isinstance(value, dict):
        return [x for item in value.items() for x in item]
    return list(value)


class _Kind(NamedTuple):
    """How guards of one kind check.

    Attributes:
        expect: makes what is to be there of the value that was read.
        holds: whether a value is as expected; slow and plain.
        fails: the code for the opposite, of the value ``x``, what is expected ``e`` and the guard
            ``g``. It may ask the guard where the quick look does not do.
        changed: what to say of values with one description.
    """

    expect: Callable[[Any], Any]
    holds: Callable[[Any, Any], bool]
    fails: str
    changed: str = "is another object"


def _itself(value: Any) -> Any:
    return value


_TYPE: Final = _Kind(type, lambda x, kind: type(x) is kind, "{x}.__class__ is not {e}")
_KINDS: Final = {
    "tensor": _TYPE,
    "number": _TYPE,
    "array": _TYPE,
    "type": _TYPE,
    "value": _Kind(_itself, same_value, "{x} is not {e} and not holds({g}, {x})"),
    "identity": _Kind(_itself, is_, "{x} is not {e}"),
    "member": _Kind(_itself, is_, "{x} is not {e}"),
    "alias": _Kind(_itself, lambda x, other: x is other.get(), "{x} is not {e}"),
    "distinct": _Kind(
        _itself, lambda x, others: len({id(x), *(id(p.get()) for p in others)}) == len(others) + 1,
        "len({{id({x}), {e}}}) != {n}",
    ),
    "function": _Kind(
        lambda f: (f.__code__, ref(f), id(f.__globals__)), _same_code,
        "({x}.__code__ is not {e} or {x}.__globals__ is not {n}) and not holds({g}, {x})",
    ),
    "length": _Kind(
        lambda x: (type(x), len(x)), lambda x, e: type(x) is e[0] and len(x) == e[1],
        "{x}.__class__ is not {e}[0] or len({x}) != {e}[1]",
    ),
    "size": _Kind(_itself, lambda x, size: len(x) == size, "len({x}) != {e}"),
    "keys": _Kind(
        lambda x: (type(x), list(x)), lambda x, e: type(x) is e[0] and same_items(list(x), e[1]),
        "{x}.__class__ is not {e}[0] or not same({x}, {e}[1]) and not holds({g}, {x})",
        "has other keys",
    ),
    "items": _Kind(
        lambda x: (type(x), _flat(x)), lambda x, e: type(x) is e[0] and same_items(_flat(x), e[1]),
        "not holds({g}, {x})", "has other items",
    ),
    "content": _Kind(
        content_of, lambda x, e: content_of(x) == e, "not holds({g}, {x})", "has other elements"
    ),
    "absent": _Kind(lambda _: None, lambda x, _: x is GONE, ""),
    "unshadowed": _Kind(
        _itself, lambda x, names: x.keys().isdisjoint(names), "not {x}.keys().isdisjoint({e})"
    ),
}  # fmt: skip


def _describe(read: Read) -> str:
    value = read.value
    if read.kind == "alias":
        return f"the object {read.value.text}"
    if read.kind == "distinct":
        return "another object"
    if read.kind == "size":
        return f"{value if isinstance(value, int) else len(value)} items"
    if read.kind == "length":
        return f"a {type(value).__name__} of {len(value)}"
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
    return f"a {kind.__name__}"


#: the reprs of builtin values: those of other classes may run code of the user
_PLAIN: Final = tuple(  # not a set: methods of some extension types have no hash
    k.__repr__ for k in (int, float, complex, str, bytes, bool, type(None), tuple, range)
)


@final
class Guards:
    """All guards of a trace.

    Args:
        reads: what the function reads from outside.
        captured: access paths whose values `read` gives, in this order.
    """

    __slots__ = ("_captured", "_guards", "_read", "_root", "_structures")

    def __init__(self, reads: Reads, captured: Sequence[AccessPath] = ()) -> None:
        self._root = reads.root
        self._guards = [Guard(read) for read in reads.reads]
        self._captured = tuple(captured)
        self._structures: Structures | None = None
        self._renew()

    def __len__(self) -> int:
        return len(self._guards)

    def __iter__(self) -> Any:
        return iter(self._guards)

    def _renew(self) -> None:
        """Let the next check write the code anew."""
        self._read: Callable[[], tuple[Any, ...] | None] | None = None

    def check(self) -> bool:
        """Whether all that the trace relied on is as it was. Never raises."""
        return self.read() is not None

    def read(self) -> tuple[Any, ...] | None:
        """The captured values now; None if a guard does not hold. Never raises."""
        run = self._read
        if run is None:
            try:
                # that the code of eagerflow itself stays what it is, is not looked at
                checked = [
                    guard for guard in self._guards if not is_settled(guard.path, guard.kind)
                ]
                run = _Writer().write(checked, self._captured)
            except Exception:  # a path leads nowhere now
                return None
            if self._structures is not None:
                run = _and_structures(run, self._structures)
            self._read = run
        return run()

    def explain(self) -> list[str]:
        """What differs, in words; empty if all guards hold."""
        differences: list[str] = []
        broken: set[AccessPath] = set()
        for guard in self._guards:
            path: AccessPath | Root = guard.path
            while isinstance(path, AccessPath):
                if path in broken:
                    break
                path = path.parent
            else:
                value = guard.path.get()
                if not guard.holds(value):
                    broken.add(guard.path)
                    differences.append(guard.difference(value))
        if self._structures is not None:
            differences += self._structures.differences()
        return differences

    def specialise(self, path: AccessPath, value: Any) -> None:
        """Require exactly ``value`` of the access path of a number, a tensor or an array.

        Args:
            path: one of the access paths.
            value: what the trace used: a number, or an array whose content counts from now on.
        """
        kind = "value"
        if not isinstance(value, (int, float, complex)):
            kind = "identity" if isinstance(value, AbstractArray) else "content"
        self.add(Read(path, kind, value))

    def relax(self, path: AccessPath, value: Any) -> None:
        """Let an array differ whose content was to be the same: it is an input."""
        guards = [g for g in self._guards if g.path is not path or g.kind != "content"]
        self._guards = [*guards, Guard(Read(path, "array", value))]
        self._renew()

    def add(self, read: Read) -> None:
        """Another guard; it replaces those for numbers, tensors and arrays there."""
        new = Guard(read)
        for i, guard in enumerate(self._guards):
            if guard.path is read.path and guard.kind in ("number", "tensor", "array"):
                self._guards[i] = new
                break
        else:
            self._guards.append(new)
        self._renew()

    def keep_apart(self, reads: Reads, stores: Iterable[Store]) -> None:
        """Require that different objects stay so, of the types that a trace changes or compares.

        What is done to one of them would be seen in the other if they became one.
        """
        for group in reads.of_types(set(map(_changed, stores))):
            first = next((path for path in group.values() if isinstance(path, AccessPath)), None)
            others = tuple(path for path in group.values() if path is not first)
            if first is not None and others:
                self.add(Read(first, "distinct", others))

    def rely(self, structures: Structures) -> None:
        """Set what is checked after all guards."""
        self._structures = structures
        self._renew()

    def capture(self, paths: Iterable[AccessPath]) -> None:
        """Set what `read` gives."""
        self._captured = tuple(paths)
        self._renew()

    def rebase(self, function: Callable[..., Any]) -> None:
        """Check another function from now on, such as that of a cell that ran again.

        All access paths follow, those of captured values too. The caller has compared the code.
        """
        self._root.point_to(function)
        for guard in self._guards:
            if guard.kind == "member" and guard.path.parent is self._root:
                guard.expected = guard.path.get()
        self._renew()


def _changed(store: Store) -> type:
    """The type of the object that a store changes."""
    if store.kind == "update":
        return Tensor
    path = store.target.parent if store.kind in ("set", "delete") else store.target
    return type(path.get())


def _and_structures(
    read: Callable[[], tuple[Any, ...] | None], structures: Structures
) -> Callable[[], tuple[Any, ...] | None]:
    """``read``, which gives None also where a walk over parts would find something else."""

    def both() -> tuple[Any, ...] | None:
        values = read()
        return values if values is None or structures.holds() else None

    return both


# --- their code -------------------------------------------------------------------------------

#: how an access path is read, given the name of the variable that holds its owner
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
class _Writer:
    """Writes one function; each access path is read once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "Tensor": Tensor, "own": instance_dict, "item": read_item, "holds": Guard.holds,
            "bound": _bound, "same": _same, "tuple_item": tuple.__getitem__,
        }  # fmt: skip
        self.variables: dict[AccessPath | Root, str] = {}

    def write(
        self, guards: Sequence[Guard], captured: Sequence[AccessPath]
    ) -> Callable[[], tuple[Any, ...] | None]:
        """The function that checks the guards and gives the captured values."""
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
            if path.how == "global":
                return f"{self._namespace(path)}[{key}]"
            return f"{self._constant(parent.get().__closure__[path.key])}.cell_contents"
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

    def _namespace(self, path: AccessPath) -> str:
        """The global names among which that of a path is."""
        parent = path.parent
        if isinstance(parent, Root) and not parent.weak:
            return self._constant(parent.get().__globals__)
        return f"{self._variable(parent)}.__globals__"

    def _member(self, path: AccessPath) -> str:
        """What a library has under a name, which is read once; modules are the same by now."""
        owner = path.parent.get()
        if path in self.variables or path.how != "attribute" or isinstance(path.get(), ModuleType):
            return self._variable(path)
        if isinstance(owner, ModuleType) and path.key in vars(owner):
            if isinstance(path.parent, AccessPath):
                self._variable(path.parent)
            # where modules compute attributes, asking them takes five times as long
            return f"{self._constant(vars(owner))}[{path.key!r}]"
        return f"{self._variable(path.parent)}.{path.key}"

    def _guard(self, guard: Guard) -> None:
        if guard.kind == "absent":
            assert isinstance(guard.path, AccessPath)
            key = guard.path.key
            if guard.path.how == "cell":
                there = f"bound({self._variable(guard.path.parent)}.__closure__[{key}])"
            else:
                there = f"{key!r} in {self._namespace(guard.path)}"
            self.lines.append(f"if {there}: return None")
            return
        x = self._member(guard.path) if guard.kind == "member" else self._variable(guard.path)
        expected, namespace = guard.expected, ""
        if guard.kind == "alias":
            e = self._variable(expected)
        elif guard.kind == "distinct":
            e = ", ".join(f"id({self._variable(path)})" for path in expected)
            namespace = str(len(expected) + 1)
        elif guard.kind == "function":
            e = self._constant(expected[0])
            function = expected[1]()
            namespace = self._constant(None if function is None else function.__globals__)
        else:
            e = self._constant(expected) + ("()" if guard.weak else "")
        test = _KINDS[guard.kind].fails.format(x=x, e=e, g=self._constant(guard), n=namespace)
        if guard.weak:  # a dead reference gives None, which may be what is there now
            test = f"{x} is None or {test}"
        self.lines.append(f"if {test}: return None")


def _bound(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - asking is what raises
    except ValueError:
        return False
    return True


def _same(keys: Any, expected: list[Any]) -> bool:
    """Whether they are the very same objects, in the same order."""
    return len(keys) == len(expected) and all(map(is_, keys, expected))
