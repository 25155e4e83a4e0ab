"""Runs code of the user as a part of a graph, and finds its effects on Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, Final, NamedTuple, NoReturn, TypeVar, final

from eagerflow.autograph.conversion.source_code import first_line, line_text
from eagerflow.autograph.tracking.unbound import early_read, unbound_reason
from eagerflow.capture.access_paths import Location
from eagerflow.capture.snapshot import Reachable, handle_location
from eagerflow.core import interpreter, tree
from eagerflow.core.abstract_symbols import AbstractNumber, AbstractSymbol
from eagerflow.core.interpreter import stack
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of
from eagerflow.core.to_tensor import tensor_of
from eagerflow.errors import ShapeError, TraceError
from eagerflow.tracing.numpy_arrays import TracedArray
from eagerflow.tracing.tracer import Tracer, tracer_of

_Result = TypeVar("_Result")
#: the effects of a block: the locations by their identities, with their new values, once in handles
#: of their own and once as they are
Found = dict[Any, tuple[Location, Any, Any]]


@final
class Again(BaseException):
    """Signal that a block had other effects on Python than expected, and is to be traced again."""


def tracer_here() -> Tracer:
    """The part of a trace that is under way."""
    tracer = tracer_of(interpreter.current())
    assert tracer is not None
    return tracer


def as_test(x: Any) -> Tensor | None:
    """The truth of ``x`` as a tensor that only the graph knows; None if Python knows it."""
    if not stack.installed or not (
        isinstance(x, AbstractArray) or issubclass(type(x), (AbstractNumber, TracedArray))
    ):
        return None
    if issubclass(type(x), AbstractNumber):
        return as_test(x != 0) if x.varies else None
    if tracer_of(interpreter.current()) is None:
        return None
    value = x if type(x) is Tensor else tensor_of(x)
    data: Any = value._data
    if not isinstance(data, AbstractSymbol) or data.is_constant("bool()"):
        return None
    if value.shape and any(type(d) is not int or d != 1 for d in value.shape):
        raise ShapeError(
            "the truth of a tensor with axes is ambiguous",
            given=str(value.type),
            expected="one element",
            hint="say which elements count: x.any() or x.all()",
        )
    value = value.reshape(()) if value.shape else value
    return value if value.dtype.category == "bool" else value != 0


@final
class UserCode:
    """A branch or a body as a function; messages name the line of the user's code.

    Args:
        code: the user's.
        run: runs the branch or body.
        said: the construct that the code is a part of, such as ``"`and`"``, for messages.
    """

    def __init__(self, code: CodeType, run: Callable[..., Any], said: str | None = None) -> None:
        self.__code__ = code
        self.said = said
        self.line = first_line(code)
        self._run = run

    def __call__(self, *args: Any) -> Any:
        return self._run(*args)


def code_of(function: Any) -> CodeType:
    """The code of a function of the user's, or the user's code of a `UserCode`."""
    code: CodeType = function.__code__
    return code


#: the blocks that are traced now, the outermost first
_under_way: Final[list[TracedBlock]] = []


def is_reached(value: Any) -> bool:
    """Whether a block that is traced now reaches an object."""
    return any(block.snapshot.knows(value) for block in _under_way)


def reach(value: Any, text: str) -> None:
    """Let the blocks that are traced now track changes of an object found meanwhile."""
    for block in _under_way:
        block.snapshot.follow(text, value)


def note_read(location: Location) -> None:
    """Note that the graph reads a location that code may only set: its value may stay."""
    outside = tracer_here().whole.outside
    if outside is not None:
        outside.read_at(location)


def refuse_reached(iterator: Any, what: str) -> None:
    """Refuse a block that takes items of an iterator of Python that existed before it.

    Args:
        iterator: the iterator.
        what: the construct that takes them.

    Raises:
        TraceError: the iterator existed before a block that is traced now.
    """
    block = next((one for one in _under_way if one.snapshot.knows(iterator)), None)
    if block is not None:
        raise TraceError(
            f"{what} takes items of an iterator under a condition, or in a loop, on tensors",
            given=f"a {type(iterator).__name__}, of which Python takes items only while tracing, "
            f"in {block.line}",
            hint="iterate over a tensor, or take items before: items = ef.stack(list(iterator))",
        )


@final
class TracedBlock:
    """Code of the user that becomes a part of the graph.

    Args:
        functions: the code.
        dead: the names of variables that the code binds and that are not read later.
    """

    def __init__(self, functions: Sequence[Callable[..., Any]], dead: Sequence[str]) -> None:
        self.snapshot = Reachable(functions)
        self._code = code_of(functions[0])
        self._dead = frozenset(dead)

    @property
    def line(self) -> str:
        """The line of the branch or the loop, for messages."""
        return line_text(self._code, self._code.co_firstlineno)

    def run(self, function: Callable[[], Any]) -> tuple[Any, Any, Found]:
        """Run the code in the part of a trace that is under way, and undo its effects on Python.

        Returns:
            The result in handles of its own, the result as it is, and the other effects.

        Raises:
            TraceError: the code changes an object that no value of a graph can stand for, or reads
                a variable that may be unbound.
        """
        tracer = tracer_here()
        tracer.follows_updates = True
        _under_way.append(self)
        try:
            result = _run(function, tracer)
            return tree.map(_detached, result), result, self._found(tracer)
        finally:
            _under_way.pop()
            tracer.restore_updated()
            self.snapshot.restore()

    def _found(self, tracer: Tracer) -> Found:
        changes: Found = {}
        for location, _, value in self.snapshot.changes():
            if location.kind == "cell" and location.key in self._dead:
                continue
            if location.kind == "other" or (location.kind == "list" and not value):  # shorter
                _refuse(location)
            changes[location.identity] = (location, tree.map(_detached, value), value)
        for handle, *_ in tracer.updated.values():
            location = handle_location(handle)
            now = handle_of(handle)
            changes[location.identity] = (location, now, now)
        return changes


def _run(function: Callable[[], Any], tracer: Tracer) -> Any:
    try:
        return function()
    except NameError as error:
        reason = unbound_reason(tracer, error) or early_read(error)
        if reason is None:
            raise
        raise reason from None


def _detached(x: Any) -> Any:
    """A tensor in a handle of its own, which no code updates."""
    return handle_of(x) if type(x) is Tensor else x


def _refuse(location: Location) -> NoReturn:
    raise TraceError(
        f"{location.text or 'a container'} is changed under a condition, or in a loop, on tensors",
        given=f"a {type(location.owner).__name__}, which no value of a graph can stand for",
        hint="set names, attributes and items of dicts and lists there; choose elements with "
        "ef.where(condition, a, b)",
    )


class HeldTensor(NamedTuple):
    """A tensor that a loop holds on to while an iteration is traced.

    Attributes:
        tensor: the tensor.
        alone: whether only the loop refers to its initial value.
    """

    tensor: Tensor
    alone: bool


#: by the ids of the tensors
held: Final[dict[int, HeldTensor]] = {}


def references_of_blocks(x: Tensor) -> int:
    """The number of references to a tensor that the blocks traced now hold."""
    count = sum(block.snapshot.references[id(x)] for block in _under_way)
    part: Tracer | None = tracer_here()
    while part is not None:
        count += id(x) in part.updated
        part = part.parent
    return count


def result_or_error(
    run: Callable[[], _Result], known: Callable[[BaseException], bool]
) -> tuple[_Result, None] | tuple[None, BaseException]:
    """The result of ``run``, or the known exception that it raises, which is not handled then.

    Args:
        run: the function to call.
        known: whether an exception is a known one; others are raised.
    """
    try:
        return run(), None
    except BaseException as error:
        if not known(error):
            raise
        return None, error


@contextmanager
def attempt() -> Iterator[None]:
    """Trace a part that may fail: its refusals are then dropped, and it is counted again."""
    tracer = tracer_here()
    pinned, parts = tracer.whole.pinned, tracer.parts
    before = dict(pinned)
    try:
        yield
    except BaseException:
        tracer.parts = parts
        pinned.clear()
        pinned.update(before)
        raise
