"""`replay`: a graph run node by node through `bind`, so that tapes and traces see each op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import MappingProxyType
from typing import Any, Final, final

from eagerflow.core import interpreter
from eagerflow.core.abstract_symbols import AbstractNumber
from eagerflow.core.interpreter import stack, tracer_among
from eagerflow.core.monitors import CheckNan, Timing, Verify, monitors
from eagerflow.core.op import bind, functions, get_op
from eagerflow.core.tensor import Tensor, make_tensor
from eagerflow.core.to_tensor import scalar
from eagerflow.dims import Dim, Size, number_of, substitute
from eagerflow.errors import GraphError, VmapError
from eagerflow.graph.edit import in_sizes, named_axes
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.name_scopes import belonging, current_scope
from eagerflow.graph.number_ops import NUMBER_OPS
from eagerflow.graph.signatures import kind_of
from eagerflow.graph.value_types import NumberType
from eagerflow.hardware import Lane, as_device
from eagerflow.hardware.device_scopes import without_scope
from eagerflow.hardware.float_warnings import QUIET, error_state
from eagerflow.hardware.kernel_library import in_force
from eagerflow.runtime.generated.instructions import check_given, has_dims, on_device
from eagerflow.runtime.python_control import choose, go_along, repeat
from eagerflow.source import Source
from eagerflow.types import TensorType

#: the local variable in frames of this file from which `eagerflow.source` reads the position
REPLAYS: Final = "at"

#: runs a subgraph of a node
Run = Callable[[Graph, Sequence[Any]], list[Any]]

#: functions that put a whole branch or loop into the graph that is being traced, filled in by a
#: higher module: ``symbolic["apply"](node, inputs, sizes)`` gives the outputs, and so does
#: ``symbolic["call"]``, with a function that runs a subgraph as a further argument, for calls
#: with a derivative of their own
symbolic: Final[dict[str, Callable[..., Sequence[Any]]]] = {}


def replay(
    graph: Graph, inputs: Sequence[Any], sizes: Mapping[str, Size] = MappingProxyType({}), *,
    again: bool = False,
) -> list[Any]:  # fmt: skip
    """Run ``graph`` through the interpreters of this thread.

    Args:
        graph: the graph.
        inputs: a tensor or a number for each input of the graph; they may belong to a trace.
        sizes: the sizes behind names from around the graph that no input determines.
        again: whether the graph is of the trace under way, so that its nodes have whole scopes.

    Returns:
        A tensor or a number for each output.

    Raises:
        GraphError: a node of the graph cannot run.

    >>> from eagerflow.runtime import replay
    >>> graph = ef.Graph.parse("graph f(%x: f32[n]) { %y = exp(%x) : f32[n] return %y }")
    >>> ef.grad(lambda x: replay(graph, [x])[0].sum())(ef.zeros(2))
    Tensor([1., 1.], f32[2]@cpu:0)
    """
    token = error_state.set(QUIET)
    try:
        with without_scope() if stack.scoped else nullcontext():
            return _Replay(graph, inputs, sizes, None if again else current_scope()).run()
    finally:
        error_state.reset(token)


def is_watched() -> bool:
    """Whether an interpreter of this thread has to see each op, so that graphs are replayed.

    Timing need not: executables report their nodes themselves. Nor need a single check of each
    result: executables have code for that.
    """
    if not stack.installed:
        return False
    if interpreter.current() is not interpreter.BASE:
        return True
    looking = {type(monitor) for monitor in monitors()} - {Timing}
    alone = ({CheckNan}, {Verify}) if in_force() == "native" else ({CheckNan},)
    return bool(looking) and looking not in alone


@final
class _Replay:
    """A replay under way.

    Args:
        graph: the graph.
        inputs: the values of its inputs.
        sizes: the sizes behind names from around the graph.
        around: the scope around the graph; None if the graph is of the trace under way.
    """

    def __init__(
        self, graph: Graph, inputs: Sequence[Any], sizes: Mapping[str, Size], around: str | None
    ) -> None:
        self.graph = graph
        self.around = around
        self.values: dict[Value, Any] = {}
        self.sizes: dict[str, Size] = {}
        for value, given in zip(graph.inputs, inputs, strict=True):
            self.set(value, given)
        self.sizes = {**sizes, **self.sizes}

    def set(self, value: Value, given: Any) -> None:
        """Store the value ``given``, and the sizes that its type is the first to name."""
        self.values[value] = given
        for axis, name in named_axes(value.type):
            self.sizes.setdefault(name, given.shape[axis])

    def run(self) -> list[Any]:
        last = self._last_uses()
        for node in self.graph.nodes:
            with self.belonging(node):
                results = self.node(node, [self.values[v] for v in node.inputs])
            for value, result in zip(node.outputs, results, strict=True):
                self.set(value, result)
            del results
            for value in (*node.inputs, *node.outputs):
                if last.get(value, node) is node:
                    self.values.pop(value, None)
        return [self.values[v] for v in self.graph.outputs]

    def belonging(self, node: Node) -> AbstractContextManager[None]:
        """Context in which nodes traced for ``node`` get its scope."""
        if self.around is None:
            return belonging(node.scope, node.forward, node.within)
        if not node.scope:
            return nullcontext()
        around = f"{self.around}/" if self.around else ""
        return belonging(around + node.scope, node.forward, node.within)

    def _last_uses(self) -> dict[Value, Node | None]:
        last: dict[Value, Node | None] = {}
        for node in self.graph.nodes:
            last.update(dict.fromkeys(node.inputs, node))
        last.update(dict.fromkeys(self.graph.outputs))
        return last

    def node(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        kind = kind_of(node.op)
        if kind == "constant":
            return (self.constant(node),)
        if kind == "call":
            return self.call(node, inputs)
        if kind == "number":
            return (_at(node.source, self.number, node, inputs),)
        check_given(node)
        if kind == "branches" or kind == "loop":
            results: Sequence[Any] = _at(node.source, self.control, node, inputs)
            return results
        attrs = node.attrs
        if any(map(has_dims, attrs.values())):
            attrs = {k: in_sizes(v, self.sizes) for k, v in attrs.items()}
        result = _bind(node.source, node.op, inputs, attrs)
        return result if type(result) is tuple else (result,)

    def constant(self, node: Node) -> Any:
        value, (output,) = node.attrs["value"], node.outputs
        if isinstance(output.type, NumberType):
            return value
        if not isinstance(value, Tensor):
            raise GraphError("a constant of the graph was not given", given=repr(value))
        device = value.device if output.device is None else as_device(output.device)
        made = make_tensor(on_device(value, device), device.lanes[value.dtype])
        if stack.installed:
            interpreter.current().made(made)
        return made

    def number(self, node: Node, inputs: list[Any]) -> Any:
        if node.op == "python_size":
            return substitute(node.attrs["size"], self.sizes)
        if node.op != "python_item" and any(type(x) is Tensor for x in inputs):
            return _number_of_rows(node, inputs)
        if node.op == "python_tensor":
            return scalar(inputs[0], _lane(node.outputs[0]))
        tracer = tracer_among(interpreter.current())
        if node.op == "python_item":
            return inputs[0].item() if tracer is None else tracer.item(inputs[0])
        if isinstance(node.outputs[0].type, TensorType):  # a comparison
            if tracer is not None:
                return tracer.compare(node.op, *inputs)
            return scalar(NUMBER_OPS[node.op].function(*inputs), _lane(node.outputs[0]))
        if any(issubclass(type(x), AbstractNumber) for x in inputs):  # a size would ask for it
            inputs = [number_of(x) if type(x) is Dim else x for x in inputs]
        return NUMBER_OPS[node.op].function(*inputs)

    # --- calls ---

    def call(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        if "composite" in node.attrs:
            results: Sequence[Any] = _at(node.source, self.composite, node, inputs)
            return results
        if "own" in node.attrs and interpreter.current() is not interpreter.BASE:
            return symbolic["call"](node, inputs, self.sizes, self.inner)
        if tracer_among(interpreter.current()) is not None:
            return symbolic["apply"](node, inputs, self.sizes)
        return self.inner(node.attrs["body"], inputs)

    def composite(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        """A call that was recorded (see `eagerflow.autodiff.graph_recorder`)."""
        own = node.attrs["own"]
        composite = node.attrs["composite"](self.inner, inputs[own:])
        return interpreter.current().call(composite, inputs[:own])

    def inner(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        return _Replay(graph, inputs, self.sizes, self.around).run()

    # --- branches and loops ---

    def control(self, node: Node, inputs: list[Any]) -> Sequence[Any]:
        if tracer_among(interpreter.current()) is not None:
            return symbolic["apply"](node, inputs, self.sizes)
        if kind_of(node.op) == "loop":
            return self.scan(node, inputs) if node.op == "scan" else self.loop(node, inputs)
        predicate, *operands = inputs
        branches = node.attrs["branches"]
        return choose(node.op, predicate, branches, lambda branch: self.inner(branch, operands))

    def loop(self, node: Node, inputs: list[Any]) -> list[Any]:
        test, body = node.attrs["cond"], node.attrs["body"]
        most = node.attrs.get("max_iterations")
        return repeat(
            lambda values: self.inner(test, values)[0], partial(self.inner, body),
            inputs, most, node.source,
        )  # fmt: skip

    def scan(self, node: Node, inputs: list[Any]) -> list[Any]:
        carried = node.attrs["carry"]
        length = int(substitute(node.attrs["length"], self.sizes))

        def iteration(values: list[Any], parts: list[Any]) -> tuple[list[Any], list[Any]]:
            results = self.inner(node.attrs["body"], [*values, *parts])
            return results[:carried], results[carried:]

        values, stacked = go_along(
            node.op, iteration, inputs[:carried], inputs[carried:], length,
            node.attrs.get("reverse", False), node.source,
        )  # fmt: skip
        if stacked is None:
            stacked = [self.empty(value) for value in node.outputs[carried:]]
        return [*values, *stacked]

    def empty(self, value: Value) -> Tensor:
        """The stacked result of a scan without iterations."""
        kind = value.type
        assert isinstance(kind, TensorType)
        made: Tensor = functions["zeros"](
            in_sizes(kind.shape, self.sizes), dtype=kind.dtype, device=as_device(value.device)
        )
        return made


def _number_of_rows(node: Node, inputs: Sequence[Any]) -> Tensor:
    """The result of a node on numbers that differ from row to row: integers are tensors there.

    Raises:
        VmapError: a number is no integer. As a tensor it would be rounded.
    """
    wrong = next((x for x in inputs if type(x) is Tensor and not x.dtype.is_integer), None)
    if wrong is not None:
        raise VmapError(
            "under ef.vmap, a Python number differs from row to row, since a condition does",
            given=f"a number as {wrong.type}",
            hint="make it a tensor before the loop or branch that sets it: total = ef.tensor(0.0) "
            "in place of total = 0.0",
        )
    if node.op == "python_tensor":
        made: Tensor = functions["astype"](inputs[0], _lane(node.outputs[0]).dtype)
        return made
    result: Tensor = NUMBER_OPS[node.op].function(*inputs)
    return result


def _lane(value: Value) -> Lane:
    kind = value.type
    assert isinstance(kind, TensorType)
    return as_device(value.device).lanes[kind.dtype]


def _at(at: Source | str | None, function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def _bind(at: Source | str | None, op: str, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    return bind(get_op(op), *inputs, **attrs)
