"""All exceptions that eagerflow raises on purpose.

All are subclasses of `EagerflowError`, whose messages have one form (`error_messages.py`), and of
the builtin that a user would catch.
"""

from __future__ import annotations

import linecache
import re
from typing import Any, Final, Literal

from eagerflow.error_messages import (
    EagerflowError,
    hide_frames,
    hides_frames,
    relocate,
    show_all_frames,
)
from eagerflow.error_messages import strip as strip
from eagerflow.source import Source, capture

__all__ = [
    "AuthenticationError", "AxisError", "CancelledError", "CheckpointError", "CheckpointWarning",
    "ClusterWarning", "CompileWarning", "DTypeError", "DataDependentError", "DeadlineError",
    "DeviceError", "DimError", "EagerflowError", "EnqueueCancelledError", "FileError",
    "GradientError", "GradientWarning", "GraphError", "GraphFileError", "GraphSyntaxError",
    "InterchangeError",
    "KernelError", "KernelWarning", "LeakedTensorError", "LengthError", "MutexError",
    "NonFiniteError", "OpDefinitionError", "OutOfMemoryError", "PlacementError", "PlacementWarning",
    "PrecisionWarning", "ProtocolError",
    "QueueClosedError", "RecordError", "RendezvousError", "ResourceError", "RetraceWarning",
    "RunnerFailedError", "SettingError", "ShapeError", "TaskLost", "TensorIndexError",
    "TensorValueError", "TraceError", "TraceWarning", "UnhashableError", "UnknownNameError",
    "VariableError", "VmapError",
    "WaitTimeoutError", "WorkerError", "hide_frames", "hides_frames", "relocate", "traceback",
]  # fmt: skip

#: what precedes an expression that is a whole statement
_BEGINNING: Final = re.compile(r"\s*(return |[^()=]+ = )?")


class ShapeError(EagerflowError, ValueError):
    """Shapes that do not fit together.

    >>> ef.tensor([[1.0, 2.0]]) @ ef.tensor([[1.0, 2.0]])
    Traceback (most recent call last):
    eagerflow.errors.ShapeError: matmul: inner dimensions differ (2 and 1)
    ...
    >>> ef.tensor([[1.0, 2.0]]) @ ef.tensor([[1.0, 2.0]]).T
    Tensor([[5.]], f32[1,1]@cpu:0)
    """


class AxisError(ShapeError, IndexError):
    """An axis that the array does not have.

    >>> ef.sum(ef.tensor([1.0, 2.0]), axis=1)
    Traceback (most recent call last):
    eagerflow.errors.AxisError: sum: axis 1 is out of range
    ...
    >>> ef.sum(ef.tensor([1.0, 2.0]), axis=0)
    Tensor(3., f32[]@cpu:0)
    """


class DataDependentError(ShapeError):
    """A shape that follows from values, where only types are known.

    >>> ef.nonzero(ef.tensor([0, 2, 3], device="null:0"))
    Traceback (most recent call last):
    eagerflow.errors.DataDependentError: nonzero: the number of nonzero elements depends on the data
    ...
    """


class DTypeError(EagerflowError, TypeError):
    """A dtype that the op does not take, or two dtypes without a common one.

    >>> ef.tensor([1.5, 2.5]) & ef.tensor([1, 2])
    Traceback (most recent call last):
    eagerflow.errors.DTypeError: bitwise_and: no rule for f32
    ...
    """


class TensorIndexError(EagerflowError, IndexError):
    """An index out of range, or of a kind that arrays do not take.

    >>> ef.tensor([1.0, 2.0])[2]
    Traceback (most recent call last):
    eagerflow.errors.TensorIndexError: index 2 is out of range for axis 0 with size 2
    ...
    """


class TensorValueError(EagerflowError, ValueError):
    """A value that the op cannot work with."""


class DeviceError(EagerflowError, ValueError):
    """An unknown device, or operands on different devices.

    >>> ef.device("cpu:x")
    Traceback (most recent call last):
    eagerflow.errors.DeviceError: 'cpu:x' is not a device name
    ...
    """


class PlacementError(EagerflowError, ValueError):
    """A placement that is impossible; the message names the possible devices.

    >>> f = ef.trace(lambda x: ef.exp(x))
    >>> f.place({"*": "cpu:9"})
    Traceback (most recent call last):
    eagerflow.errors.PlacementError: place: there is no device cpu:9
    ...
    >>> with ef.config(cpu_devices=2):
    ...     f.place({"*": "cpu:1"})(ef.zeros(1))
    Tensor([1.], f32[1]@cpu:0)
    """


class PlacementWarning(UserWarning):
    """Nodes are not on the devices that rules of placement ask for.

    Either ``soft_placement`` allows that, or a function that has rules is called in the trace of
    another function, whose rules count. Results are the same. ``f.explain("placement")`` lists the
    devices of nodes with reasons.
    """


class PrecisionWarning(UserWarning):
    """Float64 inputs, as NumPy makes them, let layers with float32 parameters run in float64."""


class TraceError(EagerflowError, TypeError):
    """An operation that a traced function does not support."""


class VmapError(EagerflowError, TypeError):
    """An operation that `eagerflow.vmap` does not support, since all rows run at once.

    >>> ef.vmap(lambda x: x if x > 0 else -x)(ef.tensor([1.0, -2.0]))
    Traceback (most recent call last):
    eagerflow.errors.VmapError: bool(): under ef.vmap this tensor has a value for each of 2 rows
    ...
    """


class TraceWarning(UserWarning):
    """An effect or a read of a traced function that takes place only while it is traced.

    Examples are a `print`, or a frozen value of ``time.time()``: later calls may differ from eager
    ones. ``ef.trace(strict=True)`` makes errors of these. A mere loss of time is a
    `RetraceWarning`.
    """


class RetraceWarning(TraceWarning):
    """A function is traced too often, or not run as a graph: its results are right, but it is slow.

    ``f.explain()`` gives the reason, and ``max_traces=`` of `eagerflow.trace` makes an error of it.
    To hide it: ``warnings.simplefilter("ignore", ef.errors.RetraceWarning)``.
    """


class CompileWarning(UserWarning):
    """A traced function could not be compiled: its results are right, but it is slower.

    ``f.explain()`` gives the reason; ``compile="off"`` of `eagerflow.trace` does not try.
    """


class LeakedTensorError(EagerflowError, RuntimeError):
    """A symbolic tensor used outside of the trace that made it."""


class GradientError(EagerflowError, TypeError):
    """A gradient that does not exist, or a request for a gradient that makes no sense.

    >>> ef.grad(lambda x: x * 2)(ef.tensor([1, 2]))
    Traceback (most recent call last):
    eagerflow.errors.GradientError: grad: argument 0 has an integer dtype
    ...
    """


class GradientWarning(UserWarning):
    """A gradient is zero or missing, perhaps because a tensor was converted to a Python number.

    To read a number that no gradient is meant to flow through: ``ef.stop_gradient(x).item()``.
    """


class KernelWarning(UserWarning):
    """A kernel was registered for an op, or a kind of device, that does not exist so far."""


class InterchangeError(EagerflowError, BufferError):
    """An array that cannot be shared with another library through DLPack.

    >>> ef.tensor([1.0]).__dlpack__(dl_device=(99, 0))
    Traceback (most recent call last):
    eagerflow.errors.InterchangeError: __dlpack__: there is no device of DLPack type 99
    ...
    >>> capsule = ef.tensor([1.0]).__dlpack__(dl_device=(1, 0))
    """


class NonFiniteError(EagerflowError, FloatingPointError):
    """An op made a NaN or an infinity while ``ef.config(check_nan=True)`` was in force."""

    def _message(self) -> str:
        message, at = super()._message(), f"  at: {self.source}"
        part = _part_of_line(self.source) if isinstance(self.source, Source) else ""
        return message.replace(at, f"{at}\n  in its part: {part}") if part else message


def _part_of_line(source: Source) -> str:
    """The expression of a source, if its line has more than that and its assignment."""
    spans = [*source.code.co_positions()]
    _, last, start, end = spans[source.offset // 2] if spans else (None,) * 4
    raw = linecache.getline(source.file, source.line).encode()  # columns count bytes
    if last != source.line or start is None or end is None:
        return ""
    before, after = raw[:start].decode(errors="ignore"), raw[end:].decode(errors="ignore")
    alone = _BEGINNING.fullmatch(before) and after.partition("#")[0].strip() == ""
    return "" if alone else raw[start:end].decode(errors="ignore")


class UnhashableError(EagerflowError, TypeError):
    """A tensor used as a key of a dict or an element of a set."""


class UnknownNameError(EagerflowError, AttributeError):
    """A name that eagerflow does not have.

    >>> ef.arrange(3)
    Traceback (most recent call last):
    eagerflow.errors.UnknownNameError: eagerflow has no 'arrange'
    ...
    """


class SettingError(EagerflowError, ValueError, TypeError):
    """A setting that `eagerflow.config` does not have, or a value that it cannot take.

    >>> ef.config(cpu_devices=0)
    Traceback (most recent call last):
    eagerflow.errors.SettingError: config: cpu_devices cannot be 0
    ...
    """


class VariableError(EagerflowError, TypeError):
    """A change of a variable other than by its assignment methods.

    >>> v = ef.Variable([1.0, 2.0])
    >>> v *= 2
    Traceback (most recent call last):
    eagerflow.errors.VariableError: a variable cannot be changed by *=
    ...
    >>> v.assign(v * 2)
    Tensor([2., 4.], f32[2]@cpu:0)
    """


class DimError(EagerflowError, ValueError):
    """A symbolic size whose value is needed and not known, or a text that is no size.

    >>> n = ef.Dim("n")
    >>> range(n)
    Traceback (most recent call last):
    eagerflow.errors.DimError: the size n is not known here
    ...
    >>> range((n + 1).evaluate({"n": 2}))
    range(0, 3)
    """


class GraphError(EagerflowError, ValueError):
    """A graph that is not well formed, or lacks a requested value, node or input."""


class SchedulerError(EagerflowError, RuntimeError):
    """An event that contradicts the earlier ones of a step; shows the history of the entry."""


class RendezvousError(EagerflowError, RuntimeError):
    """A value that is sent or received twice, or along an edge that its step does not have."""


class ResourceError(EagerflowError, ValueError):
    """A name in a container that belongs to another kind of resource than requested, or to none."""


class ProtocolError(EagerflowError, ValueError):
    """A message of another process that is malformed, too large, or of another protocol.

    It was dropped or answered with this error; its receiver goes on.
    """


class GraphSyntaxError(GraphError):
    """A text that is not the text form of a graph.

    >>> ef.Graph.parse("graph f(%x: f32[2]) { return %y }")
    Traceback (most recent call last):
    eagerflow.errors.GraphSyntaxError: line 1, column 30: unexpected '%y'
      got: graph f(%x: f32[2]) { return %y }
                                        ^
      expected: a value that is defined above
    ...
    >>> len(ef.Graph.parse("graph f(%x: f32[2]) { return %x }").outputs)
    1
    """


class GraphFileError(GraphError):
    """A graph file that is truncated, damaged, foreign, or of a newer format."""


class OpDefinitionError(EagerflowError, TypeError):
    """An op record that is incomplete or contradicts another one."""


class KernelError(EagerflowError, RuntimeError):
    """A kernel that failed in a way that no rule foresaw, or is missing for a device."""


class OutOfMemoryError(EagerflowError, MemoryError):
    """An allocation failed."""


class QueueClosedError(EagerflowError, RuntimeError):
    """A closed queue or barrier cannot take an element, or give as many as requested.

    One that a failed runner closed raises a `RunnerFailedError` instead.
    """

    #: the elements that stay in a queue of this process, fewer than `Queue.dequeue_many` waits for
    rest: Any = None


class CancelledError(EagerflowError, RuntimeError):
    """A step, or an operation that waited, was cancelled."""


class EnqueueCancelledError(QueueClosedError, CancelledError):
    """An enqueue that waited when its queue was closed with ``cancel_pending=True``."""


class RunnerFailedError(EagerflowError, RuntimeError):
    """A queue or barrier that a runner closed as it failed: more elements would have come.

    It is no `QueueClosedError`, which tells that the data have ended. The message quotes the
    runner, its error and its line, and ``__cause__`` is that error, without its frames.

    >>> lengths = ef.Queue(9, ef.tensor(0))
    >>> lines = iter(["7", "12", "many"])
    >>> with ef.spawn(lambda: lengths.enqueue(int(next(lines))), name="feeder", closes=lengths):
    ...     for length in lengths:
    ...         print(length)
    Traceback (most recent call last):
    eagerflow.errors.RunnerFailedError: dequeue: the queue is closed and empty, as a runner failed
    ...
    """


class WaitTimeoutError(EagerflowError, TimeoutError):
    """A queue, mutex, accumulator or barrier made an operation wait for longer than its timeout."""


class MutexError(EagerflowError, RuntimeError):
    """A mutex that a thread would acquire twice, or that it releases without a hold."""


class DeadlineError(CancelledError, TimeoutError):
    """A step, or a wait for a queue, took longer than its `eagerflow.deadline` allowed.

    A step ends between two ops, or where it waits; a call after the deadline does nothing.

    >>> f = ef.trace(lambda x: ef.exp(x))
    >>> with ef.deadline(1e-9):
    ...     f(ef.zeros(2))
    Traceback (most recent call last):
    eagerflow.errors.DeadlineError: the step was cancelled: its deadline has passed
    ...
    """


class LengthError(EagerflowError, TypeError):
    """The length of a dataset that is endless, or whose length is not known before its end.

    >>> endless = ef.data.Dataset.from_tensors(ef.arange(3)).repeat()
    >>> len(endless)
    Traceback (most recent call last):
    eagerflow.errors.LengthError: this dataset is endless
    ...
    """


class FileError(EagerflowError, OSError):
    """A file that an op or a reader cannot read or write."""


class RecordError(EagerflowError, ValueError):
    """A damaged record, picture or row group of a file, or a line that cannot be decoded."""


class WorkerError(EagerflowError, RuntimeError):
    """A worker process of a pipeline ended before its work did."""


class TaskLost(EagerflowError, RuntimeError):
    """A task server that died or stopped answering."""


class ClusterWarning(UserWarning):
    """A task of a cluster that runs other versions, or was restarted and has lost its state."""


class AuthenticationError(EagerflowError, PermissionError):
    """A peer could not prove its identity."""


class CheckpointError(EagerflowError, RuntimeError):
    """A checkpoint that is torn, foreign, newer, or does not fit."""


class CheckpointWarning(UserWarning):
    """A checkpoint that was skipped because it is damaged, or was loaded only in part."""


class MoveWarning(UserWarning):
    """A variable that crosses to another device in each step, because of a scope or a rule.

    Results are right, but each step waits for the bytes; `eagerflow.move` moves the variable. To
    hide it: ``warnings.simplefilter("ignore", ef.errors.MoveWarning)``;
    ``ef.config(moves="error")`` makes errors of all moves that scopes ask for.
    """


def traceback(mode: Literal["full", "short"]) -> None:
    """Choose the frames that notebooks, and Python at the end of a script, show of an error.

    Args:
        mode: ``"short"`` (the default) hides eagerflow's own frames, ``"full"`` shows all.

    >>> ef.traceback("full")
    >>> ef.traceback("short")
    """
    if mode not in ("full", "short"):
        raise TensorValueError(
            f"traceback: {mode!r} is not a mode", expected="'full' or 'short'", source=capture(2)
        )
    show_all_frames(mode == "full")


def __dir__() -> list[str]:
    return sorted(__all__)
