"""The setting ``kernels``: the kernel library for ops that have two forms.

The portable library is NumPy's functions, the native one is `eagerflow_kernels.native`. They agree
up to a few ulp, not bit for bit, so one of them is in force from the first op that both have until
the process ends, in eager code, graphs and regions alike. By default it is the native one where
this machine can run it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

from eagerflow import settings
from eagerflow.errors import SettingError
from eagerflow.settings import Settings

#: the library of this process, once an op with two forms has settled it
_settled: list[str] = []
_FLOATS: Final = frozenset({"float16", "float32", "float64"})
#: the prefix of the names of draws, which take keys
_DRAWS: Final = "random_"


def native_form(name: str, dtypes: tuple[str, ...]) -> Callable[..., Any] | None:
    """The native kernel of an op; None if its kernel is the portable one.

    The first call for floats, or for random numbers, settles which library is in force.

    Args:
        name: the name of the op.
        dtypes: the names of the dtypes of its inputs.
    """
    if _FLOATS.isdisjoint(dtypes) and not name.startswith(_DRAWS):
        return None
    if not _settled:
        _settled.append(_meant(settings.current().kernels))
    if _settled[0] != "native":
        return None
    kernel: Callable[..., Any] | None = _calls().native_kernel(name, dtypes)
    return kernel


def half_casts() -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The native casts from float16 to float32 and back; bit for bit the same as NumPy's."""
    calls = _calls()
    return calls.half_cast("widen"), calls.half_cast("narrow")


def is_native_form(name: str, kernel: object) -> bool:
    """Whether a kernel is the native one of an op."""
    if not _settled or _settled[0] != "native":
        return False
    return bool(_calls().is_native_kernel(name, kernel))


def in_force() -> str:
    """The library in force; that of the setting until an op has settled it."""
    return _settled[0] if _settled else _meant(settings.current().kernels)


def _meant(setting: str) -> str:
    """The library that a value of the setting stands for on this machine."""
    if setting != "auto":
        return setting
    return "native" if _why_portable() is None else "portable"


@cache
def _why_portable() -> str | None:
    """Why there is no native library here; None if there is.

    The check is made once, so a library installed later changes nothing.
    """
    try:
        _target()
    except ImportError as error:
        return str(error)
    return None


def described() -> str:
    """Text about the library in force, and whether the native one is available."""
    try:
        there = f"native ones for {_target()}"
        if not has_compiler():
            there += ", but none of graphs: that needs llvmlite (pip install 'eagerflow[native]')"
    except ImportError as error:
        there = str(error)
    return f"{in_force()}; {there}"


def has_compiler() -> bool:
    """Whether graphs can be compiled to native kernels."""
    return bool(import_module("eagerflow_kernels.native.shipped_kernels").has_compiler())


def _target() -> str:
    """The target that native kernels were built for.

    Raises:
        ImportError: there are no native kernels here.
    """
    target: str = import_module("eagerflow_kernels.native.shipped_kernels").library_target()
    return target


@cache
def _calls() -> Any:
    """The module of native kernels, imported on first use."""
    calls = import_module("eagerflow_kernels.native.callable_ops")
    _limit(calls, settings.current().threads)
    return calls


def _limit(calls: Any, threads: int | None) -> None:
    """Let so many threads share a call; None for as many as there are cores."""
    calls.pool().limit(threads)


def _change(old: Settings, new: Settings) -> None:
    if new.threads != old.threads and _calls.cache_info().currsize:
        _limit(_calls(), new.threads)
    if new.kernels == old.kernels:
        return
    if _settled and _meant(new.kernels) != _settled[0]:
        raise SettingError(
            f"config: kernels is {_settled[0]!r} for the rest of this process",
            expected="the setting before the first op",
            hint=f"restart, and call ef.config(kernels={new.kernels!r}) first",
        )
    if new.kernels == "native":
        try:
            _target()
        except ImportError as error:
            raise SettingError(f"config: {error}") from None


settings.on_change(_change)
