"""Barriers, which join components into elements."""

from __future__ import annotations

from typing import Final, final

from eagerflow.core import tree
from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.dims import may_equal, unknown
from eagerflow.errors import DTypeError, ShapeError, TensorIndexError
from eagerflow.formatting import kind_of
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
from eagerflow.resources.barrier import BarrierState
from eagerflow.resources.resources_at_tasks import ResourceAtTask, ResourceRecipe, resource_on
from eagerflow.types import BYTES, INT64, DTypeLike, TensorType, as_dtype

__all__ = ["Barrier"]


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
#: hint for a number of threads in place of components
_FOR_THREADS: Final = (
    "this barrier joins components into elements by key; threads that wait for each other: "
    "threading.Barrier(n); synchronous updates: ef.Accumulator"
)


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
                "Barrier: like is a tuple of components",
                given=kind_of(like),
                expected='such as ("f32[3]", "i64[]")',
                hint=_FOR_THREADS if isinstance(like, int) else None,
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
