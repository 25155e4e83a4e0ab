"""Pictures, through Pillow, which only this module loads."""

from __future__ import annotations

import io
from importlib import import_module
from typing import IO, Any, final

import numpy as np

from eagerflow_kernels.records import DamagedError

__all__ = ["MissingError", "pixels"]


@final
class MissingError(ImportError):
    """Pillow is not installed."""


def _pillow() -> Any:
    """The module of pictures, which few need."""
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        raise MissingError("Pillow is not installed: pip install eagerflow[data]") from error


def _opened(source: bytes | str | IO[bytes]) -> IO[bytes]:
    """A file in memory: Pillow reads in small parts, and threads would meet at each of them."""
    if isinstance(source, str):
        with open(source, "rb", buffering=0) as file:
            source = file.read()
    return io.BytesIO(source) if isinstance(source, bytes) else source


def pixels(
    source: bytes | str | IO[bytes], mode: str | None, size: tuple[int, int] | None
) -> np.ndarray[Any, Any]:
    """The elements ``[height, width, channels]`` of a picture.

    Args:
        source: its bytes, the name of its file, or that file.
        mode: of colours, as Pillow names them; None keeps that of the file, ``"own"`` as well, but
            looks colours of a palette up.
        size: height and width to resize to, bilinearly; None keeps them.

    Raises:
        DamagedError: it is no picture, or a damaged one.
        MissingError: Pillow is not installed.
        OSError: there is no such file.
    """
    pillow = _pillow()
    try:
        with pillow.open(_opened(source)) as image:
            if mode == "own":
                mode = None
                if image.mode == "P":
                    mode = "RGBA" if "transparency" in image.info else "RGB"
            found = image if mode is None or image.mode == mode else image.convert(mode)
            if size is not None:
                found = found.resize((size[1], size[0]), pillow.Resampling.BILINEAR)
            values = np.array(found)
    except FileNotFoundError:
        raise
    except pillow.UnidentifiedImageError:
        raise DamagedError("this is no picture of a known format") from None
    except (OSError, SyntaxError, ValueError, EOFError, pillow.DecompressionBombError) as error:
        raise DamagedError(f"this picture cannot be read: {error}") from error
    return values if values.ndim == 3 else values[:, :, np.newaxis]
