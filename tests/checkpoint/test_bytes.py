"""Bytes in checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

import eagerflow as ef
from eagerflow import checkpoint
from eagerflow.errors import CheckpointError
from tests.exploring import examples


@settings(max_examples=examples(25))
@given(st.lists(st.lists(st.binary(max_size=5), min_size=2, max_size=2), max_size=3))
def test_round_trips(tmp_path_factory: pytest.TempPathFactory, rows: list[list[bytes]]) -> None:
    array = np.array(rows, object).reshape(len(rows), 2)
    path = tmp_path_factory.mktemp("c") / "checkpoint"
    tree = {"words": ef.asarray(array), "one": ef.tensor(b"\0"), "x": ef.ones(3)}
    checkpoint.save(path, tree)
    loaded = checkpoint.load(path)
    assert loaded["words"].type == tree["words"].type
    assert loaded["words"].tolist() == array.tolist()
    assert loaded["one"].item() == b"\0"
    assert loaded["x"].tolist() == [1, 1, 1]
    checkpoint.save(path, tree)  # overwrites the first checkpoint


def test_variables_and_several_shards(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    words = ef.Variable([b"x" * 1000, b"y"], name="words")
    others: Any = {f"w{i}": ef.tensor([b"%d" % i * 500]) for i in range(4)}
    checkpoint.save(path, {"words": words, **others}, shard_bytes=1024)
    assert len(list(path.glob("shard-*"))) > 1
    words.assign([b"", b""])
    checkpoint.load(path, like={"words": words, **others})
    assert words.numpy().tolist() == [b"x" * 1000, b"y"]
    for shard in path.glob("shard-*"):
        with safe_open(shard, "np") as file:
            assert {file.get_tensor(name).dtype.name for name in file.keys()} == {"uint8"}  # noqa: SIM118 - it is no dict


def test_another_dtype_does_not_fit(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "c", {"x": ef.tensor([b"a"])})
    with pytest.raises(CheckpointError):
        checkpoint.load(tmp_path / "c", like={"x": ef.Variable([1.0])})


def test_a_changed_byte_is_found(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    checkpoint.save(path, {"x": ef.tensor([b"needle", b"hay"])})
    (shard,) = path.glob("shard-*")
    data = bytearray(shard.read_bytes())
    data[data.index(b"needle")] ^= 1
    shard.write_bytes(data)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoint.load(path)
