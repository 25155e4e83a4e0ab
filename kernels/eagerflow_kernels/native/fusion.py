"""Fusion of several ops into one call.

The loops of a *region* are written by the rules of its ops, one after the other. So the results
have the bits of the single ops; fusion saves memory traffic and calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final
from weakref import WeakValueDictionary

import numpy as np
from ml_dtypes import bfloat16

from eagerflow_kernels.native.callable_ops import entry_of, pool
from eagerflow_kernels.native.constant_folding import fold_constants
from eagerflow_kernels.native.control import Control
from eagerflow_kernels.native.loop_form import Kind, LoopArray, LoopBuilder, Loops, weight_of
from eagerflow_kernels.native.op_rules import apply_op
from eagerflow_kernels.native.processors import TargetName
from eagerflow_kernels.native.ufuncs import ufunc_of


@final
@dataclass(frozen=True, slots=True)
class FusedNode:
    """An op of a region.

    Attributes:
        op: a name of `op_rules.OPS`. An op along an axis runs along the inner axis; a reduction
            gives one value per row, which all elements of the row share.
        inputs: numbers of values: the region's inputs first, then its constants, then the results
            of each node.
        attributes: arguments of the rule of the op.
        rounds: the low kind of its results, to which float32 is rounded.
    """

    op: str
    inputs: tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    rounds: Kind | None = None


def fuse(
    name: str, inputs: Sequence[LoopArray], nodes: Sequence[FusedNode], outputs: Sequence[int],
    checks: Sequence[int] = (), constants: Sequence[tuple[Kind, int]] = (),
    inner: list[bool] | None = None,
) -> Loops:  # fmt: skip
    """The loops of a region.

    Args:
        name: of the region.
        inputs: its arrays.
        nodes: its ops, in order.
        outputs: numbers of the values that it gives.
        checks: bool values that must hold for all elements. With checks there is one more output,
            i32: 0, or the number, from 1, of the last check that failed.
        constants: numbers that are the same in each call, by their bits.
        inner: for each output, whether it has the inner axis; as the values have it if None.

    >>> from eagerflow_kernels.native.loop_form import LoopArray
    >>> from eagerflow_kernels.native.loop_text import show
    >>> x = LoopArray("f32", inner=True)
    >>> nodes = [FusedNode("mean", (0,)), FusedNode("subtract", (0, 1))]
    >>> print(show(fuse("center", [x], nodes, [2])))
    loops center(f32[n]) -> f32[n]:
      %0 = load 0: f32[n]
      %1 = sum %0: f32
      %2 = size: f32
      %3 = divide %1 %2: f32
      %4 = subtract %0 %3: f32[n]
      return %4
    """
    b = LoopBuilder(list(inputs))
    values = [b.load(i) for i in range(len(inputs))]
    values += [b.bit_pattern(bits, kind) for kind, bits in constants]
    for node in nodes:
        given = [values[x] for x in node.inputs]
        values += apply_op(b, node.op, given, node.attributes, node.rounds)
    results = [values[x] for x in outputs]
    if checks:
        results.append(_status(b, [values[x] for x in checks], any(a.inner for a in inputs)))
    return fold_constants(b.build(name, results, inner))


def _status(b: LoopBuilder, checks: list[int], inner: bool) -> int:
    """The number of the last check that failed, by row; 0 if none failed."""
    status = b.constant(0, "i32")
    for number, check in enumerate(checks, 1):
        failed = b.apply("select", check, b.constant(0, "i32"), b.constant(number, "i32"))
        if inner and b.terms[failed].inner:
            failed = b.reduce("max", failed)
        status = b.apply("maximum", status, failed)
    return status


@final
class NativeRegion:
    """A fused region, ready to be called.

    Attributes:
        loops: the computation.
        keep: whether machine code is kept on disk.
        ufunc: the function of NumPy; it takes arrays of bfloat16 as int16.
        entry: its machine code.
        function: a function like ``ufunc``, for arrays of all dtypes.
        control: the control by which the kernel is ended and counts its work; None for none.
        checked: whether the last result is the status of checks.

    >>> from eagerflow_kernels.native.loop_form import LoopArray
    >>> nodes = [FusedNode("multiply", (0, 0)), FusedNode("add", (1, 2))]
    >>> loops = fuse("norm", [LoopArray("f32"), LoopArray("f32")], nodes[:1], [2])
    >>> loops.outputs
    (LoopArray(kind='f32', inner=False, table=False, shared=False),)
    """

    __slots__ = ("__weakref__", "checked", "control", "entry", "function", "loops", "ufunc")

    def __init__(
        self, loops: Loops, checked: bool = False, target: TargetName | None = None,
        *, keep: bool = False, control: Control | None = None,
    ) -> None:  # fmt: skip
        self.loops, self.checked, self.control = loops, checked, control
        self.entry = entry_of(loops, target, keep=keep, control=control)
        self.ufunc = ufunc_of(loops.signature, self.entry.address, self.entry.kept, self.entry.data)
        low = any(a.kind == "bf16" for a in (*loops.inputs, *loops.outputs))
        self.function: Callable[..., Any] = _of_bfloat16(self) if low else self.ufunc

    @staticmethod
    def of(loops: Loops, ask: Callable[[], object] | None = None) -> NativeRegion:
        """The region of loops, shared as long as a reference to it lives; its code is kept on disk.

        Args:
            loops: the computation.
            ask: see `native.control.Control`.
        """
        key = loops.name, ask
        region = _regions.get(key)
        if region is None or region.loops != loops:
            control = Control(pool(), ask)
            region = _regions[key] = NativeRegion(loops, keep=True, control=control)
        return region

    @property
    def weight(self) -> int:
        """The work counted for an element (see `native.control`)."""
        return weight_of(self.loops)

    def __call__(self, *arrays: Any) -> Any:
        """The results, as `function` gives them; without the status of checks.

        Args:
            arrays: of the kinds of the inputs; the inner axis is their last one.

        Raises:
            FailedCheckError: an element failed a check.
        """
        results = self.function(*arrays)
        if not self.checked:
            return results
        *values, status = results if isinstance(results, tuple) else (results,)
        worst = int(np.max(status, initial=0))
        if worst:
            raise FailedCheckError(
                worst, tuple(int(i) for i in np.argwhere(np.equal(status, worst))[0])
            )
        return values[0] if len(values) == 1 else tuple(values)


def _of_bfloat16(region: NativeRegion) -> Callable[..., Any]:
    """The function of a region with arrays of bfloat16, which no function of NumPy takes."""
    ufunc = region.ufunc  # not the region, which would then never be freed
    takes = tuple(i for i, a in enumerate(region.loops.inputs) if a.kind == "bf16")
    gives = tuple(i for i, a in enumerate(region.loops.outputs) if a.kind == "bf16")
    alone = len(region.loops.outputs) == 1

    def function(*arrays: Any, out: tuple[Any, ...] | None = None) -> Any:
        given = list(arrays)
        for i in takes:
            given[i] = np.asarray(given[i]).view(np.int16)
        if out is None:
            made = ufunc(*given)
        else:
            places = enumerate(out)
            made = ufunc(*given, out=tuple([
                x if x is None or i not in gives else x.view(np.int16) for i, x in places
            ]))  # fmt: skip
        results = [made] if alone else list(made)
        for i in gives:
            results[i] = np.asarray(results[i]).view(bfloat16)
        return results[0] if alone else tuple(results)

    return function


_regions: Final[WeakValueDictionary[tuple[str, object], NativeRegion]] = WeakValueDictionary()


@final
class FailedCheckError(ValueError):
    """An element of an input of a region outside the domain of its ops.

    Attributes:
        check: the number of the check, from 1.
        place: the index of the first row that failed it.
    """

    def __init__(self, check: int, place: tuple[int, ...]) -> None:
        super().__init__(f"check {check} failed at {place}")
        self.check, self.place = check, place
