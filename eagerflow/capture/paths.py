"""Access paths: how the values are reached that a function reads from outside.

An access path starts at a `Root` (the function, or a static argument) and goes on by global name,
closure cell, attribute or item. So it can be read again at each call, gives what it leads to then,
and keeps none of the user's objects alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import MemberDescriptorType
from typing import Any, Final, final
from weakref import ref

__all__ = ["GONE", "AccessPath", "Root", "instance_dict", "joined"]

#: characters of a path in messages
_LONG: Final = 200


@final
class _Gone:
    """The type of `GONE`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "nothing"


#: what an access path gives that leads nowhere any more
GONE: Final = _Gone()


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
    def weak(self) -> bool:
        """Whether the object is not kept alive."""
        return self._weak is not None

    def get(self) -> Any:
        """The object, or `GONE`."""
        if self._weak is None:
            return self._strong
        value = self._weak()
        return GONE if value is None else value

    def __repr__(self) -> str:
        return f"Root({self.text or self.get()!r})"


def joined(text: str, end: str) -> str:
    """The text of a path that goes on; of long ones only the end."""
    text += end
    return text if len(text) <= _LONG else f"...{text[-_LONG // 2 :]}"


def instance_dict(value: Any) -> dict[str, Any] | None:
    """The attributes of an instance itself, whatever its class makes of attributes."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return attributes if isinstance(attributes, dict) else None


def _dict_entry(owner: Any, key: str) -> Any:
    return object.__getattribute__(owner, "__dict__")[key]


def _of_bases(owner: Any, key: tuple[int, str]) -> Any:
    return owner.__mro__[key[0]].__dict__[key[1]]


def _item(owner: Any, key: Any) -> Any:
    for kind in (dict, list, tuple):
        if isinstance(owner, kind):
            return kind.__getitem__(owner, key)  # type: ignore[index]  # the kind of the owner
    return owner[key]


_READ: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "global": lambda function, name: function.__globals__[name],
    "cell": lambda function, index: function.__closure__[index].cell_contents,
    "attribute": getattr,
    "dict": _dict_entry,
    "item": _item,
    "class": lambda owner, _: owner.__class__,
    "base": _of_bases,
}


def _set_attribute(owner: Any, name: str, value: Any) -> None:
    """Set an attribute without what the class does when it is set."""
    own = instance_dict(owner)
    if isinstance(owner, type):
        type.__setattr__(owner, name, value)
    elif own is not None and (name in own or not _slot(owner, name)):
        own[name] = value
    else:
        object.__setattr__(owner, name, value)


def _slot(owner: Any, name: str) -> bool:
    return isinstance(getattr(type(owner), name, None), MemberDescriptorType)


def _set_item(owner: Any, key: Any, value: Any) -> None:
    for kind in (dict, list):
        if isinstance(owner, kind):
            kind.__setitem__(owner, key, value)  # type: ignore[index]  # the kind of the owner
            return
    owner[key] = value


def _set_global(function: Any, name: str, value: Any) -> None:
    function.__globals__[name] = value


def _set_cell(function: Any, index: int, value: Any) -> None:
    function.__closure__[index].cell_contents = value


def _set_of_bases(owner: Any, key: tuple[int, str], value: Any) -> None:
    type.__setattr__(owner.__mro__[key[0]], key[1], value)


_WRITE: Final[dict[str, Callable[[Any, Any, Any], None]]] = {
    "global": _set_global,
    "cell": _set_cell,
    "attribute": _set_attribute,
    "dict": _set_attribute,
    "item": _set_item,
    "base": _set_of_bases,
}


@final
class AccessPath:
    """The way to one value. Equality is identity: a collection holds one object for each path.

    Args:
        parent: the access path, or the root, of the object that it belongs to.
        how: ``"global"`` or ``"cell"`` of a function, ``"attribute"``, ``"dict"`` (an entry of the
            instance itself), ``"item"``, ``"class"``, or ``"base"`` (a name of a base class).
        key: the name, index or key.
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

    def get(self) -> Any:
        """What is there now, or `GONE`."""
        steps = [self]  # no recursion: lists that are linked by attributes may be long
        while isinstance(steps[-1].parent, AccessPath):
            steps.append(steps[-1].parent)
        value = steps[-1].parent.get()
        try:
            for step in reversed(steps):
                if value is GONE:
                    return GONE
                value = _READ[step.how](value, step.key)
        except Exception:
            return GONE
        return value

    def set(self, value: Any) -> None:
        """Put a value there; `GONE` takes away what is there.

        Raises:
            TypeError: nothing can be put there, or the object that it belonged to is gone.
        """
        self.put(self.parent.get(), value)

    def put(self, owner: Any, value: Any) -> None:
        """Put a value there, as `set` does, in ``owner``, the object that it belongs to."""
        if self.fixed or owner is GONE or self.how not in _WRITE:
            raise TypeError(f"{self.text} cannot be set")
        if value is GONE:
            _delete(self.how, owner, self.key)
        else:
            _WRITE[self.how](owner, self.key, value)

    @property
    def described(self) -> str:
        """The text, with what kind of name it is where it is a bare one."""
        if self.how in ("global", "cell"):
            return f"{'global' if self.how == 'global' else 'enclosing'} {self.text}"
        return self.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"AccessPath({self.described})"


def _delete(how: str, owner: Any, key: Any) -> None:
    if how == "global":
        owner.__globals__.pop(key, None)
    elif how == "cell":
        del owner.__closure__[key].cell_contents
    elif how == "base":
        type.__delattr__(owner.__mro__[key[0]], key[1])
    elif how == "item":
        if isinstance(owner, (list, deque)):
            raise TypeError("items of sequences are not taken away one by one")
        dict.pop(owner, key, None)
    else:
        own = instance_dict(owner)
        if own is not None and not isinstance(owner, type) and key in own:
            del own[key]
        elif isinstance(owner, type):
            type.__delattr__(owner, key)
        else:
            object.__delattr__(owner, key)
