"""Loading: the manifest, the plan, the tensors, and only then any change of state."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import eagerflow as ef
from eagerflow.checkpoint import shards
from eagerflow.checkpoint.digests import hashing
from eagerflow.checkpoint.files import MANIFEST, Damaged
from eagerflow.checkpoint.manifest import Manifest, read_manifest, verify_all
from eagerflow.checkpoint.nodes import build, describe
from eagerflow.checkpoint.restoring import Partial, Rename, RestorePlan, fit, put
from eagerflow.checkpoint.saving import outside_traces
from eagerflow.errors import CheckpointError, CheckpointWarning, hides_frames
from eagerflow.extending import first_names, nearest, warn


@hides_frames
def load(
    path: str | os.PathLike[str],
    like: object = None,
    *,
    partial: Partial = False,
    rename: Rename = None,
) -> Any:
    """Load a checkpoint, checking every byte that is read.

    With ``like=``, variables, generators, modules, optimisers and other objects with a state in it
    get their values in place, once all values have been read and checked: an error changes
    nothing. Values of the checkpoint and of ``like`` are matched by path (keys joined by dots).

    Args:
        path: of the folder.
        like: a tree like the saved one.
        partial: whether to take the values that are there and leave the rest of ``like`` as it is,
            with a warning that lists the rest; or a predicate of the paths of ``like`` to take.
        rename: paths of the checkpoint that differ in ``like``: a mapping of prefixes, such as
            ``{"encoder": "backbone"}``, or a function from a path to the new one, or to None for a
            value that is not wanted.

    Returns:
        Without ``like``, dicts, lists and tuples of tensors on the current device and of plain
        values; dataclasses and objects with a state are dicts. Else a tree like ``like``, with
        tensors on the devices of its tensors.

    Raises:
        CheckpointError: the checkpoint is missing, torn, changed, foreign or newer (the message
            names the file, and the newest intact checkpoint beside it), or does not fit ``like``.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "latest")
    >>> v = ef.Variable([1.0, 2.0])
    >>> ef.checkpoint.save(path, {"w": v, "epoch": 3})
    >>> _ = v.assign([0.0, 0.0])
    >>> ef.checkpoint.load(path, like={"w": v, "epoch": 0})["epoch"], v
    (3, Variable([1., 2.], f32[2]@cpu:0))
    """
    outside_traces("load")
    if like is None and (partial is not False or rename is not None):
        raise CheckpointError("load: partial= and rename= need like=, which is not given")
    folder = Path(path)
    try:
        return read_into(folder, like, partial, rename)[1]
    except Damaged as damage:
        error = _worded(damage, folder)
    raise error


def read_into(
    folder: Path, like: Any, partial: Partial = False, rename: Rename = None
) -> tuple[Manifest, Any]:
    """As `load`, with the manifest.

    Raises:
        Damaged: a file is damaged.
        CheckpointError: the checkpoint does not fit ``like``.
    """
    manifest = read_manifest(folder)
    while True:
        try:
            return _read_once(folder, manifest, like, partial, rename)
        except Damaged:
            now = read_manifest(folder)
            if now.text == manifest.text:
                raise
            manifest = now  # the checkpoint was replaced during the read, and its files removed


def _read_once(
    folder: Path, manifest: Manifest, like: Any, partial: Partial, rename: Rename
) -> tuple[Manifest, Any]:
    if like is None:
        tensors = _tensors(folder, manifest, manifest.tensors)
        return manifest, build(manifest.tree, tensors)
    plan = fit(describe(like), manifest.tree, manifest.tensors, partial, rename)
    tensors = _tensors(folder, manifest, plan.names)
    result = put(plan, tensors)
    if partial is True:
        _report(plan, folder)
    return manifest, result


def _tensors(folder: Path, manifest: Manifest, names: Collection[str]) -> dict[str, ef.Tensor]:
    """Tensors by name, read and checked."""
    tensors: dict[str, ef.Tensor] = {}
    total = sum(manifest.tensors[name].nbytes for name in names)
    with hashing() as pool, shards.watched(f"loading {folder.name}", total) as advance:
        for number, shard in enumerate(manifest.shards):
            stored = manifest.of_shard(number)
            wanted = [name for name in stored if name in names]
            if wanted:
                tensors |= shards.read(folder, shard, stored, wanted, pool, advance)
    return tensors


def _report(plan: RestorePlan, folder: Path) -> None:
    """Warn of the values that were not taken."""
    lists = (("left as it was", plan.left), ("not used of the checkpoint", plan.unused))
    parts = [f"{title}: {first_names(names)}" for title, names in lists if names]
    if parts:
        warn(f"{folder} was loaded in part; {'; '.join(parts)}", CheckpointWarning)


# --- neighbouring checkpoints -------------------------------------------------------------------


def checkpoints_in(folder: Path) -> list[tuple[Path, Manifest | None]]:
    """Checkpoints in a folder: those with a damaged manifest, then the others, newest first."""
    pairs: list[tuple[Path, Manifest | None]] = []
    with suppress(OSError):
        for path in sorted(p.parent for p in folder.glob(f"*/{MANIFEST}")):
            try:
                pairs.append((path, read_manifest(path)))
            except Damaged:
                if (path / MANIFEST).exists():  # else another manager has just removed it
                    pairs.append((path, None))
    return sorted(pairs, key=lambda pair: (pair[1] is not None, -pair[1].saved if pair[1] else 0))


def newest_intact(paths: Iterable[Path]) -> Path | None:
    """The first intact one of some checkpoints, which are given newest first; None if none is."""
    for path in paths:
        with suppress(Damaged, OSError):
            verify_all(path)
            return path
    return None


def _worded(damage: Damaged, folder: Path) -> CheckpointError:
    """The error for a damaged checkpoint, which names the newest intact one beside it."""
    hint = "there is no intact checkpoint beside it"
    steps = checkpoints_in(folder)
    if steps and damage.path == folder:
        newest = next((path for path, manifest in steps if manifest is not None), steps[0][0])
        return CheckpointError(
            f"load: {folder} is a folder of checkpoints, and no checkpoint itself",
            given=first_names([path.name for path, _ in steps]),
            expected="one checkpoint, as ef.checkpoint.save writes",
            hint=f"load {folder / newest.name}, or the newest intact one, with the step and the "
            "state of ef.random, by ef.checkpoint.Manager(...).restore(like=...)",
        )
    others = checkpoints_in(folder.absolute().parent)
    if damage.path == folder and not folder.exists():
        close = nearest(folder.name, [path.name for path, _ in others])
        return CheckpointError(
            f"load: {damage}",
            expected="a checkpoint, as ef.checkpoint.save writes",
            hint=None if close is None else f"did you mean {folder.parent / close}?",
        )
    intact = newest_intact(p for p, m in others if m is not None and p != folder.absolute())
    if intact is not None:
        hint = f"the newest intact checkpoint beside it is {folder.parent / intact.name}"
    return CheckpointError(
        f"load: {damage}", expected="an intact checkpoint, as ef.checkpoint.save writes", hint=hint
    )
