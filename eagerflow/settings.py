"""Settings and their changes: ``ef.config``.

This module holds values and calls the hooks that act on a change; it does not import the modules
that register hooks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple, final
from weakref import ref

from eagerflow.errors import SettingError
from eagerflow.unknown_names import find_hint, unknown_name


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """The values that ``ef.config`` changes.

    Attributes:
        cpu_devices: the number of virtual CPU devices ``cpu:0 … cpu:n-1``.
        threads: threads of the linear algebra libraries and of native kernels; None leaves the
            former unchanged, and gives the latter a thread per core.
        check_nan: raise at the op that first makes a NaN or an infinity from finite inputs.
        verify: check each op's result against its type rule, and native kernels of graphs against
            the ops that they stand for.
        moves: whether device scopes move operands (``"allow"``) or refuse to (``"error"``).
        soft_placement: leave nodes where the program says if rules of placement cannot be met.
        kernels: the library that computes: ``"native"``, ``"portable"`` (NumPy's functions), or
            ``"auto"``, the native one where this machine can run it.
        gpu_memory_limit: bytes that eagerflow may hold on each GPU; None for no limit.
    """

    cpu_devices: int = 1
    threads: int | None = None
    check_nan: bool = False
    verify: bool = False
    moves: str = "allow"
    soft_placement: bool = False
    kernels: str = "auto"
    gpu_memory_limit: int | None = None


_NAMES: Final = tuple(f.name for f in fields(Settings))
_USUAL: Final[Mapping[str, Any]] = {f.name: f.default for f in fields(Settings)}
#: settings that a block changes for its own thread only; the others belong to the process
_PER_THREAD: Final = frozenset({"check_nan", "verify", "moves", "soft_placement"})
#: settings with a fixed set of texts as values; the first is the default
_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "moves": ("allow", "error"),
    "kernels": ("auto", "native", "portable"),
}
#: settings that no block may change, since it could not restore them
_FOR_GOOD: Final = frozenset({"kernels"})
_MAY_BE_NONE: Final = frozenset({"threads", "gpu_memory_limit"})

Changes = Mapping[str, Any]
Hook = Callable[[Settings, Settings], None]


class _State(NamedTuple):
    """The settings made by calls and by blocks.

    Attributes:
        called: the settings made by calls, for good.
        blocks: the changes of the running blocks of all threads, in the order of entry.
        process: the settings of a thread with no block of its own.
        anywhere: ``process`` with each per-thread setting that some thread has changed.
    """

    called: Settings
    blocks: tuple[Changes, ...]
    process: Settings
    anywhere: Settings


def _state_of(called: Settings, blocks: tuple[Changes, ...]) -> _State:
    process = called
    flags: dict[str, Any] = {}
    for changes in blocks:
        shared = {n: v for n, v in changes.items() if n not in _PER_THREAD}
        process = replace(process, **shared)
        flags |= {n: v for n, v in changes.items() if n in _PER_THREAD and v != _USUAL[n]}
    return _State(called, blocks, process, replace(process, **flags))


_lock: Final = threading.RLock()
_hooks: Final[list[Hook]] = []
_state = _state_of(Settings(), ())
#: calls that may still become blocks (`with`), in their order
_calls: Final[list[ref[config]]] = []
#: the last result of `current`: settings of the process, changes of a thread, and both combined
_last: tuple[Settings, Changes, Settings] = (_state.process, {}, _state.process)
#: the per-thread settings that the blocks of this thread changed
_own: ContextVar[Changes] = ContextVar("settings", default={})  # noqa: B039 - never changed


def current() -> Settings:
    """The settings in force in this thread."""
    global _last
    own, process = _own.get(), _state.process
    if not own:
        return process
    last = _last  # monitors ask at each op
    if last[0] is not process or last[1] is not own:
        _last = last = (process, own, replace(process, **own))
    return last[2]


def on_change(hook: Hook) -> None:
    """Call ``hook(old, new)`` before each change; an exception in it refuses the change.

    Per-thread settings are on in ``old`` and ``new`` if any thread has them on. For changes made
    before, as when the caller's module is loaded within a block, the hook is called at once.
    """
    with _lock:
        if _state.anywhere != Settings():
            hook(Settings(), _state.anywhere)
        _hooks.append(hook)


def _change(called: Settings, blocks: tuple[Changes, ...]) -> None:
    """Call the hooks, then make the change. The caller holds the lock."""
    global _state
    old, new = _state, _state_of(called, blocks)
    done: list[Hook] = []
    try:
        if new.anywhere != old.anywhere:
            for hook in _hooks:
                hook(old.anywhere, new.anywhere)
                done.append(hook)
    except BaseException:
        for hook in reversed(done):  # undo the hooks that ran
            hook(new.anywhere, old.anywhere)
        raise
    _state = new


def _check(changes: Changes) -> None:
    for name, value in changes.items():
        if name not in _NAMES:
            hint = unknown_name("eagerflow.config", name, dict.fromkeys(_NAMES)).hint
            wrong = f"config: there is no setting {name}"
            raise SettingError(wrong, expected=", ".join(_NAMES), hint=hint)
        wants_bool = name in _PER_THREAD and name not in _TEXTS
        if name in _TEXTS:
            right = value in _TEXTS[name]
        elif wants_bool:
            right = isinstance(value, bool)
        elif value is None:
            right = name in _MAY_BE_NONE
        else:
            right = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if not right:
            none = " or None" if name in _MAY_BE_NONE else ""
            expected = "True or False" if wants_bool else f"an int of at least 1{none}"
            if name in _TEXTS:
                expected = " or ".join(map(repr, _TEXTS[name]))
            hint = find_hint("eagerflow.config", name) if name in _TEXTS else None
            wrong = f"config: {name} cannot be {value!r}"
            raise SettingError(wrong, expected=expected, hint=hint)


@final
class config:
    """Change settings: for good as a call, for a block as a context manager.

    A call is for the whole process. So are ``cpu_devices`` and ``threads`` of a block, until it
    ends; ``check_nan``, ``verify``, ``moves`` and ``soft_placement`` of a block are for the thread
    that runs it.

    Args:
        cpu_devices: number of virtual CPU devices (at least 1).
        threads: threads of the linear algebra libraries that are loaded, and of native kernels;
            None restores the former, and gives the latter a thread per core.
        check_nan: raise at the op that first makes a NaN or an infinity.
        verify: check every op's result against its type rule; where native kernels are in force,
            traced functions also run in both tiers, and a difference in a bit is an error that
            names the first node with one.
        moves: ``"error"`` refuses the moves of `device` scopes; ``"allow"`` by default.
        soft_placement: where rules of `TracedFunction.place` cannot be met, leave nodes where the
            program says, with a warning.
        kernels: ``"native"`` computes with eagerflow's own kernels, ``"portable"`` with NumPy's
            functions, so that results have NumPy's bits. ``"auto"``, the default, is native if the
            processor supports it (x86-64 with AVX2 and FMA, or AArch64), and portable elsewhere;
            ``"native"`` is an error there. `eagerflow info` shows the choice. It holds for the
            whole process, and cannot change after the first op on floats.
        gpu_memory_limit: bytes that eagerflow may hold on each GPU, from now on; None for no limit.
            `eagerflow.hardware.limit_memory` is for one device.

    Raises:
        SettingError: an unknown setting, or an invalid value.

    >>> with ef.config(cpu_devices=4):
    ...     print([str(d) for d in ef.devices("cpu")])
    ['cpu:0', 'cpu:1', 'cpu:2', 'cpu:3']
    """

    __slots__ = ("__weakref__", "_before", "_changes", "_tokens")

    def __init__(self, **changes: Any) -> None:
        _check(changes)
        self._changes: Final[Changes] = changes
        self._tokens: list[Token[Changes]] = []
        with _lock:
            called = _state.called
            #: the values that the call replaced; None once it has become a block
            self._before: Changes | None = {n: getattr(called, n) for n in changes}
            _calls[:] = [*(one for one in _calls if one() is not None), ref(self)]
            _change(replace(called, **changes), _state.blocks)

    def __enter__(self) -> config:
        fixed = _FOR_GOOD.intersection(self._changes)
        if fixed:
            with _lock:
                _change(replace(_state.called, **(self._before or {})), _state.blocks)
            raise SettingError(f"config: {min(fixed)} is for the whole process, not for a block")
        # only here is it known that this is a block, not a call: the call is undone
        with _lock:
            called = replace(_state.called, **self._taken_back())
            _change(called, (*_state.blocks, self._changes))
            self._before = None
        own = {n: v for n, v in self._changes.items() if n in _PER_THREAD}
        self._tokens.append(_own.set({**_own.get(), **own}))
        return self

    def _taken_back(self) -> Changes:
        """The settings before this call, without those that a later call has changed.

        A later call, say of another thread, may become a block as well: so it inherits the values
        before this call as the ones to restore.
        """
        others = [one for one in (reference() for reference in _calls) if one is not None]
        back = dict(self._before or {})
        for later in others[others.index(self) + 1 :] if self in others else ():
            for name in [n for n in back if n in later._changes]:
                later._before = {**(later._before or {}), name: back.pop(name)}
        _calls[:] = [ref(one) for one in others if one is not self]
        return back

    def __exit__(self, *raised: object) -> None:
        _own.reset(self._tokens.pop())
        with _lock:
            rest = list(_state.blocks)
            # from the end, and by identity: two blocks may make the same changes
            last = max(i for i, changes in enumerate(rest) if changes is self._changes)
            del rest[last]
            _change(_state.called, tuple(rest))

    def __repr__(self) -> str:
        return f"ef.config({', '.join(f'{n}={v!r}' for n, v in self._changes.items())})"
