"""The text of regions as functions: one call of a native kernel.

For an update of plain momentum it is::

    def region_4(r5, r6):
        if not (r5.flags.c_contiguous): return quietly_6(plain_5, r5, r6)
        with lock_1, lock_2:
            n0 = variable_1.writable()
            o0 = variable_1._data
            if n0 is None: n0 = empty_like(o0)
            ...
            kernel_3(o0, r5, r6, o1, out=(n0, n1))
            if n0 is not o0: variable_1._data = n0
            ...
        return ()
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np
from ml_dtypes import bfloat16

from eagerflow.graph.passes.rewrite import may_be_large
from eagerflow.hardware.float_warnings import quietly, row_by_row
from eagerflow.resources.variable import VariableState, in_order
from eagerflow.runtime.generated.buffer_reuse import if_alone
from eagerflow.runtime.generated.expressions import Expressions
from eagerflow.runtime.generated.instructions import Instruction
from eagerflow.types import TensorType
from eagerflow_kernels.portable.shape import framed

if TYPE_CHECKING:
    from eagerflow.compilation.native_region_loops import Kernel, KernelArgument, KernelResult
    from eagerflow.compilation.native_regions import Region
    from eagerflow_kernels.native.fusion import NativeRegion

#: offsets in the memory of a control (`eagerflow_kernels.native.control`, which few programs load)
FLAG: Final = 40
BEGIN: Final = 48
#: the dtype of arrays of each kind
_DTYPES = {
    "f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "bool": np.bool_,
    "f16": np.float16, "bf16": bfloat16,
}  # fmt: skip


def lies_by_rows(x: np.ndarray[Any, Any]) -> bool:
    """Whether strides decrease from axis to axis, as in a part of an array that lies by rows.

    On such arrays NumPy gives the results of ops, and of kernels, by rows.

    >>> x = np.zeros((4, 4))
    >>> lies_by_rows(x[1:, 1:-1]), lies_by_rows(x.T), lies_by_rows(x[::-1])
    (True, False, False)
    """
    if x.ndim == 2 and 1 not in x.shape:
        whole, step = x.strides
        return bool(whole > step > 0)
    before = sys.maxsize
    for size, step in zip(x.shape, x.strides, strict=True):
        if size != 1:
            if not 0 < step < before:
                return False
            before = step
    return True


def are_rows_of(places: np.ndarray[Any, Any], table: np.ndarray[Any, Any]) -> bool:
    """Whether all ``places`` are numbers of rows of the table; negative ones are not.

    >>> are_rows_of(np.array([0, 2]), np.zeros((3, 5))), are_rows_of(np.array([-1]), np.zeros(3))
    (True, False)
    """
    if places.size == 0:
        return True
    unsigned = places.view(f"u{places.itemsize}")  # in which negative numbers are large
    return int(unsigned.max()) < len(table)


def _lies_as(one: object, other: TensorType) -> bool:
    """Whether values of two types have the same dtype and shape; sizes are compared by name."""
    if not isinstance(one, TensorType) or one.dtype is not other.dtype:
        return False
    return list(map(str, one.shape)) == list(map(str, other.shape))


@final
class RegionText:
    """Writes the function of one region.

    Args:
        region: the region.
        native: its kernel, ready to be called.
        expressions: the expressions of the program.

    Attributes:
        lines: of the text, each with the index of the instruction that it belongs to, or -1.
        inputs: the registers that the function takes: the arrays of the kernel, then sizes, which
            are only needed op by op.
        outputs: the registers that it returns.
    """

    def __init__(
        self, region: Region[Instruction], native: NativeRegion, expressions: Expressions
    ) -> None:
        self.kernel: Kernel = region.kernel
        self.native = native
        self.expressions = expressions
        self.index = region.lines[0].index
        self.lines: list[tuple[str, int]] = []
        constants = expressions.program.constants
        sources = [a.source for a in self.kernel.arguments if isinstance(a.source, int)]
        #: the registers of the arrays that the kernel gets
        self.arrays = [r for r in dict.fromkeys(sources) if r not in constants]
        sizes = [r for line in region.lines for r in line.sizes.values()]
        self.inputs = [*dict.fromkeys([*self.arrays, *sizes])]
        self.outputs = [result.register for _, result in self.kernel.results_read]
        self.states = in_order(self.kernel.states)
        self.dying: Collection[int] = ()

    def write_alone(self, name: str) -> None:
        """Write a function that calls the kernel without side effects.

        It takes the values of the variables, then the arrays of the kernel; it returns all results.
        """
        held = [f"o{i}" for i in range(len(self.states))]
        self.add(f"def {name}({', '.join([*held, *[f'r{r}' for r in self.arrays]])}):")
        self.call(" ")
        results = [
            f"y{place}"
            if result.register < 0
            else self.taken((place - result.part[0], result), alone=True)
            for place, result in enumerate(self.kernel.results)
        ]
        self.add(f" return {self.expressions.tuple(results)}")

    def write_compared(
        self, name: str, plain: str, outputs: Sequence[int], compare: Callable[..., None]
    ) -> None:
        """Write the function so that it runs op by op, and compares the kernel with that.

        Args:
            name: its name.
            plain: the name of a function that does the same op by op.
            outputs: the registers that ``plain`` returns.
            compare: see `eagerflow.runtime.generated.tier_comparison.TierComparison.of`.
        """
        expressions, alone = self.expressions, self.expressions.new("alone")
        self.write_alone(alone)
        arguments = ", ".join(f"r{r}" for r in self.inputs)
        self.add(f"def {name}({arguments}):")
        locks = [expressions.bound(v.lock, "lock") for v in self.states]
        if locks:
            self.add(f" with {', '.join(locks)}:")
        indent = "  " if locks else " "
        states = [expressions.bound(variable, "variable") for variable in self.states]
        given = [f"{state}._data" for state in states] + [f"r{r}" for r in self.arrays]
        self.add(f"{indent}given = {expressions.tuple(given)}")
        self.add(f"{indent}results = {alone}(*given) if {self.fitting() or 'True'} else ()")
        ops = [f"p{r}" for r in outputs]
        self.add(f"{indent}{expressions.tuple(ops)} = {plain}({arguments})")
        held = expressions.tuple([f"{state}._data" for state in states])
        function = expressions.bound(compare, "compare")
        self.add(f"{indent}{function}(given, results, {expressions.tuple(ops)}, {held})")
        self.add(f" return {expressions.tuple([f'p{r}' for r in self.outputs])}")

    def fitting(self) -> str:
        """The condition that arrays lie as the kernel needs them; empty for always."""
        fit = [f"{self.operand(r)}.flags.c_contiguous" for r in self.kernel.by_rows]
        if self.kernel.layout is None or self.kernel.layout[0] == "rows":  # parts of arrays, too
            ordered = self.expressions.bound(lies_by_rows, "lies_by_rows")
            values = map(self.operand, self.kernel.by_rows)
            fit = [f"({c} or {ordered}({x}))" for c, x in zip(fit, values, strict=True)]
        fit += [f"{self.operand(r)}.size" for r in self.kernel.filled]
        for argument in self.kernel.arguments:
            if argument.form == "table" and isinstance(argument.source, int):
                there = self.expressions.bound(are_rows_of, "are_rows_of")
                places, table = self.operand(argument.places), self.operand(argument.source)
                fit.append(f"{there}({places}, {table})")
        return " and ".join(fit)

    def write(self, name: str, plain: str, dying: Collection[int] = ()) -> None:
        """Write the function.

        Args:
            name: its name.
            plain: the name of a function that does the same op by op, for arrays that lie in
                another order than by rows: results would, too.
            dying: the inputs that nothing reads afterwards: it may write into them.
        """
        self.dying = dying
        arguments = ", ".join(f"r{r}" for r in self.inputs)
        self.add(f"def {name}({arguments}):")
        fit = self.fitting()
        call = self.expressions.bound(quietly, "quietly")
        op_by_op = f"return {call}({', '.join([plain, *[f'r{r}' for r in self.inputs]])})"
        if fit:
            self.add(f" if not ({fit}): {op_by_op}")
        indent = " "
        if self.states:
            locks = ", ".join(self.expressions.bound(v.lock, "lock") for v in self.states)
            self.add(f" with {locks}:")
            indent = "  "
        self.open(indent)
        # a kernel itself never fails, but its call may, without memory for results or with sizes
        # that do not fit; running op by op then finds the node
        self.call(indent, otherwise=op_by_op)
        self.close(indent)
        self.add(f" return {self.expressions.tuple(map(self.taken, self.kernel.results_read))}")

    def add(self, text: str, index: int = -1) -> None:
        self.lines.append((text, index))

    def operand(self, register: int) -> str:
        return self.expressions.operand(register)

    # --- variables ---

    def open(self, indent: str) -> None:
        """Write the loads of variables, and the memory for their new values."""
        for i, variable in enumerate(self.states):
            name = self.expressions.bound(variable, "variable")
            if not self.kernel.states[variable]:
                self.add(f"{indent}o{i} = {name}._data")
                continue
            empty = self.expressions.bound(np.empty_like, "empty_like")
            self.add(f"{indent}n{i} = {name}.writable()")
            self.add(f"{indent}o{i} = {name}._data")
            self.add(f"{indent}if n{i} is None: n{i} = {empty}(o{i})")

    def close(self, indent: str) -> None:
        for i, variable in enumerate(self.states):
            if self.kernel.states[variable]:
                name = self.expressions.bound(variable, "variable")
                self.add(f"{indent}if n{i} is not o{i}: {name}._data = n{i}")

    # --- the call ---

    def call(self, indent: str, otherwise: str = "") -> None:
        """Write the call, with the arrays that it writes into.

        Args:
            indent: of its lines.
            otherwise: the statement to run if it fails. If empty, the call writes into new arrays
                only, and its errors propagate.
        """
        alone = not otherwise
        results = self.kernel.results
        arguments = [self.argument(a) for a in self.kernel.arguments]
        places = []
        into_inputs = {} if alone else self.results_in_inputs()
        for i, result in enumerate(results):
            if i in into_inputs:
                spare = self.expressions.bound(if_alone, "if_alone")
                self.add(f"{indent}y{i} = {spare}(r{into_inputs[i]})", self.index)
                places.append(f"y{i}")
            elif result.form == "columns":
                empty = self.expressions.bound(np.empty, "empty")
                dtype = self.expressions.bound(np.dtype(_DTYPES[result.kind]), "dtype")
                shape = f"{self.operand(self.kernel.whole)}.shape"
                self.add(f"{indent}y{i} = {empty}({shape}, {dtype})", self.index)
                places.append(self.by_columns(f"y{i}"))
            elif result.frame is not None:
                new = self.expressions.bound(partial(framed, np, **result.frame), "framed")
                dtype = self.expressions.bound(np.dtype(_DTYPES[result.kind]), "dtype")
                shape = f"{self.operand(self.kernel.whole)}.shape"
                self.add(f"{indent}y{i}, p{i} = {new}({shape}, {dtype})", self.index)
                places.append(f"p{i}")
            elif result.form == "part":
                places.append(self.part(i, result, indent))
            else:
                into = None if alone or result.state is None else self.new(result.state)
                places.append(str(into))
        if set(places) != {"None"}:
            arguments.append(f"out=({', '.join(places)}, )")
        function = self.expressions.bound(self.native.function, "kernel")
        control = self.native.control
        assert control is not None
        memory = self.expressions.bound(control.memory, "control")
        self.add(f"{indent}{memory}[{BEGIN}] = 1", self.index)
        made = [
            f"y{i}"
            if (alone or result.state is None) and result.form not in ("columns", "frame", "part")
            else "_"
            for i, result in enumerate(results)
        ]
        targets = f"{', '.join(made)} = " if set(made) != {"_"} else ""
        if self.kernel.takes_parts:
            arguments.insert(0, function)
            function = self.expressions.bound(row_by_row, "row_by_row")
        text = f"{targets}{function}({', '.join(arguments)})"
        self.add(f"{indent}{text}" if alone else f"{indent}try: {text}", self.index)
        if otherwise:
            self.add(f"{indent}except (ValueError, MemoryError): {otherwise}")
        if control.can_end:
            end = self.expressions.bound(control.end, "end")
            self.add(f"{indent}if {memory}[{FLAG}]: {end}()", self.index)

    def part(self, place: int, result: KernelResult, indent: str) -> str:
        """A part of a new array, which is made with the first one."""
        number, count = result.part
        whole = f"y{place - number}"
        kind = self.expressions.program.kinds[result.register]
        assert kind is not None
        total = kind.shape[-1]
        assert isinstance(total, int)
        if not number:
            new = self.expressions.bound(np.empty, "empty")
            dtype = self.expressions.bound(np.dtype(_DTYPES[result.kind]), "dtype")
            shape = f"{self.operand(self.kernel.whole)}.shape[:-1] + ({total},)"
            self.add(f"{indent}{whole} = {new}({shape}, {dtype})", self.index)
        size = total // count
        return f"{whole}[..., {number * size}:{(number + 1) * size}]"

    def results_in_inputs(self) -> dict[int, int]:
        """The results, by place, that may overwrite an input that nothing reads any more.

        Only in regions of single elements, where each is read before its place is written.
        """
        kinds, buffers = self.expressions.program.kinds, dict[int, int]()
        if self.kernel.layout is not None:
            return buffers
        left = [r for r in self.arrays if r in self.dying]
        for place, result in self.kernel.results_read:
            kind = kinds[result.register]
            if result.state is not None or not isinstance(kind, TensorType):
                continue
            if not may_be_large(kind):
                continue
            fitting = next((r for r in left if _lies_as(kinds[r], kind)), None)
            if fitting is not None:
                buffers[place] = fitting
                left.remove(fitting)
        return buffers

    def argument(self, argument: KernelArgument) -> str:
        """The expression of an argument of the kernel."""
        if isinstance(argument.source, VariableState):
            return f"o{self.states.index(argument.source)}"
        name = self.operand(argument.source)
        kind = self.expressions.program.kinds[argument.source]
        assert kind is not None
        ndim, layout = len(kind.shape), self.kernel.layout
        if argument.form == "whole" or layout is None:
            return name
        if argument.form == "columns":
            return self.by_columns(name)
        count = layout[1]
        if argument.form == "table":
            return f"{name}.T" if ndim == 2 else f"{name}.reshape(len({name}), -1).T"
        if argument.form == "flat":
            return (
                f"{name}.reshape(-1)"
                if ndim == count
                else (f"{name}.reshape({name}.shape[:{-count}] + (-1,))")
            )
        return self.by_row(argument, name, ndim)

    def by_row(self, argument: KernelArgument, name: str, ndim: int) -> str:
        """The expression of an array with one element for each row."""
        layout = self.kernel.layout
        assert layout is not None
        if ndim == 0:
            return name
        if layout[0] == "columns":
            return name if ndim == 1 else f"{name}.reshape(-1)"
        if not argument.keeps:
            return name
        return (
            f"{name}.reshape({name}.shape[:{-layout[1]}])"
            if ndim > layout[1]
            else (f"{name}.reshape(())")
        )

    def by_columns(self, name: str) -> str:
        assert self.kernel.layout is not None
        if self.kernel.layout[1] == 1:
            return f"{name}.T"
        return f"{name}.reshape(-1, {name}.shape[-1]).T"

    def new(self, state: VariableState) -> str:
        return f"n{self.states.index(state)}"

    def taken(self, place: tuple[int, KernelResult], *, alone: bool = False) -> str:
        """A result as ops would give it; for a variable a view, so that its array is not reused."""
        i, result = place
        kind = self.expressions.program.kinds[result.register]
        assert kind is not None
        if result.state is not None and not alone:
            return f"{self.new(result.state)}[...]"
        if not kind.shape:
            return f"{self.expressions.bound(np.asarray, 'asarray')}(y{i})"
        layout = self.kernel.layout
        if layout is None or result.form in ("whole", "columns", "frame", "part"):
            return f"y{i}"
        if result.form == "flat":
            return f"y{i}.reshape({self.operand(self.kernel.whole)}.shape)"
        if not result.keeps:
            return f"y{i}"
        ones = "1, " * layout[1]
        if layout[0] == "columns":
            return f"y{i}.reshape({ones}-1)"
        return f"y{i}.reshape(y{i}.shape + ({ones}))"
