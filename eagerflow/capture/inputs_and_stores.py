"""What crosses the border of a trace: inputs read from outside, results, and what is put back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

from eagerflow.capture.access_paths import AccessPath
from eagerflow.core.to_tensor import as_tensor
from eagerflow.hardware import Lane
from eagerflow.types import Shape

#: a shape with None for each symbolic size
Pattern = tuple[int | None, ...]


def fits(shape: Shape, pattern: Pattern) -> bool:
    """Whether ``shape`` is one of those that ``pattern`` stands for."""
    if shape == pattern:
        return True
    if len(shape) != len(pattern):
        return False
    return all(p is None or p == size for size, p in zip(shape, pattern, strict=True))


@final
@dataclass(slots=True, eq=False)
class CapturedInput:
    """An input of the graph that is read from outside at each call.

    Attributes:
        path: where it is read.
        lane: of the tensor; None for a number.
        pattern: its shape.
        text: what was there when it was traced, for messages.
        foreign: whether it is an array of NumPy.
        used: whether it is an input of the graph; if not, Python looked at its type alone.
        data: what it has to hold, if Python looked at its elements.
    """

    path: AccessPath
    lane: Lane | None
    pattern: Pattern
    text: str
    foreign: bool = False
    used: bool = True
    data: Any = None

    def difference(self, value: Any) -> str:
        """How what is there, of another type than the trace takes, differs."""
        now = as_tensor(value).type if self.foreign else value.type
        if str(now) == self.text:
            now = "other elements"
        return f"{self.path.described}: now {now}, before {self.text}"


class Output(NamedTuple):
    """Where one leaf of a result comes from.

    Attributes:
        kind: ``"value"`` (an output of the graph), ``"slices"`` (two of them), ``"leaf"`` (an
            argument itself), ``"argument"`` (a container among them), ``"outside"`` (an object from
            outside itself), ``"made"`` (a container that the function made and that occurs in
            several places), ``"choice"`` (one of two others, which a branch decides) or
            ``"constant"``.
        what: the index of the output, of the argument or of the container, the path in an
            argument, the access path, the constant, or of a choice the index of the output that
            tells whether it is the first of these.
        shape: of the whole of slices.
    """

    kind: str
    what: Any
    shape: Any = None


class Store(NamedTuple):
    """Something that is done outside, or to a container among the arguments, after each run.

    Attributes:
        kind: ``"update"`` puts the value into the handle that is there, ``"set"`` puts it there,
            ``"delete"`` takes away what is there, ``"append"`` appends the values to the list
            that is there, ``"fill"`` makes them all that the container there holds.
        target: the access path, or the index of an argument whose handle is updated.
        treedef: the structure of the value.
        outputs: its leaves.
        of_arguments: whether the path begins at the arguments of the call, by parameter.
    """

    kind: str
    target: Any
    treedef: Any
    outputs: tuple[Output, ...]
    of_arguments: bool = False
