"""What a view shows of something that is no graph: lines, bars, a picture, a table.

A panel is made of an object when it is shown, and again now and then while a front-end shows it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

import numpy as np

#: rows of a table that are shown
MOST_ROWS: Final = 100
#: pixels of a picture along each axis; of RGB, which takes three times the bytes, fewer
_PIXELS: Final = 64
_RGB_PIXELS: Final = 44
#: images are at least this high and wide; else three columns are three columns
_IMAGE: Final = 8


@final
@dataclass(slots=True)
class Panel:
    """What is known of an object now.

    Attributes:
        title: what to call it.
        lines: terms and what is said of them.
        alarm: what is wrong, in words; empty if nothing is.
        bars: heights, at least 0.
        bars_label: what they show.
        picture: an image, as a URL with its bytes; empty if there is none.
        picture_label: what it shows.
        columns: of the table.
        rows: of the table, texts.
        shares: for each row a part of the whole from 0 to 1, drawn behind its last column.
    """

    title: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    alarm: str = ""
    bars: list[float] = field(default_factory=list)
    bars_label: str = ""
    picture: str = ""
    picture_label: str = ""
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        """The same for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


#: looks at an object; any thread may call it
Probe = Callable[[], Panel]


def picture_of(array: np.ndarray[Any, Any]) -> tuple[str, str]:
    """An array as an image, and what it shows: of more than two axes the first matrix.

    Numbers from blue (least) over white (zero, or the middle) to orange (largest), NaN is black;
    what has three channels last, and looks like an image, has its own colours. Every so manieth
    row and column is shown of what is larger than 64.

    Args:
        array: real numbers of any shape.

    Returns:
        A ``data:`` URL of a PNG, empty where there is nothing to be seen, and a text.
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
    span = high - low if high > low else 1.0
    with np.errstate(all="ignore"):  # of what is infinite, or nearly so
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
    """At most so many rows and columns, and how many of them these are."""
    steps = [-(-size // most) for size in matrix.shape[:2]]
    text = "" if steps == [1, 1] else f", 1 in {steps[0]} rows and 1 in {steps[1]} columns"
    return matrix[:: steps[0], :: steps[1]], text


def _ramp() -> bytes:
    """256 colours: black for NaN, then from blue over white to orange, for all kinds of eyes."""
    ends = np.array([[33, 84, 150], [247, 247, 247], [204, 85, 0]], np.float64)
    at = np.linspace(0, 2, 254)
    low = np.minimum(at.astype(np.int64), 1)
    part = (at - low)[:, None]
    colours = ends[low] * (1 - part) + ends[low + 1] * part
    tones: bytes = colours.astype(np.uint8).tobytes()
    return bytes(3) + tones + bytes(3)


_COLOURS: Final = _ramp()


def _png(pixels: np.ndarray[Any, np.dtype[np.uint8]], palette: bytes | None) -> str:
    """A PNG (https://www.w3.org/TR/png/) of bytes that are RGB, or places in a palette."""
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


def picture_svg(url: str, label: str) -> str:
    """An image as SVG, with sharp pixels."""
    from html import escape  # noqa: PLC0415 - notebooks have it; it would be part of every import

    width, height = png_size(url)
    scale = max(min(256 // max(width, height), 24), 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * scale}" '
        f'height="{height * scale}" role="img" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>"
        f'<image width="{width * scale}" height="{height * scale}" '
        f'style="image-rendering:pixelated" href="{url}"/></svg>'
    )


def png_size(url: str) -> tuple[int, int]:
    """Width and height of an image that `picture_of` made."""
    head = base64.b64decode(url.partition(",")[2][:44])
    return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")


def table_of(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The first rows, and one that says how many there are more."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    more = f"… {len(rows) - MOST_ROWS:,} more"
    return [*rows[:MOST_ROWS], (more, *[""] * (len(rows[0]) - 1))]
