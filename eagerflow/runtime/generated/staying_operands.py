"""Operands that stay in a loop, such as weights, for which kernels are prepared before it.

A kernel with a preparation (`eagerflow_kernels.table.prepared`) is prepared once for an operand
that all iterations share::

    p3 = factor_4(r3)
    for k5 in range(20):
        r6 = p3(r2)
        ...
    del p3
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from eagerflow.errors import EagerflowError
from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_number
from eagerflow.runtime.generated.instructions import Instruction
from eagerflow_kernels.table import preparation

#: the register of an operand that stays, and the preparation of its kernel
Staying = tuple[int, Callable[[Any], Callable[..., Any]]]


def find_staying(loop: Instruction, kernel: Callable[[Instruction, Node], Any]) -> list[Staying]:
    """The last operands of prepared kernels that no iteration of a loop sets.

    Args:
        loop: the instruction of the loop.
        kernel: gives the kernel of an instruction that runs an op.
    """
    inner, staying = loop.inner, dict[Staying, None]()
    for line, node in _ops(loop):
        if line.inputs[-1] in inner:
            try:
                prepare = preparation(kernel(line, node))
            except EagerflowError:  # the instruction itself tells
                continue
            if prepare is not None:
                staying[line.inputs[-1], prepare] = None
    return list(staying)


def _ops(loop: Instruction) -> Iterator[tuple[Instruction, Node]]:
    """All instructions in a loop that run an op with several operands."""
    blocks: list[Sequence[Instruction]] = [block.lines for block in loop.blocks]
    while blocks:
        for line in blocks.pop():
            blocks += [block.lines for block in line.blocks]
            node = line.single
            if node is not None and len(line.inputs) > 1 and not is_number(node.op):
                yield line, node
