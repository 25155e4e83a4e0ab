"""Access paths: how the values are reached that a function reads from outside.

An access path starts at a `Root` (the function, or a static argument) and goes on by global name,
closure cell, attribute or item. So it can be read again at each call, gives what it leads to then,
and keeps none of the user's objects alive.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import MemberDescriptorType
from typing import Any, Final, NamedTuple, final
from weakref import ref

#: characters of a path in messages
_LONG: Final = 200


#: what an access path gives that leads nowhere any more
GONE: Final = object()
#: the key of a call without arguments
NO_ARGUMENTS: Final[Any] = ((), {})


@final
class Root:
    """Where paths begin.

    Args:
        value: the object.
        text: its name in messages; empty for the function itself.
        weak: whether not to keep the object alive.
    """

    __slots__ = ("_strong", "_weak", "text")

    def __init__(self, value: Any, text: str = "", *, weak: bool = False) -> None:
        self.text = text
        self.point_to(value, weak=weak)

    def point_to(self, value: Any, *, weak: bool = False) -> None:
        """Make all paths begin at another object, such as the function of a cell that ran again."""
        self._strong: Any = value
        self._weak: ref[Any] | None = None
        if weak:
            try:
                self._weak = ref(value)
            except TypeError:
                return
            self._strong = None

    @property
    def root(self) -> Root:
        """Itself, as of a path."""
        return self

    @property
    def weak(self) -> bool:
        """Whether the object is not kept alive."""
        return self._weak is not None

    def get(self) -> Any:
        """The object, or `GONE`."""
        if self._weak is None:
            return self._strong
        value = self._weak()
        return GONE if value is None else value


def joined(text: str, end: str) -> str:
    """The text of a path that goes on; of long ones only the end."""
    text += end
    return text if len(text) <= _LONG else f"...{text[-_LONG // 2 :]}"


def instance_dict(value: Any) -> dict[str, Any] | None:
    """The attributes of an instance itself, whatever its class makes of attributes."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        if not isinstance(value, threading.local):
            return None
        attributes = value.__dict__  # that of this thread
    return attributes if isinstance(attributes, dict) else None


def _dict_entry(owner: Any, key: str) -> Any:
    return object.__getattribute__(owner, "__dict__")[key]


def _of_bases(owner: Any, key: tuple[int, str]) -> Any:
    return owner.__mro__[key[0]].__dict__[key[1]]


#: Python's own containers; an ordered dict keeps its order apart from what a dict knows
_KINDS: Final[dict[Any, None]] = dict.fromkeys(
    (OrderedDict, dict, list, tuple, deque, set, frozenset)
)
#: methods that tell what a container holds
_LOOKS: Final = (
    "__len__", "__iter__", "__getitem__", "__contains__", "__bool__", "get", "items", "keys",
    "values",
)  # fmt: skip


def kind_of(owner: Any) -> Any:
    """The container of Python that an object is, whose methods run no code of its class."""
    own = type(owner)
    if own in _KINDS:  # as of most
        return own
    for kind in _KINDS:
        if isinstance(owner, kind):
            return kind
    return own


def read_item(owner: Any, key: Any) -> Any:
    """An item of a container, whatever its class makes of items.

    Raises:
        LookupError: it is not there; a `defaultdict` does not make it.
    """
    if isinstance(owner, dict) and not dict.__contains__(owner, key):
        raise KeyError(key)
    return kind_of(owner).__getitem__(owner, key)


def shows_contents(owner: Any) -> bool:
    """Whether a look at a container shows what it holds: its class has no such methods itself."""
    kind, own = kind_of(owner), type(owner)
    return own is kind or all(
        getattr(own, name, None) is getattr(kind, name, None) for name in _LOOKS
    )


def contents(owner: Any) -> Any:
    """What a container holds, whatever its class makes of a look; most give themselves."""
    if shows_contents(owner):
        return owner
    kind = kind_of(owner)
    if isinstance(owner, dict):
        return dict(kind.items(owner))
    return (set if kind is set else list)(kind.__iter__(owner))


def refill(owner: Any, items: Any) -> None:
    """Make ``items`` all that a dict, list, deque or set holds, whatever its class makes of it."""
    kind = kind_of(owner)
    if kind is list:
        kind.__setitem__(owner, slice(None), items)
        return
    kind.clear(owner)
    if isinstance(owner, dict):
        for key, value in items.items():
            kind.__setitem__(owner, key, value)
    else:
        (kind.update if kind is set else kind.extend)(owner, items)


_READ: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "global": lambda function, name: function.__globals__[name],
    "cell": lambda function, index: function.__closure__[index].cell_contents,
    "attribute": getattr,
    "dict": _dict_entry,
    "item": read_item,
    "class": lambda owner, _: owner.__class__,
    "base": _of_bases,
    "call": lambda function, arguments: function(*arguments[0], **arguments[1]),
}


def _held_attribute(owner: Any, name: str) -> Any:
    """What an object or a class holds for a name, or the class for its objects, or `GONE`.

    No code runs but that of slots.
    """
    is_class = isinstance(owner, type)
    own: Any = owner.__dict__ if is_class else instance_dict(owner) or {}
    if name in own:
        return own[name]
    for base in owner.__mro__ if is_class else type(owner).__mro__:
        if name in base.__dict__:
            value = base.__dict__[name]
            if isinstance(value, MemberDescriptorType) and not is_class:
                return getattr(owner, name, GONE)
            return GONE if hasattr(type(value), "__get__") else value
    return GONE


class Location(NamedTuple):
    """A variable, an attribute or an item of one object: where an access path leads to now.

    Attributes:
        kind: ``"cell"`` (a variable), ``"item"`` (of a dict, a namespace or a list),
            ``"attribute"`` (of an object or a class), ``"list"`` (items appended to it),
            ``"handle"`` (the value of a tensor), or ``"other"`` (any change of a container).
        owner: the cell, container, object or tensor.
        key: in it.
        text: in the user's words.
    """

    kind: str
    owner: Any
    key: Any
    text: str

    @property
    def identity(self) -> tuple[str, int, Any]:
        """The same for all access paths that lead here."""
        return self.kind, id(self.owner), self.key

    def get(self) -> Any:
        """What it holds, or `GONE`. Nothing of the user's code runs."""
        kind, owner, key, _ = self
        if kind == "cell":
            try:
                return owner.cell_contents
            except ValueError:
                return GONE
        if kind == "attribute":
            return _held_attribute(owner, key)
        if kind == "item":
            return dict.get(owner, key, GONE) if isinstance(owner, dict) else read_item(owner, key)
        return [] if kind == "list" else owner

    def set(self, value: Any) -> None:
        """Put a value there without what a class does when it is set; `GONE` takes it away.

        Raises:
            TypeError, AttributeError: nothing can be put there.
        """
        _write(self.kind, self.owner, self.key, value)


def _write(kind: str, owner: Any, key: Any, value: Any) -> None:
    """See `Location.set`; apart, for the stores of each run."""
    if value is GONE:
        _delete(kind, owner, key)
    elif kind == "item":
        kind_of(owner).__setitem__(owner, key, value)
    elif kind == "attribute":
        _set_attribute(owner, key, value)
    elif kind == "cell":
        owner.cell_contents = value
    else:
        owner.extend(value)


def _set_attribute(owner: Any, name: str, value: Any) -> None:
    own = instance_dict(owner)
    if isinstance(owner, type):
        type.__setattr__(owner, name, value)
    elif own is not None and (
        name in own or not isinstance(getattr(type(owner), name, None), MemberDescriptorType)
    ):
        own[name] = value
    else:
        object.__setattr__(owner, name, value)


def _delete(kind: str, owner: Any, key: Any) -> None:
    if kind == "item":
        if not isinstance(owner, dict):
            raise TypeError("items of sequences are not taken away one by one")
        kind_of(owner).pop(owner, key, None)
    elif kind == "cell":
        with suppress(ValueError):  # nothing is bound
            del owner.cell_contents
    elif isinstance(owner, type):
        if key in owner.__dict__:
            type.__delattr__(owner, key)
    elif key in (own := instance_dict(owner) or {}):
        del own[key]
    elif _held_attribute(owner, key) is not GONE:
        object.__delattr__(owner, key)


@final
class AccessPath:
    """The way to one value. Equality is identity: a collection holds one object for each path.

    Args:
        parent: the access path, or the root, of the object that it belongs to.
        how: ``"global"`` or ``"cell"`` of a function, ``"attribute"``, ``"dict"`` (an entry of the
            instance itself), ``"item"``, ``"class"``, ``"base"`` (a name of a base class), or
            ``"call"`` (what a function gives).
        key: the name, index or key; of a call the arguments and those by name.
        text: its name in messages, such as ``self.cfg.lr``.
        fixed: whether the value never changes, such as an item of a tuple.
    """

    __slots__ = ("__weakref__", "fixed", "how", "key", "parent", "text")

    def __init__(
        self, parent: AccessPath | Root, how: str, key: Any, text: str, fixed: bool = False
    ) -> None:
        self.parent = parent
        self.how = how
        self.key = key
        self.text = text
        self.fixed = fixed

    def get(self, start: Any = GONE) -> Any:
        """What is there now, or `GONE`; ``start`` is where the path begins, if not at its root."""
        steps = [self]  # no recursion: lists that are linked by attributes may be long
        while isinstance(steps[-1].parent, AccessPath):
            steps.append(steps[-1].parent)
        value = steps[-1].parent.get() if start is GONE else start
        try:
            for step in reversed(steps):
                if value is GONE:
                    return GONE
                value = _READ[step.how](value, step.key)
        except Exception:
            return GONE
        return value

    def owners(self) -> Iterator[AccessPath]:
        """The access paths of what it belongs to, the nearest first."""
        path = self.parent
        while isinstance(path, AccessPath):
            yield path
            path = path.parent

    @property
    def root(self) -> Root:
        """Where it begins."""
        path: AccessPath | Root = self
        while isinstance(path, AccessPath):
            path = path.parent
        return path

    def set(self, value: Any) -> None:
        """Put a value there; `GONE` takes away what is there.

        Raises:
            TypeError: nothing can be put there, or the object that it belonged to is gone.
        """
        self.put(self.parent.get(), value)

    def put(self, owner: Any, value: Any) -> None:
        """Put a value there, as `set` does, in ``owner``, the object that it belongs to."""
        _write(*self._resolved(owner), value)

    def location(self) -> Location:
        """Where it leads to now.

        Raises:
            TypeError: nothing can be put there, or the object is gone.
        """
        return Location(*self._resolved(self.parent.get()), self.text)

    def _resolved(self, owner: Any) -> tuple[str, Any, Any]:
        how, key = self.how, self.key
        if self.fixed or owner is GONE or how == "class":
            raise TypeError(f"{self.text} cannot be set")
        if how == "global":
            return "item", owner.__globals__, key
        if how == "cell":
            return "cell", owner.__closure__[key], self.text
        if how == "base":
            return "attribute", owner.__mro__[key[0]], key[1]
        return ("item" if how == "item" else "attribute"), owner, key

    @property
    def described(self) -> str:
        """The text, with what kind of name it is where it is a bare one."""
        if self.how in ("global", "cell"):
            return f"{'global' if self.how == 'global' else 'enclosing'} {self.text}"
        return self.text

    def __repr__(self) -> str:
        return self.text
