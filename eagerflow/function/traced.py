"""`trace` and `TracedFunction`: a Python function that runs as a graph, traced per kind of call."""

from __future__ import annotations

import functools
import inspect
import threading
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from types import FunctionType
from typing import Any, Final, Literal, NamedTuple, final, overload
from weakref import WeakValueDictionary, ref

from eagerflow.autograph.conversion.convert import call as autograph_call
from eagerflow.capture.static_keys import static_key
from eagerflow.core import interpreter
from eagerflow.core.convert import as_tensor
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.errors import TraceError, TraceWarning, hide_frames, hides_frames
from eagerflow.events import RetraceEvent, told
from eagerflow.function.arguments import Call, Signature
from eagerflow.function.cache import Cache, CacheEntry
from eagerflow.function.explanations import Explanation, TraceRecord
from eagerflow.function.reasons import Reason, reason_of
from eagerflow.function.tracing import TraceRequest, make_entry
from eagerflow.graph.ir import Graph, Value
from eagerflow.graph.scopes import name_scope
from eagerflow.hardware import as_device, current_device
from eagerflow.profiling import NodeStatistics
from eagerflow.source import capture, cell_name
from eagerflow.tracing.tracer import tracer_of

Compile = Literal["background", "now", "off"]
_COMPILE: Final = ("background", "now", "off")
_FIRST: Final = Reason("the first call")
#: traces for one cause from which on there is a warning
_STORM: Final = 3
#: forms of calls whose trace is found without looking at their structure
_DIRECT: Final = 1024
#: records of traces that a function keeps, the last ones
_RECORDS: Final = 1024
_PLAIN: Final = frozenset({bool, str, type(None)})
_BY_IDENTITY: Final[Any] = object.__hash__
_ARRAY: Final = as_device("cpu:0").backend.array_type
#: one trace at a time: what the function reads from outside is replaced during it
_tracing: Final = threading.RLock()
_stack: Final = interpreter.stack
#: the traced function made last under each name, so that a cell that runs again finds its traces
_known: Final[WeakValueDictionary[tuple[str, str], TracedFunction]] = WeakValueDictionary()


@final
class TracedFunction:
    """A function that is captured as a static dataflow graph and runs as one.

    Call it as the function. The first call runs the Python code once, with symbolic tensors, and
    keeps the graph; later calls run the graph alone. Another trace is made where dtypes, the
    number of axes, or a static argument differ, or something that the function reads from outside.
    A size that differs becomes symbolic, so there is no third trace for a third size. Numbers are
    inputs: they may differ. What Python asks for the value of (`range(n)`, ``if n > 3``) becomes
    static; `explain` tells.

    Make one with `eagerflow.trace`.

    >>> @ef.trace
    ... def double(x):
    ...     return x * 2
    >>> double(ef.tensor([1.0, 2.0]))
    Tensor([2., 4.], f32[2]@cpu:0)
    >>> len(double.traces)
    1
    """

    def __init__(
        self, fn: Callable[..., Any], static: Sequence[str], compile: Compile, strict: bool,
        max_traces: int | None, name: str | None,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = str(name or getattr(fn, "__name__", type(fn).__name__))
        self._options = (tuple(static), compile, strict, max_traces)
        self.strict = strict
        self._max_traces = max_traces
        self._signature = Signature(fn, static)
        #: forms of calls and their traces, with the defaults that the arguments leave out
        self._direct: dict[Any, tuple[CacheEntry, tuple[Any, ...]]] = {}
        self._cache = Cache(self._direct)
        self._records: deque[TraceRecord] = deque(maxlen=_RECORDS)
        self._traced = 0  # how many times
        self._causes: dict[str, int] = {}
        self._told: set[str] = set()
        self._legacy: _Legacy | None = None  # once it is known, another thread may look
        self._legacy = self._inherit()

    # --- calls ---

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: C901 - a call costs 60 ns
        try:
            if kwargs or _stack.installed:
                return self._call(args, kwargs)
            form: list[Any] = [current_device()]
            leaves = args
            for i, x in enumerate(args):
                kind = type(x)
                if kind is Tensor:
                    form += (x._lane, x._data.shape)
                    for other in leaves[:i]:
                        if other is x:
                            return self._call(args, kwargs)
                elif kind is float or kind is int:
                    form.append(kind)
                elif kind in _PLAIN:
                    form.append(x)
                elif kind is _ARRAY:
                    x = as_tensor(x)
                    leaves = (*leaves[:i], x, *leaves[i + 1 :])
                    form += (x._lane, x._data.shape, _ARRAY)
                elif kind.__hash__ is _BY_IDENTITY:
                    form.append(id(x))  # forgotten when the object dies
                else:
                    return self._call(args, kwargs)
            key = tuple(form)
            direct = self._direct.get(key)
            if direct is not None:
                entry, rest = direct
                if not entry.numbers or entry.same_numbers(args):
                    captured = entry.read()
                    if captured is not None:
                        return entry.run((*leaves, *rest) if rest else leaves, captured)
            return self._call(args, kwargs, key)
        except BaseException as error:
            hide_frames(error)
            raise

    def _call(self, args: Any, kwargs: Any, form: Any = None) -> Any:
        if tracer_of(interpreter.current()) is not None:
            with name_scope(self.name):
                return autograph_call(self.fn)(*args, **kwargs)
        call = self._signature.parse(args, kwargs)
        entry, captured = self._find(call)
        if entry.own_rules and interpreter.is_differentiated():
            return self.fn(*args, **kwargs)  # the graph has its ops, and not its derivatives
        leaves = [leaf.value for leaf in call.leaves]
        if form is not None and entry.is_direct(call, args):
            if len(self._direct) >= _DIRECT:
                self._direct.clear()
            self._direct[form] = (entry, tuple(leaves[len(args) :]))
        return entry.run(leaves, captured, call.values)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As an attribute of a class it is a method; all instances share the traces."""
        return self if instance is None else BoundFunction(self, instance)

    def _find(self, call: Call) -> tuple[CacheEntry, Sequence[Any]]:
        """The trace for a call, made if there is none, and what it reads from outside."""
        match = self._existing(call)
        if match is not None:
            return match
        with _tracing:
            if self._legacy is not None:
                self._adopt()
            match = self._existing(call)  # another thread may have made it meanwhile
            return match if match is not None else self._trace(call)

    def _existing(self, call: Call) -> tuple[CacheEntry, Sequence[Any]] | None:
        group = self._cache.group(call)
        for i, entry in enumerate(group.entries if group is not None else ()):
            if entry.takes(call) and entry.shares(call):
                captured = entry.read()
                if captured is not None:
                    if i and group is not None:
                        self._cache.prefer(group, entry)
                    return entry, captured
        return None

    def _trace(self, call: Call) -> tuple[CacheEntry, Sequence[Any]]:
        reason = _FIRST
        if self._records or len(self._cache):
            reason = reason_of(call, self._cache)
        if self._max_traces is not None and self._traced >= self._max_traces:
            raise TraceError(
                f"{self.name} needs more than {self._max_traces} traces",
                given=reason.text,
                expected=f"max_traces={self._max_traces} to be enough",
                hint="see f.explain() for what makes calls differ",
            )
        if not RetraceEvent.listeners:
            return self._trace_for(call, reason)
        with told(RetraceEvent(name=self.name, reason=reason.text, source=capture())):
            return self._trace_for(call, reason)

    def _trace_for(self, call: Call, reason: Reason) -> tuple[CacheEntry, Sequence[Any]]:
        group = self._cache.ensure(call)
        start = perf_counter()
        request = TraceRequest(
            self.fn, self.name, self._signature, call, group.widen(call),
            self.strict, reason.text,
        )  # fmt: skip
        try:
            entry, first = make_entry(request)
        except BaseException:
            self._cache.tidy(call)
            raise
        entry.record.seconds = perf_counter() - start
        self._records.append(entry.record)
        self._traced += 1
        self._note_storm(reason, entry.record)
        self._tell(entry.record)
        self._cache.add(call, entry)
        captured = entry.read()
        # the function may have changed what it reads; then the next call traces again
        return entry, captured if captured is not None else first

    def _note_storm(self, reason: Reason, record: TraceRecord) -> None:
        if not reason.culprit:
            return
        count = self._causes[reason.culprit] = self._causes.get(reason.culprit, 1) + 1
        if count == _STORM:
            static = "".join(f"  static: {item}\n" for item in record.static_of(reason.culprit)[:2])
            _warn(
                f"{self.name} was traced {count} times because of {reason.culprit}; {reason.text}\n"
                f"{static}  each trace costs time and memory; f.explain() tells more"
            )

    def _tell(self, record: TraceRecord) -> None:
        """Warn of what ran only while tracing, each once."""
        for note in record.notes:
            if note not in self._told:
                self._told.add(note)
                _warn(f"{self.name}: {note}")

    # --- looking inside ---

    @property
    def traces(self) -> tuple[TraceRecord, ...]:
        """All traces that were made, oldest first: signature, reason, seconds.

        >>> @ef.trace
        ... def f(x):
        ...     return x + 1
        >>> for size in (2, 3, 4):
        ...     y = f(ef.zeros(size))
        >>> for record in f.traces:
        ...     print(record.signature, "|", record.reason)
        f(x: f32[2]@cpu:0) | the first call
        f(x: f32[n]@cpu:0) | x: now f32[3]@cpu:0, before f32[2]@cpu:0
        """
        return tuple(self._records)

    def explain(self) -> Explanation:
        """Why each trace was made, what is static in it, what it reads from outside.

        >>> @ef.trace
        ... def f(x, k):
        ...     for _ in range(k):
        ...         x = x * 2
        ...     return x
        >>> y = f(ef.tensor(1.0), 3)
        >>> print(f.explain())  # doctest: +ELLIPSIS
        f: 1 trace, run by the interpreter tier
        1. f(x: f32[]@cpu:0, k: int): ... nodes, traced in ... ms
             why: the first call
             static: k=3, because of its use as an index or a size
        """
        return Explanation(self.name, self.traces)

    @hides_frames
    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """The graph that runs for these arguments; it is traced if need be, and not run.

        ``f.graph(...).diff()`` shows what the passes changed in it.

        >>> @ef.trace
        ... def f(x):
        ...     return x * 2 + 1
        >>> [node.op for node in f.graph(ef.tensor(1.0)).nodes if node.op != "constant"]
        ['multiply', 'add']
        """
        if tracer_of(interpreter.current()) is not None:
            raise TraceError(f"{self.name}.graph(...) within a traced function", given="a trace")
        return self._find(self._signature.parse(args, kwargs))[0].optimised

    def value(self, name: str) -> Value:
        """The value in the graph used last that was bound last to the local variable ``name``.

        Raises:
            TraceError: the function was not traced yet, or has no such variable.

        >>> @ef.trace
        ... def f(x):
        ...     h = x * 2
        ...     return h + 1
        >>> y = f(ef.tensor(1.0))
        >>> f.value("h")
        %multiply: f32[]@cpu:0
        """
        entry = self._latest()
        value = entry.local(name)
        if value is None and name in entry.locals:
            raise TraceError(
                f"the graph that runs has no value of its own for {name!r}",
                given=repr(entry.locals[name]),
                hint=f"passes dropped it or merged it: {self.name}.graph(...).diff() shows where",
            )
        if value is None:
            raise TraceError(
                f"{self.name} has no local variable {name!r} that holds a tensor of the graph",
                given=", ".join(sorted(entry.locals)) or "no such variables",
            )
        return value

    def _latest(self) -> CacheEntry:
        """The trace used last."""
        for entry in self._cache.latest():
            return entry
        raise TraceError(f"{self.name} was not traced yet", hint="call it first")

    def stats(self) -> NodeStatistics:
        """Times per node, of the calls within a ``with`` block.

        >>> @ef.trace
        ... def f(x):
        ...     return ef.exp(x)
        >>> with f.stats() as stats:
        ...     y = f(ef.zeros(3))
        >>> [(row.op, row.count) for row in stats.table()]
        [('exp', 1)]
        """
        here = ref(self)

        def mine(executable: int) -> bool:
            function = here()
            return function is not None and any(
                one.number == executable
                for entry in function._cache.entries() for one in entry.executables()
            )  # fmt: skip

        return NodeStatistics(mine)

    def wait(self) -> None:
        """Until compiling has ended; in the interpreter tier there is nothing to wait for.

        >>> f = ef.trace(lambda x: x * 2)
        >>> y = f(ef.tensor(1.0))
        >>> f.wait()
        """

    def ir(self, stage: str = "graph") -> str:
        """The text of a stage of what ran last: ``"graph"``, or ``"python"`` for what runs it.

        Raises:
            TraceError: there is no such stage, or no trace yet.

        >>> f = ef.trace(lambda x: ef.exp(x))
        >>> y = f(ef.tensor(1.0))
        >>> print(f.ir("python"))
        def run(r0):
         r1 = array_1(exp_0(r0))
         del r0
         return (r1, )
        """
        entry = self._latest()
        if stage not in ("graph", "python"):
            raise TraceError(f"there is no stage {stage!r}", expected="'graph' or 'python'")
        return str(entry.optimised) if stage == "graph" else entry.executable.text

    def __reduce__(self) -> tuple[Any, ...]:
        return TracedFunction, (self.fn, *self._options, self.name)  # traces are made anew

    def clear(self) -> None:
        """Forget all traces.

        >>> @ef.trace
        ... def f(x):
        ...     return x
        >>> y = f(ef.tensor(1.0))
        >>> f.clear()
        >>> f.traces
        ()
        """
        with _tracing:
            self._cache.clear()
            self._direct.clear()
            self._records.clear()
            self._traced = 0
            self._causes.clear()
            self._told.clear()

    def __repr__(self) -> str:
        count = len(self._records)
        traces = "1 trace" if count == 1 else f"{count or 'no'} traces"
        return f"<traced function {self.name}: {traces}>"

    # --- cells that run again ---

    def _inherit(self) -> _Legacy | None:
        """The traces of the function that had this name, if it had the same code."""
        key = (str(getattr(self.fn, "__module__", "")), str(getattr(self.fn, "__qualname__", "")))
        with _tracing:
            before = _known.get(key)
            _known[key] = self
            if before is None or before._options != self._options:
                return None
            if not _same_definition(before.fn, self.fn):
                return None
            if before._legacy is not None and not len(before._cache):
                return before._legacy
            return _Legacy(ref(before), before._cache)

    def _adopt(self) -> None:
        """Take the inherited traces over if the function that had them is gone.

        A function that lives on keeps them: a factory makes many functions of one code.
        """
        legacy, self._legacy = self._legacy, None
        if legacy is None or legacy.owner() is not None:
            return
        for key, group in legacy.cache.groups():
            for entry in group.entries:
                if not entry.makes_resources:
                    entry.guards.rebase(self.fn)
                    if entry.read() is not None:
                        self._cache.take(key, group, entry)
                        self._records.append(entry.record)


class _Legacy(NamedTuple):
    """Traces that a function may take over.

    Attributes:
        owner: the function that has them.
        cache: the traces.
    """

    owner: ref[TracedFunction]
    cache: Cache


def _same_definition(a: Any, b: Any) -> bool:
    """Whether two plain functions have the same code and the same defaults."""
    if not isinstance(a, FunctionType) or not isinstance(b, FunctionType):
        return False
    return (
        a.__code__ == b.__code__
        and a.__globals__ is b.__globals__
        and static_key(a.__defaults__ or ()) == static_key(b.__defaults__ or ())
        and static_key(a.__kwdefaults__ or {}) == static_key(b.__kwdefaults__ or {})
    )


def _warn(text: str) -> None:
    """A warning at the user's own line."""
    source = capture(2)
    warnings.warn_explicit(
        text, TraceWarning, "<unknown>" if source is None else cell_name(source.file),
        0 if source is None else source.line,
    )  # fmt: skip


@final
class BoundFunction:
    """A traced function as a method of an instance.

    Attributes:
        __func__: the traced function.
        __self__: the instance.
    """

    def __init__(self, function: TracedFunction, instance: Any) -> None:
        self.__func__ = function
        self.__self__ = instance
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.__func__(self.__self__, *args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise

    def graph(self, *args: Any, **kwargs: Any) -> Graph:
        """As `TracedFunction.graph`."""
        return self.__func__.graph(self.__self__, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __repr__(self) -> str:
        return f"<method of {self.__func__!r}>"


@overload
def trace(fn: Callable[..., Any], /) -> TracedFunction: ...


@overload
def trace(
    fn: Callable[..., Any], /, *, static: str | Sequence[str] = (), compile: Compile = "background",
    strict: bool = False, max_traces: int | None = None, name: str | None = None,
) -> TracedFunction: ...  # fmt: skip


@overload
def trace(
    *, static: str | Sequence[str] = (), compile: Compile = "background", strict: bool = False,
    max_traces: int | None = None, name: str | None = None,
) -> Callable[[Callable[..., Any]], TracedFunction]: ...  # fmt: skip


def trace(
    fn: Any = None, /, *, static: str | Sequence[str] = (), compile: Compile = "background",
    strict: bool = False, max_traces: int | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Capture a function into a static dataflow graph, which later calls run.

    Use it as a decorator, with arguments or without. See `TracedFunction` for what it makes.

    Args:
        fn: a Python function, method or callable object. It may read and update variables, draw
            random numbers, take gradients, and call other functions, traced or not.
        static: names of parameters whose arguments are static, whatever they are: another value
            is another trace. Strings, bools, None and objects are so anyway.
        compile: when to compile: ``"background"`` runs at once while it compiles, ``"now"``
            compiles first, ``"off"`` never does.
        strict: whether what a trace would drop or freeze (a ``print``, ``time.time()``, an
            ``append`` to a list from outside) is an error instead of a warning.
        max_traces: how many traces are allowed; one more is an error. No limit by default.
        name: of the graph; by default that of the function.

    Raises:
        TraceError: ``fn`` is no function, or one that cannot be traced, such as a generator.

    >>> @ef.trace
    ... def f(x, y=2.0):
    ...     return x * y
    >>> f(ef.tensor([1.0, 2.0])), f(ef.tensor([1.0, 2.0, 3.0]), 3)
    (Tensor([2., 4.], f32[2]@cpu:0), Tensor([3., 6., 9.], f32[3]@cpu:0))
    """
    names = (static,) if isinstance(static, str) else tuple(static)
    if compile not in _COMPILE:
        raise TraceError(f"trace: compile={compile!r}", expected=" or ".join(map(repr, _COMPILE)))
    if max_traces is not None and (type(max_traces) is not int or max_traces < 1):
        raise TraceError(f"trace: max_traces={max_traces!r}", expected="an int of at least 1")

    def decorate(function: Any) -> TracedFunction:
        _check_function(function)
        return TracedFunction(function, names, compile, strict, max_traces, name)

    return decorate if fn is None else decorate(fn)


def _check_function(fn: Any) -> None:
    if isinstance(fn, AbstractArray):
        raise TraceError(
            "ef.trace captures functions",
            given=str(fn.type),
            hint="the sum of the diagonal of a matrix is ef.linalg.trace(x)",
        )
    if isinstance(fn, (classmethod, property)):
        kind = type(fn).__name__
        raise TraceError(
            f"ef.trace cannot take a {kind}", hint=f"put @{kind} above @ef.trace, not below it"
        )
    if not callable(fn):
        raise TraceError("ef.trace captures functions", given=repr(fn))
    if isinstance(fn, type):
        raise TraceError(
            f"ef.trace cannot capture the class {fn.__name__}",
            hint="decorate its methods, or a function that makes and calls an instance",
        )
    inner = fn if inspect.isroutine(fn) else getattr(fn, "__call__", fn)  # noqa: B004 - not a test
    for is_kind, kind in (
        (inspect.isgeneratorfunction, "a generator"),
        (inspect.iscoroutinefunction, "a coroutine"),
        (inspect.isasyncgenfunction, "an asynchronous generator"),
    ):
        if is_kind(inner):
            raise TraceError(
                f"ef.trace cannot capture {getattr(fn, '__name__', fn)}, {kind}",
                hint="trace a function that it calls for each step",
            )
