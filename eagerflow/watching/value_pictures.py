"""Arrays as small images."""

from __future__ import annotations

import base64
import zlib
from typing import Any, Final

import numpy as np

#: pixels of a picture along each axis; fewer of RGB, which takes three times the bytes
_PIXELS: Final = 64
_RGB_PIXELS: Final = 44
#: least height and width of an image; smaller arrays with three columns are matrices
_IMAGE: Final = 8


def picture_of(array: np.ndarray[Any, Any]) -> tuple[str, str]:
    """An array as an image with a caption; of more than two axes the first matrix.

    Numbers range from blue (least) over white (zero, or the middle) to orange (largest), NaN is
    black; an array with three channels last that looks like an image has its own colours. Larger
    arrays are subsampled, to 64 rows and columns at most.

    Args:
        array: real numbers of any shape.

    Returns:
        A ``data:`` URL of a PNG, and a caption; both are empty if there is nothing to show.
    """
    if array.dtype.kind not in "fiub" or not array.size or array.ndim == 0:
        return "", ""
    if _is_image(array):
        image, text = _thinned(array[(0,) * (array.ndim - 3)], _RGB_PIXELS)
        scale = 255 if array.dtype.kind == "f" else 1
        rgb = np.clip(np.nan_to_num(image.astype(np.float64)) * scale, 0, 255).astype(np.uint8)
        return _png(rgb, None), f"an image{text}"
    matrix = array[(0,) * (array.ndim - 2)] if array.ndim > 1 else array[None]
    first = "" if array.ndim <= 2 else f" [{', '.join('0' * (array.ndim - 2))}]"
    part, text = _thinned(matrix, _PIXELS)
    numbers = part.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    least, largest = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
    bound = max(abs(least), abs(largest)) if least < 0 < largest else 0.0
    low, high = (-bound, bound) if bound else (least, largest)
    with np.errstate(all="ignore"):  # elements may be infinite, or nearly so
        span = high - low if high > low else 1.0
        parts = np.clip((numbers - low) / span, 0.0, 1.0)
    missing = np.isnan(parts)
    places = np.where(missing, 0, 1 + np.where(missing, 0, parts) * 253).astype(np.uint8)
    shown = f"matrix{first} of {' by '.join(map(str, matrix.shape))}{text}"
    return _png(places, _COLOURS), f"{shown}, from {low:.4g} (blue) to {high:.4g} (orange)"


def _is_image(array: np.ndarray[Any, Any]) -> bool:
    if array.ndim < 3 or array.shape[-1] != 3 or min(array.shape[-3:-1]) < _IMAGE:
        return False
    if array.dtype == np.uint8:
        return True
    part = array.reshape(-1)[:4096]
    return array.dtype.kind == "f" and bool(np.all((part >= 0) & (part <= 1)))


def _thinned(matrix: np.ndarray[Any, Any], most: int) -> tuple[np.ndarray[Any, Any], str]:
    """A matrix subsampled to at most so many rows and columns, and a text about the steps."""
    steps = [-(-size // most) for size in matrix.shape[:2]]
    text = "" if steps == [1, 1] else f", 1 in {steps[0]} rows and 1 in {steps[1]} columns"
    return matrix[:: steps[0], :: steps[1]], text


def _ramp() -> bytes:
    """256 colours: black for NaN, then blue over white to orange, safe for colour-blindness."""
    ends = np.array([[33, 84, 150], [247, 247, 247], [204, 85, 0]], np.float64)
    at = np.linspace(0, 2, 254)
    low = np.minimum(at.astype(np.int64), 1)
    part = (at - low)[:, None]
    colours = ends[low] * (1 - part) + ends[low + 1] * part
    tones: bytes = colours.astype(np.uint8).tobytes()
    return bytes(3) + tones + bytes(3)


_COLOURS: Final = _ramp()


def _png(pixels: np.ndarray[Any, np.dtype[np.uint8]], palette: bytes | None) -> str:
    """A PNG (https://www.w3.org/TR/png/) of RGB bytes, or of indices into a palette."""
    height, width = pixels.shape[:2]

    def chunk(kind: bytes, data: bytes) -> bytes:
        head = kind + data
        return len(data).to_bytes(4, "big") + head + zlib.crc32(head).to_bytes(4, "big")

    size = width.to_bytes(4, "big") + height.to_bytes(4, "big")
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)  # each row without a filter
    parts = [
        b"\x89PNG\r\n\x1a\n",
        chunk(b"IHDR", size + bytes([8, 2 if palette is None else 3, 0, 0, 0])),
        *([] if palette is None else [chunk(b"PLTE", palette)]),
        chunk(b"IDAT", zlib.compress(lines)),
        chunk(b"IEND", b""),
    ]
    return "data:image/png;base64," + base64.b64encode(b"".join(parts)).decode()


def png_size(url: str) -> tuple[int, int]:
    """The width and height of an image of `picture_of`."""
    head = base64.b64decode(url.partition(",")[2][:44])
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
