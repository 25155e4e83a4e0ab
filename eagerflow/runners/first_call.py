"""The first run of a plain function: a warning or an error if the function cannot be repeated."""

from __future__ import annotations

import dis
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Final, final

from eagerflow.errors import TraceError
from eagerflow.function.trace_decorator import deferred_kind
from eagerflow.resources.waiting_operations import loops_over_queues
from eagerflow.source import Source

_PUTS: Final = frozenset({"enqueue", "enqueue_many", "insert_many"})
#: calls that end a runner once its input is used up, so that its function can be repeated
_TAKES: Final = frozenset(
    {"dequeue", "dequeue_many", "dequeue_up_to", "take", "take_many", "next", "__next__"}
)
_JUMPS: Final = frozenset({*dis.hasjrel, *dis.hasjabs})


def check_repeatable(fn: Any) -> None:
    """Refuse a function whose calls do not run its body.

    Raises:
        TraceError: it is a generator function or a coroutine function.
    """
    kind = deferred_kind(fn)
    if kind is not None:
        raise _no_body(getattr(fn, "__name__", repr(fn)), kind)


def _no_body(name: str, kind: str) -> TraceError:
    if kind == "a generator":
        hint = (
            f"a plain function that enqueues: items = {name}(); "
            "ef.spawn(lambda: queue.enqueue(next(items)), closes=queue)"
        )
    elif kind == "a coroutine":
        hint = f"a plain function that enqueues: ef.spawn(lambda: asyncio.run({name}()))"
    else:
        hint = "a plain function that enqueues, and closes=queue"
    return TraceError(
        f"spawn: {name} is {kind} function, and a call runs none of its code",
        expected="a function that does its work when it is called",
        hint=hint,
    )


@final
class FirstCall:
    """The check of the first run.

    Args:
        fn: the function.
        source: the line of its ``spawn``.
        repeats: whether the call of ``spawn`` leaves open how often the function runs.
    """

    __slots__ = ("_fn", "_repeats", "_source")

    def __init__(self, fn: Callable[..., object], source: Source | None, repeats: bool) -> None:
        self._fn = fn
        self._source = source
        self._repeats = repeats

    def begin(self) -> None:
        """Begin the run, in its thread."""
        loops_over_queues.ended = 0

    def end(self, result: object) -> None:
        """Check the run that has ended normally.

        Raises:
            TraceError: the function has made a generator or a coroutine, and done nothing else.
        """
        name = str(getattr(self._fn, "__name__", type(self._fn).__name__))
        if inspect.isgenerator(result) or inspect.iscoroutine(result):
            result.close()  # a coroutine would warn that it was never awaited
            made = str(getattr(result, "__name__", name))
            raise _no_body(made, "a generator" if inspect.isgenerator(result) else "a coroutine")
        if not self._repeats:
            return
        code = _code_of(self._fn)
        if loops_over_queues.ended or (code is not None and _puts_in_a_loop(code)):
            self._warn(name)

    def _warn(self, name: str) -> None:
        source = self._source
        warnings.warn_explicit(
            f"spawn: {name} has returned and is called again, with its loop, as runners repeat "
            "their functions; ef.spawn(..., runs=1) runs it once, and runs=ef.inf repeats it "
            "without this warning",
            RuntimeWarning,
            "<unknown>" if source is None else source.file,
            0 if source is None else source.line,
        )


def _code_of(fn: Any) -> CodeType | None:
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = getattr(fn, "__func__", fn)
    code = getattr(fn, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _puts_in_a_loop(code: CodeType) -> bool:
    """Whether a loop of the code puts elements in, and nothing takes any."""
    if not _TAKES.isdisjoint(code.co_names) or _PUTS.isdisjoint(code.co_names):
        return False
    puts = [i.offset for i in dis.get_instructions(code) if i.argval in _PUTS]
    return any(first <= put <= last for first, last in _loops(code) for put in puts)


def _loops(code: CodeType) -> Iterator[tuple[int, int]]:
    """The first and the last instruction of each loop: a jump back, and its target."""
    for one in dis.get_instructions(code):
        if one.opcode in _JUMPS and one.argval < one.offset:
            yield one.argval, one.offset
