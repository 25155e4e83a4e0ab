"""Errors for text and pictures that cannot be parsed; round trips with Python's own writers."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors
from tests.messages import says
from tests.ops.cases.files import png
from tests.resources.queues.modes import Call


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: ef.io.decode_raw([b"ab", b"c"], "u1"), "element 1 has 1 bytes, element 0 has 2"),
        (
            lambda: ef.io.decode_raw(b"abc", ef.int16),
            "3 bytes are not a multiple of the 2 of int16",
        ),
        (lambda: ef.io.parse_numbers([[b"1", b"x"]]), r"element \(0, 1\) is no number: b'x'"),
        (lambda: ef.io.parse_numbers(b"1.5", ef.int32), "the element is no integer"),
        (lambda: ef.io.parse_numbers(b"1_0"), "no number"),
        (lambda: ef.io.parse_numbers(b""), "no number"),
        (lambda: ef.io.parse_numbers([b"300"], ef.uint8), "element 0 does not fit into uint8"),
        (lambda: ef.io.parse_numbers([b"9" * 99], ef.int64), r"\(99 bytes\)"),
        (lambda: ef.io.decode_csv([b"1", b"1,2"], ["i64"]), "element 1 has 2 fields instead of 1"),
        (lambda: ef.io.decode_csv([b'"1'], ["i64"]), "element 0 is not a row: unexpected end"),
        (lambda: ef.io.decode_csv([b"1\n2"], ["i64"]), "element 0 has 2 rows"),
        (lambda: ef.io.decode_csv([b"1,"], ["i64", "f32"]), "field 1 of element 0 is empty"),
        (lambda: ef.io.decode_csv([b"1,q"], ["i64", "f32"]), "field 1 of element 0 is no number"),
        (lambda: ef.io.decode_image([b"", b"x"]), "element 0: this is not a picture of a known"),
        (
            lambda: ef.io.decode_image(png(np.arange(243, dtype="u1").reshape(9, 9, 3))[:100]),
            "cannot be read",
        ),
        (
            lambda: ef.io.decode_image([png(np.zeros((n, 2, 3), "u1")) for n in (3, 4)]),
            r"element 1 is \(4, 2, 3\), element 0 is \(3, 2, 3\); size=",
        ),
    ],
)
def test_what_is_wrong_is_named(call: Call, wrong: Callable[[], Any], words: str) -> None:
    with pytest.raises(errors.RecordError, check=says(words)) as caught:
        call(wrong)
    assert isinstance(caught.value, ValueError)
    assert "test_parsing.py" in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ef.io.decode_raw(ef.tensor([1]), "i4"), errors.DTypeError),
        (lambda: ef.io.decode_raw(b"", "bytes"), errors.DTypeError),
        (lambda: ef.io.decode_raw(b"", "i4", byte_order="middle"), errors.TensorValueError),
        (lambda: ef.io.parse_numbers(ef.tensor([1.0])), errors.DTypeError),
        (lambda: ef.io.parse_numbers("1"), errors.DTypeError),
        (lambda: ef.io.parse_numbers(b"1", "bool"), errors.DTypeError),
        (lambda: ef.io.parse_numbers(b"1", "c64"), errors.DTypeError),
        (lambda: ef.io.decode_csv(b"1", []), errors.TensorValueError),
        (lambda: ef.io.decode_csv(b"1", ["i64"], defaults=[1, 2]), errors.TensorValueError),
        (lambda: ef.io.decode_csv(b"1", ["i64"], defaults=[b"x"]), errors.DTypeError),
        (lambda: ef.io.decode_csv(b"1", ["i64"], delimiter="||"), errors.TensorValueError),
        (lambda: ef.io.decode_csv(b"1", ["bool"]), errors.DTypeError),
        (lambda: ef.io.decode_image(ef.tensor([1])), errors.DTypeError),
        (lambda: ef.io.decode_image(b"", dtype="i32"), errors.DTypeError),
        (lambda: ef.io.decode_image(b"", channels=2), errors.TensorValueError),
        (lambda: ef.io.decode_image(b"", size=(0, 3)), errors.ShapeError),
        (lambda: ef.io.decode_image(b"", size=(1, 2, 3)), errors.ShapeError),
        (lambda: ef.io.length(1.0), errors.DTypeError),
    ],
)
def test_arguments_that_make_no_sense(
    call: Call, wrong: Callable[[], Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        call(wrong)


def test_pictures_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(errors.SettingError, match=r"pip install 'eagerflow\[data\]'"):
        ef.io.decode_image(b"x")


def test_a_palette_is_looked_up() -> None:
    from PIL import Image

    buffer = io.BytesIO()
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putdata([0, 1])
    image.save(buffer, "PNG")
    pixels = ef.io.decode_image(buffer.getvalue(), channels=None)
    assert pixels.tolist() == [[[10, 20, 30], [40, 50, 60]]]


def test_one_trace_for_all_contents() -> None:
    @ef.trace
    def parse(row: ef.Tensor) -> ef.Tensor:
        name, x = ef.io.decode_csv(row, ["bytes", "f32"])
        return ef.where(name == b"twice", 2 * x, x)

    assert [parse(ef.tensor(row)).item() for row in (b"once,2", b"twice,2")] == [2.0, 4.0]
    assert len(parse.traces) == 1


def test_pictures_of_any_number_of_channels_share_a_trace() -> None:
    """The name of the second such size differs from all names of dtypes."""

    @ef.trace
    def channels(one: ef.Tensor, two: ef.Tensor) -> list[int]:
        return [ef.io.decode_image(x, channels=None).shape[2] + 0 for x in (one, two)]

    grey, colour = (png(np.zeros(shape, "u1")) for shape in [(2, 2, 1), (2, 2, 3)])
    assert channels(ef.tensor(grey), ef.tensor(colour)) == [1, 3]
    assert channels(ef.tensor(colour), ef.tensor(grey)) == [3, 1]
    assert len(channels.traces) == 1


def test_gradients_flow_beside_bytes() -> None:
    def loss(w: ef.Tensor, row: ef.Tensor) -> ef.Tensor:
        (x,) = ef.io.decode_csv(row, ["f32"])
        return w * w * x

    for function in (loss, ef.trace(loss)):
        assert ef.grad(function)(ef.tensor(3.0), ef.tensor(b"2")).item() == 12.0
        with pytest.raises(errors.GradientError):
            ef.grad(function, argnums=1)(ef.tensor(3.0), ef.tensor(b"2"))


@given(st.lists(st.floats(width=64), max_size=5), st.sampled_from(["float64", "float32"]))
def test_numbers_as_python_writes_them(values: list[float], dtype: str) -> None:
    numbers = ef.io.parse_numbers(ef.tensor([b"%r" % x for x in values], dtype="bytes"), dtype)
    with np.errstate(over="ignore"):
        expected = np.array(values, "float64").astype(dtype)
    np.testing.assert_array_equal(numbers.numpy(), expected)
    assert np.signbit(numbers.numpy())[expected == 0].tolist() == (
        np.signbit(expected)[expected == 0].tolist()
    )


_text = st.text(st.characters(max_codepoint=255, exclude_characters="\0"), max_size=5)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), _text), min_size=1, max_size=4))
def test_rows_as_python_writes_them(rows: list[tuple[int, str]]) -> None:
    written = []
    for row in rows:
        out = io.StringIO(newline="")
        csv.writer(out).writerow(row)
        written.append(out.getvalue().removesuffix("\r\n").encode("latin-1"))
    numbers, texts = ef.io.decode_csv(written, ["i64", "bytes"])
    assert numbers.tolist() == [n for n, _ in rows]
    assert texts.tolist() == [t.encode("latin-1") for _, t in rows]
