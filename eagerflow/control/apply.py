"""`apply`: a branch or a loop as one node of the trace under way.

Eagerly branches and loops are those of Python. In a trace each becomes a node with subgraphs; a
tape or forward mode between gets the derivative of the whole, made of further such nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from eagerflow.control.derivatives.differentiate import differentiate
from eagerflow.control.derivatives.forward_mode import push
from eagerflow.control.structured import OperandNumbers, Structured
from eagerflow.core import interpreter
from eagerflow.core.composites import Composite, Passed
from eagerflow.core.interpreter import differentiators
from eagerflow.core.op import get_op
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size
from eagerflow.graph.ir import Node
from eagerflow.runtime.replay import symbolic
from eagerflow.tracing.tracer import current_tracer

#: slot for the function that applies a branch or a loop to many rows, set by a module above:
#: ``batched["apply"](vmap, whole, operands, sizes)`` returns the outputs
batched: Final[dict[str, Callable[..., list[Any]]]] = {}


def apply(
    whole: Structured, operands: Sequence[Any], sizes: Mapping[str, Size] | None = None
) -> list[Any]:
    """The outputs of a branch or a loop, as values of the trace under way in this thread.

    Args:
        whole: the branch, loop or call.
        operands: tensors and numbers.
        sizes: the values of size names in the subgraphs that no operand determines.
    """
    reads = [node.attrs["resource"] for node in whole.reads]
    watched: list[bool] = []  # the reads that need a cotangent
    results: list[Any] = []  # as made here: interpreters between may return other handles

    def body(*tensors: Tensor) -> tuple[Any, ...]:
        results[:] = append(whole, mixed(operands, tensors), sizes or {})
        return tuple(whole.own(results))

    def forward(*tensors: Tensor) -> Passed:
        given = mixed(operands, tensors)
        wanted = [type(x) is Tensor and _is_wanted(x) for x in given]
        watched[:] = [any(d.watches(r) for d in differentiators()) for r in reads]
        results[:], passed = differentiate(apply, whole, given, sizes or {}, wanted, watched)
        return passed

    def pushed(tensors: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        rest = iter(tangents)
        along = [next(rest) if type(x) is Tensor else None for x in operands]
        results[:], pushed_tangents = push(
            apply, whole, mixed(operands, tensors), along, sizes or {}
        )
        return whole.own(results), whole.own(results, pushed_tangents)

    def depends() -> list[OperandNumbers]:
        numbers = [i for i, x in enumerate(operands) if type(x) is Tensor]
        numbers += [-1 - i for i, watch in enumerate(watched) if watch]
        position = {number: k for k, number in enumerate(numbers)}
        return [
            frozenset(position[i] for i in depended if i in position)
            for depended in whole.own(results, whole.depends)
        ]

    def rows(vmap: Any, tensors: Sequence[Any]) -> tuple[Any, ...]:
        results[:] = batched["apply"](vmap, whole, mixed(operands, tensors), sizes or {})
        return tuple(whole.own(results))

    composite = Composite(
        whole.op, body, forward, own_rule=True, node=whole.effect, depends=depends,
        push=pushed, reads=reads, batch=rows,
    )  # fmt: skip
    tensors = [x for x in operands if type(x) is Tensor]
    outputs = interpreter.current().call(composite, tensors)
    _tell_writes(whole)
    rest = iter(outputs)
    return [
        operands[i] if i in whole.fixed else next(rest) if type(x) is Tensor else x
        for i, x in enumerate(results)
    ]


def _tell_writes(whole: Structured) -> None:
    """Report variables that are assigned inside to differentiators."""
    if all(effect != "writes" for effect, _ in whole.effects):
        return
    for node in whole.nodes:
        if "resource" in node.attrs and get_op(node.op).effect == "writes":
            for one in differentiators():
                one.assigned(node.attrs["resource"], node.source)


def mixed(items: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """``items`` with their tensors replaced, in order."""
    rest = iter(tensors)
    return [next(rest) if type(x) is Tensor else x for x in items]


def _is_wanted(x: Tensor) -> bool:
    """Whether a derivative may flow to ``x``: a differentiator of this thread knows it."""
    return x.dtype.is_inexact and any(d.knows(x) for d in differentiators())


def append(
    whole: Structured, operands: Sequence[Any], sizes: Mapping[str, Size]
) -> tuple[Any, ...]:
    """Append a node to the trace under way; returns its outputs."""
    tracer = current_tracer()
    assert tracer is not None
    attrs, outputs = whole.renamed(tracer, operands, sizes)
    return tracer.structured(whole.op, operands, attrs, outputs, whole.effects)


_known: Final[WeakKeyDictionary[Node, Structured]] = WeakKeyDictionary()


def of_node(node: Node) -> Structured:
    """The computation of a node; the same object at each call."""
    structured = _known.get(node)
    if structured is None:
        inputs, outputs = [[v.spec for v in values] for values in (node.inputs, node.outputs)]
        structured = _known[node] = Structured(node.op, node.attrs, inputs, outputs)
    return structured


symbolic["apply"] = lambda node, inputs, sizes: apply(of_node(node), inputs, sizes)
