"""Accumulators, which sum values, and barriers, which join components into elements."""

from __future__ import annotations

from typing import Any, final

from eagerflow.core import tree
from eagerflow.core.indexed_slices import IndexedSlices
from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import may_equal, unknown
from eagerflow.errors import DTypeError, ShapeError, TensorIndexError, TensorValueError
from eagerflow.hardware import Device
from eagerflow.ops.rules.arguments import DeviceLike
from eagerflow.ops.rules.type_rules import count_type, effect_op
from eagerflow.ops.state.counts_and_timeouts import (
    bind_wait,
    checked_count,
    integer,
    named,
    size_of,
    timeout_of,
    waiting_op,
)
from eagerflow.ops.state.queue_elements import Elements, check_part, checked, part_of
from eagerflow.resources.accumulator import AccumulatorState
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.resources_at_tasks import ResourceAtTask, ResourceRecipe, resource_on
from eagerflow.types import BYTES, DTYPES, INT64, DTypeLike, TensorType, as_dtype
from eagerflow.unknown_names import hint_at

__all__ = ["Accumulator", "Barrier"]

_BOOL = DTYPES["bool"]

# --- ops of accumulators ------------------------------------------------------------------------


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

    It has a *step*, initially 0. `add` takes the step that a value was computed for, and drops the
    value if that step is over. `take` waits for enough values, returns their mean, and advances to
    the next step. With both, synchronous training takes a few lines, and replicas that lag behind
    do no harm.

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
        return f"Accumulator({named(state)}{types}{sparse}, {state.count} at step {state.step})"

    def add(self, value: object, step: TensorLike) -> Tensor:
        """Add a value, unless its step is earlier than that of the accumulator.

        Args:
            value: a value of the structure, dtypes and shapes of the accumulator; for a sparse
                accumulator, with `IndexedSlices` in place of tensors.
            step: the step for which it was computed, an integer.

        Returns:
            Whether the value was added, a bool tensor.

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
                    given=f"a {type(slices).__name__}",
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


# --- ops of barriers ----------------------------------------------------------------------------


def _insert_type(
    keys: TensorType, values: TensorType, *, resource: BarrierState, component: int
) -> tuple[TensorType, ...]:
    if keys.dtype is not resource.key_dtype or len(keys.shape) != 1:
        raise DTypeError("keys lie on one axis", expected=f"{resource.key_dtype.short}[n]")
    check_part(values, resource.types[component], 1)
    if not may_equal(keys.shape[0], values.shape[0]):
        raise ShapeError("there are as many keys as values")
    return ()


def _joined_types(
    resource: BarrierState, count: int | None = None, small: bool = False
) -> tuple[TensorType, ...]:
    left = "the number of elements left depends on the barrier"
    size = unknown("k", left) if small else size_of(count)
    keys = TensorType(resource.key_dtype, (size,))
    return (keys, *[kind.like(shape=(size, *kind.shape)) for kind in resource.types])


def _close_type(
    *, resource: BarrierState, cancel: bool, failure: str | None = None,
    device: Device | None = None,
) -> tuple[TensorType, ...]:  # fmt: skip
    return ()


_insert_many = effect_op(
    "barrier_insert_many",
    BarrierState,
    _insert_type,
    "fence",
    many=True,
    takes_bytes=True,
    outputs=None,
    host_inputs=(0,),
)
_take_many = waiting_op("barrier_take_many", BarrierState, _joined_types, counted=True)
_close = effect_op("barrier_close", BarrierState, _close_type, "fence", outputs=None)
_ready_size = effect_op("barrier_ready_size", BarrierState, count_type, "fence")
_incomplete_size = effect_op("barrier_incomplete_size", BarrierState, count_type, "fence")


@final
class Barrier:
    """A resource that joins components into elements by key; components arrive in any order.

    An element is *ready* once all its components have arrived. Ready elements are taken in the
    order in which their keys first arrived.

    Args:
        like: a tuple of components: tensors, or strings such as ``"f32[3]"``.
        key_dtype: dtype of the keys: int64, or bytes.
        device: device of the elements; by default that of ``like``. On a device of a task
            (`eagerflow.cluster`) the barrier is in the process of that task.
        name: name for display, and for other clients in a container.
        container: name of a container of the task, as for `eagerflow.Queue`.

    Raises:
        DTypeError: ``like`` is no tuple of tensors or types.
        ShapeError: a size is not known.
        ResourceError: the container has another resource of that name.

    Source: TensorFlow's ``Barrier``.

    >>> barrier = ef.Barrier(("f32[]", "i64[]"))
    >>> barrier.insert_many(0, [7, 8], [0.5, 1.5])
    >>> barrier.insert_many(1, [8], [80])
    >>> barrier.ready_size(), barrier.incomplete_size()
    (Tensor(1, i64[]@cpu:0), Tensor(1, i64[]@cpu:0))
    >>> keys, (x, y) = barrier.take_many(1)
    >>> keys, x, y
    (Tensor([8], i64[1]@cpu:0), Tensor([1.5], f32[1]@cpu:0), Tensor([80], i64[1]@cpu:0))
    """

    __slots__ = ("__weakref__", "resource")

    def __init__(
        self, like: object, *, key_dtype: DTypeLike = "int64", device: DeviceLike = None,
        name: str | None = None, container: str | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(like, (tuple, list)):
            raise DTypeError(
                "Barrier: like is a tuple of components", given=f"a {type(like).__name__}"
            )
        elements = Elements("Barrier", tuple(like), device)
        leaves = tree.flatten(tuple(like))[0]
        if len(leaves) != len(like) or any(a is not b for a, b in zip(leaves, like, strict=True)):
            raise DTypeError("Barrier: each component is a tensor or a type", given=repr(like))
        if any(type(size) is not int for kind in elements.types for size in kind.shape):
            raise ShapeError("Barrier: all sizes must be known", given=repr(like))
        keys = as_dtype(key_dtype)
        if keys not in (INT64, BYTES):
            raise DTypeError(f"Barrier: key_dtype={keys.name}", expected="int64 or bytes")
        types, where = elements.types, elements.device
        kind = "barrier" if keys is INT64 else "bytes barrier"
        self.resource: BarrierState | ResourceAtTask = resource_on(
            where, ResourceRecipe(kind, types), name, container,
            lambda: BarrierState(types, where, name, keys),
        )  # fmt: skip

    def __repr__(self) -> str:
        state = self.resource
        types = ", ".join(map(str, state.specs))
        if isinstance(state, ResourceAtTask):
            return f"Barrier({named(state)}({types}))"
        closed = ", closed" if state.closed else ""
        ready, incomplete = state.ready_size(), state.incomplete_size()
        return f"Barrier({named(state)}({types}), {ready} ready, {incomplete} incomplete{closed})"

    def insert_many(self, i: int, keys: TensorLike, values: TensorLike) -> None:
        """Insert one component of several elements: all of them, or none if there is an error.

        Args:
            i: the number of the component.
            keys: ``[n]``, the keys of the elements: integers, or bytes.
            values: ``[n, ...]``, the components.

        Raises:
            TensorIndexError: ``i`` is out of range.
            TensorValueError: an element has that component already.
            QueueClosedError: the barrier is closed and a key is new, or it was cancelled.

        >>> barrier = ef.Barrier(("f32[]", "f32[]"))
        >>> barrier.insert_many(0, [1], [0.5])
        >>> barrier.insert_many(0, [1], [0.5])
        Traceback (most recent call last):
        eagerflow.errors.TensorValueError: insert_many: key 1 already has a value for component 0
        ...
        """
        state, component = self.resource, integer("insert_many", i)
        if not 0 <= component < len(state.types):
            raise TensorIndexError(
                f"insert_many: there is no component {component}",
                given=repr(state),
                expected=f"0 to {len(state.types) - 1}",
            )
        kind = state.specs[component]
        inputs = [
            part_of("insert_many: keys", keys, TensorType(state.key_dtype, ()).on(state.device)),
            part_of("insert_many: values", values, kind, many=True, holder=state),
        ]
        checked(_insert_many, "insert_many", inputs, state, component=component)

    def take_many(
        self, n: TensorLike, *, allow_small_batch: bool = False, timeout: TensorLike | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Take ``n`` ready elements; waits until there are as many.

        Args:
            n: number of elements.
            allow_small_batch: whether fewer elements suffice once the barrier is closed, if any.
            timeout: maximum number of seconds to wait.

        Returns:
            The keys ``[n]``, and a tuple with each component stacked, ``[n, ...]``.

        Raises:
            QueueClosedError: the barrier is closed, and there will never be as many.
            WaitTimeoutError: there were fewer within the timeout.
        """
        state, count = self.resource, checked_count("take_many", n)
        keys, *parts = bind_wait(
            _take_many, [], state.device, timeout_of("take_many", timeout), count,
            resource=state, small=bool(allow_small_batch),
        )  # fmt: skip
        return keys, tuple(parts)

    def ready_size(self) -> Tensor:
        """The number of ready elements, as a tensor ``i64[]``."""
        return bind(_ready_size, resource=self.resource, device=self.resource.device)

    def incomplete_size(self) -> Tensor:
        """The number of elements that lack a component, as a tensor ``i64[]``."""
        return bind(_incomplete_size, resource=self.resource, device=self.resource.device)

    def close(self, cancel_pending: bool = False) -> None:
        """Refuse new keys from now on; incomplete elements can still be completed.

        Args:
            cancel_pending: whether to drop incomplete elements, and refuse all components.

        Raises:
            QueueClosedError: the barrier is closed already, and not cancelled for the first time.
        """
        state = self.resource
        bind(_close, resource=state, device=state.device, cancel=bool(cancel_pending))
