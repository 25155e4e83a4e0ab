"""Damage to a checkpoint: each change of a file is detected, and the error helps to go on."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import eagerflow as ef
from eagerflow.checkpoint.files import MANIFEST
from eagerflow.checkpoint.manifest import verify_all
from eagerflow.errors import CheckpointError

TREE = {"w": ef.tensor([1.0, 2.0]), "n": [3, "ü"], "z": ef.tensor([1, 2], dtype=ef.int8)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of a checkpoint of two shards."""
    ef.checkpoint.save(tmp_path / "c", TREE, shard_bytes=8)
    return tmp_path / "c"


def damage(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        ef.checkpoint.load(path)
    return str(caught.value)


def _files(path: Path) -> list[Path]:
    return [f for f in sorted(path.iterdir()) if f.stat().st_size]


def test_there_are_three_files(path: Path) -> None:
    assert [f.suffix for f in _files(path)] == [".json", ".safetensors", ".safetensors"]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("step", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_bits_of_each_byte(path: Path, number: int, step: int) -> None:
    """Flips one bit of each byte, a different one from byte to byte; or all, in a slow run."""
    file = _files(path)[number]
    good = file.read_bytes()
    for place in range(len(good)):
        for bit in range(place % step, 8, step):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            file.write_bytes(bad)
            assert file.name in damage(path), (place, bit)
    file.write_bytes(good)
    assert len(ef.checkpoint.load(path)) == 3


@pytest.mark.parametrize("number", range(3))
def test_each_byte_to_another(path: Path, number: int) -> None:
    file = _files(path)[number]
    good = file.read_bytes()
    other = np.random.default_rng(number).integers(1, 256, len(good), dtype=np.uint8)
    for place, change in enumerate(other.tolist()):
        bad = bytearray(good)
        bad[place] ^= change
        file.write_bytes(bad)
        assert file.name in damage(path), place


@pytest.mark.parametrize("number", range(3))
def test_each_length(path: Path, number: int) -> None:
    file = _files(path)[number]
    good = file.read_bytes()
    for length in range(len(good)):
        file.write_bytes(good[:length])
        assert file.name in damage(path), length
    file.write_bytes(good + b"\0")
    assert file.name in damage(path)


def test_a_block_of_zeros(tmp_path: Path) -> None:
    """Zeros stand for a page that never reached the disk."""
    ef.checkpoint.save(tmp_path / "c", ef.asarray(np.arange(3_000_000, dtype="i8") + 1))
    (shard,) = tmp_path.glob("c/shard-*")
    for start in (5 << 20, 12 << 20, 23_990_000):
        with shard.open("r+b") as file:
            file.seek(start)
            good = file.read(4096)
            file.seek(start)
            file.write(bytes(4096))
        assert "checksum of 'value' does not match" in damage(tmp_path / "c")
        with shard.open("r+b") as file:
            file.seek(start)
            file.write(good)
    verify_all(tmp_path / "c")


@pytest.mark.parametrize("number", range(3))
def test_a_missing_file(path: Path, number: int) -> None:
    file = _files(path)[number]
    file.unlink()
    assert ("no manifest.json" if number == 0 else f"{file.name} is missing") in damage(path)


def test_shards_that_change_places(path: Path) -> None:
    _, first, second = _files(path)
    whole = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(whole)
    assert first.name in damage(path)


def test_a_shard_of_another_checkpoint_of_the_same_layout(path: Path, tmp_path: Path) -> None:
    ef.checkpoint.save(tmp_path / "d", {**TREE, "w": ef.tensor([1.0, 3.0])}, shard_bytes=8)
    theirs, ours = _files(tmp_path / "d")[1], _files(path)[1]
    assert theirs.stat().st_size == ours.stat().st_size
    shutil.copy(theirs, ours)
    assert "checksum of 'w' does not match" in damage(path)


# --- foreign and newer ---------------------------------------------------------------------------


def test_nothing_there(tmp_path: Path) -> None:
    assert "nowhere does not exist" in damage(tmp_path / "nowhere")


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(bytes(range(256)))
    assert "is not a checkpoint: a checkpoint is a folder with files" in damage(
        tmp_path / "model.pt"
    )


def test_safetensors_of_others(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    save_file({"w": np.zeros(3)}, tmp_path / "c" / "model.safetensors")
    assert "has no manifest.json" in damage(tmp_path / "c")


@pytest.mark.parametrize("text", ["{}", "[]", '{"format": "chrome extension", "version": 2}', "3"])
def test_a_manifest_of_others(tmp_path: Path, text: str) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / MANIFEST).write_text(text)
    assert "is not the manifest of a checkpoint" in damage(tmp_path / "c")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b"{"])
def test_no_json(path: Path, content: bytes) -> None:
    (path / MANIFEST).write_bytes(content)
    assert "it cannot be read" in damage(path)


def _rewritten(path: Path, **changes: Any) -> None:
    """Change fields of the manifest and correct its checksum."""
    whole = {**json.loads((path / MANIFEST).read_bytes()), **changes, "checksum": "0" * 64}
    text = json.dumps(whole, indent=1).encode() + b"\n"
    digest = sha256(text).hexdigest().encode()
    (path / MANIFEST).write_bytes(text.replace(b"0" * 64, digest, 1))


def test_a_newer_format(path: Path) -> None:
    _rewritten(path, version=2, tensors="something new")
    assert "has format 2, this eagerflow reads up to 1: install a newer eagerflow" in damage(path)


@pytest.mark.parametrize(
    "changes",
    [{"tree": {}}, {"tree": {"odd": 1}}, {"tensors": 3}, {"tensors": {"w": {}}}, {"version": "x"},
     {"shards": [{}]}, {"tree": {"int": "zz"}}, {"version": None, "saved": None, "note": {}}],
)  # fmt: skip
def test_a_manifest_that_makes_no_sense(path: Path, changes: dict[str, Any]) -> None:
    _rewritten(path, **changes)
    assert MANIFEST in damage(path)


def test_a_manifest_cannot_name_files_elsewhere(path: Path, tmp_path: Path) -> None:
    shards = json.loads((path / MANIFEST).read_bytes())["shards"]
    (path / shards[0]["file"]).rename(tmp_path / shards[0]["file"])
    shards[0]["file"] = f"../{shards[0]['file']}"
    _rewritten(path, shards=shards)
    assert "is missing" in damage(path)


def test_the_form_of_the_manifest(path: Path) -> None:
    """The format is a promise: later versions read the files that are written today."""
    whole = json.loads((path / MANIFEST).read_bytes())
    assert list(whole) == [
        "checksum", "format", "version", "saved", "kernels", "note", "tree", "tensors", "shards"
    ]  # fmt: skip
    assert whole["kernels"] in ("native", "portable")
    assert whole["tree"] == {"dict": {"w": {"tensor": "w"}, "n": [3, "ü"], "z": {"tensor": "z"}}}
    digest = sha256(sha256(np.array([1, 2], "f4").tobytes()).digest()).hexdigest()
    assert whole["tensors"]["w"] == {
        "dtype": "float32", "shape": [2], "shard": 0, "checksum": digest
    }  # fmt: skip
    first = (path / whole["shards"][0]["file"]).read_bytes()
    assert whole["shards"][0]["bytes"] == len(first)
    assert whole["shards"][0]["header"] == sha256(first[:-8]).hexdigest()
    assert whole["tensors"]["z"]["shard"] == 1


# --- other files in the folder -------------------------------------------------------------------


def test_the_newest_intact_one_is_named(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d"):
        ef.checkpoint.save(tmp_path / name, TREE)
    for name in ("c", "d"):
        (shard,) = tmp_path.glob(f"{name}/shard-*")
        shard.write_bytes(shard.read_bytes()[:-1])
    text = damage(tmp_path / "d")
    assert str(next(tmp_path.glob("d/shard-*"))) in text
    assert f"hint: the newest intact checkpoint beside it is {tmp_path / 'b'}\n" in text


def test_a_name_that_is_alike_is_named_where_there_is_none(tmp_path: Path) -> None:
    for name in ("middle.ckpt", "q"):
        ef.checkpoint.save(tmp_path / name, TREE)
    assert f"hint: did you mean {tmp_path / 'middle.ckpt'}?\n" in damage(tmp_path / "midle.ckpt")
    assert "hint:" not in damage(tmp_path / "weights")


def test_none_is_intact(path: Path) -> None:
    (path / MANIFEST).unlink()
    assert "hint: there is no intact checkpoint beside it" in damage(path)


def test_like_is_not_changed(path: Path) -> None:
    shard = _files(path)[2]
    shard.write_bytes(shard.read_bytes()[:-1] + b"\xff")
    like = {"w": ef.Variable([0.0, 0.0]), "n": [0, ""], "z": ef.Variable([0, 0], dtype=ef.int8)}
    with pytest.raises(CheckpointError):
        ef.checkpoint.load(path, like=like)
    assert like["w"].numpy().tolist() == [0, 0]
    assert like["z"].numpy().tolist() == [0, 0]
