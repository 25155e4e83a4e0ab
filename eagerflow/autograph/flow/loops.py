"""`while` and `for` in converted code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from functools import partial
from types import FunctionType
from typing import Any, Final, NoReturn

from eagerflow.autograph.conversion.convert import operator
from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.autograph.failures.raising import is_stated
from eagerflow.autograph.flow.branches import Branches, and_
from eagerflow.autograph.flow.carry import Loop, Names
from eagerflow.autograph.flow.iterables import AbstractSource, as_range, as_source
from eagerflow.autograph.flow.unrolling import Iterations, iterations_of, unrolled
from eagerflow.autograph.tracking.regions import UserCode, as_test, refuse_reached, tracer_here
from eagerflow.core import interpreter
from eagerflow.core.convert import tensor_of
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim
from eagerflow.errors import EagerflowError, TraceError

__all__ = ["endless", "first_iteration", "for_", "raise_in_first_iteration", "while_"]

#: the most iterations that are traced one by one where their number is unknown
_MOST: Final = 1000
#: the same where Python says when they end
_MOST_OF_PYTHON: Final = 10_000
_COUNT: Final = "iteration"
_GOES_ON: Final = "goes on"


@operator
def while_(
    test: FunctionType, body: Callable[[], None], going: Callable[[], Any] | None,
    names: Names,
) -> None:  # fmt: skip
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
        with iterations_of(test.__code__, most=_MOST_OF_PYTHON) as iterations:
            while python:
                body()
                iterations.add()
                condition, python = decide()
    if condition is not None:
        _while_in_graph(condition, body, goes_on, (test, body), names, known=known)


def _while_in_graph(
    condition: Tensor, body: Callable[[], None], goes_on: Callable[[], Any],
    functions: Sequence[Callable[..., Any]], names: Names, *, known: bool,
) -> None:  # fmt: skip
    def iteration(carry: dict[str, Any]) -> dict[str, Any]:
        body()
        return {_GOES_ON: _as_bool(goes_on())}

    def goes(carry: dict[str, Any]) -> Any:
        return carry[_GOES_ON]

    def run() -> None:
        Loop(functions, body, names, known=known).run(goes, iteration, {_GOES_ON: condition})

    _run_or_raise(run, body, lambda: condition, body, names)


def _run_or_raise(
    run: Callable[[], None], body: Callable[..., None], test: Callable[[], Any],
    first: Callable[[], None], names: Names,
) -> None:  # fmt: skip
    """Trace a loop; if its iterations raise an exception of the user, let the graph raise it.

    Args:
        run: traces it.
        body: of the loop.
        test: whether there is another iteration.
        first: runs the first iteration.
        names: as for `while_`.
    """
    try:
        run()
    except BaseException as error:
        if not is_stated(error):
            raise
        raised = error
    else:
        return
    code: Any = getattr(body, "__code__")  # noqa: B009 - of a callable
    raise_in_first_iteration(test(), first, raised, code, names)


def raise_in_first_iteration(
    test: Any, iteration: Callable[[], Any], error: BaseException, code: Any, names: Names = ()
) -> None:
    """A loop whose iterations raise an exception whatever the carry: the first, if there is one.

    Args:
        test: whether there is an iteration.
        iteration: runs it.
        error: the exception that the iterations raise.
        code: the user's.
        names: the names that it binds.

    Raises:
        TraceError: the first iteration does not.
    """
    first = partial(first_iteration, iteration, error, code)
    predicate = as_test(test)
    if predicate is not None:
        functions = UserCode(code, first), UserCode(code, lambda: None)
        Branches(predicate, functions, _lines(names), (iteration,)).run()
    elif test:
        first()


def first_iteration(iteration: Callable[[], Any], error: BaseException, code: Any) -> NoReturn:
    """Run an iteration that is known to raise."""
    iteration()
    raise TraceError(
        "an iteration of a loop on tensors raises an exception, and the first one does not",
        given=f"{type(error).__name__} from {line_text(code, code.co_firstlineno)}",
        hint="raise it under a condition on tensors",
    )


def _lines(names: Names) -> list[tuple[str, int, int, bool]]:
    """The names that an iteration binds, in the form of those of an `if`."""
    return [(name, line, line, live) for name, line, live, _ in names]


def _as_bool(x: Any) -> Any:
    predicate = as_test(x)
    return bool(x) if predicate is None else predicate


@operator
def endless(body: FunctionType, names: Names) -> None:
    """``while True: body()``, which only an exception ends."""
    reason: EagerflowError | None = None
    if interpreter.is_traced():
        try:
            _endless_in_graph(body, names)
        except EagerflowError as error:
            reason = error  # an exception of Python may end it
        else:
            return
    code = body.__code__
    with iterations_of(code) as iterations:
        while reason is None or iterations.count < _MOST:
            body()
            iterations.add()
    assert reason is not None
    raise TraceError(
        "a loop that only an exception ends does in its iterations what only Python can repeat",
        given=f"{iterations.count:,} iterations, {iterations.line}\n    {reason.wrong}",
        hint=reason.hint or "carry tensors and numbers only, or end it with `break`",
        source=reason.source,
    ) from None


def _endless_in_graph(body: FunctionType, names: Names) -> None:
    def iteration(carry: dict[str, Any]) -> dict[str, Any]:
        body()
        return {_COUNT: carry[_COUNT] + 1}

    Loop((body,), body, names, known=True).run(
        lambda carry: True, iteration, {_COUNT: 0}, endless=True
    )


@operator
def for_(over: Any, body: FunctionType, going: Callable[[], Any] | None, names: Names) -> None:
    """``for x in over: body(x)``, as long as ``going()`` holds."""
    source = as_source(over, concrete=True)
    if source is not None:
        _for_in_graph(source, body, going, names)
        return
    rest, condition = iter(over), None
    if rest is over:
        refuse_reached(rest, "a `for`")
    most = None if isinstance(over, Sized) else _MOST_OF_PYTHON
    with iterations_of(body.__code__, most=most) as iterations:
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
        _for_in_graph(as_range(over), body, going, names, iterations.count)
    else:
        _one_by_one(rest, body, going, names, endless=not isinstance(over, Sized))


def _for_in_graph(
    over: AbstractSource, body: Callable[[Any], None], going: Callable[[], Any] | None,
    names: Names, start: int = 0,
) -> None:  # fmt: skip
    """A loop over a source with a length; if that is known, iterations may be traced one by one.

    The choice depends on the body alone, whatever the length.
    """
    length = over.length
    if type(length) is not int:
        _for_unknown(over, body, going, names, start)
        return
    code: Any = getattr(body, "__code__")  # noqa: B009 - of a callable
    known = set(unrolled())  # where tracing as a loop was tried
    made = 0
    for first in (start, start + 1) if code not in known else ():
        if first >= length:
            return
        try:
            _count(over, body, going, names, first)
        except BaseException as error:
            if not (isinstance(error, EagerflowError) or is_stated(error)):
                raise
            if first != start:
                unrolled().add(code)
        else:
            return
        if first == start:  # with the types after the first iteration it may be a loop
            nodes = tracer_here().graph.nodes
            before = len(nodes)
            body(over.item(start))
            made = len(nodes) - before
            if as_test(True if going is None else going()) is None and not _holds(going):
                return
    begin = start if code in known else start + 1
    items = (over.item(i) for i in range(begin, length))
    _one_by_one(items, body, going, names, (begin - start, made))


def _for_unknown(
    over: AbstractSource, body: Callable[[Any], None], going: Callable[[], Any] | None,
    names: Names, start: int,
) -> None:  # fmt: skip
    """A loop over a source with a length that only the graph knows."""

    def run() -> None:
        _count(over, body, going, names, start)

    def first() -> None:
        body(over.item(start))

    _run_or_raise(run, body, lambda: tensor_of(over.length) > start, first, names)


def _holds(going: Callable[[], Any] | None) -> bool:
    return going is None or bool(going())


def _count(
    over: AbstractSource, body: Callable[[Any], None], going: Callable[[], Any] | None,
    names: Names, start: int,
) -> None:  # fmt: skip
    known = start > 0 or (type(over.length) is int and over.length > start)
    functions = (body,) if going is None else (body, going)
    loop = Loop(functions, body, names, known=known)
    if going is None and type(over.length) in (int, Dim):
        _scan(over, body, loop, start)
        return

    def iteration(carry: dict[str, Any]) -> dict[str, Any]:
        body(over.item(carry[_COUNT]))
        carried = {_COUNT: carry[_COUNT] + 1}
        return carried if going is None else {**carried, _GOES_ON: _as_bool(going())}

    def goes(carry: dict[str, Any]) -> Any:
        return and_(carry.get(_GOES_ON, True), lambda: carry[_COUNT] < over.length)

    extra: dict[str, Any] = {_COUNT: start}
    if going is not None:
        extra[_GOES_ON] = _as_bool(going())
    loop.run(goes, iteration, extra)


def _scan(over: AbstractSource, body: Callable[[Any], None], loop: Loop, start: int) -> None:
    """A loop whose number of iterations is known when it begins."""
    whole = over.rows()
    rows = [x[start:] for x in whole] if start else whole

    def iteration(carry: dict[str, Any], parts: list[Tensor]) -> dict[str, Any]:
        body(over.pick(iter(parts), carry[_COUNT]))
        return {_COUNT: carry[_COUNT] + 1}

    loop.scan(iteration, {_COUNT: start}, rows, over.length - start, whole)


def _one_by_one(
    items: Iterable[Any], body: Callable[[Any], None], going: Callable[[], Any] | None,
    names: Names, before: tuple[int, int] = (0, 0), *, endless: bool = False,
) -> None:  # fmt: skip
    """The iterations one after the other, each under the condition that the loop still goes on.

    Args:
        items: the iterable.
        body: the user's.
        going: whether the loop goes on.
        names: the names that it binds.
        before: the number of earlier iterations, and of the nodes that they made.
        endless: whether the number of items is unknown.
    """
    lines = _lines(names)
    code: Any = getattr(body, "__code__")  # noqa: B009 - of a callable
    with iterations_of(code, before) as iterations:
        _iteration_by_iteration(items, body, going, lines, iterations, _MOST if endless else None)


def _iteration_by_iteration(
    items: Iterable[Any], body: Callable[[Any], None], going: Callable[[], Any] | None,
    lines: Sequence[tuple[str, int, int, bool]], iterations: Iterations, most: int | None,
) -> None:  # fmt: skip
    code: Any = getattr(body, "__code__")  # noqa: B009 - of a callable
    for item in items:
        condition = True if going is None else going()
        test = as_test(condition)
        iterations.add()
        if test is None:
            if not condition:
                return
            body(item)
            continue
        if most is not None and iterations.count > most:
            raise TraceError(
                "a loop that a tensor ends goes over something that has no length for the graph",
                given=f"more than {most:,} iterations, {line_text(code, code.co_firstlineno)}",
                hint="go over a range or a tensor, or write `while True`",
            )
        iteration = UserCode(code, partial(body, item)), UserCode(code, lambda: None)
        Branches(test, iteration, lines, (body,)).run()
