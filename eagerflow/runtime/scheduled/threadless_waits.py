"""Waiting ops, such as those of queues, in the scheduled tier: they hold no thread.

They are begun with a callback that ends their node. Their kernels, which block, are for eager code
and programs, where the thread has nothing else to do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from time import perf_counter
from typing import Any, final

from eagerflow import events
from eagerflow.core.infer import infer_specs
from eagerflow.core.kernel_lookup import explain
from eagerflow.core.op import get_op
from eagerflow.events import NodeEvent, QueueEvent, WaitEvent, failed_runners, step_of
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.hardware import Device, NullArray, as_device
from eagerflow.resources.attempt_events import begin_told, noting
from eagerflow.resources.waiting_operations import AbstractAttempt
from eagerflow.runtime.generated.instructions import line_of
from eagerflow.runtime.generated.observer import described
from eagerflow.runtime.scheduled.actions import asynchronous, at_once
from eagerflow.runtime.scheduled.completions import AbstractCompletion
from eagerflow.runtime.threads.timers import Timer, timers
from eagerflow.types import TensorSpec, TensorType
from eagerflow_kernels.portable.waiting import Finish, begin, waiting

#: an attempt that was begun and has not ended, the function that makes arrays of its value, and the
#: number of seconds that it may wait
Begun = tuple[AbstractAttempt, Finish, float | None]


@final
class _Wait:
    """A waiting op in one step."""

    __slots__ = ("_attempt", "_caller", "_completion", "_device", "_finish", "_frames", "_inputs",
                 "_is_begun", "_node", "_runner", "_seconds", "_start", "_step",
                 "_tier", "_timer")  # fmt: skip

    def __init__(
        self, node: Node, inputs: Sequence[Any], completion: AbstractCompletion, device: Device,
        begun: Begun | None = None,
    ) -> None:  # fmt: skip
        self._start = perf_counter()
        self._device = device
        self._step, self._frames, self._runner = step_of.step, step_of.frames, step_of.runner
        self._caller = 0 if self._runner else step_of.caller or get_ident()
        self._node = node
        self._completion = completion
        self._tier = completion.tier
        self._inputs = inputs
        self._timer: Timer | None = None
        self._is_begun = begun is not None
        if begun is not None:
            self._attempt, self._finish, self._seconds = begun
            return
        attrs = {k: v for k, v in node.attrs.items() if k != "device"}
        try:
            self._attempt, self._finish, self._seconds = begin(
                waiting[node.op], device.xp, inputs, **attrs
            )
        except Exception as error:
            raise _explained(node, inputs, device, error) from None

    def begin(self) -> Callable[[], object]:
        """Begin the wait; returns a function that ends it if its result is no longer wanted."""
        attempt, seconds, completion = self._attempt, self._seconds, self._completion
        if not self._is_begun:
            attempt.before_wait(sleeps=False)
        attempt.waiter = self._described
        if get_op(self._node.op).holds:
            completion.at_end(attempt.abandon)  # has no effect if it was released before
        try:
            if not self._is_begun and (QueueEvent.listeners or WaitEvent.listeners):
                begin_told(attempt, self._ended, self._described)
            else:
                ended = noting(attempt, self._ended, self._place)
                if not self._is_begun:
                    attempt.begin()
                if attempt.calls_back(ended):
                    ended()
        except BaseException as error:  # of an instrument, or Ctrl-C
            if completion.failed(error):
                attempt.abandon()  # an element that it takes would be lost
        if seconds is not None and not attempt.done:
            self._timer = timers.call(seconds, self._late)
            if attempt.done:
                self._timer.cancel()
        return self._stop

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._attempt.abandon()

    def _late(self) -> None:
        attempt, seconds = self._attempt, self._seconds
        attempt.cancel(lambda: failed_runners.noted(attempt.late(seconds)))

    def _ended(self) -> None:
        """Pass the values or the error of the ended attempt to the step."""
        if self._timer is not None:
            self._timer.cancel()
        values: Sequence[Any] = ()
        failed: BaseException | None = None
        try:
            values = self._finish(self._attempt.result())
        except Exception as error:
            failed = _explained(self._node, self._inputs, self._device, error)
        except BaseException as error:  # without an answer the step would wait for ever
            failed = error
        try:
            if failed is None and NodeEvent.listeners:
                self._tell(values)
        finally:
            if failed is None:
                self._completion.done(*values)
            elif self._completion.failed(failed) and self._attempt.failure is None:
                self._attempt.abandon()  # an element that it took goes back
            self._attempt.let_go()
            self._inputs = ()
            del self._completion

    def _place(self) -> tuple[int, str, str, int]:
        """The executable, the node, the runner and the thread."""
        return self._tier.number, self._node.name, self._runner, 0

    def _known(self) -> dict[str, Any]:
        """Fields of all its events."""
        return {
            "device": str(self._device), "executable": self._tier.number, "thread": 0,
            "caller": self._caller, "runner": self._runner, "step": self._step,
            "frames": self._frames,
        }  # fmt: skip

    def _described(self) -> dict[str, Any]:
        """Fields of the events of the operation and of its wait."""
        node, owner = self._node, self._attempt.owner
        return {
            **self._known(), "name": owner.label, "resource": owner.kind,
            "operation": self._attempt.what, "node": node.name,
            "source": line_of(node),
        }  # fmt: skip

    def _tell(self, values: Sequence[Any]) -> None:
        node, since, stop = self._node, self._attempt.since, perf_counter()
        pairs = zip(node.outputs, values, strict=True)
        event = NodeEvent(
            **described(node, [_tensor_type(v).like(shape=x.shape).on(v.device) for v, x in pairs]),
            **self._known(), start=self._start, stop=stop, graph=self._tier.graph.name,
            waited=0.0 if since is None else stop - since,
        )  # fmt: skip
        events.end(event)


def _explained(node: Node, inputs: Sequence[Any], device: Device, error: Exception) -> Exception:
    return explain(get_op(node.op), _specs(node, inputs, device), node.attrs, error)


def _device_of(node: Node) -> Device:
    asked = node.attrs.get("device")
    return as_device(asked if asked is not None else node.inputs[0].device)


def _specs(node: Node, inputs: Sequence[Any], device: Device) -> tuple[TensorSpec, ...]:
    pairs = zip(node.inputs, inputs, strict=True)
    return tuple([_tensor_type(v).like(shape=x.shape).on(device) for v, x in pairs])


def _tensor_type(value: Value) -> TensorType:
    kind = value.type
    assert isinstance(kind, TensorType)  # the ops take no numbers
    return kind


def _begin(
    node: Node, inputs: Sequence[Any], completion: AbstractCompletion, begun: Begun | None = None
) -> Callable[[], object]:  # fmt: skip
    device = _device_of(node)
    if not device.holds_data:  # no wait
        specs = infer_specs(get_op(node.op), _specs(node, inputs, device), dict(node.attrs))
        completion.done(*[NullArray(t.dtype.dtype, t.shape) for t in specs])
        return lambda: None
    return _Wait(node, inputs, completion, device, begun).begin()


def without_wait(node: Node) -> Callable[[Sequence[Any]], Any] | None:
    """Return a function that runs a waiting op if it need not wait; None if the op holds a lock.

    The function returns a tuple of the results or, where the op has to wait, the argument with
    which `_begin` continues: the attempt that was begun, or None if events have a listener, which
    has to hear of the attempt from its beginning on.
    """
    device, attrs = _device_of(node), {k: v for k, v in node.attrs.items() if k != "device"}
    if get_op(node.op).holds or not device.holds_data or attrs.pop("timed", False):
        return None
    start, xp, seconds = waiting[node.op], device.xp, attrs.pop("timeout", None)

    def run(inputs: Sequence[Any]) -> tuple[Any, ...] | list[Any] | None:
        if QueueEvent.listeners or WaitEvent.listeners or NodeEvent.listeners:
            return None
        attempt: AbstractAttempt | None = None
        try:
            attempt, finish = start(xp, *inputs, **attrs)
            attempt.begin()
            if not attempt.done:
                return [attempt, finish, seconds]
            return finish(attempt.result())
        except BaseException as error:
            if attempt is not None:
                attempt.abandon()  # an element that it took goes back
            if isinstance(error, Exception):
                raise _explained(node, inputs, device, error) from None
            raise

    return run


asynchronous.update(dict.fromkeys(waiting, _begin))
at_once.update(dict.fromkeys(waiting, without_wait))


# --- graphs with waiting ops --------------------------------------------------------------------


def has_free_waits(graph: Graph) -> bool:
    """Whether waiting ops are not totally ordered, so that one must not keep another waiting."""
    before: dict[Node, int] = {}  # for each node the set of waiting ops before it, as bits
    count = 0
    for node in graph.nodes:
        known = 0
        for other in (*[v.node for v in node.inputs], *node.control_inputs):
            known |= before.get(other, 0) if other is not None else 0
        if any(has_free_waits(inner) for _, inner in node.subgraphs()):
            return True
        if _waits(node):
            if known != (1 << count) - 1:
                return True
            known |= 1 << count
            count += 1
        before[node] = known
    return False


def _waits(node: Node) -> bool:
    """Whether a node, or a node of its subgraphs, may wait."""
    if node.op in waiting:
        return True
    return any(_waits(n) for _, inner in node.subgraphs() for n in inner.nodes)
