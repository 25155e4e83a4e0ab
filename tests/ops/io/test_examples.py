"""TensorFlow's examples: round trips, missing or damaged data, and TensorFlow's own encoder."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import DTypeError, RecordError, ShapeError, TensorValueError
from eagerflow_kernels.examples import read_example, write_example
from eagerflow_kernels.records import DamagedError
from tests.resources.queues.modes import Call

_lists = st.one_of(
    st.tuples(st.just("bytes"), st.lists(st.binary(max_size=200), max_size=4)),
    st.tuples(st.just("int64"), st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4)),
    st.tuples(st.just("float32"), st.lists(st.floats(width=32, allow_nan=False), max_size=4)),
)
_features = st.dictionaries(st.text(max_size=3), _lists, max_size=4)


@given(_features)
def test_what_is_written_is_read(features: dict[str, Any]) -> None:
    try:
        data = write_example(features)
    except UnicodeEncodeError:  # a lone surrogate
        return
    features_read = {
        name: (kind, list(values)) for name, (kind, values) in read_example(data).items()
    }
    assert features_read == features


@given(_features, st.data())
def test_damage_is_an_error_or_other_features(features: dict[str, Any], data: Any) -> None:
    """Examples have no checksum of their own; no other error is raised, whatever the bytes are."""
    try:
        whole = write_example(features)
    except UnicodeEncodeError:
        return
    torn = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
    if torn:
        torn[data.draw(st.integers(0, len(torn) - 1))] ^= data.draw(st.integers(1, 255))
    with suppress(DamagedError):
        read_example(bytes(torn))


def test_many_examples(call: Call) -> None:
    records = [ef.io.encode_example({"n": i, "words": [b"w"] * i}) for i in range(3)]
    both = {"n": "i64[]", "words": "bytes[n]"}
    tensors = call(lambda: ef.io.parse_example(ef.stack(records), both))
    assert tensors["n"].tolist() == [0, 1, 2]
    assert tensors["words"].tolist() == [[b"", b""], [b"w", b""], [b"w", b"w"]]
    none = call(lambda: ef.io.parse_example(ef.zeros((0,), dtype="bytes"), both))
    assert {name: x.shape for name, x in none.items()} == {"n": (0,), "words": (0, 0)}


def test_shapes_and_defaults(call: Call) -> None:
    record = ef.io.encode_example({"x": ef.arange(6, dtype="float32"), "name": b"a"})
    tensors = call(
        lambda: ef.io.parse_example(
            record,
            {"x": "f32[2,n]", "name": "bytes[1]", "more": "f32[2]", "rest": "i64[n]"},
            defaults={"more": 0.5},
        )
    )
    assert tensors["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert tensors["name"].tolist() == [b"a"]
    assert tensors["more"].tolist() == [0.5, 0.5]
    assert tensors["rest"].shape == (0,)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ({"x": "f32[3]"}, r"feature 'x' of element 0 has 2 values, not \[3\]"),
        ({"x": "f32[3,n]"}, r"has 2 values, not \[3,…\]"),
        ({"x": "i64[2]"}, "feature 'x' of element 0 is of float32, not int64"),
        ({"y": "i64[2]"}, "element 0 has no feature 'y', and there is no default"),
    ],
)
def test_features_that_are_not_there(call: Call, features: Any, words: str) -> None:
    records = ef.stack([ef.io.encode_example({"x": [1.0, 2.0]})])
    with pytest.raises(RecordError, match=words) as caught:
        call(lambda: ef.io.parse_example(records, features))
    assert "test_examples.py" in str(caught.value)


def test_what_is_no_example(call: Call) -> None:
    with pytest.raises(RecordError, match=r"element 1 is not an example: .*: b'no example'"):
        call(lambda: ef.io.parse_example([b"", b"no example"], {"x": "f32[n]"}))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ef.io.parse_example(b"", {}), TensorValueError),
        (lambda: ef.io.parse_example(b"", {"x": "f32[]"}, defaults={"y": 1}), TensorValueError),
        (lambda: ef.io.parse_example(b"", {"x": "f64[]"}), DTypeError),
        (lambda: ef.io.parse_example(b"", {"x": "three"}), DTypeError),
        (lambda: ef.io.parse_example(b"", {"x": "f32[n,m]"}), ShapeError),
        (lambda: ef.io.parse_example(b"", {"x": "i64[]"}, defaults={"x": b"1"}), DTypeError),
        (lambda: ef.io.parse_example(1.0, {"x": "f32[]"}), DTypeError),
        (lambda: ef.io.encode_example({}), TensorValueError),
        (lambda: ef.io.encode_example({"x": 1j}), DTypeError),
    ],
)
def test_arguments_that_make_no_sense(call: Call, wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        call(wrong)


@pytest.mark.peer
def test_against_tensorflow(tmp_path: Any) -> None:
    """TensorFlow's output is read here, and eagerflow's output by TensorFlow."""
    tf = pytest.importorskip("tensorflow")
    rng = np.random.default_rng(0)
    for _ in range(100):
        floats = rng.normal(size=rng.integers(0, 5)).astype("float32")
        ints = rng.integers(-(2**62), 2**62, rng.integers(0, 5))
        words = [rng.bytes(rng.integers(0, 300)) for _ in range(rng.integers(0, 4))]
        feature = {
            "f": tf.train.Feature(float_list=tf.train.FloatList(value=floats)),
            "i": tf.train.Feature(int64_list=tf.train.Int64List(value=ints)),
            "w": tf.train.Feature(bytes_list=tf.train.BytesList(value=words)),
        }
        theirs = tf.train.Example(features=tf.train.Features(feature=feature))
        for data in (
            theirs.SerializeToString(),
            ef.io.encode_example(
                {"f": floats, "i": ints, "w": ef.tensor(words, dtype="bytes")}
            ).item(),
        ):
            kinds = {"f": "f32[n]", "i": "i64[n]", "w": "bytes[n]"}
            tensors = ef.io.parse_example(data, kinds)
            assert tensors["f"].numpy().tobytes() == floats.tobytes()
            assert tensors["i"].tolist() == ints.tolist()
            assert tensors["w"].tolist() == words
            read = tf.train.Example.FromString(data).features.feature
            assert list(read["f"].float_list.value) == floats.tolist()
            assert list(read["i"].int64_list.value) == ints.tolist()
            assert list(read["w"].bytes_list.value) == words
    path = str(tmp_path / "a.records")
    with tf.io.TFRecordWriter(path) as writer:
        for i in range(5):
            writer.write(b"record %d" % i)
    files = ef.Queue(1, "bytes[]")
    files.enqueue(path.encode())
    assert ef.io.RecordReader(files).read_up_to(5)[1].tolist() == [
        b"record %d" % i for i in range(5)
    ]
