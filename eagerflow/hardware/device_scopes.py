"""Device scopes: blocks whose ops run on a device that the block names.

A scope is context, of one thread and one context of `contextvars`; `bind` reads it (see
`eagerflow.core.moves_to_scopes`). This module knows which one is in force, and where ops run in it.
"""

from __future__ import annotations

import sys
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR
from threading import Lock
from types import FrameType
from typing import Any, Final, final
from weakref import WeakValueDictionary

from eagerflow.errors import DeviceError
from eagerflow.hardware.device_names import DeviceName
from eagerflow.hardware.registry import (
    Device,
    existing,
    find,
    first_cpu,
    known_name,
    latest_scope,
    scopes_by,
)

# --- what a block asks for ------------------------------------------------------------------


@final
class DeviceScope:
    """What a block asks for. Equal ones are one object, so that `is` compares two.

    Attributes:
        name: as merged with those around it.
        device: where ops run; of a pattern, where those run whose operands leave the choice.
        is_pattern: whether the operands of an op may choose.
        colocated: whether the device is that of a value, and follows it if that is placed.
        text: in words, as the reason for which a node is where it is.
    """

    __slots__ = ("__weakref__", "colocated", "device", "is_pattern", "name", "text", "usual")

    def __init__(self, name: DeviceName, device: Device, colocated: bool) -> None:
        self.name = name
        self.device = device
        #: where operands are that need no move: of a pattern, the device that was taken last
        self.usual = device
        self.is_pattern = name.is_pattern
        self.colocated = colocated
        self.text = repr(self) if colocated else f"scope {self!r}"

    def home(self, devices: Iterable[Any]) -> Device:
        """Where an op runs whose operands are on these devices, of which None is not known."""
        if not self.is_pattern:
            return self.device
        for one in devices:
            if one is not None and (
                one is self.usual or self.name.takes(one.task, one.kind, one.index)
            ):
                taken: Device = one
                self.usual = taken
                return taken
        return self.device

    def __repr__(self) -> str:
        if self.colocated:
            return f"colocation on {self.device}"
        return str(self.name) if self.is_pattern else str(self.device)


_known: Final[WeakValueDictionary[tuple[DeviceName, Device, bool], DeviceScope]] = (
    WeakValueDictionary()
)
_known_lock: Final = Lock()


def _scope_of(name: DeviceName, device: Device, colocated: bool = False) -> DeviceScope:
    key = (name, device, colocated)
    with _known_lock:
        scope = _known.get(key)
        if scope is None:
            scope = _known[key] = DeviceScope(name, device, colocated)
    return scope


def _name_of(device: Device) -> DeviceName:
    job, _, task = (device.task or "").partition(":")
    return DeviceName(job or None, int(task) if task else None, device.kind, device.index)


# --- which one is in force ------------------------------------------------------------------


@final
class _AllOpen:
    """The scopes that are open in all threads together.

    Attributes:
        home: the device of all of them; None if they are for several devices, or none has one. An
            op whose operands are there runs there, whichever scope is in force.
    """

    __slots__ = ("_devices", "_lock", "home")

    def __init__(self) -> None:
        self.home: Device | None = None
        self._devices: Counter[Device] = Counter()
        self._lock = Lock()

    def count(self, scope: DeviceScope | None, change: int) -> None:
        if scope is None:
            return
        with self._lock:
            self._devices[scope.device] += change
            if not self._devices[scope.device]:
                del self._devices[scope.device]
            self.home = next(iter(self._devices)) if len(self._devices) == 1 else None


all_open: Final = _AllOpen()


@final
class _Unsure:
    """In the place of a scope of which has to be asked whether it is in force."""

    __slots__ = ()
    usual: Final = None


_UNSURE: Final = _Unsure()


@final
class OpenScope:
    """One time that a block is open.

    Attributes:
        scope: what it asks for; None if it ends that of the block around it.
        home: where ops run, if no operand may choose.
        outer: the one in force when it was opened, None if that was none.
        moved: what was moved within it, as `eagerflow.core.moves_to_scopes` notes it.
        is_users: whether the user's code opened it, and not an op that runs elsewhere in it.
        part: of one that a trace opens for a part, the interpreter that was on top before.
        ended: whether its block was left.
        is_plain: whether neither it nor one below belongs to a generator, so that it is in force.
        certain: its scope if it has one and is in force as long as this is the latest; its
            ``usual`` is all that an op with nothing to move looks at.
        anchor: of a colocation, what the value was that it is for, if a trace made it.
        opened: the code and the offset of the line that opened it, if the user's code did.
    """

    __slots__ = ("_asleep", "_below", "_frame", "anchor", "certain", "ended", "home", "is_plain",
                 "is_users", "moved", "opened", "outer", "part", "scope")  # fmt: skip

    def __init__(
        self, scope: DeviceScope | None, *, frame: FrameType | None = None,
        moved: dict[Any, Any] | None = None, outer: OpenScope | None = None, part: Any = None,
        anchor: Any = None, opened: tuple[Any, int] | None = None,
    ) -> None:  # fmt: skip
        self.opened = opened
        self.scope = scope
        self.anchor = anchor
        self.home = None if scope is None or scope.is_pattern else scope.device
        self.outer = outer
        self.moved = {} if moved is None else moved
        self.is_users = moved is None
        self.part = part
        self.ended = False
        #: the generator whose block it is: while that is suspended, the scope is not in force
        self._frame = frame
        below: OpenScope | None = _current.get()
        while below is not None and below.ended:
            below = below._below
        self._below: OpenScope | None = below
        self.is_plain: bool = frame is None and (below is None or below.is_plain)
        self.certain: DeviceScope | _Unsure = (
            scope if scope is not None and self.is_plain else _UNSURE
        )
        #: those below whose generators are suspended now: they are inside of it when they run
        self._asleep: tuple[OpenScope, ...] = ()
        if below is not None and not below.is_plain:
            self._asleep = tuple([one for one in below.chain() if one._is_asleep])
        _current.set(self)
        _told(1)
        all_open.count(scope, 1)

    @property
    def _is_asleep(self) -> bool:
        return self._frame is not None and self._frame.f_back is None

    def chain(self) -> Iterable[OpenScope]:
        """It and those below, from the one that was opened last."""
        one: OpenScope | None = self
        while one is not None:
            yield one
            one = one._below

    def innermost(self) -> OpenScope | None:
        """The one in force among it and those below."""
        frame = self._frame  # spelled out: ops in a scope of a generator pay for this
        if (frame is None or frame.f_back is not None) and not (self._asleep or self.ended):
            return self
        innermost: OpenScope | None = None
        for one in self.chain():
            if one.ended or one._is_asleep:
                continue
            if innermost is None or one in innermost._asleep:
                innermost = one
            if one.is_plain:
                break
        return innermost

    def end(self) -> None:
        """Leave the block, from wherever: only this one ends."""
        self.ended = True  # also for threads, contexts and blocks that have it in their chain
        self.certain = _UNSURE
        self._frame = None
        if self.is_users:
            self.moved.clear()
        if _current.get() is self:
            _current.set(self._below)
        _told(-1)
        all_open.count(self.scope, -1)

    def __enter__(self) -> None:
        """Nothing: it is open since it was made."""

    def __exit__(self, *raised: object) -> None:
        self.end()


_current: Final[ContextVar[OpenScope | None]] = latest_scope
#: the one that was opened last in this thread; whether it is in force is another question
latest: Final = _current.get


def _nobody(change: int) -> None:
    """What `count_by` replaces."""


_told: Callable[[int], None] = _nobody


def count_by(tell: Callable[[int], None]) -> None:
    """Let ``tell(1)`` and ``tell(-1)`` hear of each scope that is opened and left."""
    global _told
    _told = tell


def open_scope() -> OpenScope | None:
    """The one in force in this thread; None if ops run where their operands are."""
    one = _current.get()
    if one is None:
        return None
    if one.certain is _UNSURE:
        one = one.innermost()
        if one is None:
            return None
    return None if one.scope is None else one


def usual_device() -> Device | None:
    """Where operands are that need no move in the scope opened last; None if that is not known."""
    one = _current.get()
    return None if one is None else one.certain.usual


def is_home(device: Device) -> bool:
    """Whether an op whose operands are all on ``device`` runs there, whatever scope is open."""
    if device is all_open.home:
        return True
    one = _current.get()
    if one is None or one.certain.usual is device:
        return True
    if one.certain is _UNSURE:
        one = one.innermost()
        if one is None:
            return True
    scope = one.scope
    return scope is None or scope.usual is device


def current_device_scope() -> DeviceScope | None:
    """What the scope in force asks for."""
    one = open_scope()
    return None if one is None else one.scope


def current_device() -> Device:
    """The device on which new tensors are made."""
    if _current.get() is None:
        return first_cpu()
    one = open_scope()
    return first_cpu() if one is None or one.scope is None else one.scope.device


def without_scope() -> OpenScope:
    """Open a block in which ops run where their operands are: for rules of derivatives."""
    return OpenScope(None)


def within(scope: DeviceScope | None) -> AbstractContextManager[None]:
    """Open a scope anew: in another thread, or for a trace, which knows nothing of moves before.

    Args:
        scope: what `current_device_scope` gave; within None there is none.
    """
    return nullcontext() if scope is None and open_scope() is None else OpenScope(scope)


def runs_at(device: Device) -> OpenScope | None:
    """Open a block for what is to run on ``device`` whatever scope is open; None if none has to be.

    What is moved in it counts as moved in the scope around.
    """
    around = open_scope()
    if around is None or around.home is device:
        return None
    return OpenScope(_scope_of(_name_of(device), device), moved=around.moved, outer=around.outer)


def home_of(device: Device) -> Device:
    """Where an op runs that has an operand on ``device``: what is made for it is made there.

    >>> with ef.config(cpu_devices=2), ef.device("cpu:1"):
    ...     ef.hardware.home_of(ef.hardware.as_device("cpu:0"))
    Device('cpu:1')
    """
    one = _current.get()
    if one is None or one.certain.usual is device:
        return device
    one = open_scope()
    return device if one is None or one.scope is None else one.scope.home([device])


def beside(x: Any) -> AbstractContextManager[Any]:
    """A block in which ops run where ``x`` is, if a scope is open; else it changes nothing.

    `colocate` moves operands in any case. This is for libraries, for what belongs to state.

    Args:
        x: a tensor, a variable, or something else that has a device.

    >>> with ef.config(cpu_devices=2), ef.device("cpu:1"), ef.hardware.beside(ef.zeros(2)):
    ...     ef.ones(2).device
    Device('cpu:1')
    """
    return runs_at(x.device) or nullcontext()


def part_of_trace(top: Any) -> OpenScope | None:
    """Open the scope in force anew for a part of a trace, such as a branch.

    What it moves stays in the part; what was moved before it can be used.

    Args:
        top: the interpreter that was on top before.
    """
    around = open_scope()
    if around is None:
        return None
    return OpenScope(
        around.scope, outer=around, part=top, anchor=around.anchor, opened=around.opened
    )


def said_by_scope(device: Device | None) -> DeviceName | str | Any:
    """What the scope in force says of an op that runs on ``device``; None if it says nothing.

    That is its pattern, or what `OpenScope.anchor` is, and of one that leaves nothing open its text
    if it asks for that device.
    """
    one = open_scope()
    if one is None or one.scope is None:
        return None
    if one.scope.is_pattern:
        return one.scope.name
    if one.anchor is not None:
        return one.anchor
    return one.scope.text if one.is_users and one.scope.device is device else None


# --- the blocks -----------------------------------------------------------------------------

#: modules that resume a generator in order to run the code of their caller in its block
_RESUMING: Final = frozenset({"contextlib", "_pytest.fixtures"})


def _resumes(frame: FrameType | None) -> bool:
    return frame is not None and frame.f_globals.get("__name__") in _RESUMING


def _generator(frame: FrameType | None) -> FrameType | None:
    """The generator whose code opens a block, if it is one, from the frame that opens it."""
    while frame is not None:
        generates = frame.f_code.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR)
        if not _resumes(frame) and not (generates and _resumes(frame.f_back)):
            return frame if generates else None
        frame = frame.f_back
    return None


class AbstractScopeBlock(ABC):
    """A ``with`` statement that opens a scope. It may be entered several times.

    Attributes:
        device: where new tensors are made in it.
    """

    device: Device

    def __init__(self, scope: DeviceScope | None, device: Device, anchor: Any = None) -> None:
        self.device = device
        self._scope = scope
        self._anchor = anchor
        self._open: list[OpenScope] = []

    def __enter__(self) -> Device:
        caller = sys._getframe(1)
        self.device.put = caller.f_code, caller.f_lasti
        self._open.append(
            OpenScope(
                self._scope, frame=_generator(caller), outer=open_scope(), anchor=self._anchor,
                opened=(caller.f_code, caller.f_lasti),
            )
        )  # fmt: skip
        return self.device

    def __exit__(self, *raised: object) -> None:
        top = _current.get()
        here = () if top is None else top.chain()
        # one object may be open in several threads and generators
        one = next((one for one in here if one in self._open), self._open[-1])
        self._open.remove(one)
        one.end()


@final
class device(AbstractScopeBlock):
    """Run ops on a device within a ``with`` block: new tensors are made there, operands move there.

    The innermost block wins. Operands are moved once for each block; ``.to()`` and ``device=`` win
    over it, ops on variables and queues run where these are, and an update in place (``x += y``,
    ``x[i] = y``) runs where ``x`` is. Outside of such blocks operands on several devices are an
    error. A traced function that is called in it is traced for it.

    Args:
        name: a device or its name, such as ``"gpu:1"`` or ``"worker:1/gpu:0"``. What it leaves out
            comes from the block around it if it fits: ``"gpu"`` within ``"gpu:1"`` is gpu:1. A
            pattern (``"gpu:*"``, ``"worker:*"``) leaves ops where their first operand is that is
            on such a device, and moves all others to the first one. None ends the block around.

    Raises:
        DeviceError: no such device.

    >>> with ef.config(cpu_devices=2):
    ...     x = ef.ones(2)
    ...     with ef.device("cpu:1"):
    ...         y = x + 1
    ...     x.device, y.device
    (Device('cpu:0'), Device('cpu:1'))
    """

    def __init__(self, name: Device | AbstractScopeBlock | str | None) -> None:
        if name is None:
            super().__init__(None, first_cpu())
        elif isinstance(name, AbstractScopeBlock):
            super().__init__(name._scope, name.device, name._anchor)
        else:
            scope = _asked(name)
            super().__init__(scope, scope.device)

    def __repr__(self) -> str:
        return f"ef.device({None if self._scope is None else repr(self._scope)!r})"


def _asked(name: Device | str) -> DeviceScope:
    """What a block with that name asks for, within the one in force."""
    around = current_device_scope()
    if isinstance(name, Device):
        return _scope_of(_name_of(name), name)
    own = known_name(name)
    outer = _name_of(first_cpu()) if around is None else around.name
    merged = own.within(outer)
    first = existing(find(merged))
    if not merged.is_pattern:
        return _scope_of(_name_of(first), first)
    before = None if around is None else around.device  # which stays the choice if it fits
    return _scope_of(merged, DeviceScope(merged, first, colocated=False).home([before]))


@final
class colocate(AbstractScopeBlock):
    """Run ops where a value is, within a ``with`` block: a scope for the device of ``x``.

    Args:
        x: a tensor, a variable, a queue, or anything else that has a ``device``.

    Raises:
        DeviceError: it has none.

    >>> with ef.config(cpu_devices=2):
    ...     v = ef.Variable([1.0, 2.0], device="cpu:1")
    ...     with ef.colocate(v):
    ...         (ef.ones(2) * v).device
    Device('cpu:1')
    """

    def __init__(self, x: Any) -> None:
        where = getattr(x, "device", None) or getattr(getattr(x, "resource", None), "device", None)
        if not isinstance(where, Device):
            raise DeviceError(
                "colocate: this is on no device",
                given=repr(x) if isinstance(x, str) else f"an object of type {type(x).__name__}",
                expected="a tensor, a variable, or something else that has a device",
                hint="ef.device(name) names a device" if isinstance(x, str) else None,
            )
        symbolic = getattr(getattr(x, "_lane", None), "symbolic", False)
        anchor = x._data if symbolic else None
        super().__init__(_scope_of(_name_of(where), where, colocated=True), where, anchor)

    def __repr__(self) -> str:
        return f"ef.colocate(<on {self.device}>)"


def _of_scope(name: object) -> Device | None:
    if name is None:
        return current_device()
    return name.device if isinstance(name, AbstractScopeBlock) else None


scopes_by(_of_scope)
