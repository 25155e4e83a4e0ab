"""Runs functions traced, in all ways that graphs can be run, and compares their bits with eager.

`run_traced` is the column "traced" of the table, `call_traced` the column "called". `run_again` is
for later calls of one traced function, as with other sizes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.dims import evaluate, symbols
from eagerflow.errors import EagerflowError
from eagerflow.function.cache_entry import CacheEntry
from eagerflow.function.traced_function import TracedFunction
from eagerflow.graph.ir import Graph, Value
from eagerflow.graph.text.graph_files import from_file_bytes, to_bytes
from eagerflow.graph.value_types import NumberType
from eagerflow.graph.verify import verify
from eagerflow.runtime import Executable
from eagerflow.runtime.executable import spans_devices
from eagerflow.runtime.fetches import extract
from eagerflow.runtime.generated.instructions import named_axes
from eagerflow.runtime.replay import replay
from eagerflow.types import BYTES

Function = Callable[..., Any]
_count = itertools.count()


def traced(function: Function) -> TracedFunction:
    """A traced function that calls ``function``, which may be one of eagerflow's."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    # traces are handed on to the next function of the same name: tests must not share one
    call.__qualname__ = f"call_{next(_count)}"
    return ef.trace(call)


# --- comparing --------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """Results and state of a call, for comparison: equal outcomes are equal bit for bit."""

    structure: str
    leaves: list[tuple[Any, ...]]
    state: list[tuple[Any, ...]]


def bits(x: Any) -> tuple[Any, ...]:
    """The bits of a leaf of a result: its type, and its value."""
    if isinstance(x, ef.Variable):
        return ("variable", *bits(x.value))
    if isinstance(x, ef.random.Generator):
        return ("generator", *x.state.values())
    if isinstance(x, IndexedSlices):
        return ("slices", x.shape, *bits(x.values), *bits(x.indices))
    if isinstance(x, Tensor):
        array = x.numpy()
        if x.dtype is BYTES:
            return (str(x.type), array, array.tolist())
        return (str(x.type), array, array.tobytes())
    return (type(x).__name__, repr(x))


class State:
    """The variables and generators among arguments, which are restored before each run."""

    def __init__(self, *args: Any) -> None:
        leaves = tree.leaves(args)
        self.variables = [(v, v.numpy().copy()) for v in leaves if isinstance(v, ef.Variable)]
        self.generators = [(g, g.state) for g in leaves if isinstance(g, ef.random.Generator)]

    def restore(self) -> None:
        for variable, value in self.variables:
            variable.assign(value)
        for generator, state in self.generators:
            generator.state = state

    def run(self, function: Function, *args: Any, **kwargs: Any) -> tuple[Any, Outcome]:
        """The result of a call, and its outcome."""
        self.restore()
        result = function(*args, **kwargs)
        leaves, treedef = tree.flatten(result)
        state = [bits(x) for x, _ in (*self.variables, *self.generators)]
        return result, Outcome(str(treedef), list(map(bits, leaves)), state)


def assert_same(got: Outcome, want: Outcome, what: str) -> None:
    """Assert that two outcomes are equal bit for bit."""
    assert got.structure == want.structure, what
    for g, w in zip((*got.leaves, *got.state), (*want.leaves, *want.state), strict=True):
        assert _plain(g) == _plain(w), f"{what}: {g[:-1]} is not {w[:-1]} (eager)"


def _plain(leaf: tuple[Any, ...]) -> list[Any]:
    return [x for x in leaf if not isinstance(x, np.ndarray)]


# --- running ----------------------------------------------------------------------------------


def call_traced(function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of a function that is traced with these arguments; eager code gives the same."""
    return _called(function, args, kwargs)[0]


def run_traced(function: Function, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of the traced function, whose graphs are run in every way as well."""
    result, f, state = _called(function, args, kwargs)
    run_every_way(f, args, kwargs, state)
    return result


def _called(
    function: Function, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Any, TracedFunction, State]:
    state = State(args, kwargs)
    _, want = state.run(function, *args, **kwargs)
    f = traced(function)
    result, got = state.run(f, *args, **kwargs)
    assert_same(got, want, "the call that traces")
    _, again = state.run(f, *args, **kwargs)
    assert_same(again, want, "a call that only runs")
    assert len(f.traces) == 1, f.explain()
    return result, f, state


def compare_traced(function: Function, other: Function, args: Sequence[Any]) -> None:
    """Check that ``other``, which calls a traced function, does what ``function`` does."""
    state = State(args)
    assert_same(state.run(other, *args)[1], state.run(function, *args)[1], "a traced part")


def run_again(
    f: TracedFunction, function: Function, args: Sequence[Any], state: State, every_way: bool
) -> None:
    """Call ``f``, the traced function, once more; the outcome must be that of eager ``function``.

    Where eager code raises an error, so must the graph: one that the same ``except ValueError``
    catches. `prune` may drop the node that raises it if its result is not needed. Of several errors
    on several devices, which run beside each other, any ends the step: there the error counts that
    a replay raises, node after node.
    """
    want, got = _attempt(state, function, *args), _attempt(state, f, *args)
    if isinstance(want, Exception):
        if isinstance(got, Outcome):
            got = _attempt(state, _as_traced, f, args)
        if not isinstance(got, _builtin(want)):
            assert isinstance(got, EagerflowError), got
            entry, inputs = _entry(f, args, {})
            assert spans_devices(entry.executable.graph), f"{got!r}, not {want!r}"
            got = _attempt(state, _replayed, entry.graph, inputs)
        assert isinstance(got, _builtin(want)), f"{got!r}, not {want!r}"
        return
    if isinstance(got, Exception):
        raise got
    assert_same(got, want, f"the same call with {_types(args)}")
    if every_way:
        run_every_way(f, args, {}, state)


def _attempt(state: State, function: Function, *args: Any) -> Outcome | EagerflowError:
    try:
        return state.run(function, *args)[1]
    except EagerflowError as error:
        return error


def _builtin(error: Exception) -> type:
    """The built-in class of an error."""
    return next(c for c in type(error).__mro__ if c.__module__ == "builtins")


def _as_traced(f: TracedFunction, args: Sequence[Any]) -> Any:
    """Run the whole graph as traced, without any pass."""
    entry, inputs = _entry(f, args, {})
    return _executed(Executable(entry.graph), inputs)


def _entry(
    f: TracedFunction, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[CacheEntry, list[Any]]:
    """The trace for these arguments, and the inputs of its graph."""
    call = f._lookup.signature.parse(tuple(args), kwargs)
    entry, captured = f._lookup.find(call)
    return entry, [*[call.leaves[i].value for i in entry.leaves], *captured]


def note_sizes(f: TracedFunction, args: Sequence[Any]) -> None:
    """Note the sizes of a call as if it had been traced: sizes that differ become symbolic."""
    call = f._lookup.signature.parse(tuple(args), {})
    f._lookup.cache.ensure(call.key).widen(call)


def _types(args: Sequence[Any]) -> str:
    return ", ".join(str(x.type) for x in tree.leaves(args) if isinstance(x, Tensor))


def run_every_way(
    f: TracedFunction, args: Sequence[Any], kwargs: dict[str, Any], state: State
) -> None:
    """Check the graphs of ``f`` for these arguments, and run each in every way.

    The traced graph and the optimised one are verified and run by a replay, which yields and checks
    the types of all values. The optimised graph is written to a file and read again, and the graph
    read is run. All results must equal those of the executable of ``f``.
    """
    entry, inputs = _entry(f, args, kwargs)
    _, want = state.run(_executed, entry.executable, inputs)
    for name, graph in (("traced", entry.graph), ("optimised", entry.optimised)):
        _, got = state.run(_replayed, graph, inputs)
        assert_same(got, want, f"replay of the graph as {name}")
    _, got = state.run(_executed, _read_again(entry.optimised), inputs)
    assert_same(got, want, "the graph after reading")


def _executed(program: Executable, inputs: Sequence[Any]) -> list[Any]:
    raw = program(*[x._data if type(x) is Tensor else x for x in inputs])
    return [
        y if lane is None else make_tensor(y, lane)
        for y, lane in zip(raw, program.lanes, strict=True)
    ]


def _replayed(graph: Graph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs; the type of each value on the way is checked."""
    values = list(graph.values())
    results = dict(zip(values, replay(_telling_all(graph), inputs), strict=True))
    check_types(results)
    return [results[value] for value in graph.outputs]


@functools.lru_cache(maxsize=4)
def _telling_all(graph: Graph) -> Graph:
    verify(graph)
    return extract(graph, list(graph.values()), graph.inputs)


@functools.lru_cache(maxsize=4)
def _read_again(graph: Graph) -> Executable:
    """An executable of the graph from its file; its text is the same."""
    with ef.config(cpu_devices=4):  # cases may move to a device that is usable, but not configured
        again = from_file_bytes(to_bytes(graph), graph.resources)
    assert str(again) == str(graph)
    return Executable(again)


def check_types(results: Mapping[Value, Any]) -> None:
    """Check that each value has the type that the graph says, with the sizes of this run."""
    sizes: dict[str, int] = {}
    for value, x in results.items():
        for axis, name in named_axes(value.type):
            sizes.setdefault(name, x.shape[axis])
    for value, x in results.items():
        if isinstance(value.type, NumberType):
            assert type(x) is value.type.kind, f"%{value.name}: {x!r} is no {value.type}"
            continue
        unknown = symbols(value.type.shape) - sizes.keys()
        assert not unknown, f"%{value.name}: nothing tells the sizes {unknown} of {value.type}"
        want = tuple([evaluate(d, sizes) for d in value.type.shape])
        right = x.shape == want and x.dtype is value.type.dtype and x.device == value.device
        assert right, f"%{value.name}: rule {value.spec} with {sizes}, kernel {x.type}"
