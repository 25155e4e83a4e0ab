"""Process-wide settings and how they are changed: ``ef.config``.

This is a leaf: it holds values and calls the hooks of those who act on a change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from types import TracebackType
from typing import Final, final

__all__ = ["Settings", "config", "current", "on_change"]


@final
@dataclass(frozen=True, slots=True)
class Settings:
    """The values that ``ef.config`` changes.

    Attributes:
        cpu_devices: how many virtual CPU devices ``cpu:0 … cpu:n-1`` there are.
        gpu_memory_limit: bytes that eagerflow may hold on one GPU; None for no limit.
        threads: threads of the linear algebra library; None leaves it as it is.
        check_nan: raise at the op that first makes a NaN or an infinity from finite inputs.
        verify: check each op's result against its type rule.
        exact: never trade exactness for speed (no reassociation in compiled code).
    """

    cpu_devices: int = 1
    gpu_memory_limit: int | None = None
    threads: int | None = None
    check_nan: bool = False
    verify: bool = False
    exact: bool = False


_NAMES: Final = tuple(f.name for f in fields(Settings))
_settings = Settings()
_hooks: list[Callable[[Settings, Settings], None]] = []


def current() -> Settings:
    """The settings in force."""
    return _settings


def on_change(hook: Callable[[Settings, Settings], None]) -> None:
    """Call ``hook(old, new)`` before each change; an exception in it refuses the change."""
    _hooks.append(hook)


def _apply(new: Settings) -> None:
    global _settings
    old, done = _settings, []
    try:
        for hook in _hooks:
            hook(old, new)
            done.append(hook)
    except BaseException:
        for hook in done:  # state before the call is state after it
            hook(new, old)
        raise
    _settings = new


@final
class config:  # noqa: N801 - used like a function
    """Change settings: for good as a call, for a block as a context manager.

    Args:
        cpu_devices: number of virtual CPU devices (at least 1).
        gpu_memory_limit: bytes eagerflow may hold on one GPU, None for no limit.
        threads: threads of the linear algebra library, None to leave it as it is.
        check_nan: raise at the op that first makes a NaN or an infinity.
        verify: check every op's result against its type rule.
        exact: never trade exactness for speed.

    Raises:
        TypeError: an unknown setting.
        ValueError: a value out of range.

    >>> with ef.config(cpu_devices=4):
    ...     print([str(d) for d in ef.devices("cpu")])
    ['cpu:0', 'cpu:1', 'cpu:2', 'cpu:3']
    """

    def __init__(self, **changes: object) -> None:
        unknown = sorted(set(changes) - set(_NAMES))
        if unknown:
            raise TypeError(
                f"config: unknown setting {', '.join(unknown)}; expected any of {', '.join(_NAMES)}"
            )
        for name in ("cpu_devices", "threads", "gpu_memory_limit"):
            value = changes.get(name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ValueError(f"config: {name} must be an int of at least 1; got {value!r}")
        self._before = _settings
        _apply(replace(_settings, **changes))  # type: ignore[arg-type]  # names checked above

    def __enter__(self) -> config:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _apply(self._before)
