"""Access paths to the values that a function reads from outside.

An access path starts at a `Root` (the function, or a static argument) and goes on by global name,
closure cell, attribute or item. So it can be read again at each call, gives the present value, and
keeps none of the user's objects alive.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import MemberDescriptorType
from typing import Any, Final, NamedTuple, final
from weakref import ref

#: maximum number of characters of a path in messages
_LONG: Final = 200


#: value of an access path that leads nowhere any more
GONE: Final = object()
#: the key of a call without arguments
NO_ARGUMENTS: Final[Any] = ((), {})


@final
class Root:
    """The object at which access paths begin.

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
        """Make all paths begin at another object, as when a cell of a notebook was run again."""
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
        """The root itself, as paths have the property."""
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
    """The text of a path with ``end`` appended; of long texts only the last part."""
    text += end
    return text if len(text) <= _LONG else f"...{text[-_LONG // 2 :]}"


def instance_dict(value: Any) -> dict[str, Any] | None:
    """The ``__dict__`` of an instance, whatever its class makes of attributes; None without one."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        if not isinstance(value, threading.local):
            return None
        attributes = value.__dict__  # of this thread
    return attributes if isinstance(attributes, dict) else None


def _dict_entry(owner: Any, key: str) -> Any:
    return object.__getattribute__(owner, "__dict__")[key]


def _of_bases(owner: Any, key: tuple[int, str]) -> Any:
    return owner.__mro__[key[0]].__dict__[key[1]]


#: Python's own containers; an ordered dict keeps its order outside of its dict
_KINDS: Final[dict[Any, None]] = dict.fromkeys(
    (OrderedDict, dict, list, tuple, deque, set, frozenset)
)
#: methods that show the contents of a container
_LOOKS: Final = (
    "__len__", "__iter__", "__getitem__", "__contains__", "__bool__", "get", "items", "keys",
    "values",
)  # fmt: skip


def kind_of(owner: Any) -> Any:
    """Python's own type of a container, whose methods run no code of the container's class."""
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
        LookupError: there is no such item; a `defaultdict` does not make it.
    """
    if isinstance(owner, dict) and not dict.__contains__(owner, key):
        raise KeyError(key)
    return kind_of(owner).__getitem__(owner, key)


def shows_contents(owner: Any) -> bool:
    """Whether plain access shows a container's contents: its class overrides no such method."""
    kind, own = kind_of(owner), type(owner)
    return own is kind or all(
        getattr(own, name, None) is getattr(kind, name, None) for name in _LOOKS
    )


def contents(owner: Any) -> Any:
    """The contents of a container, whatever its class overrides; itself if it overrides nothing."""
    if shows_contents(owner):
        return owner
    kind = kind_of(owner)
    if isinstance(owner, dict):
        return dict(kind.items(owner))
    return (set if kind is set else list)(kind.__iter__(owner))


def refill(owner: Any, items: Any) -> None:
    """Replace the contents of a dict, list, deque or set, whatever its class overrides."""
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
    """The value of an attribute in an object, a class or its bases, or `GONE`.

    No code runs but the descriptors of slots.
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
        key: the name, index or key in the owner.
        text: its name in messages.
    """

    kind: str
    owner: Any
    key: Any
    text: str

    @property
    def identity(self) -> tuple[str, int, Any]:
        """A key that is equal for all access paths that lead here."""
        return self.kind, id(self.owner), self.key

    def get(self) -> Any:
        """The value at the location, or `GONE`. No code of the user runs."""
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
        """Store a value without running code of a class; `GONE` deletes the location.

        Raises:
            TypeError, AttributeError: the location cannot be set.
        """
        _write(self.kind, self.owner, self.key, value)


def _write(kind: str, owner: Any, key: Any, value: Any) -> None:
    """See `Location.set`; a function of its own for the stores of each run."""
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
            raise TypeError("single items of sequences are not deleted")
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
    """The path to one value. Equality is identity: a collection holds one object for each path.

    Args:
        parent: the access path, or the root, of the owner: the object that the value belongs to.
        how: ``"global"`` or ``"cell"`` of a function, ``"attribute"``, ``"dict"`` (an entry of the
            instance itself), ``"item"``, ``"class"``, ``"base"`` (a name of a base class), or
            ``"call"`` (the result of a function).
        key: the name, index or key; of a call the positional and the keyword arguments.
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
        """The present value, or `GONE`; ``start``, if given, takes the place of the root."""
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
        """The access paths of the owner, its owner and so on, the nearest first."""
        path = self.parent
        while isinstance(path, AccessPath):
            yield path
            path = path.parent

    @property
    def root(self) -> Root:
        """The root at which the path begins."""
        path: AccessPath | Root = self
        while isinstance(path, AccessPath):
            path = path.parent
        return path

    def set(self, value: Any) -> None:
        """Store a value at the path; `GONE` deletes the present one.

        Raises:
            TypeError: the path cannot be set, or the owner is gone.
        """
        self.put(self.parent.get(), value)

    def put(self, owner: Any, value: Any) -> None:
        """Store a value, as `set` does, in ``owner``, the value's owner."""
        _write(*self._resolved(owner), value)

    def location(self) -> Location:
        """The location to which the path leads now.

        Raises:
            TypeError: the path cannot be set, or the owner is gone.
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
        """The text; of a bare name with its kind, global or enclosing."""
        if self.how in ("global", "cell"):
            return f"{'global' if self.how == 'global' else 'enclosing'} {self.text}"
        return self.text

    def __repr__(self) -> str:
        return self.text
