"""Comparison of native kernels with the ops that they replace, for ``ef.config(verify=True)``.

Each region runs as its kernel, into memory of its own, and then op by op; the step goes on with
the results of the ops. Where a bit differs, kernels that return intermediate values find the first
node that differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from eagerflow.core.monitors import check_types
from eagerflow.core.op import get_op
from eagerflow.dims import resolving
from eagerflow.error_messages import note_place
from eagerflow.errors import KernelError, relocate
from eagerflow.graph.ir import Node
from eagerflow.graph.text.printer import node_note
from eagerflow.runtime.generated.expressions import Expressions
from eagerflow.runtime.generated.instructions import Instruction, Instructions, has_dims
from eagerflow.runtime.generated.native_region_text import RegionText
from eagerflow.types import LIST, TensorSpec, TensorType

if TYPE_CHECKING:
    from eagerflow.compilation.native_region_loops import Kernel
    from eagerflow.compilation.native_regions import Region

#: intermediate values that one kernel returns; functions of NumPy take 64 arrays
_AT_ONCE: Final = 16

Arrays = Sequence[np.ndarray[Any, Any]]


@final
class TierComparison:
    """Compares the results of a program's kernels with those of its ops.

    Args:
        program: the instructions.
    """

    __slots__ = ("_program",)

    def __init__(self, program: Instructions) -> None:
        self._program = program

    def check(self, index: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Raise if results of an op are not of the types that its type rule gives.

        Args:
            index: of its instruction.
            inputs: its operands.
            outputs: its results.

        Raises:
            KernelError: a result has another type.
        """
        line = self._program.all[index]
        node = line.node
        assert node is not None
        if any(map(has_dims, node.attrs.values())):
            return
        takes, gives = self._specs(line.inputs, inputs), self._specs(line.outputs, outputs)
        if takes is not None and gives is not None:
            check_types(get_op(node.op), takes, node.attrs, gives)

    def _specs(self, registers: Sequence[int], data: Sequence[Any]) -> list[TensorSpec] | None:
        """The specs of values; None if one is no array."""
        specs = []
        for register, x in zip(registers, data, strict=True):
            kind = self._program.kinds[register]
            if not isinstance(kind, TensorType) or kind.dtype is LIST:
                return None
            specs.append(kind.like(shape=tuple(x.shape)).on(self._program.devices[register]))
        return specs

    def of(self, region: Region[Instruction]) -> Callable[..., None]:
        """Return the function that generated code calls after running a region in both ways.

        It takes four tuples: the arguments of the kernel, its results, the results of all
        instructions of the region, and the values of its variables afterwards.
        """
        registers = [r for line in region.lines for r in line.outputs]

        def compare(arguments: Arrays, results: Arrays, ops: Arrays, states: Arrays) -> None:
            given = dict(zip(registers, ops, strict=True))
            kernel = region.kernel
            for place, x in enumerate(results):
                register, state = kernel.results[place].register, kernel.results[place].state
                held = list(kernel.states).index(state) if state is not None else -1
                expected = given[register] if register >= 0 else states[held]
                if not same_bits(x, expected):
                    raise self._difference(region, arguments, given, place, x, expected)

        return compare

    def _difference(
        self, region: Region[Instruction], arguments: Arrays,
        given: dict[int, np.ndarray[Any, Any]], place: int, got: Any, expected: Any,
    ) -> KernelError:  # fmt: skip
        """The error for a result that differs, about the first node that differs."""
        node = _node_of(region, place)
        for register, x in self._between(region, arguments):
            if not same_bits(x, given[register]):
                got, expected = x, given[register]
                node = next(one.node for one in region.lines if register in one.outputs)
                break
        assert node is not None
        where = np.argwhere(~_agreeing(got, expected))[0]
        at = "".join(f"[{', '.join(map(str, where))}]" if len(where) else "")
        error = KernelError(
            f"{node.op}: a native kernel gives other bits than the op alone",
            given=f"{got[tuple(where)]!r} in {region.kernel.name}{at and ' at ' + at}",
            expected=f"{expected[tuple(where)]!r}, which the op alone gives",
            hint="please report it; until it is fixed, @ef.trace(compile='off') runs op by op",
        )
        note_place(relocate(error, node.source), node_note(node))
        return error

    def _between(
        self, region: Region[Instruction], arguments: Arrays
    ) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
        """The results of a region's ops within a kernel, each with its register, in order."""
        for first in range(0, len(region.makes), _AT_ONCE):
            piece = region.makes[first : first + _AT_ONCE]
            kernel = resolving(None).run(partial(region.giving, piece))
            results = dict(self._run(replace(region, kernel=kernel), arguments))
            yield from ((register, results[register]) for register in piece)

    def _run(
        self, region: Region[Instruction], arguments: Arrays
    ) -> Iterator[tuple[int, np.ndarray[Any, Any]]]:
        """The results of a kernel made for this comparison alone, with their registers."""
        kernel: Kernel = region.kernel
        fusion = import_module("eagerflow_kernels.native.fusion")
        expressions = Expressions(self._program, None)
        text = RegionText(region, fusion.NativeRegion.of(kernel.loops), expressions)
        text.write_alone("alone")
        alone = _function_of(text.lines, expressions.names)
        results = alone(*arguments)
        yield from zip((r.register for r in kernel.results), results, strict=True)


def _function_of(lines: Sequence[tuple[str, int]], names: dict[str, Any]) -> Callable[..., Any]:
    """The function compiled from lines of `RegionText`, with these global variables."""
    (code, *_) = compile("\n".join(line for line, _ in lines), "<compared>", "exec").co_consts
    return FunctionType(code, names)


def _node_of(region: Region[Instruction], place: int) -> Node | None:
    """The node that makes a result of a kernel; for a variable the last that changes it."""
    result = region.kernel.results[place]
    for line in reversed(region.lines):
        node = line.node
        if result.register in line.outputs:
            return node
        if result.register < 0 and node and node.attrs.get("resource") is result.state:
            return node
    return region.lines[-1].node


def same_bits(x: Any, y: Any) -> bool:
    """Whether two arrays have the same elements, bit by bit except for the bits of NaNs.

    >>> same_bits(np.float32([0.0, np.nan]), np.float32([0.0, -np.nan]))
    True
    >>> same_bits(np.float32([0.0]), np.float32([-0.0]))
    False
    """
    return bool(x.dtype == y.dtype and x.shape == y.shape and _agreeing(x, y).all())


def _agreeing(x: Any, y: Any) -> Any:
    """A mask of the elements that are the same; all False where shapes or dtypes differ."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return np.zeros(x.shape, bool)
    if x.dtype.kind != "f":
        return x == y
    equal = (x == y) & (np.signbit(x) == np.signbit(y))
    return equal | ((x != x) & (y != y))
