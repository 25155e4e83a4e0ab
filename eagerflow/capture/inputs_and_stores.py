"""Records of the interface of a trace: captured inputs, outputs, and stores to the outside."""

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
    """Whether ``shape`` matches ``pattern``."""
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
        path: the access path from which it is read.
        lane: of the tensor; None for a number.
        pattern: its shape.
        text: type of the value in the trace, for messages.
        foreign: whether it is an array of NumPy.
        used: whether the graph has it as an input; if not, Python looked at its type alone.
        data: the data that it has to hold, if Python looked at its elements.
    """

    path: AccessPath
    lane: Lane | None
    pattern: Pattern
    text: str
    foreign: bool = False
    used: bool = True
    data: Any = None

    def difference(self, value: Any) -> str:
        """Description of how ``value`` differs from the input that the trace takes."""
        now = as_tensor(value).type if self.foreign else value.type
        if str(now) == self.text:
            now = "other elements"
        return f"{self.path.described}: now {now}, before {self.text}"


class Output(NamedTuple):
    """The origin of one leaf of a result.

    Attributes:
        kind: ``"value"`` (an output of the graph), ``"slices"`` (two outputs), ``"leaf"`` (an
            argument itself), ``"argument"`` (a container among the arguments), ``"outside"`` (an
            object from outside itself), ``"made"`` (a container that the function made and that
            occurs in several places), ``"choice"`` (one of two others, which a branch decides) or
            ``"constant"``.
        what: the index of the output, of the argument or of the container, the path in an
            argument, the access path, the constant, or of a choice the index of the output that
            is its predicate (true for the first).
        shape: dense shape of slices.
    """

    kind: str
    what: Any
    shape: Any = None


class Store(NamedTuple):
    """A side effect on the outside, or on a container among the arguments, after each run.

    Attributes:
        kind: ``"update"`` puts the value into the handle at the target, ``"set"`` binds the target
            to it, ``"delete"`` deletes the target, ``"append"`` appends the values to the list at
            the target, ``"fill"`` replaces the contents of the container there by the values.
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
