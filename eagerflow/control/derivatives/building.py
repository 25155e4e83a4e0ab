"""Building blocks for derivatives of branches and loops: graphs, residuals, zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, final

from eagerflow.control.derivatives.joint import Gradient, close_constants
from eagerflow.control.structured import Structured
from eagerflow.core.composites import Passed
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import functions
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import scalar
from eagerflow.dims import Size, symbols
from eagerflow.graph.ir import Graph, Value
from eagerflow.graph.passes.prune import prune
from eagerflow.graph.value_types import NumberType, ValueSpec, ValueType
from eagerflow.hardware import as_device
from eagerflow.ops.state.lists import list_new, list_pop, list_push
from eagerflow.tracing.tracer import Tracer, current_tracer
from eagerflow.types import DTYPES, LIST, TensorSpec, TensorType

#: appends a node to the trace under way, and returns its outputs
Apply = Callable[[Structured, Sequence[Any], Mapping[str, Size]], list[Any]]
_WIDE = {int: "int64", float: "float64", complex: "complex128"}
_HOST = "cpu:0"


def build(
    name: str, kinds: Sequence[ValueSpec], function: Callable[[list[Any]], Sequence[Any]],
    taken: frozenset[str] = frozenset(),
) -> Graph:  # fmt: skip
    """The graph of a function of tensors and numbers.

    Args:
        name: name of the graph.
        kinds: the types of its inputs.
        function: computes its outputs from its inputs.
        taken: the names of outer sizes, which no new size gets.
    """
    tracer = Tracer(name)
    tracer.sizes.reserve(taken)

    def trace() -> list[Value]:
        inputs = [tracer.add_input(k, "x" if isinstance(k, TensorSpec) else "n") for k in kinds]
        return list(map(tracer.graph_value, function(inputs)))

    graph = tracer.graph
    graph.outputs = tracer.run(trace)
    close_constants(tracer)
    tracer.forget()
    return prune(graph)[0]


def as_residual(x: Any) -> Tensor:
    """A value as a residual: a number becomes a tensor on the host."""
    if type(x) is Tensor:
        return x
    kind = x.kind if hasattr(x, "kind") else type(x)
    return scalar(x, as_device(_HOST).lanes[DTYPES[_WIDE[kind]]])


def from_residual(kind: ValueType, x: Tensor) -> Any:
    """The value of a residual: the inverse of `as_residual`."""
    if isinstance(kind, TensorType):
        return x
    tracer = current_tracer()
    assert tracer is not None
    return tracer.item(x)


@final
class Residuals:
    """The values that a backward graph needs from a forward graph, in a list for each device.

    Args:
        values: values of the joint graph; numbers are kept on the host.
        known: the names of sizes known in both graphs; other sizes are None.

    Attributes:
        devices: the devices of the lists.
    """

    def __init__(self, values: Iterable[Value], known: Set[str]) -> None:
        self._values: dict[Any, list[Value]] = {}
        for value in values:
            device = as_device(_HOST if isinstance(value.type, NumberType) else value.device)
            self._values.setdefault(device, []).append(value)
        self._known = known
        self.devices = list(self._values)

    @property
    def kinds(self) -> list[ValueSpec]:
        """The types of the lists."""
        return [TensorType(LIST, ()).on(device) for device in self.devices]

    def start(self) -> list[Tensor]:
        """Empty lists."""
        return [list_new(device) for device in self.devices]

    def push(self, lists: Sequence[Any], values: Mapping[Value, Any]) -> list[Tensor]:
        """The lists with the residuals among ``values`` pushed."""
        return [
            list_push(one, *[as_residual(values[v]) for v in self._values.get(device, ())])
            for device, one in zip(self.devices, lists, strict=True)
        ]

    def pop(self, lists: Sequence[Any]) -> tuple[list[Tensor], dict[Value, Any]]:
        """The lists with the last residuals popped, and these residuals by value."""
        rest: list[Tensor] = []
        popped: dict[Value, Any] = {}
        for device, one in zip(self.devices, lists, strict=True):
            values = self._values.get(device, [])
            kinds = [_tensor_type(v.type) for v in values]
            shapes = [tuple([d if symbols((d,)) <= self._known else None for d in k.shape])
                      for k in kinds]  # fmt: skip
            shorter, *items = list_pop(one, shapes, [k.dtype for k in kinds])
            rest.append(shorter)
            pairs = zip(values, items, strict=True)
            popped.update((v, from_residual(v.type, x)) for v, x in pairs)
        return rest, popped


def _tensor_type(kind: ValueType) -> TensorType:
    return TensorType(DTYPES[_WIDE[kind.kind]], ()) if isinstance(kind, NumberType) else kind


def passed_on(
    outputs: Sequence[Any], residuals: Sequence[Any],
    pull: Callable[[Sequence[Any], Sequence[Any], Sequence[bool]], Sequence[Any]],
    captured: Sequence[Any] = (),
) -> Passed:  # fmt: skip
    """The result of a forward pass.

    Args:
        outputs: as in `Passed`.
        residuals: tensors and numbers.
        pull: as in `Passed`, but gets the numbers as well.
        captured: as in `Passed`.
    """
    numbers = [None if type(x) is Tensor else x for x in residuals]

    def back(given: Sequence[Any], gs: Sequence[Any], wanted: Sequence[bool]) -> Sequence[Any]:
        rest = iter(given)
        return pull([next(rest) if x is None else x for x in numbers], gs, wanted)

    return Passed(outputs, [x for x in residuals if type(x) is Tensor], back, captured)


def names_in(kinds: Sequence[ValueSpec]) -> frozenset[str]:
    """The names of sizes that occur in types."""
    return frozenset[str]().union(*(symbols(k.shape) for k in kinds))


def zeros_of(kind: ValueSpec) -> Tensor:
    """The zero cotangent of a value of that type."""
    assert isinstance(kind, TensorSpec)
    if kind.dtype is LIST:
        return list_new(kind.device)
    return functions["zeros"](kind.shape, dtype=kind.dtype, device=kind.device)


def flowing_gradients(gradients: Sequence[Gradient], values: Sequence[Any]) -> list[Any]:
    """The cotangent of each input, None where none flows."""
    rest = iter(values)
    return [
        None if not g.values
        else next(rest) if g.shape is None
        else IndexedSlices(next(rest), next(rest), g.shape)
        for g in gradients
    ]  # fmt: skip
