"""Device scopes: blocks whose ops run on a device that the block names.

A scope is context, of one thread and one context of `contextvars`; `bind` reads it (see
`eagerflow.core.moves_to_scopes`). This module knows which one is in force, and where ops run in it.
The ``with`` statements that open one: `hardware/device_blocks.py`.
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


def scope_of(name: DeviceName, device: Device, colocated: bool = False) -> DeviceScope:
    """The one object that asks for this."""
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


# --- which one is in force ------------------------------------------------------------------


@final
class _AllOpen:
    """The scopes that are open in all threads together.

    Each is in a table by itself and not counted, so that Ctrl-C while a block begins or ends does
    no harm: it can be taken out once more.

    Attributes:
        home: the device of all of them; None if they are for several devices, or none has one. An
            op whose operands are there runs there, whichever scope is in force.
    """

    __slots__ = ("_lock", "_open", "home", "tell")

    def __init__(self) -> None:
        self.home: Device | None = None
        self._open: dict[OpenScope, Device | None] = {}
        self._lock = Lock()
        #: hears whether any is open (filled by `eagerflow.core.interpreter`)
        self.tell: Callable[[bool], object] = bool

    def add(self, one: OpenScope) -> None:
        """Know it as open."""
        with self._lock:
            self._open[one] = None if one.scope is None else one.scope.device
            self._look()

    def remove(self, one: OpenScope) -> None:
        """Know it as open no more; once again where Ctrl-C may have ended that."""
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
    """In the place of a scope of which has to be asked whether it is in force."""

    __slots__ = ()
    usual: Final = None
    device: Final = None


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
            ``usual`` is all that an op with nothing to move looks at, and its ``device`` all that
            one looks at which makes a tensor.
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
        all_open.add(self)

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
        all_open.remove(self)  # first: what is in the chain can be found, and ended once more
        if _current.get() is self:
            _current.set(self._below)

    def __enter__(self) -> None:
        """Nothing: it is open since it was made."""

    def __exit__(self, *raised: object) -> None:
        try:
            self.end()
        except BaseException:  # Ctrl-C while the block is left
            self.end()
            raise


_current: Final[ContextVar[OpenScope | None]] = latest_scope
#: the one that was opened last in this thread; whether it is in force is another question
latest: Final = _current.get


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


def without_scope() -> OpenScope:
    """Open a block in which ops run where their operands are: for rules of derivatives."""
    return OpenScope(None)


def end_since(latest: OpenScope | None) -> None:
    """End what Ctrl-C has left open in this thread since ``latest`` was the latest.

    Not those of generators that are suspended: they go on in their blocks.
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
    return OpenScope(scope_of(name_of(device), device), moved=around.moved, outer=around.outer)


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


def anew() -> OpenScope | None:
    """Open the scope in force anew for a trace, which knows nothing of what was moved before."""
    around = open_scope()
    return None if around is None else OpenScope(around.scope, opened=around.opened)


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
