"""The array API standard's requirements on a namespace besides functions: inspection."""

from __future__ import annotations

import math
import sys
from typing import Any, Final, final

from eagerflow.core.op import functions
from eagerflow.errors import TensorValueError
from eagerflow.hardware import Device, as_device, current_device, devices
from eagerflow.ops.creation.dtypes import dtypes_of
from eagerflow.ops.rules.arguments import DeviceLike
from eagerflow.types import DTYPES, DType, default_dtype

__all__ = ["__array_api_version__", "__array_namespace_info__", "e", "inf", "nan", "newaxis", "pi"]

__array_api_version__ = "2025.12"
_VERSIONS: Final = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

e: Final = math.e
inf: Final = math.inf
nan: Final = math.nan
newaxis: Final = None
pi: Final = math.pi

#: the dtypes that the standard names
_STANDARD: Final = tuple(d for d in DTYPES.values() if d.is_native and d.name != "float16")


@final
class NamespaceInfo:
    """The standard's inspection functions: devices and dtypes of the namespace."""

    def capabilities(self) -> dict[str, Any]:
        """The optional features of the standard that are supported."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device on which new tensors are made."""
        return current_device()

    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, DType]:
        """The default dtypes of new tensors, by kind."""
        as_device(device)
        return {
            "real floating": default_dtype("real floating"),
            "complex floating": default_dtype("complex floating"),
            "integral": default_dtype("signed integer"),
            "indexing": default_dtype("signed integer"),
        }

    def devices(self) -> tuple[Device, ...]:
        """The devices of this process."""
        return tuple(devices())

    def dtypes(
        self, *, device: DeviceLike = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The standard's dtypes by name, optionally of one or several kinds."""
        as_device(device)
        wanted = _STANDARD if kind is None else dtypes_of(kind)
        return {d.name: d for d in _STANDARD if d in wanted}


_info: Final = NamespaceInfo()


def __array_namespace_info__() -> NamespaceInfo:
    """The inspection of devices and dtypes (array API standard, "Inspection APIs").

    >>> ef.__array_namespace_info__().default_dtypes()["integral"]
    int64
    """
    return _info


def _namespace(api_version: str | None) -> Any:
    if api_version is not None and api_version not in _VERSIONS:
        raise TensorValueError(
            f"there is no version {api_version!r} of the array API here",
            expected=", ".join(_VERSIONS),
        )
    return sys.modules["eagerflow"]


functions["__array_namespace__"] = _namespace
