"""Transfer of elements between two processes, with arrays as raw bytes.

The structure of an element (its containers, the dtypes of its arrays) is sent when it is new, and
referred to by a number from then on. The head of a message is, in words of 8 bytes:

    size of the head, size of the structure (0 if it is known), number of the structure, numbers
    that belong to the message (their count, then each), and for each leaf its sizes

After the head come the structure, if it is new, and the bytes of the leaves: arrays as they lie in
memory, other objects pickled.
"""

from __future__ import annotations

import select
import socket
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import Any, Final, final

import numpy as np

import eagerflow as ef
from eagerflow.errors import DTypeError
from eagerflow.extending import tree

#: seconds after which an idle worker ends
IDLE: Final = 30.0
_KEPT: Final = 512  # structures that are remembered; others are sent each time
_BUFFERS: Final = 512  # buffers in one system call
_WORD: Final = 8


def dump(value: Any) -> bytes:
    """Pickle ``value``, maybe a function of a notebook, for a process on the same machine."""
    # imported here: 20 ms, and not needed within one process
    return bytes(import_module("cloudpickle").dumps(value))


def load(data: bytes | bytearray) -> Any:
    """Unpickle data of `dump`; called only with data that a process of this program sent."""
    return import_module("cloudpickle").loads(data)


@final
class Wire:
    """One end of a connection.

    Args:
        connection: a connected socket, which belongs to this object from now on.
    """

    __slots__ = ("_connection", "_received", "_sent")

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sent: dict[Any, int] = {}
        self._received: list[tuple[tree.TreeDef, tuple[Any, ...]]] = []

    def send(self, numbers: Sequence[int], value: Any) -> None:
        """Send a few numbers below 2**64 and a pytree.

        Raises:
            DTypeError: a leaf cannot be sent; then nothing was sent.
        """
        leaves, treedef = tree.flatten(value)
        dtypes, buffers, sizes = [], [], []
        for position, leaf in enumerate(leaves):
            try:
                dtype, buffer, shape = _encode(leaf)
            except Exception as error:
                raise _unsendable(leaf, tree.paths(treedef)[position], error) from error
            dtypes.append(dtype)
            buffers.append(buffer)
            sizes += shape
        form = (treedef, tuple(dtypes))
        number = self._sent.get(form)
        structure = b""
        if number is None:
            number = len(self._sent)
            structure = dump((tree.unflatten(treedef, range(len(leaves))), form[1]))
            if number < _KEPT:
                self._sent[form] = number
        head = array("Q", [0, len(structure), number, len(numbers), *numbers, *sizes])
        head[0] = len(head)
        parts = [memoryview(head).cast("B"), memoryview(structure), *buffers]
        _move(parts, self._connection.sendmsg)

    def receive(self) -> tuple[list[int], Any]:
        """The numbers and the tree that the other end sent, arrays as tensors of their own.

        Raises:
            EOFError: the other end is gone.
        """
        start = array("Q", bytes(2 * _WORD))
        self._read([memoryview(start).cast("B")])
        rest = array("Q", bytes((start[0] - 2) * _WORD))
        structure = bytearray(start[1])
        self._read([memoryview(rest).cast("B"), memoryview(structure)])
        number, count, *words = rest
        if structure:
            example, dtypes = load(structure)
            form = (tree.flatten(example)[1], dtypes)
            if number < _KEPT:
                self._received.append(form)
        else:
            form = self._received[number]
        leaves = _room(form[1], iter(words[count:]))
        self._read([buffer for _, buffer in leaves])
        return words[:count], tree.unflatten(form[0], [_decode(x) for x, _ in leaves])

    def _read(self, buffers: list[memoryview]) -> None:
        _move(buffers, lambda some: self._connection.recvmsg_into(some)[0])

    def waits(self, seconds: float) -> bool:
        """Whether data arrives within ``seconds``."""
        return bool(select.select([self._connection], [], [], seconds)[0])

    def close(self) -> None:
        """End the connection, and all waits on it."""
        with suppress(OSError):  # it may be closed already
            self._connection.shutdown(socket.SHUT_RDWR)  # a close alone would wake no thread
        self._connection.close()


@final
class Rebuilt:
    """A pickle of ``error`` that works even if its class cannot be called with its ``args``."""

    __slots__ = ("_error",)

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self._error), self._error.args, vars(self._error))


def _rebuilt(kind: Any, args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    made = kind.__new__(kind, *args)
    made.args = args
    vars(made).update(state)
    return made


def _unsendable(leaf: Any, path: str, error: Exception) -> DTypeError:
    return DTypeError(
        "an object cannot be sent to another process",
        given=f"a {type(leaf).__qualname__}{f' at {path}' if path else ''}: {error}",
        expected="tensors, arrays, numbers, texts, or objects that can be pickled",
        hint="threads share everything: leave out processes=True",
    )


def _move(buffers: list[memoryview], move: Callable[[list[memoryview]], int]) -> None:
    """Move all bytes of ``buffers`` by repeated calls that move some and return their number."""
    left = [buffer for buffer in buffers if buffer.nbytes]
    while left:
        moved = move(left[:_BUFFERS])
        if not moved:
            raise EOFError
        left = _behind(left, moved)


def _behind(buffers: list[memoryview], count: int) -> list[memoryview]:
    """The rest of ``buffers`` after ``count`` bytes."""
    for i, buffer in enumerate(buffers):
        if count < buffer.nbytes:
            return [buffer[count:], *buffers[i + 1 :]]
        count -= buffer.nbytes
    return []


def _encode(leaf: Any) -> tuple[Any, memoryview, list[int]]:
    """The dtype of a leaf (None if it is pickled), its bytes, and their sizes."""
    if type(leaf) is ef.Tensor and leaf.dtype is not ef.bytes:
        values = np.asarray(leaf.numpy(), order="C")
        return values.dtype, _flat(values), [values.ndim, *values.shape]
    data = dump(leaf.numpy() if type(leaf) is ef.Tensor else leaf)
    return None, memoryview(data), [len(data)]


def _flat(values: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of an array, whose dtype may be unknown to the buffer protocol."""
    flat: Any = values.reshape(-1).view(np.uint8)
    return memoryview(flat)


def _room(dtypes: tuple[Any, ...], words: Iterator[int]) -> list[tuple[Any, memoryview]]:
    """An object to receive each leaf, and its memory."""
    made: list[tuple[Any, memoryview]] = []
    for dtype in dtypes:
        size = next(words)
        if dtype is None:
            data = bytearray(size)
            made.append((data, memoryview(data)))
        else:
            values = np.empty([*islice(words, size)], dtype)
            made.append((values, _flat(values)))
    return made


def _decode(data: Any) -> Any:
    value = data if isinstance(data, np.ndarray) else load(data)
    return ef.asarray(value, device="cpu:0") if isinstance(value, np.ndarray) else value
