"""Panels: images of values, and descriptions of the current state of objects."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

import eagerflow as ef
from eagerflow.views.object_panels import array_panel, dataset_panel, model_panel, profile_panel
from eagerflow.views.panels import MOST_ROWS, picture_svg, table_of
from eagerflow.watching import Watcher
from eagerflow.watching.refreshed_texts import Panels
from eagerflow.watching.value_pictures import picture_of, png_size


def pixels(url: str) -> np.ndarray:
    """The pixels of a PNG, by a decoder of its own, which checks the checksums."""
    data = base64.b64decode(url.removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, at = {}, 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            kind + body
        )
        chunks[kind], at = body, at + 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert depth == 8
    channels = 3 if colour == 2 else 1
    raw = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8)
    lines = raw.reshape(height, 1 + width * channels)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape((height, width, channels))


def test_a_matrix_goes_from_blue_to_orange_and_nan_is_black() -> None:
    url, label = picture_of(np.array([[-2.0, 0.0, 1.0], [2.0, np.nan, np.inf]]))
    assert pixels(url)[..., 0].tolist() == [[1, 127, 190], [254, 0, 254]]
    assert label == "matrix of 2 by 3, from -2 (blue) to 2 (orange)"
    assert png_size(url) == (3, 2)
    assert f'href="{url}"' in picture_svg(url, label)


def test_an_image_keeps_its_colours() -> None:
    image = np.zeros((10, 9, 3))
    image[3, 4] = 1.0, 0.5, 0.0
    url, label = picture_of(image)
    assert label == "an image"
    assert pixels(url)[3, 4].tolist() == [255, 127, 0]


@given(arrays(np.float64, array_shapes(min_dims=0, max_dims=4, max_side=9)))
def test_any_array_of_numbers_has_a_picture_or_none(array: np.ndarray) -> None:
    url, _ = picture_of(array)
    assert bool(url) == (array.ndim > 0)
    if url:
        assert pixels(url).shape[:2] == png_size(url)[::-1]


@given(st.integers(1, 400), st.integers(1, 400))
def test_large_matrices_are_thinned(rows: int, columns: int) -> None:
    url, _ = picture_of(np.zeros((rows, columns)))
    width, height = png_size(url)
    assert max(width, height) <= 64
    assert width == columns or columns > 64
    assert height == rows or rows > 64


def test_an_array_says_what_is_wrong_in_it() -> None:
    variable = ef.Variable(ef.tensor([1.0, float("nan"), float("inf")]), name="w")
    panel = array_panel(variable)
    assert panel.title == "w"
    assert panel.alarm == "1 NaN, 1 infinite"
    variable.assign(ef.ones(3))
    assert array_panel(variable).alarm == ""
    assert json.loads(json.dumps(panel.data()))["lines"][0] == ["type", "f32[3]@cpu:0"]


def test_a_model_names_the_variable_that_is_wrong() -> None:
    model = ef.nn.Sequential(ef.nn.Linear(3, 2), ef.nn.Linear(2, 1))
    model.layers[1].bias.assign(ef.tensor([float("nan")]))
    panel = model_panel(model.state, "Sequential")
    assert panel.alarm == "layers.1.bias: 1 NaN"
    assert [row[0] for row in panel.rows] == list(model.state)
    assert dict(panel.lines) == {"variables": "4", "elements": "11"}


def test_a_dataset_names_the_stage_that_is_slow_and_not_those_after_it() -> None:
    stages = ["Dataset.from_tensors(i64[3])", "  .map(slow, workers=1)", "  .prefetch(2)"]
    watcher = Watcher(clock=lambda: 0.0)
    watcher.activity.taken |= {"map(slow)": (12, 6.0), "prefetch": (12, 5.0)}
    panel = dataset_panel(stages, watcher, clock=lambda: 10.0)
    assert panel.alarm.startswith(".map(slow, workers=1) hands over too slowly")
    assert panel.rows[1] == ("2", ".map(slow, workers=1)", "12", "6.0 s", "60%")
    assert panel.rows[0][2:] == ("", "", "")


def test_a_stage_is_not_taken_for_another_whose_name_goes_on() -> None:
    stages = ["Dataset.range(9)", "  .map(load2, workers=1)", "  .map(load)"]
    watcher = Watcher(clock=lambda: 0.0)
    watcher.activity.taken |= {"map(load)": (3, 0.5), "map(load2)": (7, 1.0)}
    panel = dataset_panel(stages, watcher, clock=lambda: 10.0)
    assert [row[2] for row in panel.rows] == ["", "7", "3"]


def test_a_profile_can_be_seen_while_it_goes_on() -> None:
    with ef.profile() as profile:
        ef.exp(ef.ones(3))
        before = profile_panel(profile)
        ef.exp(ef.ones(3))
        after = profile_panel(profile)
    assert {row[0]: row[2] for row in before.rows} == {"exp": "1", "full": "1"}
    assert {row[0]: row[2] for row in after.rows} == {"exp": "2", "full": "2"}
    assert sum(after.shares) == pytest.approx(1.0)


def test_long_tables_end_with_how_many_there_are_more() -> None:
    rows = [(str(i), "") for i in range(MOST_ROWS + 7)]
    assert table_of(rows)[-1] == ("… 7 more", "")


def test_objects_are_looked_at_a_hundredth_of_the_time() -> None:
    times = count()  # each look at the clock is one second later
    panels = Panels(lambda: float(next(times)))
    seen: list[int] = []
    number = panels.add(lambda: {"title": str(seen.append(0))})
    assert panels.rows(0.0) == [(number, '{"title": "None"}')]
    assert panels.rows(100.9) == []
    assert len(panels.rows(101.0)) == 1
    panels.remove(number)
    assert panels.rows(1e9) == []


def test_a_probe_that_fails_says_so() -> None:
    panels = Panels(lambda: 0.0)
    panels.add(lambda: {"title": 1 / 0})
    ((_, text),) = panels.rows(0.0)
    assert "ZeroDivisionError" in json.loads(text)["alarm"]
