"""The text of joint calls, which run several regions, such as the updates of all parameters.

For two parameters with plain momentum it is::

    def held_8(r5, r6, r7):
        with lock_1, lock_2, lock_3, lock_4:
            control_5[48] = 1
            if run_6([variable_1._data, r5, r7, ..., variable_3._data, r6, r7, ...]): return ()

    def updates_7(r5, r6, r7):
        made = held_8(r5, r6, r7)
        if made is not None: return made
        region_1(r5, r7)
        region_2(r6, r7)
        return ()

It writes in place. Where the array of a variable has other holders, or an array does not lie by
rows, each region runs by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, final

from eagerflow.resources.variable import VariableState, in_order
from eagerflow.runtime.generated.expressions import Expressions
from eagerflow.runtime.generated.native_region_text import BEGIN, RegionText
from eagerflow.types import TensorType

#: number of nested context managers in one function, of which Python allows 20
_NESTED: Final = 16


@final
class JointRegionText:
    """Writes the function of a joint call.

    Args:
        regions: the texts of the regions, all of one kernel.
        expressions: the expressions of the program.

    Attributes:
        lines: of the text, each with the index of the instruction that it belongs to, or -1.
        inputs: the registers that the function takes.
        outputs: the registers that it returns.
        fits: whether a joint call can run these regions.
        caller: the name of the function that makes the call, once it is written.
    """

    def __init__(self, regions: Sequence[RegionText], expressions: Expressions) -> None:
        self.regions, self.expressions = regions, expressions
        self.lines: list[tuple[str, int]] = []
        self.inputs = [*dict.fromkeys(r for one in regions for r in one.inputs)]
        self.outputs = [r for one in regions for r in one.outputs]
        self._calls = import_module("eagerflow_kernels.native.joint_calls")
        self._sets = [_operands(one, self._calls.JointOperand) for one in regions]
        states = Counter(state for one in regions for state in one.states)
        assigned = [s for one in regions for s, writes in one.kernel.states.items() if writes]
        #: whether no region reads or assigns a variable that another assigns, so order is free
        apart = all(states[state] == 1 for state in assigned)
        self.fits = apart and None not in self._sets and self._calls.is_possible()
        self.states = in_order(states)
        self.caller = ""

    def write(self, name: str, alone: Sequence[str]) -> None:
        """Write the function.

        Args:
            name: its name.
            alone: the names of the functions that run the regions one by one.
        """
        given = ", ".join([f"r{r}" for r in self.inputs])
        held = self._write_held(given)
        self._add(f"def {name}({given}):")
        self._add(f" made = {held}({given})", self.regions[0].index)
        self._add(" if made is not None: return made")
        for one, function in zip(self.regions, alone, strict=True):
            targets = "".join(f"r{r}, " for r in one.outputs)
            call = f"{function}({', '.join([f'r{r}' for r in one.inputs])})"
            self._add(f" {targets}= {call}" if targets else f" {call}", one.index)
        self._add(f" return {self.expressions.tuple([f'r{r}' for r in self.outputs])}")

    def _write_held(self, given: str) -> str:
        """Write nested functions that hold all locks and make the call; returns the outer name."""
        expressions, first = self.expressions, self.regions[0]
        control = first.native.control
        assert control is not None
        begin = f"{expressions.bound(control.memory, 'control')}[{BEGIN}] = 1"
        run = expressions.bound(self._calls.JointCall(first.native, self._sets).run, "run")
        arrays = ", ".join([x for one in self.regions for x in self._arrays(one)])
        results = [f"{self._data(s)}[...]" for one in self.regions for s in _given(one)]
        inner = [begin, f"if {run}([{arrays}]): return {expressions.tuple(results)}"]
        locks = [expressions.bound(state.lock, "lock") for state in self.states]
        name = self.caller = expressions.new("held")
        while True:
            some, locks = locks[-_NESTED:], locks[:-_NESTED]
            self._add(f"def {name}({given}):")
            self._add(f" with {', '.join(some)}:")
            for line in inner:
                self._add(f"  {line}", first.index)
            if not locks:
                return name
            inner, name = [f"return {name}({given})"], expressions.new("held")

    def _add(self, text: str, index: int = -1) -> None:
        self.lines.append((text, index))

    def _data(self, state: VariableState) -> str:
        return f"{self.expressions.bound(state, 'variable')}._data"

    def _arrays(self, region: RegionText) -> list[str]:
        """Expressions for the arrays that the kernel reads and writes."""
        read = [
            self._data(a.source)
            if isinstance(a.source, VariableState)
            else region.operand(a.source)
            for a in region.kernel.arguments
        ]
        return read + [self._data(r.state) for r in region.kernel.results if r.state is not None]


def _given(region: RegionText) -> list[VariableState]:
    """The variables whose new values are among the results that later instructions read."""
    return [r.state for _, r in region.kernel.results_read if r.state is not None]


def _operands(region: RegionText, make: Any) -> list[Any] | None:
    """Descriptions of the arrays of a region; None if it cannot be in a joint call."""
    kernel, kinds = region.kernel, region.expressions.program.kinds
    read = {argument.source for argument in kernel.arguments}
    whole = {r.state.shape for r in kernel.results if r.state is not None}
    if len(whole) != 1:
        return None
    (shape,) = whole
    arrays = []
    for argument in kernel.arguments:
        source = argument.source
        if isinstance(source, VariableState):
            given, times = source.shape, 2 * kernel.states[source]  # it is a result, too
        else:
            kind = kinds[source]
            assert isinstance(kind, TensorType)
            given, times = kind.shape, 0
        size = _size(given)
        if size != 1 and list(map(str, given)) != list(map(str, shape)):
            return None
        arrays.append(make(size, times))
    return arrays + [make(_size(shape), 1 + (r.state in read)) for r in kernel.results]


def _size(shape: tuple[Any, ...]) -> int:
    """Number of elements of a shape; 0 if it is not known."""
    size = 1
    for n in shape:
        size *= n if type(n) is int else 0
    return size
