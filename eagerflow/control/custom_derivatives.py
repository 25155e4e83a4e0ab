"""`custom_vjp` and `remat` in branches and bodies: ``call`` nodes that keep their own derivative.

A subgraph of ops alone would be differentiated op by op. So such a function becomes the body of a
``call`` node. The node of `custom_vjp` also has two graphs of the user's rule: ``forward`` returns
the outputs and the residuals, and ``backward`` the cotangents of the inputs with the numbers
``pulled``. All nodes have the attribute ``own``, the number of inputs of the function itself; the
others are values that it captures. To run such a node is to run its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eagerflow.autodiff.backward import dense
from eagerflow.autodiff.remat import recorded
from eagerflow.autodiff.tape import UNKNOWN, Link
from eagerflow.control.apply import append, mixed, of_node
from eagerflow.control.derivatives.building import passed_on
from eagerflow.control.structured import Structured, is_smooth
from eagerflow.control.subgraphs import Subgraph, join, line_of
from eagerflow.core import interpreter
from eagerflow.core.composites import Composite, Passed
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size
from eagerflow.errors import EagerflowError, GradientError
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.value_types import ValueSpec
from eagerflow.runtime.replay import Run, symbolic
from eagerflow.tracing.symbols import composites
from eagerflow.tracing.tracer import Tracer

# --- tracing -------------------------------------------------------------------------------------


def _keep(tracer: Tracer, composite: Composite, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
    """Append a composite to a branch or a body; returns its outputs."""
    if composite.keep is not None:
        return composite.keep(*inputs)
    kinds = [tracer.value_of(x).spec for x in inputs]
    body = _part(tracer, composite.name, kinds, composite.body)
    attrs: dict[str, Any] = {"body": body.graph}
    parts, counts = [body], [len(kinds)]
    if composite.own_rule:
        try:
            forward, backward, count, pulled = _rule(tracer, composite, kinds, body.graph)
        except EagerflowError as error:  # without derivatives this does not matter
            attrs["wrong"] = str(error)
        else:
            attrs.update(forward=forward.graph, backward=backward.graph, pulled=pulled)
            parts += [forward, backward]
            counts += [len(kinds), count]
    attrs["own"] = len(kinds)
    operands = [*inputs, *join(parts, counts)]
    types = [v.spec for v in body.graph.outputs]
    whole = Structured("call", attrs, [tracer.spec_of(x) for x in operands], types)
    return tracer.structured("call", operands, attrs, types, whole.effects)


def _part(
    tracer: Tracer, name: str, kinds: Sequence[ValueSpec], function: Callable[..., Any],
    opens: bool = False,
) -> Subgraph:  # fmt: skip
    """The subgraph of a function that returns tensors.

    Args:
        tracer: the trace around it.
        name: name of the graph.
        kinds: the types of its inputs.
        function: the function.
        opens: whether composites in it are replaced by their ops.
    """
    part = Tracer(name, tracer)
    part.opens |= opens

    def trace() -> Subgraph:
        result = function(*[part.add_input(kind, "x") for kind in kinds])
        return Subgraph(part, result, line_of(function))

    subgraph = part.run(trace)
    part.graph.outputs = [leaf.value for leaf in subgraph.leaves if leaf.value is not None]
    return subgraph


def _rule(
    tracer: Tracer, composite: Composite, kinds: Sequence[Any], body: Graph
) -> tuple[Subgraph, Subgraph, int, tuple[int, ...]]:
    """The rule of a composite, traced.

    Returns:
        The graph from the inputs to the outputs and the residuals; the graph from the residuals
        and the cotangents of the outputs to the cotangents of the inputs; the number of inputs of
        the latter that are not captured; and the numbers of the inputs that get a cotangent.
    """
    passed: list[Passed] = []
    pulled: list[int] = []

    def forward(*xs: Tensor) -> Any:
        passed.append(composite.forward(*xs))
        return [*passed[0].outputs, *passed[0].residuals]

    # tapes that do not record see ops in place of composites, and so does this one
    smooth = [is_smooth(v.spec) for v in body.outputs]
    ahead = _part(tracer, f"{composite.name}_forward", kinds, forward, True)
    residuals = [v.spec for v in ahead.graph.outputs[len(smooth) :]]

    def backward(*items: Tensor) -> Any:
        rest = iter(items[len(residuals) :])
        gs = [next(rest) if s else None for s in smooth]
        given = passed[0].pull(items[: len(residuals)], gs, [is_smooth(k) for k in kinds])
        pulled[:] = [i for i, g in enumerate(given) if g is not None]
        return [dense(given[i]) for i in pulled]

    own = [*residuals, *filter(is_smooth, [v.spec for v in body.outputs])]
    back = _part(tracer, f"{composite.name}_backward", own, backward, True)
    return ahead, back, len(own), tuple(pulled)


composites["keep"] = _keep


# --- running -------------------------------------------------------------------------------------


def _call(node: Node, inputs: Sequence[Any], sizes: Mapping[str, Size], run: Run) -> Sequence[Any]:
    """Replay a ``call`` node with a derivative of its own.

    Args:
        node: the node.
        inputs: tensors and numbers.
        sizes: the values of size names.
        run: runs a subgraph.
    """
    whole, attrs = of_node(node), node.attrs
    name = attrs["body"].name
    own_rule = "forward" in attrs or "wrong" in attrs

    def body(*tensors: Tensor) -> tuple[Any, ...]:
        return tuple(run(attrs["body"], mixed(inputs, tensors)))

    def keep(*tensors: Tensor) -> tuple[Any, ...]:
        return append(whole, mixed(inputs, tensors), sizes)

    def forward(*tensors: Tensor) -> Passed:
        if "wrong" in attrs:
            raise GradientError(
                f"{name}: its rule cannot be traced, and it is in a branch or a loop",
                given=attrs["wrong"],
            )
        return _forward(whole, mixed(inputs, tensors), run) if own_rule else recorded(body, tensors)

    composite = Composite(name, body, forward, own_rule=own_rule, keep=keep)
    return interpreter.current().call(composite, [x for x in inputs if type(x) is Tensor])


def _forward(whole: Structured, values: Sequence[Any], run: Run) -> Passed:
    attrs = whole.attrs
    results = run(attrs["forward"], values)
    total, own = len(whole.outputs), attrs["own"]
    residuals = [*results[total:], *values[own:]]
    count = len(results) - total
    wanted = [i for i, x in enumerate(values) if type(x) is Tensor]
    link = Link(attrs["body"].name, (), UNKNOWN, None, 0)

    def pull(items: Sequence[Any], gs: Sequence[Any], used: Sequence[bool]) -> Sequence[Any]:
        cotangents = [g for g in gs if g is not None]
        gradients = run(attrs["backward"], [*items[:count], *cotangents, *items[count:]])
        pulled = dict(zip(attrs["pulled"], gradients, strict=True))
        # the rule does not cover captured values
        return [pulled.get(i) if i < own else link for i in wanted]

    return passed_on(results[:total], residuals, pull)


symbolic["call"] = _call
