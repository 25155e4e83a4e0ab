"""The parts of messages: numbers, names and the heads of values, each with its limits.

A head describes a value, whose bytes follow the header as raw frames.
"""

from __future__ import annotations

from typing import Annotated, Final, final

from msgspec import Meta, Struct

#: counters, and numbers of steps, sessions and incarnations
Serial = Annotated[int, Meta(ge=0, le=2**63 - 1)]
#: names of devices, tasks, edges, loops
Word = Annotated[str, Meta(max_length=1_000)]
#: texts for people
Prose = Annotated[str, Meta(max_length=20_000)]
Axis = Annotated[int, Meta(ge=0, le=63)]
Size = Annotated[int, Meta(ge=0, le=2**48)]
Sizes = Annotated[tuple[Size, ...], Meta(max_length=64)]
Axes = Annotated[tuple[Axis, ...], Meta(max_length=64)]
#: the loops around a value, each with its iteration
Loops = Annotated[tuple[tuple[Word, Serial], ...], Meta(max_length=64)]


class AbstractRecord(Struct, array_like=True, frozen=True, forbid_unknown_fields=True):
    """Base class of the records in a header."""


#: numbers of steps per session; the number of a session is below 2**31
STEPS: Final = 1 << 32


def step_number(session: int, count: int) -> int:
    """The number of a step, which no other step in the cluster has.

    >>> from eagerflow.cluster.protocol.message_heads import STEPS, step_number
    >>> divmod(step_number(77, 3), STEPS)
    (77, 3)
    """
    return session * STEPS + count


_CLIENT: Final = "client-"


def client_name(session: int) -> str:
    """The name of a client among the tasks that send to it.

    >>> from eagerflow.cluster.protocol.message_heads import client_name
    >>> client_name(77)
    'client-77'
    """
    return f"{_CLIENT}{session}"


def is_client(name: str) -> bool:
    """Whether a name is that of a client among the tasks."""
    return name.startswith(_CLIENT)


# --- values ----------------------------------------------------------------------------------


@final
class ArrayHead(AbstractRecord, tag="array", frozen=True):
    """An array, whose elements are a frame, or part of the head if they are few.

    Attributes:
        dtype: its name, such as ``"float32"``.
        shape: its sizes.
        order: the axes by decreasing distance of their elements in memory; empty for the order of
            the shape.
        elements: the bytes of a few elements; None if they are a frame.
    """

    dtype: Word
    shape: Sizes
    order: Axes = ()
    elements: Annotated[bytes, Meta(max_length=1_000)] | None = None


@final
class ListHead(AbstractRecord, tag="list", frozen=True):
    """A list of tensors, each of them a frame.

    Attributes:
        size: number of places in the list.
        indices: the occupied places, ascending.
        items: the tensors at these places.
    """

    size: Size
    indices: Annotated[tuple[Size, ...], Meta(max_length=100_000)]
    items: Annotated[tuple[ArrayHead, ...], Meta(max_length=100_000)]


@final
class ShapeHead(AbstractRecord, tag="shape", frozen=True):
    """A dtype and a shape without elements."""

    dtype: Word
    shape: Sizes


@final
class TypeHead(AbstractRecord, tag="type", frozen=True):
    """The type of a part of an element. A name stands for a size that may differ."""

    dtype: Word
    shape: Annotated[tuple[Size | Word, ...], Meta(max_length=64)]


@final
class NumberHead(AbstractRecord, tag="number", frozen=True):
    """A number of Python."""

    value: bool | int | float


@final
class ComplexHead(AbstractRecord, tag="complex", frozen=True):
    """A complex number of Python."""

    real: float
    imag: float


@final
class LongHead(AbstractRecord, tag="long", frozen=True):
    """An int that does not fit 64 bits, in hexadecimal digits."""

    digits: Annotated[str, Meta(max_length=4_000, pattern="^-?[0-9a-f]+$")]


@final
class HandleHead(AbstractRecord, tag="handle", frozen=True):
    """A value that a task holds for a session.

    Attributes:
        handle: its number, chosen by the client.
    """

    handle: Annotated[int, Meta(ge=1, le=2**63 - 1)]


#: a value; None is a signal, which has no value
Head = ArrayHead | ListHead | ShapeHead | NumberHead | ComplexHead | LongHead | None
Heads = Annotated[tuple[Head, ...], Meta(max_length=10_000)]
#: an input of a step: a value sent with the message, or one that the task holds
Feeds = Annotated[tuple[Head | HandleHead, ...], Meta(max_length=10_000)]
#: numbers of handles
Handles = Annotated[tuple[Serial, ...], Meta(max_length=10_000)]


@final
class ErrorHead(AbstractRecord, tag="error", frozen=True):
    """An error, in the parts that all errors have.

    Attributes:
        kind: the name of a class of `eagerflow.errors`.
        wrong: the description of the error.
        given: the given values.
        expected: the expected values.
        hint: advice.
        source: the user's line.
        notes: the notes added to the error.
        task: the task that raised it.
        op: the first handle of the eager op that failed; 0 for any other error.
        origin: the derivative that the op was part of, or the failure behind the error.
    """

    kind: Word
    wrong: Prose
    given: Prose | None = None
    expected: Prose | None = None
    hint: Prose | None = None
    source: Prose | None = None
    notes: Annotated[tuple[Prose, ...], Meta(max_length=20)] = ()
    task: Word = ""
    op: Serial = 0
    origin: Prose | None = None


#: the arrays that the text of a graph names
Arrays = Annotated[dict[Word, ArrayHead], Meta(max_length=100_000)]
#: for each resource that the text names, its container and its name there
Places = Annotated[dict[Word, tuple[Word, Word]], Meta(max_length=100_000)]
