"""The kernel that decodes pictures."""

from __future__ import annotations

from typing import Any, Final

from eagerflow_kernels.pictures import pixels
from eagerflow_kernels.portable.parsing import element, shown
from eagerflow_kernels.records import DamagedError
from eagerflow_kernels.table import portable

Array = Any  # of objects, which are bytes, or of numbers

_MODES: Final = {None: "own", 1: "L", 3: "RGB", 4: "RGBA"}


@portable("decode_image")
def decode_image(
    xp: Any, x: Array, *, channels: int | None, dtype: Any, size: tuple[int, int] | None
) -> Array:
    """Pictures of one size, ``[..., height, width, channels]``; floats are from 0 to 1."""
    pictures = []
    for i, data in enumerate(x.reshape(-1).tolist()):
        try:
            pictures.append(pixels(data, _MODES[channels], size))
        except DamagedError as error:
            raise DamagedError(f"{element(x, i)}: {error}: {shown(data)}") from error.__cause__
        if pictures[i].shape != pictures[0].shape:
            raise DamagedError(
                f"{element(x, i)} is {pictures[i].shape}, {element(x, 0)} is {pictures[0].shape};"
                " size=(height, width) gives all one size"
            )
        if pictures[i].dtype.name not in ("uint8", "bool"):
            raise DamagedError(
                f"{element(x, i)} has colours of {pictures[i].dtype}: give channels=1"
            )
    inner = pictures[0].shape if pictures else (*(size or (0, 0)), channels or 0)
    whole = xp.stack(pictures) if pictures else xp.zeros(0, "uint8")
    whole = whole.reshape((*x.shape, *inner))
    if whole.dtype.name == "bool":
        whole = whole.astype("uint8") * xp.uint8(255)
    if dtype.is_floating:
        return (whole.astype("float32") / xp.float32(255)).astype(dtype.dtype, copy=False)
    return whole
