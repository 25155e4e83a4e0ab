"""Device scopes: blocks whose ops run on a device that the block names.

A scope is context, of one thread and one context of `contextvars`; `bind` reads it (see
`eagerflow.core.moves_to_scopes`). This module knows which scope is in force, and where ops run in
it. The ``with`` statements that open scopes are in `hardware/device_blocks.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from threading import Lock
from types import FrameType
from typing import Any, Final, final
from weakref import WeakValueDictionary

from eagerflow.hardware.device_names import DeviceName
from eagerflow.hardware.registry import Device, latest_scope

# --- scopes ---------------------------------------------------------------------------------


@final
class DeviceScope:
    """The device or pattern that a block asks for. Equal scopes are one object, so `is` compares.

    Attributes:
        name: the device name, merged with those of enclosing blocks.
        device: where ops run; for a pattern, the device of ops that no operand decides.
        is_pattern: whether the operands of an op may choose the device.
        colocated: whether the device is that of a value, and follows the value if it is placed.
        text: the scope in words, as the reason of a node's placement.
    """

    __slots__ = ("__weakref__", "colocated", "device", "is_pattern", "name", "text", "usual")

    def __init__(self, name: DeviceName, device: Device, colocated: bool) -> None:
        self.name = name
        self.device = device
        #: the device of operands that need no move: for a pattern, the one chosen last
        self.usual = device
        self.is_pattern = name.is_pattern
        self.colocated = colocated
        self.text = repr(self) if colocated else f"scope {self!r}"

    def home(self, devices: Iterable[Any]) -> Device:
        """The device of an op whose operands are on these devices; None is an unknown one."""
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


def scope_of(name: DeviceName, device: Device, colocated: bool = False) -> DeviceScope:
    """The unique scope object for these arguments."""
    key = (name, device, colocated)
    with _known_lock:
        scope = _known.get(key)
        if scope is None:
            scope = _known[key] = DeviceScope(name, device, colocated)
    return scope


def name_of(device: Device) -> DeviceName:
    """The whole name of a device."""
    job, _, task = (device.task or "").partition(":")
    return DeviceName(job or None, int(task) if task else None, device.kind, device.index)


# --- the scope in force ---------------------------------------------------------------------


@final
class _AllOpen:
    """The scopes that are open in all threads together.

    They are kept in a table and not counted, so that Ctrl-C while a block begins or ends does no
    harm: removing a scope twice is safe.

    Attributes:
        home: the device of all scopes; None if they are for several devices, or none has one. An
            op whose operands are there runs there, whichever scope is in force.
    """

    __slots__ = ("_lock", "_open", "home", "tell")

    def __init__(self) -> None:
        self.home: Device | None = None
        self._open: dict[OpenScope, Device | None] = {}
        self._lock = Lock()
        #: called with whether any scope is open (filled by `eagerflow.core.interpreter`)
        self.tell: Callable[[bool], object] = bool

    def add(self, one: OpenScope) -> None:
        """Add an open scope."""
        with self._lock:
            self._open[one] = None if one.scope is None else one.scope.device
            self._look()

    def remove(self, one: OpenScope) -> None:
        """Remove a scope; called twice where Ctrl-C may have interrupted the first call."""
        with self._lock:
            self._open.pop(one, None)
            self._look()

    def _look(self) -> None:
        devices = {device for device in self._open.values() if device is not None}
        self.home = next(iter(devices)) if len(devices) == 1 else None
        self.tell(bool(self._open))


all_open: Final = _AllOpen()


@final
class _Unsure:
    """Stands for a scope that may not be in force, which has to be looked up."""

    __slots__ = ()
    usual: Final = None
    device: Final = None


_UNSURE: Final = _Unsure()


@final
class OpenScope:
    """An activation of a block, from its entry to its exit.

    Attributes:
        scope: the scope of the block; None if the block suspends the enclosing one.
        home: where ops run, if no operand may choose.
        outer: the open scope in force when this one was opened; None if there was none.
        moved: the values moved within it, as `eagerflow.core.moves_to_scopes` notes them.
        is_users: whether the user's code opened it, and not an op that runs elsewhere in it.
        part: for part of a trace, the interpreter that was on top before.
        ended: whether its block was left.
        is_plain: whether no generator owns it or one below, so that it is in force.
        certain: its scope, if that is in force as long as this is the latest; an op with nothing
            to move reads only its ``usual``, and an op that creates a tensor only its ``device``.
        anchor: for colocation with a value of a trace, that value.
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
        #: the generator that owns the block: while it is suspended, the scope is not in force
        self._frame = frame
        below: OpenScope | None = _current.get()
        while below is not None and below.ended:
            below = below._below
        self._below: OpenScope | None = below
        self.is_plain: bool = frame is None and (below is None or below.is_plain)
        self.certain: DeviceScope | _Unsure = (
            scope if scope is not None and self.is_plain else _UNSURE
        )
        #: scopes below whose generators are suspended now: they are inside of it when they run
        self._asleep: tuple[OpenScope, ...] = ()
        if below is not None and not below.is_plain:
            self._asleep = tuple([one for one in below.chain() if one._is_asleep])
        _current.set(self)
        all_open.add(self)

    @property
    def _is_asleep(self) -> bool:
        return self._frame is not None and self._frame.f_back is None

    def chain(self) -> Iterable[OpenScope]:
        """This scope and those below it, the latest first."""
        one: OpenScope | None = self
        while one is not None:
            yield one
            one = one._below

    def innermost(self) -> OpenScope | None:
        """The scope in force, of this one and those below it."""
        frame = self._frame  # inlined, as each op in a scope of a generator pays for this
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
        """End this scope alone, whatever scopes are above it."""
        self.ended = True  # also for threads, contexts and blocks that have it in their chain
        self.certain = _UNSURE
        self._frame = None
        if self.is_users:
            self.moved.clear()
        all_open.remove(self)  # first, as a scope in the chain can be found, and ended once more
        if _current.get() is self:
            _current.set(self._below)

    def __enter__(self) -> None:
        """Do nothing: a scope is open from its construction."""

    def __exit__(self, *raised: object) -> None:
        try:
            self.end()
        except BaseException:  # Ctrl-C while the block is left
            self.end()
            raise


_current: Final[ContextVar[OpenScope | None]] = latest_scope
#: the scope opened last in this thread, which is not necessarily in force
latest: Final = _current.get


def open_scope() -> OpenScope | None:
    """The open scope in force in this thread; None if ops run where their operands are."""
    one = _current.get()
    if one is None:
        return None
    if one.certain is _UNSURE:
        one = one.innermost()
        if one is None:
            return None
    return None if one.scope is None else one


def usual_device() -> Device | None:
    """The device of operands that need no move in the scope opened last; None if not known."""
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
    """The scope in force; None if ops run where their operands are."""
    one = open_scope()
    return None if one is None else one.scope


def without_scope() -> OpenScope:
    """Open a block in which ops run where their operands are: for rules of derivatives."""
    return OpenScope(None)


def end_since(latest: OpenScope | None) -> None:
    """End scopes that Ctrl-C has left open in this thread since ``latest`` was the latest.

    Scopes of suspended generators stay open: their blocks go on.
    """
    top = _current.get()
    for one in () if top is None else [*top.chain()]:
        if one is latest:
            break
        if not one._is_asleep:
            one.end()
    if latest is None or not latest.ended:
        _current.set(latest)


def within(scope: DeviceScope | None) -> AbstractContextManager[None]:
    """Open a scope in another thread.

    Args:
        scope: the result of `current_device_scope`; None opens a block without a scope.
    """
    return nullcontext() if scope is None and open_scope() is None else OpenScope(scope)


def runs_at(device: Device) -> OpenScope | None:
    """Open a block for ops that run on ``device`` whatever scope is open; None if none is needed.

    Values moved in it count as moved in the enclosing scope.
    """
    around = open_scope()
    if around is None or around.home is device:
        return None
    return OpenScope(scope_of(name_of(device), device), moved=around.moved, outer=around.outer)


def home_of(device: Device) -> Device:
    """The device of an op with an operand on ``device``, on which its other operands are made.

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

    `colocate` moves operands in any case. This is for libraries, for values that belong to state.

    Args:
        x: a tensor, a variable, or another object that has a device.

    >>> with ef.config(cpu_devices=2), ef.device("cpu:1"), ef.hardware.beside(ef.zeros(2)):
    ...     ef.ones(2).device
    Device('cpu:1')
    """
    return runs_at(x.device) or nullcontext()


def anew() -> OpenScope | None:
    """Reopen the scope in force for a trace, which knows no values moved before."""
    around = open_scope()
    return None if around is None else OpenScope(around.scope, opened=around.opened)


def part_of_trace(top: Any) -> OpenScope | None:
    """Reopen the scope in force for a part of a trace, such as a branch.

    Values that it moves stay in the part; values moved before can be used in it.

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
    """The leeway or reason that the scope in force gives an op on ``device``; None if neither.

    Leeway is the scope's pattern, or its `OpenScope.anchor`. A scope that leaves nothing open gives
    its text as the reason, if it asks for that device.
    """
    one = open_scope()
    if one is None or one.scope is None:
        return None
    if one.scope.is_pattern:
        return one.scope.name
    if one.anchor is not None:
        return one.anchor
    return one.scope.text if one.is_users and one.scope.device is device else None
