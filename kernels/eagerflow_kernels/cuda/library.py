"""CuPy, loaded when a GPU is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

#: what of this package was run where, for `eagerflow info`
STATUS: Final = "calls checked against CuPy 14.2, streams by a simulated driver; never run on a GPU"

#: stands for CuPy, if it is set (tests)
_given: Any = None


def use(module: Any) -> None:
    """Let a module stand for CuPy; None for CuPy itself."""
    global _given
    _given = module


def is_installed() -> bool:
    """Whether CuPy can be imported. It is not, so this takes no time and no memory of a GPU."""
    return _given is not None or find_spec("cupy") is not None


def cupy() -> Any:
    """CuPy.

    Raises:
        ImportError: it is not installed, or cannot be loaded.
    """
    return import_module("cupy") if _given is None else _given


def raising() -> AbstractContextManager[Any]:
    """In this block CuPy raises where a decomposition fails, as NumPy does; else it gives NaN."""
    if _given is not None:
        context: AbstractContextManager[Any] = _given.raising()
        return context
    state: AbstractContextManager[Any] = import_module("cupyx").errstate(linalg="raise")
    return state


def device_count() -> int:
    """How many GPUs there are; none without CuPy, or without a driver."""
    if not is_installed():
        return 0
    try:
        return int(cupy().cuda.runtime.getDeviceCount())
    except Exception:  # CuPy, or the driver, is older or newer than the other, or not there
        return 0
