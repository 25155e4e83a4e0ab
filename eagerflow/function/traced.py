"""`trace` and `TracedFunction`: a Python function that runs as a graph, traced per kind of call.

Which trace a call runs: `function/lookup.py`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Self, final, get_args, overload
from weakref import ref

from eagerflow import settings
from eagerflow.autograph.conversion.convert import call as autograph_call
from eagerflow.capture.paths import instance_dict
from eagerflow.core import interpreter
from eagerflow.core.convert import as_tensor
from eagerflow.core.scope_moves import scope_of_call
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.errors import TraceError, TraceWarning, hide_frames, hides_frames
from eagerflow.function.cache import CacheEntry, NothingDone
from eagerflow.function.explanations import Explanation, TraceRecord
from eagerflow.function.lookup import Lookup, Options, warn
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.scopes import name_scope
from eagerflow.hardware import Device, as_device
from eagerflow.placement.explanations import PlacementExplanation
from eagerflow.placement.rules import as_rules
from eagerflow.profiling import NodeStatistics
from eagerflow.runtime.compiling import Mode
from eagerflow.source import capture
from eagerflow.tracing.tracer import current_tracer

_COMPILE: Final = get_args(Mode)
_STAGES: Final = ("graph", "python", "loops", "llvm", "asm")
#: forms of calls whose trace is found without looking at their structure
_DIRECT: Final = 1024
_PLAIN: Final = frozenset({bool, str, type(None)})
_BY_IDENTITY: Final[Any] = object.__hash__
_ARRAY: Final = as_device("cpu:0").backend.array_type
_stack: Final = interpreter.stack
#: the attributes of a traced function itself
_OWN: Final = frozenset({"fn", "name", "_lookup", "_direct"})


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
        self, fn: Callable[..., Any], static: Sequence[str], compile: Mode, strict: bool,
        max_traces: int | None, name: str | None,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.name = str(name or getattr(fn, "__name__", type(fn).__name__))
        options = Options(tuple(static), compile, strict, max_traces)
        self._lookup = Lookup(fn, self.name, options)
        self._direct = self._lookup.direct

    # --- calls ---

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: C901 - a call costs 60 ns
        try:
            if kwargs or _stack.installed:
                return self._call(args, kwargs)
            form: list[Any] = [scope_of_call() if _stack.scoped or _stack.refusing else None]
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
                    if not x.dtype.isnative:
                        return self._call(args, kwargs)
                    for other in args[:i]:
                        if other is x:
                            return self._call(args, kwargs)
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
                if not entry.asks_numbers or entry.agrees((*args, *rest)):
                    captured = entry.read()
                    if captured is not None:
                        return entry.run((*leaves, *rest) if rest else leaves, captured)
            return self._call(args, kwargs, key)
        except NothingDone as nothing_done:  # what the function does until it raises stays
            (failure,) = nothing_done.args
        except BaseException as error:
            hide_frames(error)
            raise
        try:
            result = self.fn(*args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise
        warn(
            f"{self.name}: its graph raised {failure!r}, and the function itself did not: "
            "the result is that of the function",
            TraceWarning,
        )
        return result

    def _call(self, args: Any, kwargs: Any, form: Any = None) -> Any:
        if current_tracer() is not None:
            with name_scope(self.name):
                return autograph_call(self.fn)(*args, **kwargs)
        call = self._lookup.signature.parse(args, kwargs)
        entry, captured = self._lookup.find(call)
        if entry.own_rules and interpreter.is_differentiated():
            if entry.first is not None or not entry.lasts:
                entry.refuse(self.name, "differentiated, with a derivative of its own in it")
            return self.fn(*args, **kwargs)  # the graph has its ops, and not its derivatives
        leaves = [leaf.value for leaf in call.leaves]
        if entry.first is not None:
            return entry.run_first(leaves, captured, call.values)
        if form is not None and entry.lasts and entry.is_direct(call, args):
            if len(self._direct) >= _DIRECT:
                self._direct.clear()
            self._direct[form] = (entry, tuple(leaves[len(args) :]))
        return entry.run(leaves, captured, call.values)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As an attribute of a class it is a method; all instances share the traces."""
        return self if instance is None else BoundFunction(self, instance)

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
        return tuple(self._lookup.records)

    @overload
    def explain(self, what: Literal["traces"] = "traces") -> Explanation: ...

    @overload
    def explain(self, what: Literal["placement"]) -> PlacementExplanation: ...

    def explain(self, what: str = "traces") -> Explanation | PlacementExplanation:
        """Why each trace was made, what is static in it, what it reads from outside.

        Args:
            what: ``"traces"``; or ``"placement"`` for what of the graph used last runs where, why,
                and what crosses between devices.

        Raises:
            TraceError: there is no such thing to explain, or no trace yet that is placed.

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
        if what == "placement":
            entry = self._lookup.latest()
            return PlacementExplanation(self.name, entry.optimised, entry.rules)
        if what != "traces":
            expected = "'traces' or 'placement'"
            raise TraceError(f"explain: there is no {what!r} to explain", expected=expected)
        tier = "interpreter"
        for entry in self._lookup.cache.entries():
            entry.record.compiled = entry.compiled()
            if entry.executable.tier.name == "native":
                tier = "native"
        return Explanation(self.name, self.traces, tier)

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
        if current_tracer() is not None:
            raise TraceError(f"{self.name}.graph(...) within a traced function", given="a trace")
        lookup = self._lookup
        entry, _ = lookup.find(lookup.signature.parse(args, kwargs), runs=False)
        if entry.first is not None:
            entry.first.drop()  # what is held gets no value: nothing runs
        return entry.optimised

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
        entry = self._lookup.latest()
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

    @hides_frames
    def place(
        self, rules: Mapping[str, Device | str | None] | Callable[[Node], Any] | None
    ) -> Self:
        """Say on which devices nodes run, from the next call on.

        Rules say where, never what: results are the same to the last bit, and come back on the
        device that the program says. They bind ops without state; state stays, and so do the ops
        that read and change it (`eagerflow.move` moves it). A derivative runs where its op does.

        A pattern is matched against the scope of a node and its name: ``"encoder/layer0"`` is all
        in that scope (see `eagerflow.name_scope`; calls of modules and traced functions are scopes,
        too). ``*``, ``?`` and ``[ab]`` stand for parts of one name, ``**`` for any number of names.
        Of several that match, the most specific counts: the one with the most names without wild
        cards, whatever their order.

        Args:
            rules: devices by patterns, None for where the program says; or a function that takes a
                node and gives a device, or None; or None for no rules.

        Returns:
            The function itself.

        Raises:
            PlacementError: there is no such device, or a trace that was made cannot be placed so;
                then nothing changes. For traces to come the call that makes them raises.

        >>> @ef.trace
        ... def f(x):
        ...     with ef.name_scope("double"):
        ...         y = x * 2
        ...     return ef.exp(y)
        >>> with ef.config(cpu_devices=2):
        ...     f.place({"double": "cpu:1"})(ef.zeros(1))
        ...     [str(node.device) for node in f.graph(ef.zeros(1)).nodes if node.op == "multiply"]
        Tensor([1.], f32[1]@cpu:0)
        ['cpu:1']
        """
        soft = settings.current().soft_placement
        self._lookup.place(as_rules(rules, soft=soft, source=capture()))
        return self

    def latest(self) -> CacheEntry:
        """The trace used last, for views of it.

        Raises:
            TraceError: there is none yet.

        >>> f = ef.trace(lambda x: x * 2)
        >>> y = f(ef.tensor(1.0))
        >>> len(f.latest().executables())
        1
        """
        return self._lookup.latest()

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
        here = ref(self._lookup)

        def mine(executable: int) -> bool:
            lookup = here()
            return lookup is not None and any(
                one.number == executable
                for entry in lookup.cache.entries() for one in entry.executables()
            )  # fmt: skip

        return NodeStatistics(mine)

    def wait(self) -> None:
        """Until compiling has ended, of all traces that there are now.

        >>> f = ef.trace(lambda x: x * 2)
        >>> y = f(ef.tensor(1.0))
        >>> f.wait()
        """
        for entry in self._lookup.cache.entries():
            for executable in entry.executables():
                if executable.compilation is not None:
                    executable.compilation.wait()

    def ir(self, stage: str = "graph") -> str:
        """The text of a stage of what ran last.

        Args:
            stage: ``"graph"``; ``"python"`` for the code that runs it; where native kernels are in
                force ``"loops"`` for these, with the nodes that each runs, ``"llvm"`` for what LLVM
                gets, ``"asm"`` for machine code.

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
        entry = self._lookup.latest()
        if stage == "graph":
            return str(entry.optimised)
        if stage == "python":
            return entry.executable.text
        if stage in _STAGES:
            compilation = entry.executable.compilation
            return "" if compilation is None else compilation.text(stage)
        raise TraceError(f"there is no stage {stage!r}", expected=" or ".join(map(repr, _STAGES)))

    # attributes that users set are those of the function: there is one object to them

    def __getattr__(self, name: str) -> Any:
        attributes = {} if name in _OWN else getattr(self.fn, "__dict__", {})
        if name not in attributes:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(text, name=name, obj=self)
        return attributes[name]

    def __setattr__(self, name: str, value: Any) -> None:
        owner = self._owner(name)
        (object.__setattr__ if owner is self else setattr)(owner, name, value)

    def __delattr__(self, name: str) -> None:
        owner = self._owner(name)
        (object.__delattr__ if owner is self else delattr)(owner, name)

    def _owner(self, name: str) -> Any:
        """What has an attribute: the function, if it can have any."""
        own = name in _OWN or name.startswith("__") or instance_dict(self.fn) is None
        return self if own else self.fn

    def __reduce__(self) -> tuple[Any, ...]:
        return TracedFunction, (self.fn, *self._lookup.options, self.name)  # traces are made anew

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
        self._lookup.clear()

    def __repr__(self) -> str:
        count = len(self._lookup.records)
        traces = "1 trace" if count == 1 else f"{count or 'no'} traces"
        return f"<traced function {self.name}: {traces}>"


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
    fn: Callable[..., Any], /, *, static: str | Sequence[str] = (), compile: Mode = "background",
    strict: bool = False, max_traces: int | None = None, name: str | None = None,
) -> TracedFunction: ...  # fmt: skip


@overload
def trace(
    *, static: str | Sequence[str] = (), compile: Mode = "background", strict: bool = False,
    max_traces: int | None = None, name: str | None = None,
) -> Callable[[Callable[..., Any]], TracedFunction]: ...  # fmt: skip


def trace(
    fn: Any = None, /, *, static: str | Sequence[str] = (), compile: Mode = "background",
    strict: bool = False, max_traces: int | None = None, name: str | None = None,
) -> Any:  # fmt: skip
    """Capture a function into a static dataflow graph, which later calls run.

    Use it as a decorator, with arguments or without. See `TracedFunction` for what it makes.

    Args:
        fn: a Python function, method or callable object. It may read and update variables, draw
            random numbers, take gradients, and call other functions, traced or not.
        static: names of parameters whose arguments are static, whatever they are: another value
            is another trace. Strings, bools, None and objects are so anyway.
        compile: when to compile, where ``ef.config(kernels="native")`` is in force:
            ``"background"`` runs at once while it compiles, ``"now"`` compiles first, ``"off"``
            never does. The results have the same bits.
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
