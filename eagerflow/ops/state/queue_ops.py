"""The ops of queues: their records, with the type rules."""

from __future__ import annotations

from typing import Any, Final

from eagerflow.core.op import Op
from eagerflow.core.op_records.op_facts import of_family
from eagerflow.dims import may_equal, unknown
from eagerflow.errors import DTypeError, ShapeError
from eagerflow.hardware import Device
from eagerflow.ops.rules.type_rules import cancelled_type, count_type, effect_op
from eagerflow.ops.state.counts_and_timeouts import WAITING, check_asked, size_of, waiting_op
from eagerflow.ops.state.queue_elements import check_names, check_part, fresh_types
from eagerflow.resources.queue_state import QueueState
from eagerflow.types import DTYPES, INT64, TensorType


def _putting(name: str, axes: int) -> Op:
    """Define an op that enqueues an element, or the elements along ``axes`` axes."""

    def rule(
        *inputs: TensorType, resource: QueueState, timeout: float | None = None, timed: bool = False
    ) -> tuple[TensorType, ...]:
        inputs = check_asked(inputs, timed)
        parts = inputs[: len(resource.types)]
        for x, kind in zip(parts, resource.types, strict=True):
            check_part(x, kind, axes)
            if axes and not may_equal(x.shape[0], parts[0].shape[0]):
                raise ShapeError("the parts are of different numbers of elements")
        check_names(parts, resource.types, axes)
        for x in inputs[len(parts) :]:
            _check_priority(x, parts[0], axes)
        return ()

    return effect_op(
        name, QueueState, rule, "blocks", takes_bytes=True, outputs=None, raises=WAITING,
        many=bool(axes), host_inputs=lambda attrs: (-1,) if attrs.get("timed") else (),
    )  # fmt: skip


def _check_priority(x: TensorType, part: TensorType, axes: int) -> None:
    if x.dtype is not INT64:
        raise DTypeError("a priority is an int64", expected="i64")
    if len(x.shape) > axes:
        raise ShapeError("a priority has no axes" if not axes else "priorities have one axis")
    if x.shape and not may_equal(x.shape[0], part.shape[0]):
        raise ShapeError("there are as many priorities as elements, or one")


def _stacked(resource: QueueState, count: Any) -> tuple[TensorType, ...]:
    types = fresh_types(resource.types, "the elements")
    return tuple([kind.like(shape=(count, *kind.shape)) for kind in types])


@of_family({"host_outputs": (0,)})
def _closed_type(*, resource: Any, device: Device | None = None) -> TensorType:
    return TensorType(DTYPES["bool"], ())


ENQUEUE: Final = _putting("queue_enqueue", 0)
ENQUEUE_MANY: Final = _putting("queue_enqueue_many", 1)
DEQUEUE: Final = waiting_op(
    "queue_dequeue", QueueState, lambda queue: tuple(fresh_types(queue.types, "the element"))
)
DEQUEUE_MANY: Final = waiting_op(
    "queue_dequeue_many",
    QueueState,
    lambda queue, count=None: _stacked(queue, size_of(count)),
    counted=True,
)
DEQUEUE_UP_TO: Final = waiting_op(
    "queue_dequeue_up_to",
    QueueState,
    lambda queue, count=None: _stacked(
        queue, unknown("k", "the number of elements left depends on the queue")
    ),
    counted=True,
)
SIZE: Final = effect_op("queue_size", QueueState, count_type, "fence")
CLOSED: Final = effect_op("queue_closed", QueueState, _closed_type, "fence")
CLOSE: Final = waiting_op("queue_close", QueueState, lambda queue: (), raises=())
CANCEL_AND_CLOSE: Final = effect_op(
    "queue_cancel_and_close", QueueState, cancelled_type, "fence", outputs=None
)
