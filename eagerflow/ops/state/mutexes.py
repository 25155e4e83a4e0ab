"""Mutexes: critical sections that make several effects atomic."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import final

from eagerflow.core.interpreter import is_traced
from eagerflow.core.op import bind
from eagerflow.core.tensor import Tensor
from eagerflow.core.to_tensor import TensorLike
from eagerflow.errors import DTypeError, MutexError
from eagerflow.hardware import current_device
from eagerflow.hardware.device_rules import common_device
from eagerflow.ops.rules.type_rules import effect_op
from eagerflow.ops.state.counts_and_timeouts import bind_wait, named, timeout_of, waiting_op
from eagerflow.resources.mutex import MutexState, this_thread
from eagerflow.types import INT64, TensorType

__all__ = ["Mutex"]


def _release_type(hold: TensorType, *, resource: MutexState) -> tuple[TensorType, ...]:
    if hold.dtype is not INT64 or hold.shape:
        raise DTypeError("a hold is an int64 without axes", expected="i64[]")
    return ()


_acquire = waiting_op(
    "mutex_acquire",
    MutexState,
    lambda mutex: (TensorType(INT64, ()),),
    devices=common_device,
    raises=(),
    holds=True,
    host_outputs=(0,),
)
_release = effect_op(
    "mutex_release",
    MutexState,
    _release_type,
    "fence",
    devices=common_device,
    outputs=None,
    releases=True,
    host_inputs=(0,),
)


@final
class Mutex:
    """A lock held by one thread or step at a time, which makes several effects atomic.

    Single assignments and queue operations are atomic by themselves. Within ``with mutex:`` several
    are atomic for all users of the same mutex: no other user sees intermediate states. Other users
    wait, in the order of their requests.

    In a traced function the block becomes two nodes, around which effects keep their order; a run
    that fails in between releases the mutex.

    Args:
        name: name for display.

    Source: TensorFlow's ``CriticalSection``.

    >>> mutex, total, count = ef.Mutex(), ef.Variable(0.0), ef.Variable(0)
    >>> @ef.trace
    ... def record(x):
    ...     with mutex:
    ...         total.assign_add(x)
    ...         count.assign_add(1)
    >>> record(ef.tensor(2.0))
    >>> with mutex:
    ...     mean = total / count
    >>> mean
    Tensor(2., f32[]@cpu:0)
    """

    __slots__ = ("__weakref__", "_held", "resource")

    def __init__(self, name: str | None = None) -> None:
        self.resource = MutexState(name)
        self._held = threading.local()

    def __repr__(self) -> str:
        state = self.resource
        return f"Mutex({named(state)}{'held' if state.holder else 'free'})"

    def acquire(self, *, timeout: TensorLike | None = None) -> None:
        """Wait until the mutex is free, and hold it, as ``with mutex:`` does for its block.

        Args:
            timeout: maximum number of seconds to wait.

        Raises:
            MutexError: this thread holds the mutex already, and would wait for itself.
            WaitTimeoutError: the mutex was not free within the timeout.
        """
        state, seconds = self.resource, timeout_of("acquire", timeout)
        if getattr(self._held, "hold", None) is not None:
            raise MutexError(
                "acquire: this thread holds the mutex already and would wait for itself",
                given=state.state(),
            )
        before = state.holds
        try:
            self._held.hold = bind_wait(_acquire, [], current_device(), seconds, resource=state)[0]
        except BaseException:  # Ctrl-C may have come after the mutex was acquired
            state.drop_held_by(this_thread(), before)
            raise

    def release(self) -> None:
        """Release the mutex to the next waiter.

        Raises:
            MutexError: this thread does not hold the mutex.
        """
        hold: Tensor | None = getattr(self._held, "hold", None)
        if hold is None:
            raise MutexError("release: this thread does not hold the mutex", given=repr(self))
        try:
            bind(_release, hold, resource=self.resource)
        finally:  # also if Ctrl-C came before the release was done
            self._held.hold = None
            self.resource.drop_held_by(this_thread(), 0)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if kind is not None and is_traced():  # the trace has failed
            self._held.hold = None
        else:
            self.release()
