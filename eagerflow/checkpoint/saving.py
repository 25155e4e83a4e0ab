"""Saving: shards under new names, then the manifest that names them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, Final

import eagerflow as ef
from eagerflow.checkpoint import files, shards
from eagerflow.checkpoint.digests import hashing
from eagerflow.checkpoint.manifest import text_of
from eagerflow.checkpoint.nodes import ARRAYS, TreeNode, describe, encode, leaves
from eagerflow.errors import CheckpointError, TensorValueError, TraceError, hides_frames
from eagerflow.extending import is_traced, new_file, sync_folder, unwritable

GIGABYTE: Final = 10**9


def outside_traces(name: str) -> None:
    """Refuse a call in a traced function."""
    if is_traced():
        raise TraceError(
            f"{name}: files cannot be read or written by a traced function",
            given=f"ef.checkpoint.{name} within ef.trace",
            expected="a call between the steps that are traced",
            hint="trace the training step, and save in the loop around it",
        )


@hides_frames
def save(path: str | os.PathLike[str], tree: object, *, shard_bytes: int = GIGABYTE) -> None:
    """Save ``tree`` as the checkpoint ``path``, a folder.

    An existing checkpoint is replaced atomically, once the new one is complete and on the disk;
    until then it can be loaded, also if the process is killed or the disk is full. All variables
    are read at one instant, at the start (see `eagerflow.snapshot`), so other threads may continue
    training. Several assignments, or assignments and the position of an iterator, are saved as a
    whole if they and this call are in sections of one `eagerflow.Mutex`.

    Args:
        path: of the folder; parents are made.
        tree: nested lists, tuples, dicts and dataclasses of tensors, variables, indexed slices,
            NumPy arrays, generators, None, numbers and strings; objects whose ``state`` is a
            mapping, such as modules and optimisers, are saved as that mapping.
        shard_bytes: the approximate size of a file; a larger tensor has a file of its own.

    Raises:
        CheckpointError: an object in the tree cannot be saved, the folder has other files, or
            ``path`` is no path.
        FileError: the files cannot be written; what was written is removed. It is an OSError.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "latest")
    >>> v = ef.Variable([1.0, 2.0])
    >>> ef.checkpoint.save(path, {"weights": v, "epoch": 3})
    >>> ef.checkpoint.load(path)
    {'weights': Tensor([1., 2.], f32[2]@cpu:0), 'epoch': 3}
    """
    outside_traces("save")
    if not isinstance(path, str | os.PathLike):
        raise CheckpointError(
            "save: the first argument is not a path",
            given=f"a {type(path).__name__}",
            expected="the path of a folder",
            hint="the path comes first: ef.checkpoint.save(path, tree)",
        )
    if shard_bytes < 1:
        raise TensorValueError("save: a shard has at least a byte", given=f"{shard_bytes=}")
    save_noted(Path(path), tree, {}, shard_bytes)


def save_noted(
    path: Path,
    tree: Any,
    note: Mapping[str, Any],
    shard_bytes: int = GIGABYTE,
    after: int = 0,
) -> None:
    """As `save`, with a note that is saved in the manifest.

    Args:
        path: of the folder.
        tree: the tree to save.
        note: plain values.
        shard_bytes: the approximate size of a file.
        after: a time that the time of this save must exceed.
    """
    files.check_folder(path)
    root = describe(tree)
    names, tensors = _snapshot(leaves(root))
    head = (max(time.time_ns(), after + 1), encode(describe(dict(note)), {}), encode(root, names))
    text = b""
    before: list[str] | None = None
    try:
        with files.locked(path) as lock:
            assert lock is not None  # `locked` waits for it
            before = files.named(path)
            written: list[Path] = []
            try:
                new = _write_shards(path, tensors, shard_bytes, written)
                written.append(path / f"manifest-{files.token()}.tmp")
                with new_file(written[-1]) as append:
                    append(text := text_of(*head, *new))
                sync_folder(path)
                files.publish(written[-1], path)
            except BaseException:
                _undo(path, written, lock, text)
                raise
            _settle(path, lock, before or (), [shard.file for shard in new[1]])
    except OSError as error:
        kept = "nothing was saved" if before is None else "the earlier checkpoint is intact"
        size = sum(x.nbytes for x in tensors.values())
        raise unwritable(error, "checkpoint.save", path, kept, size) from None


def _snapshot(nodes: list[TreeNode]) -> tuple[dict[int, str], dict[str, ef.Tensor]]:
    """Names of tensors and variables by their ids, and their values by name, without duplicates."""
    names: dict[int, str] = {}
    tensors: dict[str, ef.Tensor] = {}
    variables: dict[str, ef.Variable] = {}
    for leaf in nodes:
        if leaf.kind in ARRAYS and id(leaf.value) not in names:
            name = names[id(leaf.value)] = _tensor_name(leaf.path, tensors)
            tensors[name] = leaf.value
            if leaf.kind == "variable":
                variables[name] = leaf.value
    tensors.update(ef.snapshot(variables))
    return names, tensors


def _tensor_name(path: str, taken: Mapping[str, object]) -> str:
    """A free name that all readers of safetensors accept: valid Unicode, not ``__metadata__``."""
    name = (path or "value").encode(errors="backslashreplace").decode()
    free = (f"{name}~{n}" if n > 1 else name for n in count(1))
    return next(n for n in free if n not in taken and n != "__metadata__")


def _write_shards(
    path: Path, tensors: Mapping[str, ef.Tensor], shard_bytes: int, written: list[Path]
) -> tuple[dict[str, shards.Stored], list[shards.Shard]]:
    """Write all shards, adding each file to ``written`` before it is made."""
    stored = shards.assign(tensors, shard_bytes)
    parts: dict[int, dict[str, shards.Stored]] = {}
    for name, one in stored.items():
        parts.setdefault(one.shard, {})[name] = one
    unique = files.token()
    made: list[shards.Shard] = []
    total = sum(one.nbytes for one in stored.values())
    with hashing() as pool, shards.watched(f"saving {path.name}", total) as advance:
        for number, part in parts.items():
            written.append(path / files.shard_name(number, len(parts), unique))
            shard, checksums = shards.write(written[-1], tensors, part, pool, advance)
            made.append(shard)
            for name, checksum in checksums.items():
                stored[name] = replace(stored[name], checksum=checksum)
    return stored, made


def _undo(path: Path, written: list[Path], lock: files.Lock, text: bytes) -> None:
    """Remove the written files, unless the interruption came after the publication."""
    if text and files.is_published(path, text):
        return
    for file in written:
        with suppress(OSError):
            file.unlink()
    if lock.created:
        with suppress(OSError):
            os.unlink(path / files.LOCK)
            os.rmdir(path)


def _settle(path: Path, lock: files.Lock, before: Collection[str], now: list[str]) -> None:
    """Sync the new checkpoint to the disk, then remove the files of the previous one."""
    sync_folder(path)
    if lock.created:
        sync_folder(path.parent)
    with suppress(OSError):  # the next save tries again
        files.remove_left_over(path, now, None if lock.exclusive else before)
