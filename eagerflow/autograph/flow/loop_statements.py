"""`while` and `for` in converted code: loops of the graph, and loops of Python, which are unrolled.

The iterations of an unrolled loop are traced one by one and put their nodes into the graph. The
loop-carried values of a loop of the graph: `autograph/flow/carry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from types import CodeType, FunctionType
from typing import Any, Final, NoReturn, final
from weakref import WeakKeyDictionary

from eagerflow.autograph.conversion.convert import operator
from eagerflow.autograph.conversion.source_code import line_text
from eagerflow.autograph.failures.raising import is_stated, result_or_error
from eagerflow.autograph.flow.carry import Loop, Names
from eagerflow.autograph.flow.conditionals import Branches, and_
from eagerflow.autograph.flow.iterables import AbstractSource, as_range, as_source, is_askable
from eagerflow.autograph.tracking.blocks import UserCode, as_test, refuse_reached, tracer_here
from eagerflow.core import interpreter
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import tensor_of
from eagerflow.dims import Dim
from eagerflow.errors import EagerflowError, TraceError, TraceWarning
from eagerflow.graph.edit import all_nodes
from eagerflow.graph.ir import Graph
from eagerflow.runtime.threads import deadline
from eagerflow.source import warn
from eagerflow.tracing.tracer import Tracer, current_tracer

#: number of nodes of an unrolled loop from which on there is a warning
LARGE: Final = 3000
#: numbers of iterations and of nodes at which a loop over numbers is reported while it is unrolled;
#: a network has fewer layers
_MANY: Final = 64
_GROWN: Final = 512
#: maximum number of iterations that are traced one by one where their number is unknown
_MOST: Final = 1000
#: the same where Python decides when the loop ends
_MOST_OF_PYTHON: Final = 10_000
_COUNT: Final = "iteration"
_GOES_ON: Final = "goes on"

#: by trace, the bodies of loops that cannot become loops of the graph
_no_loops: Final[WeakKeyDictionary[Tracer, set[CodeType]]] = WeakKeyDictionary()
#: by trace, the unrolled loops: by the graph or subgraph that their nodes went into, and the code
loops: Final[WeakKeyDictionary[Tracer, dict[tuple[Graph, CodeType], _Unrolled]]] = (
    WeakKeyDictionary()
)


#: the lines of loops that were reported while they were unrolled: file and number
_reported: Final[set[tuple[str, int]]] = set()


# --- unrolled loops ---------------------------------------------------------------------------


#: the remedy for a large loop
_OVER_TENSORS: Final = (
    "Over a tensor it is one loop of the graph: `for i in ef.arange(n)` with a Python number n, "
    "`for x in xs`, or `while i < n` with a tensor n. Its body must index no Python list"
)


@final
@dataclass(slots=True)
class _Unrolled:
    """A loop of Python in a traced function.

    Attributes:
        line: of the loop, for messages.
        iterations: their number, over all runs of the loop.
        runs: the number of runs.
        lengths: the numbers of iterations of single runs.
        nodes: the number of nodes that they put into the graph.
        reported: whether there was a warning while it was unrolled.
    """

    line: str
    iterations: int = 0
    nodes: int = 0
    runs: int = 0
    lengths: set[int] = field(default_factory=set)
    reported: bool = False

    @property
    def warning(self) -> str:
        """The warning for a large loop."""
        return f"{self}. {_OVER_TENSORS}"

    def __str__(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes:,} nodes"
        return f"{self.line.rstrip(':')}: {self._times} made {nodes}"

    @property
    def _times(self) -> str:
        """The number of iterations: of each run, if there were several of that many."""
        if self.runs < 2:
            return f"{self.iterations:,} iterations"
        if len(self.lengths) > 1:
            return f"{self.iterations:,} iterations in {self.runs:,} runs"
        (each,) = self.lengths
        return f"{each:,} iteration{'s' * (each != 1)}, {self.runs:,} times,"


def unrolled_loops(tracer: Tracer) -> list[_Unrolled]:
    """The loops whose iterations put nodes into the graph, loops with the most nodes first."""
    parts = {tracer.graph}  # other graphs were given up, and traced in another way
    parts.update(g for node in all_nodes(tracer.graph.nodes) for _, g in node.subgraphs())
    by_code: dict[CodeType, _Unrolled] = {}
    for (part, code), one in loops[tracer].items():
        if part in parts:
            whole = by_code.setdefault(code, _Unrolled(one.line))
            whole.iterations += one.iterations
            whole.nodes += one.nodes
            whole.runs += one.runs
            whole.lengths |= one.lengths
            whole.reported |= one.reported
    large = [one for one in by_code.values() if one.iterations > 1 and one.nodes]
    return sorted(large, key=lambda one: (-one.nodes, one.iterations))


@final
class _Iterations:
    """The iterations of a loop of Python: a context manager around them, which are added to it.

    Args:
        code: code whose first line is the line of the loop.
        done: number of earlier iterations, and of the nodes that they made.
        most: number of iterations that made nodes after which the loop is taken to be endless;
            None: never.
        counts: whether the loop is over numbers, such as a range.

    Attributes:
        count: their number.
        line: of the loop, for messages.
    """

    def __init__(
        self, code: CodeType, done: tuple[int, int] = (0, 0), *, most: int | None = None,
        counts: bool = False,
    ) -> None:  # fmt: skip
        self.count, self._made = done
        self.line = line_text(code, code.co_firstlineno)
        self._code = code
        self._most = most
        self._counts = counts
        self._reported = False
        self._tracer = current_tracer()
        self._graph = Graph() if self._tracer is None else self._tracer.graph
        self._before = len(self._graph.nodes)

    def __enter__(self) -> _Iterations:
        return self

    def add(self) -> None:
        """Note an iteration.

        Raises:
            DeadlineError: the deadline has passed.
            TraceError: the loop seems to be endless.
        """
        self.count += 1
        if self._tracer is None:
            return
        deadline.check()
        if self._counts and self.count >= _MANY and self._nodes >= max(_GROWN, self.count):
            self._report()
        if self._most is not None and min(self.count, self._nodes) > self._most:
            raise TraceError(
                "a loop of Python has no end while it is traced",
                given=f"{self.count:,} iterations made {self._nodes:,} nodes, {self.line}",
                hint="let a tensor decide in its test, or in the `if` before its `break`; an "
                "error that the graph raises in an iteration is not there yet for an `except`",
            )

    def _report(self) -> None:
        """Warn, once for each line, while the trace goes on: it may take minutes."""
        self._counts, self._reported = False, True
        line = self._code.co_filename, self._code.co_firstlineno
        if line not in _reported:
            _reported.add(line)
            warn(
                f"{self.line.rstrip(':')} is unrolled: so far {self.count:,} iterations made "
                f"{self._nodes:,} nodes. {_OVER_TENSORS}", TraceWarning,
            )  # fmt: skip

    @property
    def _nodes(self) -> int:
        """The number of nodes that they made."""
        return self._made + len(self._graph.nodes) - self._before

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None and self._tracer is not None:
            known = loops.setdefault(self._tracer.root, {})
            one = known.setdefault((self._graph, self._code), _Unrolled(self.line))
            one.iterations += self.count
            one.nodes += self._nodes
            one.runs += 1
            one.lengths.add(self.count)
            one.reported |= self._reported


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
        with _Iterations(test.__code__, most=most, counts=True) as iterations:
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

    _run_or_raise(run, lambda: condition, body, body.__code__, names)


def _run_or_raise(
    run: Callable[[], None], test: Callable[[], Any], first: Callable[[], None], code: CodeType,
    names: Names,
) -> None:  # fmt: skip
    """Trace a loop; if its iterations raise an exception of the user, let the graph raise it.

    Args:
        run: traces the loop.
        test: whether there is another iteration.
        first: runs the first iteration.
        code: of the body.
        names: as for `while_`.
    """
    _, raised = result_or_error(run, is_stated)
    if raised is not None:
        raise_in_first_iteration(test(), first, raised, code, names)


def raise_in_first_iteration(
    test: Any, iteration: Callable[[], Any], error: BaseException, code: Any, names: Names = ()
) -> None:
    """Trace a loop whose iterations raise whatever the carry: only the first iteration, if any.

    Args:
        test: whether there is an iteration.
        iteration: runs an iteration.
        error: the exception that the iterations raise.
        code: the user's.
        names: the names that an iteration binds.

    Raises:
        TraceError: the first iteration does not raise.
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
    with _Iterations(body.__code__) as iterations:
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
    with _Iterations(body.__code__, most=most, counts=counts) as iterations:
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
            run = partial(
                _run_or_raise, partial(self._trace, start), lambda: tensor_of(over.length) > start,
                lambda: self._body(over.item(start)), code, self._names,
            )  # fmt: skip
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
        with _Iterations(code, done) as iterations:
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
