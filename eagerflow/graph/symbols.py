"""What a trace knows of tensors: symbolic ones, and those from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, final

from eagerflow.core.symbols import AbstractSymbol
from eagerflow.core.tensor import Tensor
from eagerflow.errors import LeakedTensorError
from eagerflow.graph.ir import Value
from eagerflow.source import Source

if TYPE_CHECKING:
    from eagerflow.graph.trace import Tracer

__all__ = ["Capture", "Operand", "Symbol", "composites", "leaked_error"]

#: how a branch or a body keeps a composite with a derivative of its own; a module above fills it:
#: ``composites["keep"](tracer, composite, inputs)`` gives the outputs
composites: Final[dict[str, Callable[..., tuple[Any, ...]]]] = {}


@final
class Symbol(AbstractSymbol):
    """The data of a symbolic tensor.

    Attributes:
        tracer: the trace that made it.
        value: what it is in the graph.
    """

    __slots__ = ("tracer", "value")

    def __init__(self, tracer: Tracer, value: Value) -> None:
        self.tracer = tracer
        self.value = value
        self.shape = value.type.shape

    def concrete(self, what: str) -> Any:
        return self.tracer.constant_of(self.value, what)

    def leaked(self, what: str) -> NoReturn:
        self.tracer.leaked(self.value, what)


@final
class Capture:
    """A concrete tensor from outside that a trace uses.

    Attributes:
        value: the input of the graph that stands for it.
        handle: a handle that holds it.
        fresh: whether it was made of data while tracing, so that it is a constant.
        source: the line where it was used first.
    """

    __slots__ = ("fresh", "handle", "source", "value")

    def __init__(self, value: Value, handle: Tensor, fresh: bool, source: Source | None) -> None:
        self.value = value
        self.handle = handle
        self.fresh = fresh
        self.source = source


class Operand(NamedTuple):
    """A value of the graph around a branch or a body that it uses.

    Attributes:
        value: the input that stands for it.
        given: the tensor, or the number.
    """

    value: Value
    given: Any


def leaked_error(value: Value, what: str, function: str, alive: bool) -> LeakedTensorError:
    """The error for the use of a value outside of its trace.

    Args:
        value: the value.
        what: the use.
        function: what was traced.
        alive: whether that goes on.
    """
    where = value.node.source if value.node is not None else None
    made = f", made at {where}" if where is not None else f", an argument of {function}"
    return LeakedTensorError(
        f"{what}: this tensor belongs to a trace{'' if alive else ' which has ended'}",
        given=f"%{value.name}: {value.type} of {function}{made}",
        hint="return it from the traced function, or keep it in an ef.Variable; of what else a "
        "function does outside, names, attributes and items that are set, and appends to lists "
        "are repeated in each run",
    )
