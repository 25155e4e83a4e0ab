"""Round trips through checkpoints: every dtype, every bit, every kind of tree."""

from __future__ import annotations

import math
import tempfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import eagerflow as ef
from eagerflow.errors import CheckpointError
from eagerflow.types import DTYPES
from tests.checkpoint.trees import Batch, Pair, content, plainly, trees


def again(tree: Any, **options: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        ef.checkpoint.save(Path(folder) / "c", tree, **options)
        return ef.checkpoint.load(Path(folder) / "c")


@given(trees())
def test_any_tree_without_like(tree: Any) -> None:
    assert content(again(tree, shard_bytes=16)) == content(plainly(tree))


@given(trees())
def test_any_tree_with_like(tree: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ef.checkpoint.save(Path(folder) / "c", tree)
        assert content(ef.checkpoint.load(Path(folder) / "c", like=tree)) == content(tree)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_every_bit_pattern_of_every_dtype(dtype: str) -> None:
    kind = DTYPES[dtype]
    raw = np.random.default_rng(0).integers(0, 256, 1024, dtype=np.uint8)
    raw[:512] = np.arange(512) % 256  # all values of a byte
    values = raw & 1 if dtype == "bool" else raw
    array = values.view(kind.dtype)
    for shaped in (array, array.reshape(2, -1).T, array[::3], array[:1].reshape(()), array[:0]):
        copy = again(ef.asarray(shaped))
        assert copy.dtype is kind
        assert copy.shape == shaped.shape
        assert copy.numpy().tobytes() == shaped.tobytes()


@pytest.mark.parametrize("dtype", sorted(n for n, d in DTYPES.items() if d.is_inexact))
def test_special_values(dtype: str) -> None:
    array = np.array([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]).astype(DTYPES[dtype].dtype)
    assert again(ef.asarray(array)).numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 2**53, 2**53 + 1, pytest.param(-(10**5000), id="huge"), 0.1, -0.0,
     5e-324, math.nan, -math.nan, math.inf, -math.inf, complex(-0.0, math.nan),
     complex(math.inf, 1e308), "", "ü\0\n\ud800"],
)  # fmt: skip
def test_plain_values_exactly(value: object) -> None:
    assert content(again(value)) == content(value)
    assert content(again({"x": [value]})) == content({"x": [value]})


def test_a_payload_of_nan() -> None:
    value = np.array([0x7FF8DEADBEEF0001], np.uint64).view(np.float64).tolist()[0]
    assert content(again(value)) == content(value)


def test_numpy_arrays_and_scalars_are_tensors() -> None:
    copy = again({"array": np.arange(3), "scalar": np.float64(0.5)})
    array, scalar = ef.arange(3), ef.asarray(0.5, dtype=ef.float64)
    assert content(copy) == content({"array": array, "scalar": scalar})


def test_slices_come_back() -> None:
    slices = ef.IndexedSlices(ef.tensor([[1.0], [2.0]]), ef.tensor([2, 0]), (3, 1))
    assert content(again([slices])) == content([slices])


def test_classes_of_containers() -> None:
    tree = {"batch": Batch(ef.tensor([1.0]), Pair(1, (2,))), "empty": [{}, [], ()]}
    copy = again(tree)
    assert content(copy["batch"]) == content(
        {"images": ef.tensor([1.0]), "labels": {"first": 1, "second": (2,)}}
    )
    assert copy["empty"] == [{}, [], ()]


def test_with_like_classes_are_those_of_like(tmp_path: Path) -> None:
    tree = OrderedDict(batch=Batch(1, Pair(ef.tensor([1.0]), [2])))
    ef.checkpoint.save(tmp_path / "c", tree)
    like = OrderedDict(batch=Batch(0, Pair(ef.tensor([0.0]), [0])))
    loaded = ef.checkpoint.load(tmp_path / "c", like=like)
    assert type(loaded) is OrderedDict
    assert type(loaded["batch"]) is Batch
    assert type(loaded["batch"].labels) is Pair
    assert content(loaded) == content(tree)
    assert like["batch"].images == 0, "containers of like are not changed"


def test_what_is_held_twice_is_stored_once(tmp_path: Path) -> None:
    v = ef.Variable(ef.zeros((100,)))
    ef.checkpoint.save(tmp_path / "c", {"encoder": v, "decoder": v})
    (shard,) = tmp_path.glob("c/shard-*")
    assert shard.stat().st_size < 800
    first, second = ef.checkpoint.load(tmp_path / "c").values()
    assert content(first) == content(second) == content(v)


def test_names_that_meet(tmp_path: Path) -> None:
    tree = {"a.b": ef.tensor(1), "a": {"b": ef.tensor(2), 1: ef.tensor(3), "1": ef.tensor(4)}}
    ef.checkpoint.save(tmp_path / "c", tree)
    assert content(ef.checkpoint.load(tmp_path / "c")) == content(tree)
    assert content(ef.checkpoint.load(tmp_path / "c", like=tree)) == content(tree)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"a": [object()]}, "got: object at a.0"),
        ({"f": print}, "got: builtin_function_or_method at f"),
        ({"a": {b"x": 1}}, "got: b'x' at a"),
        ({1, 2}, "got: set at the top"),
        (ef.float32, "got: DType at the top"),
        (ef.Variable, "at the top"),
    ],
)
def test_what_cannot_be_saved(tmp_path: Path, tree: object, message: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        ef.checkpoint.save(tmp_path / "c", tree)
    assert message in str(caught.value)
    assert not (tmp_path / "c").exists()


def test_a_tree_that_contains_itself(tmp_path: Path) -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(CheckpointError, match="contains itself"):
        ef.checkpoint.save(tmp_path / "c", tree)


def test_a_deep_tree(tmp_path: Path) -> None:
    tree: Any = 1
    for _ in range(64):
        tree = {"k": tree}
    assert again(tree) == tree
