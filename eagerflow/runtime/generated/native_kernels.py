"""The native kernels of one program: its compiled regions, and their functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, final

from eagerflow.core.kernel_lookup import in_float32
from eagerflow.core.op import Op, get_op
from eagerflow.dims import resolving
from eagerflow.events import check_stopped
from eagerflow.graph.ir import Node
from eagerflow.hardware.kernel_library import is_native_form, native_form
from eagerflow.runtime.generated.expressions import Expressions, is_own
from eagerflow.runtime.generated.instructions import Instruction, Instructions

if TYPE_CHECKING:
    from eagerflow.compilation.native_region_loops import Kernel
    from eagerflow.compilation.native_regions import JointRegions, KernelPlan, Region
    from eagerflow_kernels.native.fusion import NativeRegion


@final
class NativeProgram:
    """Regions of a program with their kernels.

    Args:
        program: the instructions.

    Attributes:
        kernels: the kernels of all regions, each with its instructions, in order.
        alone: the nodes that are in no region, each with the reason.
    """

    __slots__ = ("_functions", "_plans", "alone", "kernels")

    def __init__(self, program: Instructions) -> None:
        expressions = Expressions(program, None)

        def owns(line: Instruction) -> bool:
            node = line.single
            assert node is not None
            op = get_op(node.op)
            dtypes = tuple(kind.dtype.name for kind in program.types(line))
            return _is_of_library(op, dtypes, expressions.entry(op, line, node)[0].kernel)

        self._plans: dict[int, KernelPlan[Instruction]] = {}
        self.kernels: list[tuple[Kernel, tuple[Instruction, ...]]] = []
        self.alone: list[tuple[Node, str]] = []
        resolving(None).run(lambda: self._plan(program, owns))
        region_of = import_module("eagerflow_kernels.native.fusion").NativeRegion.of
        self._functions: Mapping[Any, Any] = {
            # kernels that write variables do not stop, as half an update is no valid state
            x: region_of(x.loops, None if any(x.states.values()) else check_stopped)
            for x, _ in self.kernels
        }

    def _plan(self, program: Instructions, owns: Callable[[Instruction], bool]) -> None:
        for lines, outputs in _blocks(program.lines, program.outputs):
            plan = _compile().plan_of(program, lines, outputs, owns)
            self._plans[id(lines)] = plan
            self.kernels += [(x.kernel, x.lines) for x in plan.regions]
            singles = ((lines[i].single, why) for i, why in plan.alone.items())
            self.alone += [(node, why) for node, why in singles if node is not None]

    def units(
        self, lines: Sequence[Instruction]
    ) -> Sequence[JointRegions[Instruction] | Region[Instruction] | Instruction]:
        """The regions and other instructions of a block, in an order in which they can run."""
        plan = self._plans.get(id(lines))
        return [*lines] if plan is None else plan.units

    def nodes(self) -> dict[Kernel, list[list[str]]]:
        """By kernel, the names of the nodes of each region that it runs."""
        first: dict[str, Kernel] = {}
        result: dict[Kernel, list[list[str]]] = {}
        for kernel, lines in self.kernels:
            names = [f"%{line.node.name}" for line in lines if line.node is not None]
            result.setdefault(first.setdefault(kernel.name, kernel), []).append(names)
        return result

    def native_region(self, kernel: Kernel) -> NativeRegion:
        """The callable form of a kernel."""
        region: NativeRegion = self._functions[kernel]
        return region


def _blocks(
    lines: list[Instruction], outputs: Iterable[int]
) -> Iterator[tuple[list[Instruction], Iterable[int]]]:
    """The instruction lists of a program and of all its blocks, each with its outputs."""
    yield lines, outputs
    for line in lines:
        for block in line.blocks:
            yield from _blocks(block.lines, block.outputs)


def _is_of_library(op: Op, dtypes: tuple[str, ...], kernel: Callable[..., Any]) -> bool:
    """Whether a kernel comes with eagerflow, native or not."""
    wide = in_float32(kernel)
    if wide is not None:
        return _is_of_library(op, ("float32",) * len(dtypes), wide)
    if is_native_form(op.name, kernel):
        return True
    if native_form(op.name, dtypes) is not None:
        return False  # a user has registered another kernel in place of the native one
    if is_own(op, kernel):
        return True
    function = kernel.func if isinstance(kernel, partial) else kernel
    return str(getattr(function, "__module__", "")).startswith("eagerflow_kernels.")


@cache
def _compile() -> Any:
    """The module that finds regions, loaded late with native kernels: few programs need it."""
    return import_module("eagerflow.compilation.native_regions")
