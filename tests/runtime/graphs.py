"""Graphs for tests to run: traced from small functions, or chains written as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import eagerflow as ef
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Dim
from eagerflow.graph import Graph, Node, Value
from eagerflow.runtime import Executable
from eagerflow.runtime.generated.generated_tier import GeneratedTier
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier, waits_nowhere
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.tracer import Tracer
from eagerflow.types import TensorType, as_dtype

CPU = ef.hardware.as_device("cpu:0")


class Traced:
    """A function as a graph, with the captured tensors that it reads.

    Args:
        function: takes tensors and numbers, and returns one result or a tuple.
        args: a number, or a dtype and a shape whose strings are names of sizes.
    """

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        tracer = Tracer(function.__name__)
        sizes: dict[str, Any] = {}
        symbolic = [self._input(tracer, i, a, sizes) for i, a in enumerate(args)]
        with tracer:
            results = function(*symbolic)
            results = results if type(results) is tuple else (results,)
            tracer.graph.outputs = [self._value(tracer, r) for r in results]
        self.graph: Graph = tracer.graph
        self.static = list(tracer.sizes.static)
        self.captured = [c.handle for c in tracer.captures.values()]
        self.fresh = [c.fresh for c in tracer.captures.values()]
        self.count = len(args)
        order = [*symbolic, *self.captured]
        self.places = [self._place(tracer, v, symbolic, order) for v in self.graph.inputs]
        self.executable = Executable(self.graph)

    def _input(self, tracer: Tracer, i: int, arg: Any, sizes: dict[str, Any]) -> Any:
        if isinstance(arg, (int, float, complex)):
            return tracer.add_number(arg, f"k{i}")
        dtype, shape = arg
        for size in shape:
            if isinstance(size, str) and size not in sizes:
                sizes[size] = tracer.sizes.add(size, 3 + len(sizes))
        lengths = tuple(sizes[s] if isinstance(s, str) else s for s in shape)
        return tracer.add_input(TensorType(as_dtype(dtype), lengths).on(CPU), f"x{i}")

    def _value(self, tracer: Tracer, result: Any) -> Value:
        if type(result) is TracedNumber:
            return result.value
        if type(result) is Dim:
            return tracer.size_number(result).value
        return tracer.value_of(result)

    def _place(self, tracer: Tracer, value: Value, symbolic: list[Any], order: list[Any]) -> int:
        for i, x in enumerate(symbolic):
            if (x.value if type(x) is TracedNumber else x._data.value) is value:
                return i
        return len(symbolic) + [c.value for c in tracer.captures.values()].index(value)

    def inputs(self, args: Sequence[Any]) -> list[Any]:
        """``args`` and the captured tensors in the order of the graph's inputs."""
        everything = [*args, *self.captured]
        return [everything[i] for i in self.places]

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """Run the graph; gives the results."""
        return tuple(self.executable.apply(self.inputs(args)))


def straight(graph: Graph) -> Executable:
    """An executable of the graph by generated code, whatever its sizes."""
    made = Executable(graph)
    made.tier = GeneratedTier(graph, made.number)
    return made


def by_scheduler(
    graph: Graph, whole: Callable[[Node], bool] = waits_nowhere,
    seconds: Callable[[Node], float] | None = None, overlap: bool = True,
) -> Executable:  # fmt: skip
    """An executable of the graph by the scheduler."""
    made = Executable(graph)
    made.tier = ScheduledTier(graph, made.number, whole=whole, seconds=seconds, overlap=overlap)
    return made


def scheduled(executable: Executable) -> ScheduledTier:
    """The scheduled tier of an executable that has one."""
    tier = executable.tier
    assert isinstance(tier, ScheduledTier)
    return tier


def same(a: Any, b: Any) -> bool:
    """Whether two results are equal bit by bit, types and layout in memory too."""
    if type(a) is not Tensor:
        return type(a) is type(b) and repr(a) == repr(b)
    x, y = a.numpy(), b.numpy()
    layout = x.strides == y.strides or x.size < 2
    return a.type == b.type and layout and x.tobytes() == y.tobytes()


def chain(length: int, op: str = "add", shape: str = "n") -> Graph:
    """A graph of ``y = op(y, x)``, repeated."""
    kind = f"f32[{shape}]@cpu:0"
    lines = [f"graph chain(%x: {kind}, %y: {kind}) {{"]
    last = "y"
    for i in range(length):
        lines.append(f"%v{i} = {op}(%{last}, %x) : {kind}")
        last = f"v{i}"
    return Graph.parse("\n".join([*lines, f"return %{last} }}"]))
