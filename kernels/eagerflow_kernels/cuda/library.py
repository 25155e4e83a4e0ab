"""Access to CuPy, which is loaded when a GPU is requested."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

#: how far this package has been tested, for `eagerflow info`
STATUS: Final = "calls checked against CuPy 14.2, streams by a simulated driver; never run on a GPU"

#: replacement for CuPy, set by tests
_given: Any = None


def use(module: Any) -> None:
    """Replace CuPy by a module; None for CuPy itself."""
    global _given
    _given = module


def is_installed() -> bool:
    """Whether CuPy is installed; it is not imported, so no time or memory of a GPU is spent."""
    return _given is not None or find_spec("cupy") is not None


def cupy() -> Any:
    """The module CuPy.

    Raises:
        ImportError: it is not installed, or cannot be loaded.
    """
    return import_module("cupy") if _given is None else _given


def raising() -> AbstractContextManager[Any]:
    """A block in which failed decompositions raise in CuPy, as in NumPy, instead of giving NaN."""
    if _given is not None:
        context: AbstractContextManager[Any] = _given.raising()
        return context
    state: AbstractContextManager[Any] = import_module("cupyx").errstate(linalg="raise")
    return state


def device_count() -> int:
    """The number of GPUs; 0 without CuPy, or without a driver."""
    if not is_installed():
        return 0
    try:
        return int(cupy().cuda.runtime.getDeviceCount())
    except Exception:  # CuPy or the driver is missing, or their versions do not fit
        return 0
