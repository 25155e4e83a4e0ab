"""`while` and `for` in converted code: loops of the graph, and loops of Python, which are unrolled.

The iterations of an unrolled loop are traced one by one and put their nodes into the graph
(`autograph/flow/unrolled_loops.py`). The loop-carried values of a loop of the graph are in
`autograph/flow/carry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from functools import partial
from operator import itemgetter
from types import CodeType, FunctionType
from typing import Any, Final, final
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.convert import operator
from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.autograph.failures.raising import is_stated
from eagerflow.autograph.flow.carry import Loop, Names
from eagerflow.autograph.flow.conditionals import Branches, and_
from eagerflow.autograph.flow.iterables import AbstractSource, as_range, as_source, is_askable
from eagerflow.autograph.flow.unrolled_loops import Iterations
from eagerflow.autograph.tracking.blocks import (
    UserCode,
    as_test,
    refuse_reached,
    result_or_error,
    tracer_here,
)
from eagerflow.core import interpreter
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim
from eagerflow.errors import EagerflowError, TraceError
from eagerflow.source import user_line
from eagerflow.tracing.tracer import Tracer

#: maximum number of iterations that are traced one by one where their number is unknown
_MOST: Final = 1000
#: the same where Python decides when the loop ends
_MOST_OF_PYTHON: Final = 10_000
_COUNT: Final = "iteration"
_GOES_ON: Final = "goes on"

#: by trace, the bodies of loops that cannot become loops of the graph
_no_loops: Final[WeakKeyDictionary[Tracer, set[CodeType]]] = WeakKeyDictionary()


# --- `while` and `for` ------------------------------------------------------------------------


@operator
def while_(
    test: FunctionType, body: FunctionType, going: Callable[[], Any] | None, names: Names
) -> None:
    """``while test(): body()``, as long as ``going()`` holds as well."""

    def goes_on() -> Any:
        return test() if going is None else and_(going(), test)

    def decide() -> tuple[Tensor | None, bool]:
        """The condition of the graph; or None, and whether Python goes on."""
        holds = goes_on()
        condition = as_test(holds)
        return condition, condition is None and bool(holds)

    condition, python = decide()
    known = python
    if python:
        most = _MOST_OF_PYTHON
        with Iterations(test.__code__, most=most, counts=True) as iterations:
            while python:
                body()
                iterations.add()
                condition, python = decide()
    if condition is None:
        return

    def iteration(carry: dict[str, Any]) -> dict[str, Any]:
        body()
        return {_GOES_ON: _as_bool(goes_on())}

    def run() -> None:
        loop = Loop((test, body), body, names, known=known)
        loop.run(itemgetter(_GOES_ON), iteration, {_GOES_ON: condition})

    _traced(run, body.__code__)


def _traced(run: Callable[[], None], code: CodeType) -> None:
    """Trace a loop.

    Args:
        run: traces it.
        code: of the body.

    Raises:
        TraceError: the iterations raise an exception of the user's, whatever the carry is.
    """
    _, raised = result_or_error(run, is_stated)
    if raised is not None:
        raise TraceError(
            "each iteration of a loop on tensors raises an exception",
            given=f"{type(raised).__name__} from {line_text(code, code.co_firstlineno)}",
            hint="raise it under a condition on tensors: `if`, in the loop or in its place",
            source=user_line(raised),
        ) from None  # its text may show values of the trace


def _lines(names: Names) -> list[tuple[str, int, int, bool]]:
    """The names that an iteration binds, in the form of those of an `if`."""
    return [(name, line, line, live) for name, line, live, _ in names]


def _as_bool(x: Any) -> Any:
    predicate = as_test(x)
    return bool(x) if predicate is None else predicate


def _is_refused(error: BaseException) -> bool:
    """Whether an exception is a refusal by eagerflow to make a loop of the graph."""
    return isinstance(error, EagerflowError) and not is_stated(error)


@operator
def endless(body: FunctionType, names: Names) -> None:
    """``while True: body()``, which only an exception ends."""

    def iteration(carry: dict[str, Any]) -> dict[str, Any]:
        body()
        return {_COUNT: carry[_COUNT] + 1}

    def trace() -> None:
        loop = Loop((body,), body, names, known=True)
        loop.run(lambda carry: True, iteration, {_COUNT: 0}, endless=True)

    reason: Any = None
    if interpreter.is_traced():
        _, reason = result_or_error(trace, lambda error: isinstance(error, EagerflowError))
        if reason is None:
            return
    # an exception of Python may end it
    with Iterations(body.__code__) as iterations:
        while reason is None or iterations.count < _MOST:
            body()
            iterations.add()
    raise TraceError(
        "a loop that only an exception ends has iterations that only Python can repeat",
        given=f"{iterations.count:,} iterations, {iterations.line}\n    {reason.wrong}",
        hint=reason.hint or "carry tensors and numbers only, or end it with `break`",
        source=reason.source,
    ) from None


@operator
def for_(over: Any, body: FunctionType, going: Callable[[], Any] | None, names: Names) -> None:
    """``for x in over: body(x)``, as long as ``going()`` holds."""
    source = as_source(over, concrete=True)
    if source is not None:
        _For(source, body, going, names).run()
        return
    rest, condition = iter(over), None
    if rest is over:
        refuse_reached(rest, "a `for`")
    most = None if isinstance(over, Sized) else _MOST_OF_PYTHON
    counts = type(over) is range
    with Iterations(body.__code__, most=most, counts=counts) as iterations:
        for item in rest:
            body(item)
            iterations.add()
            holds = True if going is None else going()
            condition = as_test(holds)
            if condition is not None or not holds:
                break
    if condition is None:
        return
    if type(over) is range:
        _For(as_range(over), body, going, names, iterations.count).run()
    else:
        _For(rest, body, going, names).unroll(endless=not isinstance(over, Sized))


@final
class _For:
    """A `for` that the graph repeats, or whose iterations stand under conditions of the graph.

    Args:
        over: a source, or an iterable of Python.
        body: the user's.
        going: whether the loop goes on; None if it iterates over all items.
        names: the names that the loop binds.
        start: the number of the first iteration.
    """

    def __init__(
        self, over: AbstractSource | Iterable[Any], body: FunctionType,
        going: Callable[[], Any] | None, names: Names, start: int = 0,
    ) -> None:  # fmt: skip
        self._over: Any = over
        self._body = body
        self._going = going or (lambda: True)
        self._functions = (body,) if going is None else (body, going)
        self._names = names
        self._start = start

    def run(self) -> None:
        """Trace a loop of the graph; if the length is known, iterations may be traced one by one.

        The choice depends on the body alone, not on the length. A symbolic size becomes static if
        it is the length of a loop that cannot be a loop of the graph.
        """
        over, start, code = self._over, self._start, self._body.__code__
        if type(over.length) is not int:
            self._run_symbolic()
            return
        done, made = 0, 0
        if code not in _no_loops.setdefault(tracer_here().root, set()):
            if start >= over.length or self._is_loop(start):
                return
            nodes = tracer_here().graph.nodes
            before = len(nodes)
            self._body(over.item(start))
            done, made = 1, len(nodes) - before
            holds = self._going()
            if as_test(holds) is None and not holds:
                return
            # with the types after the first iteration it may be a loop of the graph
            if start + 1 >= over.length or self._is_loop(start + 1):
                return
            _no_loops[tracer_here().root].add(code)
        self._over = (over.item(i) for i in range(start + done, over.length))
        self.unroll((done, made))

    def _run_symbolic(self) -> None:
        """Trace a loop whose length is a tensor, or a size."""
        over, start, code = self._over, self._start, self._body.__code__
        known = is_askable(over.length)
        tried = _no_loops.setdefault(tracer_here().root, set())
        if not (known and code in tried):
            run = partial(_traced, partial(self._trace, start), code)
            _, refused = result_or_error(run, lambda error: known and _is_refused(error))
            if refused is None:
                return
            tried.add(code)
        length = over.length.ask("a loop that cannot be one of the graph")
        self._over = (over.item(i) for i in range(start, length))
        self.unroll()

    def _is_loop(self, start: int) -> bool:
        """Trace a loop of the graph, if possible; return whether it was."""
        _, error = result_or_error(
            partial(self._trace, start), lambda error: _is_refused(error) or is_stated(error)
        )
        return error is None

    def _trace(self, start: int) -> None:
        over, body, going = self._over, self._body, self._going
        known = start > 0 or (type(over.length) is int and over.length > start)
        size = over.length if type(over.length) is Dim else None
        loop = Loop(self._functions, body, self._names, known=known, size=size)
        unbroken = len(self._functions) == 1
        if unbroken and type(over.length) in (int, Dim):
            _scan(over, body, loop, start)
            return

        def iteration(carry: dict[str, Any]) -> dict[str, Any]:
            body(over.item(carry[_COUNT]))
            following = {_COUNT: carry[_COUNT] + 1}
            return following if unbroken else {**following, _GOES_ON: _as_bool(going())}

        def goes(carry: dict[str, Any]) -> Any:
            return and_(carry.get(_GOES_ON, True), lambda: carry[_COUNT] < over.length)

        extra = {_COUNT: start} if unbroken else {_COUNT: start, _GOES_ON: _as_bool(going())}
        loop.run(goes, iteration, extra)

    def unroll(self, done: tuple[int, int] = (0, 0), *, endless: bool = False) -> None:
        """Trace the iterations one by one, each under the condition that the loop still goes on.

        Args:
            done: the number of earlier iterations, and of the nodes that they made.
            endless: whether the number of items is unknown.
        """
        code, lines = self._body.__code__, _lines(self._names)
        with Iterations(code, done) as iterations:
            for item in self._over:
                holds = self._going()
                condition = as_test(holds)
                iterations.add()
                if condition is None:
                    if not holds:
                        return
                    self._body(item)
                    continue
                if endless and iterations.count > _MOST:
                    raise TraceError(
                        "a loop that a tensor ends iterates over an object without a length in the "
                        "graph",
                        given=f"more than {_MOST:,} iterations, {iterations.line}",
                        hint="iterate over a range or a tensor, or write `while True`",
                    )
                branches = UserCode(code, partial(self._body, item)), UserCode(code, lambda: None)
                Branches(condition, branches, lines, (self._body,)).run()


def _scan(over: AbstractSource, body: Callable[[Any], None], loop: Loop, start: int) -> None:
    """Trace a loop whose number of iterations is known when it begins."""
    whole = over.rows()
    rows = [x[start:] for x in whole] if start else whole

    def iteration(carry: dict[str, Any], parts: list[Tensor]) -> dict[str, Any]:
        body(over.pick(iter(parts), carry[_COUNT]))
        return {_COUNT: carry[_COUNT] + 1}

    loop.scan(iteration, {_COUNT: start}, rows, over.length - start, whole)
