"""PNG files that Pillow's decoder gets without Pillow's Python: same pixels, same errors."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from eagerflow_kernels.pictures import _plain_png, pixels
from eagerflow_kernels.records import DamagedError

MODES = {"L": (), "RGB": (3,), "RGBA": (4,)}


def png(mode: str, shape: tuple[int, int], **options: Any) -> bytes:
    """A file of random pixels, on a slope so that all filters occur."""
    draws = np.random.default_rng(sum(shape))
    slope = np.linspace(0, 200, shape[0]).astype("u1").reshape(-1, 1, *(1 for _ in MODES[mode]))
    values = slope + draws.integers(0, 40, (*shape, *MODES[mode]), "u1")
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG", **options)
    return buffer.getvalue()


def by_pillow(data: bytes) -> Any:
    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.array(image)
    except (OSError, SyntaxError, ValueError, EOFError):
        return None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (64, 64), (300, 200)])
@pytest.mark.parametrize("options", [{}, {"compress_level": 0}, {"optimize": True}])
def test_the_same_pixels(mode: str, shape: tuple[int, int], options: dict[str, Any]) -> None:
    data = png(mode, shape, **options)
    expected = by_pillow(data)
    assert expected is not None
    assert np.array_equal(np.array(_plain_png(data)), expected)
    assert np.array_equal(pixels(data, None, None), expected.reshape(*shape, -1))


def test_notes_change_nothing() -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Comment", "made by a test")
    data = png("RGB", (9, 8), pnginfo=notes, dpi=(72, 72))
    assert np.array_equal(np.array(_plain_png(data)), by_pillow(data))


def test_what_is_not_plain_is_left_to_pillow() -> None:
    values = np.arange(12, dtype="u1").reshape(3, 4)
    for mode in ("P", "1", "LA", "I;16"):
        buffer = io.BytesIO()
        Image.fromarray(values).convert(mode).save(buffer, "PNG")
        assert _plain_png(buffer.getvalue()) is None
        assert pixels(buffer.getvalue(), "own", None).shape[:2] == (3, 4)
    assert _plain_png(png("RGB", (4, 4), transparency=(0, 0, 0))) is None
    assert _plain_png(b"") is None
    assert _plain_png(png("L", (4, 4))[:20]) is None


@given(st.sampled_from(sorted(MODES)), st.integers(0, 10**6), st.integers(0, 7), st.booleans())
def test_damage_is_never_taken_for_a_picture(mode: str, place: int, bit: int, cut: bool) -> None:
    data = bytearray(png(mode, (6, 5)))
    place %= len(data)
    if cut:
        del data[place:]
    else:
        data[place] ^= 1 << bit
    found = _plain_png(bytes(data))
    if found is not None:  # what was hit is nothing that anybody reads
        assert np.array_equal(np.array(found), by_pillow(bytes(data)))


def test_damaged_pixels_are_an_error() -> None:
    data = bytearray(png("RGB", (30, 30)))
    data[len(data) // 2] ^= 0x10
    with pytest.raises(DamagedError):
        pixels(bytes(data), "RGB", None)
