"""`apply`: a branch or a loop as a whole, as part of the trace that is under way.

Eagerly branches and loops are those of Python. In a trace one becomes a node with subgraphs; a
tape or forward mode between gets the derivative of the whole, made of further such nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from eagerflow.control.derivative import differentiate
from eagerflow.control.sizes import rename
from eagerflow.control.structured import Structured
from eagerflow.core import interpreter
from eagerflow.core.interpreter import Composite, Passed
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size
from eagerflow.errors import GradientError
from eagerflow.graph.ir import Node
from eagerflow.graph.trace import tracer_of
from eagerflow.runtime.replay import symbolic

__all__ = ["apply"]


def apply(
    whole: Structured, operands: Sequence[Any], sizes: Mapping[str, Size] | None = None
) -> list[Any]:
    """The outputs, of the trace that is under way in this thread.

    Args:
        whole: what to apply.
        operands: tensors and numbers.
        sizes: what names of sizes in the subgraphs stand for that no operand tells.
    """
    _check_variables(whole)
    results: list[Any] = []  # as they were made: who is between may give other handles

    def body(*tensors: Tensor) -> tuple[Any, ...]:
        results[:] = _append(whole, mixed(operands, tensors), sizes or {})
        return tuple([x for x in results if type(x) is Tensor])

    def forward(*tensors: Tensor) -> Passed:
        wanted = [type(x) is Tensor and is_wanted(x) for x in mixed(operands, tensors)]
        results[:], passed = differentiate(
            apply, whole, mixed(operands, tensors), sizes or {}, wanted
        )
        return passed

    composite = Composite(whole.op, body, forward, own_rule=True, node=whole.effect)
    tensors = [x for x in operands if type(x) is Tensor]
    outputs = interpreter.current().call(composite, tensors)
    return mixed(results, outputs)


def _check_variables(whole: Structured) -> None:
    """Refuse the derivative by a variable that is read between assignments to it."""
    for resource in whole.read_inside:
        if any(d.watches(resource) for d in _differentiators()):
            raise GradientError(
                f"{whole.op}: no derivative by a variable that is read and assigned inside",
                given=repr(resource),
                hint="read it before (x = v.value) and use x inside, or let the value go round "
                "and assign it afterwards",
            )


def _differentiators() -> Iterator[interpreter.AbstractDifferentiator]:
    found = interpreter.current()
    while found is not interpreter.BASE:
        if isinstance(found, interpreter.AbstractDifferentiator):
            yield found
        found = found.below


def mixed(items: Sequence[Any], tensors: Sequence[Any]) -> list[Any]:
    """``items`` with other tensors in the place of theirs."""
    rest = iter(tensors)
    return [next(rest) if type(x) is Tensor else x for x in items]


def is_wanted(x: Tensor) -> bool:
    """Whether a derivative may flow to ``x``: a differentiator of this thread knows it."""
    return x.dtype.is_inexact and any(d.knows(x) for d in _differentiators())


def _append(
    whole: Structured, operands: Sequence[Any], sizes: Mapping[str, Size]
) -> tuple[Any, ...]:
    """Put a node into the trace that is under way."""
    tracer = tracer_of(interpreter.current())
    assert tracer is not None
    found = rename(tracer, whole.attrs, whole.inputs, whole.outputs, operands, sizes)
    return tracer.structured(whole.op, operands, found.attrs, found.outputs, whole.effects)


_known: Final[WeakKeyDictionary[Node, Structured]] = WeakKeyDictionary()


def of_node(node: Node) -> Structured:
    """What a node computes; the same object each time."""
    found = _known.get(node)
    if found is None:
        inputs, outputs = [[v.type for v in values] for values in (node.inputs, node.outputs)]
        found = _known[node] = Structured(node.op, node.attrs, inputs, outputs)
    return found


def _apply_node(node: Node, inputs: Sequence[Any], sizes: Mapping[str, Size]) -> list[Any]:
    return apply(of_node(node), inputs, sizes)


symbolic["apply"] = _apply_node
