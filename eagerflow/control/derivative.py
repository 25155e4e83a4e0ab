"""Derivatives of branches and loops, which are branches and loops again.

Forward, a branch also gives a list of what its backward pass reads, and a loop pushes that of each
turn on a list. Backward, the branch that was taken reads its list, and a loop goes as many turns,
each of which pops what it reads. Values that are the same in all turns are passed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eagerflow.control.branch_derivative import BranchDerivative
from eagerflow.control.building import Apply
from eagerflow.control.loop_derivative import LoopDerivative
from eagerflow.control.structured import Structured
from eagerflow.core.interpreter import Passed
from eagerflow.core.tensor import Tensor
from eagerflow.dims import Size
from eagerflow.runtime.instructions import named_axes

__all__ = ["differentiate"]


def differentiate(
    apply: Apply, whole: Structured, operands: Sequence[Any], sizes: Mapping[str, Size],
    wanted: Sequence[bool],
) -> tuple[list[Any], Passed]:  # fmt: skip
    """The outputs, and what a tape needs to go back.

    Args:
        apply: appends a node to the trace.
        whole: a branch or a loop.
        operands: its operands, tensors and numbers.
        sizes: what names of sizes stand for that no operand tells.
        wanted: which operands cotangents are wanted of.
    """
    known: dict[str, Size] = dict(sizes)
    for kind, x in zip(whole.inputs, operands, strict=True):
        if type(x) is Tensor:
            known.update((name, x.shape[axis]) for axis, name in named_axes(kind))
    key = tuple(wanted)
    found = whole.derivatives.get(key)
    if found is None:
        make = BranchDerivative if whole.op in ("cond", "switch") else LoopDerivative
        found = whole.derivatives[key] = make(whole, wanted)
    outputs, residuals, pull = found.run(apply, operands, known)
    fixed = [None if type(x) is Tensor else x for x in residuals]
    places = [i for i, x in enumerate(operands) if type(x) is Tensor]

    def back(given: Sequence[Tensor], gs: Sequence[Any], used: Sequence[bool]) -> Sequence[Any]:
        rest = iter(given)
        cotangents = pull([next(rest) if x is None else x for x in fixed], gs)
        return [cotangents[i] if want else None for i, want in zip(places, used, strict=True)]

    tensors = [x for x in outputs if type(x) is Tensor]
    return outputs, Passed(tensors, [x for x in residuals if type(x) is Tensor], back)
