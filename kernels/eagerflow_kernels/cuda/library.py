"""CuPy, loaded when a GPU is asked for."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def is_installed() -> bool:
    """Whether CuPy can be imported. It is not, so this takes no time and no memory of a GPU."""
    return find_spec("cupy") is not None


@cache
def cupy() -> Any:
    """CuPy.

    Raises:
        ImportError: it is not installed, or cannot be loaded.
    """
    return import_module("cupy")


def device_count() -> int:
    """How many GPUs there are; none without CuPy, or without a driver."""
    if not is_installed():
        return 0
    try:
        return int(cupy().cuda.runtime.getDeviceCount())
    except Exception:  # CuPy, or the driver, is older or newer than the other, or not there
        return 0
