"""`Manager`: the checkpoints of a run in one folder, with policies for making and keeping them."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, Final, Literal, final

import eagerflow as ef
from eagerflow.checkpoint import files
from eagerflow.checkpoint.files import Damaged
from eagerflow.checkpoint.loading import checkpoints_in, newest_intact, read_into
from eagerflow.checkpoint.manifest import Manifest
from eagerflow.checkpoint.saving import outside_traces, save_noted
from eagerflow.errors import (
    CheckpointError,
    CheckpointWarning,
    TensorValueError,
    hides_frames,
)
from eagerflow.extending import POSITIVE, one_of, require, unwritable, warn
from eagerflow.hardware.kernel_library import in_force

_NAME: Final = re.compile(r"step-(\d+)")

Best = str | tuple[str, Literal["max", "min"]]


@final
@dataclass(frozen=True, slots=True, repr=False)
class Restored:
    """The result of `Manager.restore`; ``restored[key]`` is ``restored.tree[key]``.

    Attributes:
        step: of the checkpoint.
        tree: the restored tree, like ``like``.
        metrics: the metrics given to `Manager.save`.

    >>> restored = ef.checkpoint.Restored(3, {"w": 1.0}, {"loss": 0.5})
    >>> restored.step, restored["w"]
    (3, 1.0)
    """

    step: int
    tree: Any
    metrics: dict[str, float]

    def __getitem__(self, key: Any) -> Any:
        return self.tree[key]

    def __repr__(self) -> str:
        held = type(self.tree).__name__
        if isinstance(self.tree, dict):
            held += f" of {', '.join(map(str, self.tree))}"
        return f"Restored(step={self.step}, tree=<{held}>, metrics={self.metrics})"


@final
class Manager:
    """The checkpoints of a run, in one folder.

    A checkpoint holds the step, the metrics and the state of ``ef.random``'s own generator besides
    the tree. Several managers, also of several processes, may share a folder: they wait for each
    other. Leftovers of a killed process are removed by the next manager.

    Args:
        directory: the folder, made if it does not exist.
        every: steps from one checkpoint to the next; None if only time counts.
        seconds: time from one checkpoint to the next; with both, whichever is over first.
        keep: the number of newest checkpoints to keep; None for all.
        best_by: the metric by which the best checkpoint is kept as well: ``"accuracy"`` (the larger
            the better) or ``("loss", "min")``.

    Raises:
        TensorValueError: a setting that makes no sense.

    >>> import tempfile
    >>> v = ef.Variable(0.0)
    >>> manager = ef.checkpoint.Manager(tempfile.mkdtemp(), every=10, keep=2, best_by="accuracy")
    >>> for step in range(50):
    ...     _ = v.assign_add(1.0)
    ...     _ = manager.save(step, {"v": v}, metrics={"accuracy": 1 / (1 + abs(step - 10))})
    >>> manager.steps(), manager.best()
    ([10, 30, 40], 10)
    >>> manager.restore(like={"v": v}).step, v
    (40, Variable(41., f32[]@cpu:0))
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        every: int | None = 1,
        seconds: float | None = None,
        keep: int | None = 3,
        best_by: Best | None = None,
    ) -> None:
        limits = {"every": every, "seconds": seconds, "keep": keep}
        require(
            "Manager", POSITIVE, **{n: value for n, value in limits.items() if value is not None}
        )
        if every is None and seconds is None:
            raise TensorValueError("Manager: neither every= nor seconds= says when to save")
        metric, better = (best_by, "max") if isinstance(best_by, str) else best_by or (None, "max")
        require("Manager", one_of("max", "min"), **{"best_by[1]": better})
        self.directory: Final = Path(directory)
        self._every, self._seconds, self._keep = every, seconds, keep
        self._metric: str | None = metric
        self._sign = 1 if better == "max" else -1
        self._last: tuple[int, float] | None = None
        try:
            with files.locked(self.directory, wait=False) as lock:
                if lock is not None and lock.exclusive:
                    self._clear()
        except OSError as error:  # a full or read-only folder can still be restored from
            if not self.directory.is_dir():
                kept = "there is no such folder"
                raise unwritable(error, "Manager", self.directory, kept) from None

    # --- saving ---

    @hides_frames
    def save(
        self,
        step: int,
        tree: object,
        metrics: Mapping[str, Any] | None = None,
        *,
        force: bool = False,
    ) -> Path | None:
        """Save ``tree`` if it is time: at the first call, then as ``every`` and ``seconds`` say.

        Args:
            step: the number of the step, not negative. A checkpoint of this step is replaced.
            tree: see `eagerflow.checkpoint.save`.
            metrics: numbers by name, tensors with no axes among them.
            force: save in any case, as at the end of a run.

        Returns:
            The folder of the checkpoint; None if it was not time.

        Raises:
            CheckpointError: see `eagerflow.checkpoint.save`; or ``best_by`` is not in ``metrics``.
            OSError: the files cannot be written, as on a full disk. Other checkpoints are intact.

        >>> import tempfile
        >>> manager = ef.checkpoint.Manager(tempfile.mkdtemp(), every=100)
        >>> [step for step in range(250) if manager.save(step, {}) is not None]
        [0, 100, 200]
        """
        outside_traces("Manager.save")
        number = operator.index(step)
        if number < 0:
            raise TensorValueError("Manager.save: a step is not negative", given=f"{step=}")
        values = self._values(metrics)
        if not (force or self._is_time(number)):
            return None
        note = {"step": number, "metrics": values, "random": _random().state}
        path = self.path(number)
        with files.locked(self.directory):
            self._clear()
            save_noted(
                path, tree, note, after=max([m.saved for _, m in self._entries()], default=0)
            )
            self._last = (number, monotonic())
            if self._keep is not None:
                self._retain()
        return path

    def _values(self, metrics: Mapping[str, Any] | None) -> dict[str, float]:
        if self._metric is not None and self._metric not in (metrics or {}):
            raise CheckpointError(
                f"Manager.save: the metrics lack {self._metric!r}, by which checkpoints are ranked",
                given=", ".join(metrics or ()) or "none",
                expected=f"metrics={{{self._metric!r}: ...}} with every save",
                hint="a manager without best_by= needs no metrics",
            )
        return {name: float(value) for name, value in (metrics or {}).items()}

    def _is_time(self, step: int) -> bool:
        if self._last is None or step < self._last[0]:
            return True
        before, when = self._last
        return (self._every is not None and step - before >= self._every) or (
            self._seconds is not None and step > before and monotonic() - when >= self._seconds
        )

    def _clear(self) -> None:
        """Remove unfinished checkpoints. The caller holds the lock."""
        for path in self.directory.iterdir():
            ours = _NAME.fullmatch(path.name) and path.is_dir()
            if ours and not (path / files.MANIFEST).exists():
                files.remove(path, unfinished=True)

    def _retain(self) -> None:
        """Remove checkpoints that need not be kept. The caller holds the lock."""
        best = self.best()
        for path, manifest in self._entries()[self._keep :]:
            if manifest.note["step"] != best:
                try:
                    files.remove(path)
                except OSError as error:  # no reason to end the run
                    warn(f"{path} could not be removed: {error.strerror}", CheckpointWarning)

    # --- existing checkpoints ---

    def path(self, step: int) -> Path:
        """The folder of the checkpoint of a step.

        >>> import tempfile
        >>> ef.checkpoint.Manager(tempfile.mkdtemp()).path(12).name
        'step-00000012'
        """
        return self.directory / f"step-{step:08}"

    def steps(self) -> list[int]:
        """The steps with a checkpoint, the last saved at the end.

        Tensors are not checked; `restore` does that.
        """
        return [m.note["step"] for _, m in reversed(self._entries())]

    def latest(self) -> int | None:
        """The step that was saved last; None if there is none."""
        return next(reversed(self.steps()), None)

    def best(self) -> int | None:
        """The step with the best metric, the earliest of equals; None if no metric was saved."""
        scored = [
            (self._sign * value, -manifest.saved, manifest.note["step"])
            for _, manifest in self._entries()
            for name, value in manifest.note["metrics"].items()
            if name == self._metric and value == value  # NaN is not the best of anything
        ]
        return max(scored)[2] if scored else None

    def _found(self) -> list[tuple[Path, Manifest | None]]:
        """Checkpoints of steps: those with a damaged manifest, then the others, newest first."""
        pairs = checkpoints_in(self.directory)
        return [(p, m) for p, m in pairs if _NAME.fullmatch(p.name) and (not m or "step" in m.note)]

    def _entries(self) -> list[tuple[Path, Manifest]]:
        """Checkpoints with an intact manifest, the newest first."""
        return [(path, manifest) for path, manifest in self._found() if manifest is not None]

    # --- restoring ---

    @hides_frames
    def restore(self, like: object = None, *, step: int | None = None) -> Restored | None:
        """Load the newest intact checkpoint, and with it the state of ``ef.random``.

        Damaged checkpoints are skipped, with a warning that names them and the one loaded instead.
        Training continues bit for bit if the same kernel library computes
        (``ef.config(kernels=)``), with the same settings of BLAS; another library gives a warning.

        Args:
            like: see `eagerflow.checkpoint.load`.
            step: load the checkpoint of this step and no other.

        Returns:
            Step, tree and metrics. None if the folder has no checkpoint, as in the first run of a
            program, which starts afresh: ``first = 0 if restored is None else restored.step + 1``.

        Raises:
            CheckpointError: all checkpoints are damaged, or the newest intact one does not fit
                ``like``; with ``step``, that checkpoint is missing or damaged.
        """
        outside_traces("Manager.restore")
        damaged: list[Damaged] = []
        paths = [path for path, _ in self._found()] if step is None else [self.path(step)]
        for path in paths:
            try:
                manifest, tree = read_into(path, like)
            except Damaged as damage:
                if step is not None or (path / files.MANIFEST).exists():
                    damaged.append(damage)  # else another manager has just removed it
                continue
            if damaged:
                reasons = "; ".join(map(str, damaged))
                warn(f"{path} was restored, since {reasons}", CheckpointWarning)
            if manifest.kernels not in (None, in_force()):
                warn(_other_kernels(path, manifest.kernels), CheckpointWarning)
            _random().state = manifest.note["random"]
            self._last = (manifest.note["step"], monotonic())
            return Restored(manifest.note["step"], tree, manifest.note["metrics"])
        if step is None and not all((path / files.MANIFEST).exists() for path in paths):
            return self.restore(like)  # another manager has removed these for newer ones
        if step is not None:
            raise self._not_restored(step, damaged[0])
        if damaged:
            raise CheckpointError(
                "Manager.restore: no checkpoint is intact",
                given="; ".join(map(str, damaged)),
                expected=f"an intact checkpoint in {self.directory}",
            )
        return None

    def _not_restored(self, step: int, damage: Damaged) -> CheckpointError:
        """The error for a missing or damaged checkpoint of ``step``."""
        if not (self.path(step) / files.MANIFEST).exists():
            return CheckpointError(
                f"Manager.restore: there is no checkpoint of step {step}",
                given=str(damage),
                expected=f"one of the steps {self.steps()}",
                hint="a manager keeps the newest and the best; keep=None keeps all",
            )
        steps = {path: m.note["step"] for path, m in self._entries()}
        intact = newest_intact(steps)
        return CheckpointError(
            f"Manager.restore: the checkpoint of step {step} is damaged",
            given=str(damage),
            expected=f"an intact checkpoint in {self.directory}",
            hint="no other checkpoint is intact"
            if intact is None
            else f"the newest intact one is of step {steps[intact]}",
        )

    def __repr__(self) -> str:
        return f"Manager({str(self.directory)!r}, steps={self.steps()})"


def _other_kernels(path: Path, kernels: str) -> str:
    """The warning that a run will not continue bit for bit."""
    return (
        f"{path} was computed by {kernels} kernels, and this process computes with {in_force()} "
        f"ones: training goes on, with other last bits; ef.config(kernels={kernels!r}) at the "
        "start, where this machine can, gives the same"
    )


def _random() -> ef.random.Generator:
    return ef.random.default_generator()
