"""Homes of variables: memory that other processes read, so that a value is sent without a copy.

A transport between processes copies what it sends into memory that the receiver can read. Where a
variable is sent again and again, with other bytes each time, it wants the variable to move there:
what assignments write in place then lies where the next message needs it. The variable moves with
its next assignment in place, and never writes into memory that a receiver may be reading.

The memory stays shared with a process that is forked, which other memory does not. So homes of
before a fork are not written into any more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, final

#: makes an array like another one in a home; None without room
Make = Callable[[Any], Any | None]
#: limit on the arrays that transports want to move
_MOST: Final = 256


@final
class Home:
    """Memory of a transport, as the ``base`` of the one array in it.

    Args:
        memory: at least as many bytes as the array has.
        like: an array of the same dtype and shape, by rows.
        is_unread: whether nobody reads the memory now.

    Attributes:
        nbytes: the bytes of the array.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_forks", "_is_unread", "_memory",
                 "_was_written", "nbytes")  # fmt: skip

    def __init__(self, memory: Any, like: Any, is_unread: Callable[[], bool]) -> None:
        self._memory = memory  # the array keeps its home, and that the memory
        self._is_unread = is_unread
        self._was_written = True
        self._forks = forks()
        self.nbytes: int = like.nbytes
        where = memory.__array_interface__["data"]
        self.__array_interface__ = {
            "version": 3, "data": where, "shape": like.shape, "typestr": like.dtype.str,
        }  # fmt: skip

    def may_write(self) -> bool:
        """Whether the only holder of the array may write into it now, as it then does."""
        if self._forks != forks() or not self._is_unread():
            return False
        self._was_written = True
        return True

    def is_new(self) -> bool:
        """Whether the array may have been written since the last call; it is sent now."""
        was_written, self._was_written = self._was_written, False
        return was_written


_forked = 0


def forks() -> int:
    """How often this process was forked, or has been since it was forked itself."""
    return _forked


def note_fork() -> None:
    """Note that this process is forked now."""
    global _forked
    _forked += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=note_fork)

#: by the address of an array, who wants it to move, and what makes the new one
_wanted: Final[dict[int, tuple[object, Make]]] = {}


def want(address: int, owner: object, make: Make) -> None:
    """Want the array at an address to move when it is written in place the next time.

    Args:
        address: of its first element.
        owner: who wants it, for `give_up`.
        make: makes the array that it moves to.
    """
    if len(_wanted) >= _MOST:
        _wanted.pop(next(iter(_wanted)), None)
    _wanted[address] = owner, make


def give_up(owner: object) -> None:
    """Want no array any more that an owner has wanted."""
    for address, (known, _) in list(_wanted.items()):
        if known is owner:
            _wanted.pop(address, None)


def moved(data: Any) -> Any:
    """The array itself, or a copy where a transport wants it to be."""
    if not _wanted:
        return data
    interface = getattr(data, "__array_interface__", None)  # arrays of other devices have none
    known = None if interface is None else _wanted.pop(interface["data"][0], None)
    made = None if known is None else known[1](data)
    if made is None:
        return data
    made[...] = data
    return made
