"""Decoding of pictures by Pillow, which only this module loads."""

from __future__ import annotations

import io
import os
import struct
import sys
import zlib
from importlib import import_module
from typing import IO, Any, Final, final

import numpy as np

from eagerflow_kernels.records import DamagedError

_PNG: Final = b"\x89PNG\r\n\x1a\n"
_PNG_HEAD: Final = 33
#: colour types of the file format, with Pillow's names of them
_PNG_MODES: Final = {0: "L", 2: "RGB", 6: "RGBA"}
#: modes in which each colour is a byte, with their number of colours
_BYTE_MODES: Final = {"L": 1, "RGB": 3, "RGBA": 4}
#: chunks that do not change the pixels
_PNG_NOTES: Final = frozenset(
    {b"bKGD", b"cHRM", b"eXIf", b"gAMA", b"iTXt", b"pHYs", b"sRGB", b"tEXt", b"tIME", b"zTXt"}
)


@final
class MissingError(ImportError):
    """Pillow is not installed."""


def _pillow() -> Any:
    """Pillow's module of pictures, imported at the first use, as few programs need it."""
    try:
        return import_module("PIL.Image")
    except ImportError as error:
        raise MissingError("Pillow is not installed: pip install 'eagerflow[data]'") from error


def _content(path: str) -> bytes:
    """The bytes of a file, in as few system calls as possible.

    Threads that decode release the GIL at each call; `open` makes two more.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        size = os.fstat(handle).st_size
        data = os.read(handle, size + 1)
        if len(data) == size:
            return data
        with open(handle, "rb", buffering=0, closefd=False) as rest:  # of a pipe, or a huge file
            return data + rest.read()
    finally:
        os.close(handle)


def _plain_png(pillow: Any, data: bytes) -> Any:
    """The picture of a common kind of PNG file; None for all other data, or a damaged file.

    Pillow's decoder without its Python, in which small pictures spend a fifth of their time
    (PNG Specification, third edition, 2025, 5.3 and 11.2).
    """
    if not data.startswith(_PNG) or len(data) < _PNG_HEAD:
        return None
    try:
        width, height, depth, colour, *rest = struct.unpack_from(">IIBBBBB", data, 16)
        mode = _PNG_MODES.get(colour)
        most = pillow.MAX_IMAGE_PIXELS or sys.maxsize
        if mode is None or depth != 8 or any(rest) or not 0 < width * height <= most:
            return None
        parts = _png_parts(data)
        return parts and pillow.frombytes(mode, (width, height), parts, "zip", (mode, 0))
    except (struct.error, ValueError, TypeError, zlib.error, OSError):
        return None


def _png_parts(data: bytes) -> bytes | None:
    """The compressed pixels; None if a chunk is damaged, or may change their meaning."""
    parts, position = [], len(_PNG)
    while True:
        size, kind = struct.unpack_from(">I4s", data, position)
        start, position = position + 8, position + 12 + size
        if kind in (b"IDAT", b"IHDR"):
            (checksum,) = struct.unpack_from(">I", data, position - 4)
            if zlib.crc32(data[start - 4 : start + size]) != checksum:
                return None
            if kind == b"IDAT":
                parts.append(data[start : start + size])
        elif kind == b"IEND":
            return parts[0] if len(parts) == 1 else b"".join(parts)
        elif kind not in _PNG_NOTES:
            return None


def pixels(
    source: bytes | str | IO[bytes], mode: str | None, size: tuple[int, int] | None
) -> np.ndarray[Any, Any]:
    """The elements ``[height, width, channels]`` of a picture.

    Args:
        source: its bytes, the name of its file, or that file.
        mode: of colours, as Pillow names them; None keeps the mode of the file, as does ``"own"``,
            except that colours of a palette are looked up.
        size: height and width to resize to, bilinearly; None keeps them.

    Raises:
        DamagedError: it is no picture, or a damaged one.
        MissingError: Pillow is not installed.
        OSError: there is no such file.
    """
    pillow = _pillow()
    try:
        if isinstance(source, str):
            source = _content(source)
        image = _plain_png(pillow, source) if isinstance(source, bytes) else None
        if image is not None:
            return _elements(pillow, image, mode, size)
        with pillow.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            return _elements(pillow, image, mode, size)
    except FileNotFoundError:
        raise
    except pillow.UnidentifiedImageError:
        raise DamagedError("this is not a picture of a known format") from None
    except (OSError, SyntaxError, ValueError, EOFError, pillow.DecompressionBombError) as error:
        raise DamagedError(f"this picture cannot be read: {error}") from error


def _elements(
    pillow: Any, image: Any, mode: str | None, size: tuple[int, int] | None
) -> np.ndarray[Any, Any]:
    """The elements of a picture; read-only if they are bytes."""
    if mode == "own":
        mode = None
        if image.mode == "P":
            mode = "RGBA" if "transparency" in image.info else "RGB"
    if mode is not None and image.mode != mode:
        image = image.convert(mode)
    if size is not None:
        image = image.resize((size[1], size[0]), pillow.Resampling.BILINEAR)
    colours = _BYTE_MODES.get(image.mode)
    if colours is not None:  # the bytes that NumPy would request, without a copy
        values = np.frombuffer(image.tobytes(), np.uint8)
        return values.reshape(image.height, image.width, colours)
    values = np.array(image)
    return values if values.ndim == 3 else values[:, :, np.newaxis]
