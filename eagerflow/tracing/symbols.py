"""Data of symbolic tensors, symbolic sizes, tensors from outside, and errors for leaked values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, final
from weakref import WeakSet

from eagerflow.core.abstract_symbols import AbstractSymbol
from eagerflow.core.interpreter import stack
from eagerflow.core.tensor import Tensor, handle_of, make_tensor
from eagerflow.dims import Dim
from eagerflow.errors import LeakedTensorError, TraceError
from eagerflow.graph.ir import Value
from eagerflow.graph.name_scopes import current_within, free_name
from eagerflow.hardware import Device
from eagerflow.hardware.device_names import DeviceName
from eagerflow.hardware.device_scopes import said_by_scope
from eagerflow.source import Source, capture, function_called

if TYPE_CHECKING:
    from eagerflow.tracing.tracer import Tracer

#: hook that keeps a composite with a derivative of its own in a branch or a body, set by a module
#: above: ``composites["keep"](tracer, composite, inputs)`` returns the outputs
composites: Final[dict[str, Callable[..., tuple[Any, ...]]]] = {}
#: the traces of whole functions that are still referred to
traces: Final[WeakSet[Tracer]] = WeakSet()


@final
class Symbol(AbstractSymbol):
    """The data of a symbolic tensor.

    Attributes:
        tracer: the trace that made it.
        value: its value in the graph.
    """

    __slots__ = ("tracer", "value")

    def __init__(self, tracer: Tracer, value: Value) -> None:
        self.tracer = tracer
        self.value = value
        self.shape = value.type.shape

    def is_constant(self, what: str) -> bool:
        return self.tracer.constants_for(self.value, what).has(self.value)

    def concrete(self, what: str) -> Any:
        return self.tracer.constants_for(self.value, what).of(self.value, what)

    def text(self, x: Tensor, spell: Callable[[Any], str]) -> str:
        if not self.tracer.is_alive:
            return str(self.value.spec)
        if not self.is_constant("str()"):
            return self.tracer.text(handle_of(x), str(self.value.spec), spell)
        return spell(make_tensor(self.concrete("str()"), x._lane.twin))

    def leaked(self, what: str) -> NoReturn:
        self.tracer.leaked(self.value, what)


def living() -> list[Any]:
    """Tensors' data and numbers of ended traces that are still held."""
    ended = [trace for trace in list(traces) if not trace.is_alive]
    return [x for trace in ended for one in trace.whole.handed_out if (x := one()) is not None]


@final
@dataclass(slots=True, eq=False)
class Capture:
    """A concrete tensor from outside that a trace uses.

    Attributes:
        value: the input of the graph that stands for it.
        handle: a handle that holds it.
        fresh: whether it was made from data while tracing, so that it is a constant.
        source: the line where it was used first.
    """

    value: Value
    handle: Tensor
    fresh: bool
    source: Source | None


class Operand(NamedTuple):
    """A value of the surrounding graph that a branch or a body uses.

    Attributes:
        value: the input that stands for it.
        given: the tensor, or the number.
    """

    value: Value
    given: Any


@final
class Sizes:
    """The symbolic sizes of the trace of a whole function, which its parts share.

    Args:
        owner: the number of the trace, by which dims are assigned to it.

    Attributes:
        known: the sizes in the call that traces, by name; without sizes that depend on data.
        static: the names of sizes that Python asked for, with the operation and its line.
    """

    def __init__(self, owner: int) -> None:
        self._owner = owner
        self.known: dict[str, int] = {}
        self.static: dict[str, tuple[str, Source | None]] = {}
        self._taken: set[str] = set()

    def add(self, name: str, size: int) -> Dim:
        """A new symbolic size, ``size`` in the call that traces."""
        self.known[name] = size
        return Dim(name, self._owner)

    def fresh(self, base: str) -> Dim:
        """A new name for a size that depends on data."""
        name = free_name(base, self.names)
        self._taken.add(name)
        return Dim(name, self._owner)

    def reserve(self, names: Iterable[str]) -> None:
        """Exclude names for new sizes."""
        self._taken.update(names)

    @property
    def names(self) -> frozenset[str]:
        """The names so far."""
        return frozenset(self.known) | self._taken

    def knows(self, dim: Dim) -> bool:
        """Whether the size is known in the call that traces, as it does not depend on data."""
        return dim.symbols <= self.known.keys()

    def ask(self, dim: Dim, why: str) -> int:
        """The size in the call that traces; it is static from then on."""
        for name in dim.symbols:
            if name not in self.known or self._owner not in dim.owners:
                raise _unknown_size(dim, why)
            if name not in self.static:
                self.static[name] = (asked_in(why), capture(2))
        return dim.evaluate(self.known)


def device_scope(device: Device | None) -> DeviceName | Value | str | None:
    """The scope, as `Node.within` has it, by which the op being traced runs on ``device``."""
    within = current_within()
    if within is None and stack.scoped:
        within = said_by_scope(device)
        if type(within) is Symbol:
            within = within.value
    return within  # type: ignore[no-any-return]  # what `said_by_scope` and nodes have


def leaked_error(value: Value, what: str, function: str, alive: bool) -> LeakedTensorError:
    """The error for the use of a value outside of its trace.

    Args:
        value: the value.
        what: the use.
        function: name of the traced function.
        alive: whether the trace is still under way.
    """
    where = value.node.source if value.node is not None else None
    made = f", made at {where}" if where is not None else f", an argument of {function}"
    return LeakedTensorError(
        f"{what}: this tensor belongs to a trace{'' if alive else ' which has ended'}",
        given=f"{value!r} of {function}{made}",
        hint="return it from the traced function, or keep it in an ef.Variable; the other "
        "changes outside that each run repeats are names, attributes and items that are set, and "
        "appends to lists",
    )


def foreign_error(value: Value, what: str, function: str) -> LeakedTensorError:
    """The error for the use of a value of a trace under way in another thread.

    Args:
        value: the value.
        what: the use.
        function: name of the traced function.
    """
    return LeakedTensorError(
        f"{what}: a thread works on a tensor of {function}, which is traced in another thread",
        given=repr(value),
        hint="compute it in the function itself, whose graph runs independent parts at once; or "
        "start the thread outside of the function, with the tensors that it gives",
    )


def leaked_number(what: str, owner: str, here: str | None = None) -> LeakedTensorError:
    """The error for the use of a number outside of its trace.

    Args:
        what: the use.
        owner: the function of its trace.
        here: the function of the trace that uses it; None if its own trace has ended.
    """
    trace = "another trace" if here else "a trace which has ended"
    return LeakedTensorError(
        f"{what} of a number that belongs to {trace}",
        given=f"a number of {owner}" + (f" in {here}" if here else ""),
        hint="return it from the traced function",
    )


def _unknown_size(dim: Dim, why: str) -> TraceError:
    """The error for an operation that needs a size that depends on data.

    Args:
        dim: the size.
        why: the operation.
    """
    return TraceError(
        f"{why}: this size depends on data, so it is not known while tracing",
        given=f"the size {dim}",
        hint="compute with the size as it is (in arithmetic and as a shape it stays symbolic), "
        "compare ef.tensor(x.shape[0]), or call the function eagerly",
    )


def asked_in(what: str) -> str:
    """An operation that needs a number, with the function of eagerflow that uses it, if any.

    The user's line shows ``ef.arange(n)``, and nothing that looks like the operation, ``int()``.
    """
    function = function_called()
    return what if function is None else f"{what} in {function}"
