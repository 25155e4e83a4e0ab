"""Derivatives of branches and loops, which are branches and loops themselves.

Forward, a branch also returns a list of the residuals of its backward pass, and a loop pushes the
residuals of each iteration on a list. Backward, the branch that was taken reads its list, and a
loop runs as many iterations, each of which pops its residuals. Loop-invariant values are passed
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from eagerflow.autodiff.tape import warn_of_read
from eagerflow.control.derivatives.branch_derivatives import BranchDerivative, CallDerivative
from eagerflow.control.derivatives.building import Apply, passed_on
from eagerflow.control.derivatives.loop_derivatives import LoopDerivative
from eagerflow.control.structured import Structured
from eagerflow.core.composites import Passed
from eagerflow.core.op import bind, get_op
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import NodeKind, is_loop, is_read, kind_of

_MAKERS: Final[dict[NodeKind, Any]] = {
    "call": CallDerivative, "branches": BranchDerivative, "loop": LoopDerivative,
}  # fmt: skip


def differentiate(
    apply: Apply, whole: Structured, operands: Sequence[Any], sizes: Mapping[str, Size],
    wanted: Sequence[bool], watched: Sequence[bool],
) -> tuple[list[Any], Passed]:  # fmt: skip
    """The outputs of a branch or a loop, and the data that a tape needs for the backward pass.

    Args:
        apply: appends a node to the trace.
        whole: a branch or a loop.
        operands: its operands, tensors and numbers.
        sizes: the values of size names that no operand determines.
        wanted: which operands need a cotangent.
        watched: which of ``whole.reads`` need a cotangent.
    """
    reads = [node for node, want in zip(whole.reads, watched, strict=True) if want]
    key = (*wanted, *watched)
    derivative = whole.derivatives.get(key)
    if derivative is None:
        make = _MAKERS[kind_of(whole.op)]
        derivative = whole.derivatives[key] = make(whole, wanted, reads)
        _warn_of_iterations(whole, reads)
    # stand for all reads inside
    anchors = [bind(get_op(node.op), **node.attrs) for node in reads]
    outputs, residuals, pull = derivative.run(apply, operands, whole.sizes(operands, sizes))
    numbers = [i for i, x in enumerate(operands) if type(x) is Tensor]
    numbers += range(len(operands), len(operands) + len(reads))

    def back(given: Sequence[Any], gs: Sequence[Any], used: Sequence[bool]) -> Sequence[Any]:
        cotangents = pull(given, gs)
        return [cotangents[i] if want else None for i, want in zip(numbers, used, strict=True)]

    return outputs, passed_on(whole.own(outputs), residuals, back, anchors)


def _warn_of_iterations(whole: Structured, reads: Sequence[Node]) -> None:
    """Warn of variables that an iteration assigns and the next iteration reads.

    The tape warns of a variable that is read after its assignment in the same iteration.
    """
    if not is_loop(whole.op):
        return
    order = list(whole.nodes)
    for read in reads:
        touching = [n for n in order if n.attrs.get("resource") is read.attrs["resource"]]
        writes = [i for i, n in enumerate(touching) if not is_read(n.op)]
        later = touching[writes[0] :] if writes else []
        if writes and all(not is_read(n.op) for n in later):
            warn_of_read(touching[writes[0]].source, read.source)
