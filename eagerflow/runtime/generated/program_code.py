"""The code of a program: its function, its text, and the instruction behind each line."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, final

from eagerflow.graph.ir import Node
from eagerflow.graph.signatures import is_loop
from eagerflow.runtime.generated.instructions import Instruction, Instructions
from eagerflow.source import variables_of

if TYPE_CHECKING:
    from eagerflow_kernels.native.fusion import NativeRegion


class FusedCall(NamedTuple):
    """A call that runs several instructions: a chain, or a kernel of regions.

    Attributes:
        kernel: the name of the kernel; empty for a chain.
        members: the indices of the instructions, in order.
        outputs: the registers that it sets.
    """

    kernel: str
    members: tuple[int, ...]
    outputs: tuple[int, ...]


@final
@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """A program as Python code, as `codegen.py` writes it.

    Attributes:
        run: the program as a function of the values of its inputs; returns a tuple.
        text: its source.
        program: the instructions that it was made of.
        file: the file name of its code objects.
        lines: for each line of the text the index of the instruction that it belongs to, or -1.
        calls: the chains and the kernels that it calls, by the index of their last instruction.
        chains: the members of each of these calls, likewise.
        kernels: the kernels of regions, by the names of the functions that call them.
        quiet: whether it raises no floating-point warning, as it calls only kernels of regions.
    """

    run: Callable[..., tuple[Any, ...]]
    text: str
    program: Instructions
    file: str
    lines: Sequence[int]
    calls: Mapping[int, FusedCall]
    chains: Mapping[int, tuple[int, ...]]
    kernels: Mapping[str, NativeRegion]
    quiet: bool

    def loops(self, index: int, frames: Iterable[FrameType]) -> list[tuple[Instruction, Node, int]]:
        """The loops around an instruction, itself included, innermost first, with the iteration.

        Args:
            index: of the instruction.
            frames: of a run of this code at the instruction, the innermost first.
        """
        around = [self.program.all[index], *[one for one, _ in self.program.around[index][::-1]]]
        loops = [(one, one.node) for one in around if one.node and is_loop(one.node.op)]
        variables = ChainMap(*map(variables_of, frames)) if loops else {}
        known = [(loop, node, variables.get(f"k{loop.index}")) for loop, node in loops]
        return [(loop, node, number) for loop, node, number in known if number is not None]
