"""Accumulators, which sum values until there are enough."""

from __future__ import annotations

from typing import Any, final

from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import may_equal, unknown
from eagerflow.errors import DTypeError, ShapeError, TensorValueError
from eagerflow.formatting import kind_of
from eagerflow.ops.rules.arguments import DeviceLike
from eagerflow.ops.rules.type_rules import count_type, effect_op
from eagerflow.ops.state.counts_and_timeouts import (
    bind_wait,
    checked_count,
    named,
    timeout_of,
    waiting_op,
)
from eagerflow.ops.state.queue_elements import Elements, check_part, checked, part_of
from eagerflow.resources.accumulator import AccumulatorState
from eagerflow.resources.resources_at_tasks import ResourceAtTask, ResourceRecipe, resource_on
from eagerflow.types import DTYPES, INT64, TensorType
from eagerflow.unknown_names import hint_at

__all__ = ["Accumulator"]

_BOOL = DTYPES["bool"]


def _check_step(step: TensorType) -> None:
    if step.dtype is not INT64 or step.shape:
        raise DTypeError("a step is an int64 without axes", expected="i64[]")


def _add_type(step: TensorType, *parts: TensorType, resource: AccumulatorState) -> TensorType:
    _check_step(step)
    if resource.sparse:
        for kind, indices, rows in zip(resource.types, parts[::2], parts[1::2], strict=True):
            if not indices.dtype.is_integer or len(indices.shape) != 1:
                raise DTypeError("the indices of rows are integers on one axis")
            check_part(rows, kind.like(shape=kind.shape[1:]), 1)
            if not may_equal(rows.shape[0], indices.shape[0]):
                raise ShapeError("there are as many indices as rows")
    else:
        for x, kind in zip(parts, resource.types, strict=True):
            check_part(x, kind)
    return step.like(dtype=_BOOL)


def _taken_types(resource: AccumulatorState, count: int | None = None) -> tuple[TensorType, ...]:
    if not resource.sparse:
        return tuple(resource.types)
    types = []
    for kind in resource.types:
        rows = unknown("rows", "the number of rows depends on the slices added")
        types.append(TensorType(INT64, (rows,)))
        types.append(kind.like(shape=(rows, *kind.shape[1:])))
    return tuple(types)


def _set_step_type(step: TensorType, *, resource: AccumulatorState) -> tuple[TensorType, ...]:
    _check_step(step)
    return ()


_add = effect_op("accumulator_add", AccumulatorState, _add_type, "fence", host_inputs=(0,))
_take = waiting_op("accumulator_take", AccumulatorState, _taken_types, counted=True)
_set_step = effect_op(
    "accumulator_set_step",
    AccumulatorState,
    _set_step_type,
    "fence",
    outputs=None,
    host_inputs=(0,),
)
_size = effect_op("accumulator_size", AccumulatorState, count_type, "fence")


@final
class Accumulator:
    """A resource that accumulates gradients until there are enough, and drops stale ones.

    It has a *step*, initially 0: the number of its takes. `add` takes the step that a value was
    computed for, and drops the value if that step is over. `take` waits for enough values, returns
    their mean, and advances to the next step. With both, synchronous training takes a few lines,
    and replicas that lag behind do no harm. An accumulator prints with the number of values that it
    has dropped.

    Values are added in the order of arrival; float16 and bfloat16 are added in float32.

    Args:
        like: an example value, for dtypes and shapes: a tensor or a pytree of tensors, of floating
            or complex dtypes. A string such as ``"f32[8,3]"`` may stand for a tensor.
        sparse: whether values are `IndexedSlices` of such tensors. The mean of a row is then over
            the values that have this row, as in TensorFlow.
        device: device of the sum; by default that of ``like``. On a device of a task
            (`eagerflow.cluster`) the accumulator is in the process of that task.
        name: name for display, and for other clients in a container.
        container: name of a container of the task, as for `eagerflow.Queue`.

    Raises:
        DTypeError: ``like`` is neither floating nor complex, or is no tensor.
        ShapeError: a size is not known; or, if ``sparse``, a tensor has no axes.
        ResourceError: the container has another resource of that name.

    Source: Abadi et al., TensorFlow: A System for Large-Scale Machine Learning, OSDI 2016, §4.4.

    >>> sums = ef.Accumulator(ef.zeros(2))
    >>> sums.add([1.0, 2.0], step=0), sums.add([3.0, 4.0], step=0)
    (Tensor(True, bool[]@cpu:0), Tensor(True, bool[]@cpu:0))
    >>> sums.take(2)
    Tensor([2., 3.], f32[2]@cpu:0)
    >>> sums.add([5.0, 6.0], step=0)  # that step is over
    Tensor(False, bool[]@cpu:0)
    >>> sums
    Accumulator(f32[2]@cpu:0, 0 at step 1, 1 of earlier steps dropped)
    """

    __slots__ = ("__weakref__", "_elements", "resource")

    def __init__(
        self, like: object, *, sparse: bool = False, device: DeviceLike = None,
        name: str | None = None, container: str | None = None,
    ) -> None:  # fmt: skip
        self._elements = elements = Elements("Accumulator", like, device)
        for kind in elements.specs:
            if not kind.dtype.is_inexact:
                raise DTypeError(
                    "Accumulator: a mean is floating or complex",
                    given=str(kind),
                    expected="a floating or complex dtype",
                )
            if sparse and not kind.shape:
                raise ShapeError("Accumulator: a tensor without axes has no rows", given=str(kind))
            if any(type(size) is not int for size in kind.shape):
                raise ShapeError("Accumulator: all sizes must be known", given=str(kind))
        types, where = elements.types, elements.device
        what = "sparse accumulator" if sparse else "accumulator"
        self.resource: AccumulatorState | ResourceAtTask = resource_on(
            where, ResourceRecipe(what, types), name, container,
            lambda: AccumulatorState(types, sparse, where, name),
        )  # fmt: skip

    def __repr__(self) -> str:
        state = self.resource
        types = ", ".join(map(str, state.specs))
        sparse = ", sparse" if state.sparse else ""
        if isinstance(state, ResourceAtTask):
            return f"Accumulator({named(state)}{types}{sparse})"
        return f"Accumulator({named(state)}{types}{sparse}, {state.contents()})"

    def add(self, value: object, step: TensorLike) -> Tensor:
        """Add a value, unless its step is earlier than that of the accumulator.

        Args:
            value: a value of the structure, dtypes and shapes of the accumulator; for a sparse
                accumulator, with `IndexedSlices` in place of tensors.
            step: the step for which it was computed, an integer: the number of takes before the
                computation began, such as ``optimiser.count`` where each take is followed by one
                update. A value of an earlier step is stale, and dropped without an error; one of
                the same or of a later step counts.

        Returns:
            Whether the value was added, a bool tensor; False for a dropped value.

        Raises:
            ShapeError: the structure or a shape differs.
            DTypeError: a dtype differs, or slices are given for tensors, or the reverse.
            TensorIndexError: a row is out of range.
        """
        state = self.resource
        parts = (
            self._slices(value)
            if state.sparse
            else self._elements.split("add", value, holder=state)
        )
        accepted: Tensor = checked(_add, "add", [self._step("add", step), *parts], state)
        return accepted

    def _step(self, what: str, step: TensorLike) -> Tensor:
        return part_of(f"{what}: step", step, TensorType(INT64, ()).on(self.resource.device))

    def _slices(self, value: Any) -> list[Tensor]:
        parts: list[Tensor] = []
        elements = self._elements
        for slices, kind in zip(elements.leaves("add", value), elements.specs, strict=True):
            if not isinstance(slices, IndexedSlices):
                raise DTypeError(
                    "add: a sparse accumulator takes rows",
                    given=kind_of(slices),
                    expected=f"IndexedSlices of {kind}",
                )
            if len(slices.shape) != kind.ndim or not may_equal(slices.shape[0], kind.shape[0]):
                raise ShapeError("add: the slices are of another array", given=repr(slices),
                                 expected=str(kind))  # fmt: skip
            parts += [slices.indices, part_of("add", slices.values, kind, holder=self.resource)]
        return parts

    def take(self, n: TensorLike, *, timeout: TensorLike | None = None) -> Any:
        """Wait for ``n`` values, return the mean of all values, and advance to the next step.

        Args:
            n: the least number of values.
            timeout: maximum number of seconds to wait.

        Returns:
            A tree of tensors; for a sparse accumulator, a tree of `IndexedSlices`.

        Raises:
            TensorValueError: ``n`` is not positive.
            WaitTimeoutError: there were fewer within the timeout.

        >>> rows = ef.Accumulator("f32[4]", sparse=True)
        >>> seen = rows.add(ef.IndexedSlices([2.0, 4.0], [0, 3], (4,)), step=0)
        >>> seen = rows.add(ef.IndexedSlices([6.0], [3], (4,)), step=0)
        >>> rows.take(2).to_dense()
        Tensor([2., 0., 0., 5.], f32[4]@cpu:0)
        """
        state, count = self.resource, checked_count("take", n)
        if type(count) is int and not count:
            raise TensorValueError("take: 0 values", expected="a positive number of them")
        seconds = timeout_of("take", timeout)
        outputs = bind_wait(_take, [], state.device, seconds, count, resource=state)
        if state.sparse:
            pairs = zip(outputs[::2], outputs[1::2], state.types, strict=True)
            outputs = [IndexedSlices(rows, indices, kind.shape) for indices, rows, kind in pairs]
        return self._elements.join(outputs)

    def set_step(self, step: TensorLike) -> None:
        """Set the step: values of earlier steps are dropped.

        Args:
            step: the step, an integer.
        """
        checked(_set_step, "set_step", [self._step("set_step", step)], self.resource)

    def size(self) -> Tensor:
        """The number of values added since the last `take`, as a tensor ``i64[]``.

        >>> ef.Accumulator(ef.zeros(2)).size()
        Tensor(0, i64[]@cpu:0)
        """
        return bind(_size, resource=self.resource, device=self.resource.device)


# names of other frameworks; their replacements: `hints/attribute_names.py`
hint_at(Accumulator, ["apply_grad", "num_accumulated", "set_global_step", "take_grad"])
