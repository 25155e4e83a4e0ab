"""Shards are standard safetensors files, in the requested sizes."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

import eagerflow as ef
from eagerflow.checkpoint.digests import PIECE, Checksum, hashing, pieces
from eagerflow.checkpoint.files import MANIFEST
from eagerflow.types import DTYPES

_NAMES = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8",
    "uint16": "U16", "uint32": "U32", "uint64": "U64", "float16": "F16", "float32": "F32",
    "float64": "F64", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "complex64": "F32", "complex128": "F64",
}  # fmt: skip


def shards(path: Path) -> list[Path]:
    return sorted(path.glob("*.safetensors"))


def test_others_read_the_numbers(tmp_path: Path) -> None:
    tree = {
        "layers": [{"weight": ef.Variable([[1.0, 2.0], [3.0, 4.0]])}],
        "count": ef.tensor(7),
        "mask": ef.tensor([True, False]),
        "z": ef.tensor([1 + 2j, 3 - 4j]),
        "empty": ef.zeros((2, 0)),
    }
    ef.checkpoint.save(tmp_path / "c", tree)
    (file,) = shards(tmp_path / "c")
    arrays = load_file(file)
    assert arrays.keys() == {"layers.0.weight", "count", "mask", "z", "empty"}
    assert arrays["layers.0.weight"].dtype == np.float32
    assert arrays["layers.0.weight"].tolist() == [[1, 2], [3, 4]]
    assert arrays["count"].tolist() == 7
    assert arrays["count"].dtype == np.int64
    assert arrays["mask"].tolist() == [True, False]
    assert arrays["z"].tolist() == [[1, 2], [3, -4]]
    assert arrays["empty"].shape == (2, 0)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_others_know_the_dtype(tmp_path: Path, dtype: str) -> None:
    ef.checkpoint.save(tmp_path / "c", {"x": ef.ones((3, 2), dtype=dtype)})
    (file,) = shards(tmp_path / "c")
    with safe_open(file, "numpy") as opened:
        x = opened.get_slice("x")
        assert x.get_dtype() == _NAMES[dtype]
        assert x.get_shape() == [3, 2] + [2] * DTYPES[dtype].is_complex


def test_bfloat16_by_hand(tmp_path: Path) -> None:
    values = np.array([1.5, -2.0, 0.1], ml_dtypes.bfloat16)
    ef.checkpoint.save(tmp_path / "c", ef.asarray(values))
    (file,) = shards(tmp_path / "c")
    content = file.read_bytes()
    start = 8 + int.from_bytes(content[:8], "little")
    assert content[start:] == values.tobytes()
    assert start % 64 == 0


def test_sizes(tmp_path: Path) -> None:
    tree = [ef.zeros((10,)), ef.zeros((10,)), ef.zeros((100,)), ef.zeros((1,)), ef.zeros((0,))]
    ef.checkpoint.save(tmp_path / "c", tree, shard_bytes=80)
    names = [sorted(load_file(f)) for f in shards(tmp_path / "c")]
    assert names == [["0", "1"], ["2"], ["3", "4"]]
    assert [f.name[:20] for f in shards(tmp_path / "c")] == [
        f"shard-0000{i}-of-00003" [:20] for i in (1, 2, 3)
    ]  # fmt: skip


def test_no_tensor_no_shard(tmp_path: Path) -> None:
    ef.checkpoint.save(tmp_path / "c", {"epoch": 3})
    assert sorted(os.listdir(tmp_path / "c")) == [".lock", MANIFEST]
    assert ef.checkpoint.load(tmp_path / "c") == {"epoch": 3}


def test_large_elements_come_first(tmp_path: Path) -> None:
    tree = {"a": ef.tensor([1], dtype=ef.int8), "b": ef.tensor([2.0], dtype=ef.float64)}
    ef.checkpoint.save(tmp_path / "c", tree)
    (file,) = shards(tmp_path / "c")
    assert file.read_bytes()[-9:] == np.array([2.0]).tobytes() + b"\1"


@pytest.mark.parametrize("size", [0, 1, 100_000, PIECE, PIECE + 1, 3 * PIECE - 1])
def test_checksums(size: int) -> None:
    data = memoryview(np.random.default_rng(size).bytes(size))
    with hashing() as pool:
        checksum = Checksum(pool)
        for piece in pieces(data):
            checksum.add(piece)
        text = checksum.text()
    whole = bytes(data)
    parts = [sha256(whole[i : i + 4 * 2**20]).digest() for i in range(0, size, 4 * 2**20)]
    assert text == sha256(b"".join(parts)).hexdigest()


def test_a_tensor_of_several_pieces(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 2**40, (3, 600_000))  # 14 MB
    ef.checkpoint.save(tmp_path / "c", {"rows": ef.asarray(array), "columns": ef.asarray(array.T)})
    loaded = ef.checkpoint.load(tmp_path / "c")
    assert np.array_equal(loaded["rows"].numpy(), array)
    assert np.array_equal(loaded["columns"].numpy(), array.T)
