"""Shards: safetensors files that hold the elements of tensors, and their checksums.

A shard is 8 bytes with the length of a header, the header in JSON, and the elements of its tensors
in row-major order, little-endian, without gaps. Every byte is covered: the header by a checksum of
its own, the elements by that of their tensor. Any reader of safetensors can open a shard. complex64
and complex128, which most readers lack, are stored as pairs of their parts along one more axis,
byte strings as `eagerflow.core.byte_arrays` packs them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from io import FileIO
from math import prod
from pathlib import Path
from typing import Any, Final, final

import numpy as np

import eagerflow as ef
from eagerflow.checkpoint.digests import Checksum, pieces
from eagerflow.checkpoint.files import Damaged, reported
from eagerflow.extending import new_file, pack, packed_size, progress_bar, unpack
from eagerflow.types import BYTES, DType

_ALIGNMENT: Final = 64
_LARGE: Final = 256 << 20
_DELAY: Final = 1.0
_SPECIAL: Final = {"bool": "BOOL", "bfloat16": "BF16",
                   "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}  # fmt: skip
_LETTERS: Final = {"signed integer": "I", "unsigned integer": "U", "real floating": "F"}


@final
@dataclass(frozen=True, slots=True)
class Stored:
    """The entry of a tensor in a manifest.

    Attributes:
        dtype: the true dtype.
        shape: the true shape.
        shard: the number of its shard.
        checksum: of its elements; empty until they are written.
        packed: the packed size of byte strings, 0 for other dtypes.
    """

    dtype: DType
    shape: tuple[int, ...]
    shard: int
    checksum: str = ""
    packed: int = 0

    @property
    def nbytes(self) -> int:
        """The size of the elements in bytes."""
        if self.dtype is BYTES:
            return self.packed
        return prod(self.shape) * self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """The alignment of the elements in bytes."""
        return 1 if self.dtype is BYTES else self.dtype.itemsize

    @property
    def entry(self) -> tuple[str, list[int]]:
        """Dtype and shape as the header of a shard has them."""
        dtype, shape = self.dtype, list(self.shape)
        if dtype is BYTES:
            return "U8", [self.packed]
        if dtype.is_complex:
            return f"F{4 * dtype.itemsize}", [*shape, 2]
        return _SPECIAL.get(dtype.name) or f"{_LETTERS[dtype.category]}{8 * dtype.itemsize}", shape


@final
@dataclass(frozen=True, slots=True)
class Shard:
    """The entry of a shard in a manifest.

    Attributes:
        file: its name.
        nbytes: its size in bytes.
        header: the SHA-256 of all bytes before the elements.
    """

    file: str
    nbytes: int
    header: str


def watched(what: str, total: int) -> AbstractContextManager[Callable[..., object]]:
    """A progress bar over ``total`` bytes, if they are many and take over a second."""
    if total <= _LARGE:
        return nullcontext(lambda done, note="": None)
    return progress_bar(what, total, "B", delay=_DELAY)


def assign(tensors: Mapping[str, ef.Tensor], shard_bytes: int) -> dict[str, Stored]:
    """The entries of tensors, packed into shards in order; a larger tensor has its own shard."""
    assigned: dict[str, Stored] = {}
    shard = used = 0
    for name, tensor in tensors.items():
        packed = packed_size(tensor.numpy()) if tensor.dtype is BYTES else 0
        stored = Stored(tensor.dtype, tuple(tensor.shape), shard, packed=packed)
        if used and used + stored.nbytes > shard_bytes:
            shard, used = shard + 1, 0
            stored = replace(stored, shard=shard)
        used += stored.nbytes
        assigned[name] = stored
    return assigned


# --- writing ------------------------------------------------------------------------------------


def write(
    path: Path,
    tensors: Mapping[str, ef.Tensor],
    stored: Mapping[str, Stored],
    pool: ThreadPoolExecutor,
    advance: Callable[[int], object],
) -> tuple[Shard, dict[str, str]]:
    """Write one shard; returns its entry, and the checksums of its tensors.

    Args:
        path: of the new file.
        tensors: all tensors of the checkpoint.
        stored: the entries of the tensors of this shard.
        pool: of `eagerflow.checkpoint.digests.hashing`.
        advance: called with the number of bytes written.
    """
    # tensors with large elements first, so that each tensor is aligned to its element size
    order = sorted(stored, key=lambda name: -stored[name].alignment)
    header = _header({name: stored[name] for name in order})
    checksums: dict[str, Checksum] = {}
    with new_file(path) as append:
        append(header)
        for name in order:
            checksum = checksums[name] = Checksum(pool)
            for piece in pieces(_elements(tensors[name])):
                checksum.add(piece)
                append(piece)
                advance(len(piece))
    size = len(header) + sum(s.nbytes for s in stored.values())
    return Shard(path.name, size, sha256(header).hexdigest()), {
        name: checksum.text() for name, checksum in checksums.items()
    }


def _header(stored: Mapping[str, Stored]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {"format": "eagerflow checkpoint"}}
    end = 0
    for name, one in stored.items():
        dtype, shape = one.entry
        start, end = end, end + one.nbytes
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(entries).encode("ascii")
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def _elements(tensor: ef.Tensor) -> memoryview:
    """The elements in row-major order as bytes; a view of a tensor that has this layout."""
    if tensor.dtype is BYTES:
        return memoryview(pack(tensor.numpy()))
    return _bytes(np.ascontiguousarray(tensor.numpy()))


def _bytes(array: np.ndarray[Any, Any]) -> memoryview:
    view: memoryview = array.reshape(-1).view(np.uint8).data
    return view


# --- reading ------------------------------------------------------------------------------------


def read(
    folder: Path,
    shard: Shard,
    stored: Mapping[str, Stored],
    names: Collection[str],
    pool: ThreadPoolExecutor,
    advance: Callable[[int], object],
) -> dict[str, ef.Tensor]:
    """Read and check tensors of one shard, on the current device.

    Args:
        folder: of the checkpoint.
        shard: the entry of the shard.
        stored: the entries of all tensors of the shard.
        names: of the tensors to read.
        pool: of `eagerflow.checkpoint.digests.hashing`.
        advance: called with the number of bytes read.

    Raises:
        Damaged: the file is missing, truncated or changed.
    """
    path = folder / shard.file
    tensors: dict[str, ef.Tensor] = {}
    checksums: dict[str, Checksum] = {}
    with _opened(path, shard, stored) as (file, offsets):
        for name in sorted(names, key=lambda name: offsets[name]):
            one = stored[name]
            packed = one.dtype is BYTES
            array = np.empty(one.packed if packed else one.shape, _raw(one.dtype))
            checksum = checksums[name] = Checksum(pool)
            file.seek(offsets[name])
            for piece in pieces(_bytes(array)):
                _fill(file, piece, path)
                checksum.add(piece)
                advance(len(piece))
            tensors[name] = ef.asarray(unpack(array.data, one.shape) if packed else array)
    for name, checksum in checksums.items():  # at the end: no piece waits for another tensor's
        _compare(checksum, stored[name], name, path)
    return tensors


def _raw(dtype: DType) -> np.dtype[Any]:
    return np.dtype(np.uint8) if dtype is BYTES else dtype.dtype


@contextmanager
def _opened(
    path: Path, shard: Shard, stored: Mapping[str, Stored]
) -> Iterator[tuple[FileIO, dict[str, int]]]:
    """The file, and the offset of each tensor in it, after a check of its size and header."""
    with reported(path):
        try:
            file = FileIO(path)
        except FileNotFoundError:
            raise Damaged(path, "is missing") from None
        with file:
            size = os.fstat(file.fileno()).st_size
            if size != shard.nbytes:
                cut = "is truncated" if size < shard.nbytes else "has been appended to"
                raise Damaged(path, f"{cut}: it has {size} bytes of {shard.nbytes}")
            length = shard.nbytes - sum(one.nbytes for one in stored.values())
            header = bytearray(length)
            _fill(file, memoryview(header), path)
            if sha256(header).hexdigest() != shard.header:
                raise Damaged(path, "is damaged: the checksum of its header does not match")
            entries = json.loads(bytes(header[8:]))
            yield file, {name: length + entries[name]["data_offsets"][0] for name in stored}


def _fill(file: FileIO, target: memoryview, path: Path) -> None:
    while len(target):
        done = file.readinto(target)
        if not done:
            raise Damaged(path, "was truncated while it was read")
        target = target[done:]


def _compare(checksum: Checksum, stored: Stored, name: str, path: Path) -> None:
    if checksum.text() != stored.checksum:
        raise Damaged(path, f"is damaged: the checksum of {name!r} does not match")
