"""`TracedFunction`: a Python function that runs as a graph, with a trace for each kind of call.

The choice of the trace for a call: `function/lookup/lookup.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Self,
    TypeVar,
    final,
    overload,
)  # fmt: skip
from weakref import ref

from eagerflow import settings
from eagerflow.autograph.conversion.convert import call as autograph_call
from eagerflow.capture.access_paths import instance_dict
from eagerflow.core import interpreter
from eagerflow.errors import PlacementError, TraceError, TraceWarning, hide_frames, hides_frames
from eagerflow.function.bound_function import BoundFunction
from eagerflow.function.cache_entry import CacheEntry, NothingDone
from eagerflow.function.explanations import Explanation, TraceRecord
from eagerflow.function.lookup.lookup import Lookup, Options, warn
from eagerflow.function.lookup.shortcuts import MISSED, form_of, leaves_of
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.name_scopes import name_scope
from eagerflow.hardware import Device
from eagerflow.hardware.kernel_library import in_force
from eagerflow.placement.explanations import PlacementExplanation
from eagerflow.placement.rules import as_rules
from eagerflow.profiling import NodeStatistics
from eagerflow.runtime.background_compilation import Mode
from eagerflow.source import capture
from eagerflow.tracing.tracer import current_tracer
from eagerflow.unknown_names import find_hint

if TYPE_CHECKING:
    from eagerflow.placement.automatic.cost_model import CostTable

_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)
_Q = ParamSpec("_Q")
_T = TypeVar("_T")
_STAGES: Final = ("graph", "python", "loops", "llvm", "asm")
#: the attributes of a traced function itself
_OWN: Final = frozenset({"fn", "name", "_lookup", "_shortcuts"})
#: attributes of plain functions, which a traced function passes on from its function
_OF_FUNCTIONS: Final = frozenset({
    "__builtins__", "__closure__", "__code__", "__defaults__", "__globals__", "__kwdefaults__",
    "__type_params__",
})  # fmt: skip


@final
class TracedFunction(Generic[_P, _R_co]):
    """A function that is captured as a static dataflow graph and runs as one.

    Call it as the function. The first call runs the Python code once, with symbolic tensors, and
    keeps the graph; later calls run the graph alone. Another trace is made where dtypes, the
    number of axes, or a static argument differ, or a value that the function reads from outside.
    A size that differs becomes symbolic, so there is no third trace for a third size. Numbers are
    inputs: they may differ. A comparison of numbers in Python (``if n > 3``) is a condition of the
    trace: numbers with the same answer share it. A number becomes static if Python asks for its
    value (`range(n)`); `explain` reports it.

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
        self, fn: Callable[_P, _R_co], static: Sequence[str], compile: Mode, strict: bool,
        max_traces: int | None, name: str | None,
    ) -> None:  # fmt: skip
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.name = str(name or getattr(fn, "__name__", type(fn).__name__))
        options = Options(tuple(static), compile, strict, max_traces)
        self._lookup = Lookup(fn, self.name, options)
        self._shortcuts = self._lookup.shortcuts

    # --- calls ---

    def _enter(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                return self._call(args, kwargs)
            result = self._shortcuts.last(args)
            if result is not MISSED:
                return result
            form = form_of(args)
            if form is not None:
                result = self._shortcuts.call(form, args)
                if result is not MISSED:
                    return result
            return self._call(args, kwargs, form)
        except NothingDone as nothing_done:
            (reason,) = nothing_done.args
        except BaseException as error:
            hide_frames(error)
            raise
        try:
            result = self.fn(*args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise
        if reason:
            warn(
                f"{self.name}: {reason}, and the function itself did not: "
                "the result is that of the function",
                TraceWarning,
            )
        return result

    if TYPE_CHECKING:  # a call has the signature of the function, unknown at run time

        def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...
    else:
        __call__ = _enter

    def _call(self, args: Any, kwargs: Any, form: Any = None) -> Any:
        tracer = current_tracer()
        if tracer is not None:
            if self._lookup.placer is not None:
                self._lookup.placer.tell_of_caller(tracer.root.graph.name)
            with name_scope(self.name):
                return autograph_call(self.fn)(*args, **kwargs)
        call = self._lookup.signature.parse(args, kwargs)
        entry, captured = self._lookup.find(call)
        # the graph lacks the user's own derivatives
        differs = entry.own_rules and interpreter.is_differentiated()
        left = entry.is_left
        if left:
            self._lookup.tell_left(entry)
        if entry.first is not None:
            if differs:
                entry.refuse(self.name, "differentiated, with a derivative of its own in it")
            return entry.run_first([leaf.value for leaf in call.leaves], captured, call.values)
        if left or differs:
            raise NothingDone(entry.failure)
        leaves = [leaf.value for leaf in call.leaves]
        if form is not None:
            given = leaves_of(args)
            if entry.is_direct(call, given):
                self._shortcuts.add(form, entry, args, leaves[len(given) :])
        return entry.run(leaves, captured, call.values)

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...

    @overload
    def __get__(
        self: TracedFunction[Concatenate[_T, _Q], _R], instance: _T, owner: type | None = None
    ) -> BoundFunction[_Q, _R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The method of an instance, where a class has the function; instances share the traces."""
        return self if instance is None else BoundFunction(self, instance)

    # --- looking inside ---

    @property
    def traces(self) -> tuple[TraceRecord, ...]:
        """Records of all traces made, oldest first: signature, reason, seconds.

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

    @overload
    def explain(self, what: Literal["costs"]) -> CostTable: ...

    def explain(self, what: str = "traces") -> Explanation | PlacementExplanation | CostTable:
        """The reason of each trace, its static values, and its reads from outside.

        Args:
            what: ``"traces"``; or ``"placement"`` for the device of each node in the graph used
                last, with the reason, the values that cross between devices, and the alternatives
                of automatic placement; or ``"costs"`` for the operations and bytes of its nodes,
                with the time that the cost model predicts and the time that automatic placement
                measured.

        Raises:
            TraceError: ``what`` is none of these, or there is no trace yet.

        >>> @ef.trace
        ... def f(x, k):
        ...     for _ in range(k):
        ...         x = x * 2
        ...     return x
        >>> y = f(ef.tensor(1.0), 3)
        >>> print(f.explain())  # doctest: +ELLIPSIS
        f: 1 trace, run op by op on ... kernels
        1. f(x: f32[]@cpu:0, k: int): ... nodes, traced in ... ms
             why: the first call
             static: k=3, because of its use as an index or a size at ...
        """
        if what == "placement":
            entry = self._lookup.latest()
            return PlacementExplanation(self.name, entry.optimised, entry.rules)
        if what == "costs":
            entry = self._lookup.latest()
            from eagerflow.function.placing.automatic import cost_table  # noqa: PLC0415 - few need it

            return cost_table(self.name, entry.rules, entry.optimised)
        if what != "traces":
            expected = "'traces', 'placement' or 'costs'"
            raise TraceError(
                f"explain: there is no {what!r} to explain",
                expected=expected,
                hint=find_hint("explain", what) if isinstance(what, str) else None,
            )
        for entry in self._lookup.cache.entries():
            entry.record.compiled = entry.compiled()
        return Explanation(self.name, self.traces, in_force())

    @hides_frames
    def graph(self, *args: _P.args, **kwargs: _P.kwargs) -> Graph:
        """The graph that runs for these arguments; traced if need be, and not run.

        ``f.graph(...).diff()`` shows what the passes changed in it.

        >>> @ef.trace
        ... def f(x):
        ...     return x * 2 + 1
        >>> [node.op for node in f.graph(ef.tensor(1.0)).nodes if node.op != "constant"]
        ['multiply', 'add']
        """
        return self._traced("graph", args, kwargs)[0].graph_with_outside()

    def abstract(self, *args: _P.args, **kwargs: _P.kwargs) -> Any:
        """The result for these arguments, with types in place of tensors; no op is run.

        >>> @ef.trace
        ... def f(x):
        ...     return x @ x, 3
        >>> f.abstract(ef.ones((2, 2)))
        (f32[2,2]@cpu:0, 3)
        """
        entry, leaves = self._traced("abstract", args, kwargs)
        return entry.abstract(leaves)

    def _traced(self, method: str, args: Any, kwargs: Any) -> tuple[CacheEntry, Sequence[Any]]:
        """The trace for these arguments, which is not run, and their leaves."""
        if current_tracer() is not None:
            raise TraceError(f"{self.name}.{method}(...) within a traced function", given="a trace")
        call = self._lookup.signature.parse(args, kwargs)
        entry, _ = self._lookup.find(call, runs=False)
        if entry.first is not None:
            entry.first.drop()  # held tensors get no value: nothing runs
        return entry, [leaf.handle for leaf in call.leaves]

    def value(self, name: str) -> Value:
        """The value, in the graph used last, that the local variable ``name`` had at the end.

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
        self, rules: Mapping[str, Device | str | None] | Callable[[Node], Any] | str | None, *,
        devices: Iterable[Device | str] | None = None,
        memory: int | Mapping[Device | str, int] | None = None,
    ) -> Self:  # fmt: skip
        """Set the devices on which nodes run, from the next call on.

        Rules decide where ops run, never what they compute: results have the same bits, and are
        moved to the device that the program says. Rules bind ops without state; ops with state stay
        where it is (`eagerflow.move` moves it). A derivative runs where its op does.

        A pattern is matched against the scope and name of a node: ``"encoder/layer0"`` matches all
        nodes in that scope (see `eagerflow.name_scope`; calls of modules and traced functions are
        scopes, too). ``*``, ``?`` and ``[ab]`` stand for parts of one name, ``**`` for any number
        of names. Of several matching patterns the most specific counts: the pattern with the most
        names without wild cards, whatever their order.

        Args:
            rules: devices by patterns, None for where the program says; or a function that takes a
                node and gives a device, or None; or None for no rules. ``"auto"`` lets eagerflow
                decide: by a cost model at first, then by steps, which run alternately as planned
                and where the program says; the faster placement stays. ``f.explain("placement")``
                shows the alternatives, ``f.place(None)`` ends automatic placement.
            devices: of automatic placement, devices on which nodes may be placed; other nodes stay
                where the program says. By default all devices of the kind that the program uses,
                since kinds differ in bits.
            memory: of automatic placement, the bytes that each device may hold, or those of some
                devices by name; symbolic sizes count as in the call for which a trace is planned.

        Returns:
            The function itself.

        Raises:
            PlacementError: there is no such device, or an existing trace cannot be placed so; then
                nothing changes. For later traces the call that makes them raises.

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
        if isinstance(rules, str) and rules == "auto":
            # few need it
            from eagerflow.placement.automatic.requests import as_request  # noqa: PLC0415

            self._lookup.decide(as_request(devices, memory, capture()))
            return self
        if devices is not None or memory is not None:
            raise PlacementError(
                "place: devices= and memory= are for automatic placement",
                hint="f.place('auto', devices=..., memory=...)",
            )
        soft = settings.current().soft_placement
        self._lookup.place(as_rules(rules, soft=soft, source=capture()))
        return self

    def latest(self) -> CacheEntry:
        """The trace used last, for views.

        Raises:
            TraceError: there is no trace yet.

        >>> f = ef.trace(lambda x: x * 2)
        >>> y = f(ef.tensor(1.0))
        >>> len(f.latest().executables())
        1
        """
        return self._lookup.latest()

    def stats(self) -> NodeStatistics:
        """Times per node, over the calls within a ``with`` block.

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
        """Wait until all present traces are compiled.

        >>> f = ef.trace(lambda x: x * 2)
        >>> y = f(ef.tensor(1.0))
        >>> f.wait()
        """
        for entry in self._lookup.cache.entries():
            for executable in entry.executables():
                compilation = executable.begin_compiling()
                if compilation is not None:
                    compilation.wait()

    def ir(self, stage: str = "graph") -> str:
        """The text of one stage of compiling the trace used last.

        Args:
            stage: ``"graph"``; ``"python"`` for the code that runs it; where native kernels are in
                force, ``"loops"`` for the kernels, with the nodes that each runs, ``"llvm"`` for
                LLVM's input, ``"asm"`` for machine code.

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
            compilation = entry.executable.begin_compiling()
            return "" if compilation is None else compilation.text(stage)
        raise TraceError(f"there is no stage {stage!r}", expected=" or ".join(map(repr, _STAGES)))

    # attributes that users set are stored in the function: to users there is one object

    def __getattr__(self, name: str) -> Any:
        if name in _OF_FUNCTIONS and hasattr(self.fn, name):
            return getattr(self.fn, name)
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
        """The object that holds an attribute: the function, if it can have attributes."""
        if name in _OF_FUNCTIONS:
            return self.fn
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
