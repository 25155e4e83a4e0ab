"""The manifest of a checkpoint: ``manifest.json``, which names all other files.

::

    {"checksum": the SHA-256 of this file with 64 zeros in its place,
     "format": "eagerflow checkpoint", "version": 1,
     "saved": nanoseconds since 1970, increasing among the checkpoints of a `Manager`,
     "kernels": the kernel library that computed the saved values, "native" or "portable",
     "note": the data of a `Manager`: step, metrics, random state,
     "tree": see `eagerflow.checkpoint.nodes`,
     "tensors": {name: {"dtype": "bfloat16", "shape": [2, 3], "shard": 0, "checksum": …}, …},
     "shards": [{"file": name, "bytes": size, "header": checksum of its header}, …]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from operator import index
from pathlib import Path
from typing import Any, Final, final

from eagerflow.checkpoint.digests import hashing
from eagerflow.checkpoint.files import MANIFEST, START, Damaged, reported
from eagerflow.checkpoint.nodes import TreeNode, build, from_json
from eagerflow.checkpoint.shards import Shard, Stored, read
from eagerflow.hardware.kernel_library import in_force
from eagerflow.types import as_dtype

VERSION: Final = 1
_FORMAT: Final = "eagerflow checkpoint"
_UNSUMMED: Final = "0" * 64


@final
@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint without the elements of its tensors.

    Attributes:
        text: the content of the file.
        saved: the time of the save, in nanoseconds.
        kernels: the kernel library in force then; None if an older eagerflow did not record it.
        note: plain values of the code that asked for the save.
        tree: the saved tree.
        tensors: by name.
        shards: the files.
    """

    text: bytes
    saved: int
    kernels: str | None
    note: dict[str, Any]
    tree: TreeNode
    tensors: dict[str, Stored]
    shards: tuple[Shard, ...]

    def of_shard(self, number: int) -> dict[str, Stored]:
        """The tensors of one shard."""
        return {name: one for name, one in self.tensors.items() if one.shard == number}


def text_of(
    saved: int,
    note: Any,
    tree: Any,
    tensors: Mapping[str, Stored],
    shards: Sequence[Shard],
) -> bytes:
    """The content of the file; ``note`` and ``tree`` are JSON already."""
    entries = {
        name: {"dtype": one.dtype.name, "shape": one.shape, "shard": one.shard,
               "checksum": one.checksum, **({"packed": one.packed} if one.packed else {})}
        for name, one in tensors.items()
    }  # fmt: skip
    files = [{"file": s.file, "bytes": s.nbytes, "header": s.header} for s in shards]
    whole = {"checksum": _UNSUMMED, "format": _FORMAT, "version": VERSION, "saved": saved,
             "kernels": in_force(), "note": note, "tree": tree, "tensors": entries,
             "shards": files}  # fmt: skip
    text = json.dumps(whole, indent=1, allow_nan=False).encode("ascii") + b"\n"
    return text.replace(_UNSUMMED.encode(), sha256(text).hexdigest().encode(), 1)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the checkpoint ``folder``.

    Raises:
        Damaged: the manifest is missing, changed, foreign, or of a newer format.
    """
    path = folder / MANIFEST
    with reported(path):
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            kind = f"has no {MANIFEST}: no checkpoint, or one that was not finished"
            raise Damaged(folder, kind if folder.exists() else "does not exist") from None
        except (NotADirectoryError, IsADirectoryError):
            raise Damaged(
                folder, "is not a checkpoint: a checkpoint is a folder with files"
            ) from None
    return _parsed(text, path)


def _parsed(text: bytes, path: Path) -> Manifest:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise Damaged(path, "is damaged: it cannot be read") from None
    if not isinstance(fields, dict) or fields.get("format") != _FORMAT:
        raise Damaged(path, "is not the manifest of a checkpoint of eagerflow")
    version = fields.get("version")
    if type(version) is not int or version < 1:
        raise Damaged(path, "is damaged: it says no version")
    if version > VERSION:
        wrong = f"has format {version}, this eagerflow reads up to {VERSION}"
        raise Damaged(path, f"{wrong}: install a newer eagerflow")
    digest = slice(len(START), len(START) + len(_UNSUMMED))
    unsummed = START + _UNSUMMED.encode() + text[digest.stop :]
    if text[: digest.start] != START or text[digest] != sha256(unsummed).hexdigest().encode():
        raise Damaged(path, "is damaged: its checksum does not match")
    try:
        return _of_json(text, fields)
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration) as error:
        # the checksum is right: the file was written like this
        raise Damaged(path, f"holds no checkpoint: {error!r}") from None


def _of_json(text: bytes, fields: dict[str, Any]) -> Manifest:
    tensors = {
        name: Stored(
            as_dtype(str(e["dtype"])),
            tuple(e["shape"]),
            e["shard"],
            e["checksum"],
            e.get("packed", 0),
        )
        for name, e in fields["tensors"].items()
    }
    shards = [Shard(Path(e["file"]).name, e["bytes"], e["header"]) for e in fields["shards"]]
    note = build(from_json(fields["note"]), {})
    kernels = fields.get("kernels")
    return Manifest(
        text, index(fields["saved"]), None if kernels is None else str(kernels), note,
        from_json(fields["tree"]), tensors, tuple(shards),
    )  # fmt: skip


def verify_all(folder: Path) -> Manifest:
    """Check every byte of the files of ``folder``; returns the manifest.

    Raises:
        Damaged: a file is missing, truncated, changed, foreign, or of a newer format.
    """
    manifest = read_manifest(folder)
    with hashing() as pool:
        for number, shard in enumerate(manifest.shards):
            stored = manifest.of_shard(number)
            read(folder, shard, stored, stored, pool, lambda nbytes: None)
    return manifest
