"""PNG files passed to Pillow's decoder without Pillow's Python code: same pixels, same errors."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, PngImagePlugin

from eagerflow_kernels.pictures import _plain_png, pixels
from eagerflow_kernels.records import DamagedError
from tests.messages import says

MODES = {"L": (), "RGB": (3,), "RGBA": (4,)}


def png(mode: str, shape: tuple[int, int], **options: Any) -> bytes:
    """A file of random pixels, on a slope so that all filters occur."""
    draws = np.random.default_rng(sum(shape))
    slope = np.linspace(0, 200, shape[0]).astype("u1").reshape(-1, 1, *(1 for _ in MODES[mode]))
    values = slope + draws.integers(0, 40, (*shape, *MODES[mode]), "u1")
    buffer = io.BytesIO()
    Image.fromarray(values).save(buffer, "PNG", **options)
    return buffer.getvalue()


def plain_png(data: bytes) -> Any:
    return _plain_png(Image, data)


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
    assert np.array_equal(np.array(plain_png(data)), expected)
    assert np.array_equal(pixels(data, None, None), expected.reshape(*shape, -1))


def test_notes_change_nothing() -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("Comment", "made by a test")
    data = png("RGB", (9, 8), pnginfo=notes, dpi=(72, 72))
    assert np.array_equal(np.array(plain_png(data)), by_pillow(data))


def test_what_is_not_plain_is_left_to_pillow() -> None:
    values = np.arange(12, dtype="u1").reshape(3, 4)
    for mode in ("P", "1", "LA", "I;16"):
        buffer = io.BytesIO()
        Image.fromarray(values).convert(mode).save(buffer, "PNG")
        assert plain_png(buffer.getvalue()) is None
        assert pixels(buffer.getvalue(), "own", None).shape[:2] == (3, 4)
    assert plain_png(png("RGB", (4, 4), transparency=(0, 0, 0))) is None
    assert plain_png(b"") is None
    assert plain_png(png("L", (4, 4))[:20]) is None


@given(st.sampled_from(sorted(MODES)), st.integers(0, 10**6), st.integers(0, 7), st.booleans())
def test_damage_is_never_taken_for_a_picture(mode: str, place: int, bit: int, cut: bool) -> None:
    data = bytearray(png(mode, (6, 5)))
    place %= len(data)
    if cut:
        del data[place:]
    else:
        data[place] ^= 1 << bit
    picture = plain_png(bytes(data))
    if picture is not None:  # the damage is in a part that no reader looks at
        assert np.array_equal(np.array(picture), by_pillow(bytes(data)))


def test_damaged_pixels_are_an_error() -> None:
    data = bytearray(png("RGB", (30, 30)))
    data[len(data) // 2] ^= 0x10
    with pytest.raises(DamagedError):
        pixels(bytes(data), "RGB", None)


@pytest.mark.parametrize("mode", [*MODES, "P", "1", "LA", "I;16"])
def test_files_give_what_their_bytes_give(mode: str, tmp_path: Path) -> None:
    values = np.arange(12, dtype="u1").reshape(3, 4)
    path = tmp_path / "picture.png"
    Image.fromarray(values).convert(mode).save(path)
    expected = by_pillow(path.read_bytes())
    for source in (str(path), path.read_bytes(), io.BytesIO(path.read_bytes())):
        picture = pixels(source, None, None)
        assert picture.dtype == expected.dtype
        assert np.array_equal(picture, expected.reshape(3, 4, -1))


def test_a_file_that_does_not_say_its_size(tmp_path: Path) -> None:
    data, path = png("RGB", (300, 200)), tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(data,))
    writer.start()
    picture = pixels(str(path), None, None)
    writer.join()
    assert np.array_equal(picture, by_pillow(data))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    for path in (tmp_path, tmp_path / "empty.png"):
        with pytest.raises(DamagedError):
            pixels(str(path), None, None)
    with pytest.raises(FileNotFoundError, check=says(r"missing\.png")):
        pixels(str(tmp_path / "missing.png"), None, None)


def test_pixels_are_not_copied_twice() -> None:
    data = png("RGB", (64, 64))
    picture = pixels(data, "RGB", None)
    assert not picture.flags.writeable  # the buffer is Pillow's own
    assert np.array_equal(picture, by_pillow(data))
