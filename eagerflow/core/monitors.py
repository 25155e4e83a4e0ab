"""Monitors: interpreters that see each op where it is executed, below tapes and traces.

A thread may have monitors of its own. Those of this module are installed for the whole process as
soon as any thread wants them: those that settings ask for act in the threads with these settings;
timing, which profiles ask for, acts in all.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final, final

import numpy as np

from eagerflow import events, settings
from eagerflow.core.infer import describe, infer_specs
from eagerflow.core.interpreter import (
    DEVICE,
    PROCESS,
    AbstractInterpreter,
    stack,
    top_monitor,
    unlink,
)
from eagerflow.core.op import Op
from eagerflow.core.op_records.non_finite_remedies import remedy
from eagerflow.core.tensor import Tensor, type_of
from eagerflow.errors import DataDependentError, KernelError, NonFiniteError
from eagerflow.events import OpEvent
from eagerflow.hardware import Device
from eagerflow.hardware.copies import to_host
from eagerflow.resources.waiting_operations import slept
from eagerflow.settings import Settings
from eagerflow.source import capture
from eagerflow.types import LIST, TensorSpec


@final
class monitored:
    """Put a monitor below the transforms of this thread for the length of the block."""

    __slots__ = ("_interpreter",)

    def __init__(self, interpreter: AbstractInterpreter) -> None:
        self._interpreter = interpreter

    def __enter__(self) -> None:
        self._interpreter.below = top_monitor.get() or PROCESS
        try:
            stack.hold_monitor(self._interpreter)
            top_monitor.set(self._interpreter)
        except BaseException:  # Ctrl-C, or the end of Python's stack: the block is not entered
            self.__exit__()
            raise

    def __exit__(self, *raised: object) -> None:
        try:
            self._leave()
        except BaseException:  # Ctrl-C while the block is left
            self._leave()
            raise

    def _leave(self) -> None:
        unlink(top_monitor, self._interpreter)
        stack.release_monitor(self._interpreter)


@final
class Brake(AbstractInterpreter):
    """Cancellation of a thread's ops by another thread: from `pull` on each op raises.

    It is a monitor for the length of a block, and costs ops nothing before `pull`. Running graphs
    do not see it; they ask their step (see `eagerflow.events.step_of`).

    Args:
        failure: makes the error.

    Attributes:
        pulled: whether the thread is to end its work.
    """

    def __init__(self, failure: Callable[[], Exception]) -> None:
        self.pulled = False
        self._failure = failure
        self._lock = threading.Lock()
        self._on = False

    def bind(self, op: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        if self.pulled:
            raise self._failure()
        return self.below.bind(op, inputs, attrs)

    def pull(self) -> None:
        """Let the ops of the thread raise, until its block ends. Any thread may call it."""
        with self._lock:
            self.pulled = True
            if self._on:  # from now on ops check for monitors
                stack.hold_monitor(self)

    def __enter__(self) -> Brake:
        self.below = top_monitor.get() or PROCESS
        top_monitor.set(self)
        with self._lock:
            self._on = True
        return self

    def __exit__(self, *raised: object) -> None:
        unlink(top_monitor, self)
        with self._lock:
            self._on = False
            stack.release_monitor(self)


def monitors() -> Iterator[AbstractInterpreter]:
    """The monitors that see the ops of this thread, from the top."""
    monitor = top_monitor.get() or stack.monitor
    while monitor is not None and monitor is not DEVICE:
        if monitor is PROCESS:
            monitor = stack.monitor
        else:
            if type(monitor) is not Brake:
                yield monitor
            monitor = monitor.below


def _tensors(result: Any) -> Sequence[Tensor]:
    return result if type(result) is tuple else (result,)


@final
class CheckNan(AbstractInterpreter):
    """The monitor that raises at the first op that makes a NaN or an infinity of finite inputs."""

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        if inputs and settings.current().check_nan:  # ops without inputs make requested values
            bad = [x for x in _tensors(result) if not _is_finite(x)]
            if bad and all(map(_is_finite, inputs)) and all(map(is_finite_number, attrs.values())):
                given = [(x._data, x.device) for x in inputs if _has_range(x)]
                made = [(x._data, x.device) for x in bad]
                raise not_finite(op, [*map(type_of, inputs)], attrs, given, made)
        return result


def _is_finite(x: Tensor) -> bool:
    return not _has_range(x) or all_finite(x._data, x.device)


def _has_range(x: Tensor) -> bool:
    return is_looked_at(x.device) and x.dtype.is_inexact and x.dtype is not LIST


def is_looked_at(device: Device) -> bool:
    """Whether values of a device are checked: it holds data, and reading needs no message.

    Args:
        device: the device.
    """
    return device.holds_data and device.task is None


def all_finite(data: Any, device: Device) -> bool:
    """Whether an array of floating or complex numbers has no NaN and no infinity.

    Args:
        data: the array.
        device: the device of the array.
    """
    if type(data) is np.ndarray:
        # the sum of squares takes a third of the time; it may be infinite for large numbers
        if data.dtype.char in "fd" and math.isfinite(np.vdot(data, data)):
            return True
        return bool(np.logical_and.reduce(np.isfinite(data), axis=None))
    return bool(device.xp.isfinite(data).all())


def is_finite_number(value: Any) -> bool:
    """Whether an attribute of an op is not a NaN or an infinite number.

    Args:
        value: the attribute.
    """
    return not isinstance(value, float | complex) or math.isfinite(abs(value))


def not_finite(
    op: Op,
    inputs: Sequence[TensorSpec],
    attrs: dict[str, Any],
    given: Sequence[tuple[Any, Device]],
    made: Sequence[tuple[Any, Device]],
) -> NonFiniteError:
    """The error for an op that made a NaN or an infinity from finite inputs.

    Args:
        op: the op.
        inputs: the specs of its inputs.
        attrs: its attributes.
        given: the arrays of its inputs that have floating or complex numbers, with their devices.
        made: the arrays of its results, of which one is not finite, with their devices.
    """
    nan = any(bool(device.xp.isnan(data).any()) for data, device in made)
    described = describe(op, [s.type for s in inputs], attrs, [s.device for s in inputs])
    return NonFiniteError(
        f"{op.name}: made {'a NaN' if nan else 'an infinity'} from finite inputs",
        given="; ".join(filter(None, (described, _ranges(given), *map(_count, made)))),
        hint=remedy(op),
    )


def _ranges(given: Sequence[tuple[Any, Device]]) -> str:
    """The extremes of inputs in their order: ``values from 0 to 1, from -2 to 2``."""
    shown = []
    for data, device in given:
        numbers = np.asarray(to_host(data, device))
        if not numbers.size:
            continue
        is_complex = numbers.dtype.kind == "c"
        wide = np.abs(numbers) if is_complex else numbers.astype("float64")
        low, high = float(wide.min()), float(wide.max())
        sized = " in absolute value" if is_complex else ""
        shown.append(f"{low:.6g}{sized}" if low == high else f"from {low:.6g} to {high:.6g}{sized}")
    return f"values {', '.join(shown)}" if shown else ""


def _count(made: tuple[Any, Device]) -> str:
    """How many elements of a result are not finite: ``1 NaN of 2 elements, the first at [1]``."""
    numbers = np.asarray(to_host(*made))
    nan = int(np.isnan(numbers).sum())
    infinite = numbers.size - nan - int(np.isfinite(numbers).sum())
    parts = [f"{nan:,} NaN"] * (nan > 0) + [f"{infinite:,} infinite"] * (infinite > 0)
    if not parts:
        return ""
    elements = "element" if numbers.size == 1 else "elements"
    first = np.argwhere(~np.isfinite(numbers))[0].tolist()
    at = f", the first at {first}" if numbers.size > 1 else ""
    return f"{' and '.join(parts)} of {numbers.size:,} {elements}{at}"


@final
class Verify(AbstractInterpreter):
    """The monitor that raises if the result of a kernel is not of the type by the op's rule."""

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        result = self.below.bind(op, inputs, attrs)
        if settings.current().verify:
            check_types(op, list(map(type_of, inputs)), attrs, list(map(type_of, _tensors(result))))
        return result


def check_types(
    op: Op, inputs: Sequence[TensorSpec], attrs: dict[str, Any], given: Sequence[TensorSpec]
) -> None:
    """Raise if the results of a kernel are not of the types by the rules of the op.

    Args:
        op: the op.
        inputs: the specs of its inputs.
        attrs: its attributes.
        given: the specs of the results.

    Raises:
        KernelError: the types differ.
    """
    try:
        expected = infer_specs(op, inputs, attrs)
    except DataDependentError:
        return
    if len(given) != len(expected) or not all(map(_agree, given, expected)):
        described = describe(op, [s.type for s in inputs], attrs, [s.device for s in inputs])
        raise KernelError(
            f"{op.name}: the result is not of the type that the rule gives",
            given=f"{_show(given)} of {described}",
            expected=_show(expected),
        )


def _agree(given: TensorSpec, rule: TensorSpec) -> bool:
    if given.dtype is not rule.dtype or given.shape != rule.shape:
        return False
    return rule.device is None or rule.device == given.device


def _show(types: Sequence[TensorSpec]) -> str:
    return ", ".join(map(str, types))


@final
class Timing(AbstractInterpreter):
    """The monitor that emits an event for each op (`eagerflow.events.OpEvent`)."""

    def bind(self, op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
        start, before = perf_counter(), slept.seconds
        result = self.below.bind(op, inputs, attrs)
        stop = perf_counter()
        if OpEvent.listeners:
            outputs = _tensors(result)
            events.end(
                OpEvent(
                    name=op.name,
                    device=next((x.device.name for x in (*outputs, *inputs)), ""),
                    start=start,
                    stop=stop,
                    nbytes=sum(x.nbytes for x in outputs),
                    detail=_show([type_of(x) for x in outputs]),
                    source=capture(2),
                    waited=slept.seconds - before,
                )
            )
        return result


@final
class _Wanted:
    """The monitors of the process: those of settings, and one that times ops while any block wants.

    Attributes:
        timed: the blocks of `timed` that are open.
    """

    def __init__(self) -> None:
        self.timed = set[object]()
        self._checks: tuple[type[CheckNan] | type[Verify], ...] = ()
        self._lock = threading.Lock()

    def set_checks(self, old: Settings, new: Settings) -> None:
        """Follow a change of settings."""
        if (old.check_nan, old.verify) != (new.check_nan, new.verify):
            with self._lock:
                self._checks = (CheckNan,) * new.check_nan + (Verify,) * new.verify
                self._install()

    def begin(self, block: object) -> None:
        """Time ops until the end of a block."""
        with self._lock:
            self.timed.add(block)
            self._install()

    def end(self, block: object) -> None:
        """End a block; called also if Ctrl-C may have ended the call of `begin`."""
        with self._lock:
            self.timed.discard(block)
            self._install()

    def _install(self) -> None:
        timing: list[AbstractInterpreter] = [Timing()] if self.timed else []
        top: AbstractInterpreter = DEVICE
        for monitor in reversed([*timing, *[check() for check in self._checks]]):
            monitor.below = top
            top = monitor
        stack.monitor = None if top is DEVICE else top
        if top is DEVICE:
            stack.release_monitor(PROCESS)
        else:
            stack.hold_monitor(PROCESS)


_wanted: Final = _Wanted()
settings.on_change(_wanted.set_checks)


@contextmanager
def timed() -> Iterator[None]:
    """Emit an event for each op of any thread within the block; nested blocks add none."""
    block = object()
    try:
        _wanted.begin(block)
        yield
    finally:
        _wanted.end(block)
