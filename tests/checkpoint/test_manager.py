"""Checkpoint managers: when they save, which checkpoints they keep, what they restore."""

from __future__ import annotations

import math
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.checkpoint import Manager, Restored, files, manager, manifest
from eagerflow.errors import CheckpointError, CheckpointWarning, TensorValueError


def run(folder: Path, steps: range, **options: Any) -> Manager:
    """A manager after a request to save at each of some steps."""
    made = Manager(folder, **options)
    for step in steps:
        made.save(step, {"step": step, "w": ef.tensor([float(step)])})
    return made


def spoil(made: Manager, step: int, name: str = "shard-*") -> Path:
    (file,) = made.path(step).glob(name)
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    return file


# --- times of saves ------------------------------------------------------------------------------


def test_every_so_many_steps(tmp_path: Path) -> None:
    assert run(tmp_path, range(3, 30), every=10, keep=None).steps() == [3, 13, 23]


def test_after_restoring_it_counts_from_there(tmp_path: Path) -> None:
    run(tmp_path, range(11), every=10, keep=None)
    again = Manager(tmp_path, every=10, keep=None)
    restored = again.restore()
    assert restored is not None
    for step in range(restored.step + 1, 35):
        again.save(step, {})
    assert again.steps() == [0, 10, 20, 30]


def test_another_kernel_library_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest, "in_force", lambda: "native")
    made = run(tmp_path, range(1))
    monkeypatch.setattr(manager, "in_force", lambda: "native")
    assert made.restore() is not None
    monkeypatch.setattr(manager, "in_force", lambda: "portable")
    with pytest.warns(CheckpointWarning, match="was computed by native kernels, and this process"):
        restored = made.restore()
    assert restored is not None
    assert restored.step == 0


def test_every_so_many_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(manager, "monotonic", lambda: now)
    made = {
        "time": Manager(tmp_path / "time", every=None, seconds=60, keep=None),
        "both": Manager(tmp_path / "both", every=5, seconds=60, keep=None),
    }
    for step in range(12):
        now += 25.0 if step > 6 else 1.0
        for one in made.values():
            one.save(step, {})
    assert made["time"].steps() == [0, 9]
    assert made["both"].steps() == [0, 5, 9]


def test_force_and_what_save_gives(tmp_path: Path) -> None:
    made = Manager(tmp_path, every=10)
    assert made.save(0, {}) == tmp_path / "step-00000000"
    assert made.save(1, {}) is None
    assert made.save(1, {}, force=True) == made.path(1)
    assert made.save(1, {"again": 1}, force=True) == made.path(1)
    assert ef.checkpoint.load(made.path(1)) == {"again": 1}
    assert made.steps() == [0, 1]


def test_steps_may_be_tensors(tmp_path: Path) -> None:
    assert Manager(tmp_path).save(ef.tensor(7), {}) == tmp_path / "step-00000007"


@pytest.mark.parametrize(
    "options",
    [{"every": 0}, {"keep": 0}, {"seconds": -1.0}, {"every": None}, {"best_by": ("loss", "least")}],
)
def test_settings_that_make_no_sense(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(TensorValueError, match=r"^Manager: "):
        Manager(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_negative_steps(tmp_path: Path) -> None:
    with pytest.raises(TensorValueError, match="a step is not negative"):
        Manager(tmp_path).save(-1, {})


# --- kept checkpoints ----------------------------------------------------------------------------


def test_the_newest_are_kept(tmp_path: Path) -> None:
    made = run(tmp_path, range(6), keep=2)
    assert made.steps() == [4, 5]
    assert made.latest() == 5
    assert made.best() is None
    names = {p.name for p in tmp_path.iterdir()}
    assert names == {".lock", "step-00000004", "step-00000005"}


@pytest.mark.parametrize(
    ("best_by", "kept", "best"),
    [("score", [2, 5], 2), (("score", "max"), [2, 5], 2), (("score", "min"), [1, 5], 1),
     (None, [5], None)],
)  # fmt: skip
def test_the_best_is_kept(tmp_path: Path, best_by: Any, kept: list[int], best: int | None) -> None:
    made = Manager(tmp_path, keep=1, best_by=best_by)
    for step, score in enumerate([0.5, 0.1, 0.9, math.nan, 0.9, 0.1]):
        metrics = None if best_by is None else {"score": ef.tensor(score), "more": 1}
        made.save(step, {}, metrics)
    assert (made.steps(), made.best()) == (kept, best)
    restored = made.restore(step=best)
    assert best is None or (restored is not None and restored.metrics["more"] == 1.0)


def test_a_metric_that_is_missing(tmp_path: Path) -> None:
    made = Manager(tmp_path, best_by="accuracy")
    with pytest.raises(CheckpointError, match="the metrics lack 'accuracy'") as caught:
        made.save(0, {}, {"accurracy": 0.5})
    assert "got: accurracy" in str(caught.value)
    with pytest.raises(CheckpointError, match=r"lack 'accuracy'(.|\n)*got: none"):
        made.save(0, {})
    assert made.steps() == []


def test_newest_is_what_was_saved_last(tmp_path: Path) -> None:
    """A run that goes back to an earlier step continues from there."""
    made = run(tmp_path, range(4), keep=3)
    made.restore(step=1)
    made.save(2, {"again": True})
    assert made.steps() == [1, 3, 2]
    restored = Manager(tmp_path).restore()
    assert restored is not None
    assert restored.tree == {"again": True}


def test_a_clock_that_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Manager(tmp_path, keep=2)
    for step, now in enumerate([1000, 500, 2000, 1]):
        monkeypatch.setattr("time.time_ns", lambda now=now: now)
        made.save(step, {})
    assert made.steps() == [2, 3]


def test_damaged_ones_do_not_count(tmp_path: Path) -> None:
    """The newest intact checkpoint stays, however many damaged manifests there are."""
    made = run(tmp_path, range(3), keep=2)
    spoil(made, 2, files.MANIFEST)
    assert made.steps() == [1]
    made.save(3, {})
    assert made.steps() == [1, 3]
    assert made.path(2).exists()


def test_other_folders_stay(tmp_path: Path) -> None:
    (tmp_path / "plots").mkdir()
    ef.checkpoint.save(tmp_path / "exported", {"w": 1})
    ef.checkpoint.save(tmp_path / "step-99", {"of": "another"})
    made = run(tmp_path, range(5), keep=1)
    assert made.steps() == [4]
    assert ef.checkpoint.load(tmp_path / "exported") == {"w": 1}
    assert ef.checkpoint.load(tmp_path / "step-99") == {"of": "another"}
    assert (tmp_path / "plots").exists()


def test_what_cannot_be_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run(tmp_path, range(2), keep=2)

    def refuse(*args: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(files, "remove", refuse)
    with pytest.warns(CheckpointWarning, match="step-00000000 could not be removed") as caught:
        made.save(2, {})
    assert caught[0].filename == __file__
    assert made.steps() == [0, 1, 2]


# --- restoring -----------------------------------------------------------------------------------


def test_nothing_to_restore(tmp_path: Path) -> None:
    made = Manager(tmp_path / "new")
    assert (made.restore(), made.steps(), made.latest()) == (None, [], None)
    assert repr(made).endswith("new', steps=[])")


def test_an_entry_of_the_tree_is_one_of_the_result(tmp_path: Path) -> None:
    made = Manager(tmp_path)
    made.save(4, {"epoch": 3})
    restored = made.restore({"epoch": 0})
    assert restored is not None
    assert (restored["epoch"], restored.tree) == (3, {"epoch": 3})
    with pytest.raises(KeyError, match="'step'"):
        restored["step"]


def test_step_tree_metrics_and_random_state(tmp_path: Path) -> None:
    made = Manager(tmp_path)
    ef.random.seed(11)
    ef.random.normal((3,))
    made.save(4, {"v": ef.Variable(1.5)}, {"loss": 0.25})
    expected = ef.random.normal((3,))
    ef.random.seed(0)
    v = ef.Variable(0.0)
    restored = Manager(tmp_path).restore(like={"v": v})
    assert restored is not None
    assert (restored.step, restored.metrics, float(v)) == (4, {"loss": 0.25}, 1.5)
    assert restored.tree["v"] is v
    assert bool((ef.random.normal((3,)) == expected).all())


@pytest.mark.parametrize("name", ["shard-*", files.MANIFEST])
def test_a_damaged_one_is_passed_over(tmp_path: Path, name: str) -> None:
    made = run(tmp_path, range(3))
    file = spoil(made, 2, name)
    with pytest.warns(CheckpointWarning) as caught:
        restored = made.restore()
    assert restored is not None
    assert restored.tree["step"] == restored.step == 1
    text = str(caught[0].message)
    assert f"{made.path(1)} was restored" in text
    assert str(file) in text
    assert caught[0].filename == __file__


def test_all_are_damaged(tmp_path: Path) -> None:
    made = run(tmp_path, range(2))
    bad = [spoil(made, 0), spoil(made, 1, files.MANIFEST)]
    ef.random.seed(5)
    with pytest.raises(CheckpointError, match="no checkpoint is intact") as caught:
        made.restore()
    assert all(str(file) in str(caught.value) for file in bad)
    assert ef.random.default_generator().state == {"seed": 5, "ticket": 0}


def test_one_that_does_not_fit_is_not_passed_over(tmp_path: Path) -> None:
    made = run(tmp_path, range(2))
    ef.random.seed(5)
    with pytest.raises(CheckpointError, match="does not fit like="):
        made.restore(like={"other": 1})
    assert ef.random.default_generator().state == {"seed": 5, "ticket": 0}


def test_a_step_by_name(tmp_path: Path) -> None:
    made = run(tmp_path, range(3))
    restored = made.restore(step=1)
    assert restored is not None
    assert restored.step == 1
    spoil(made, 0)
    spoil(made, 2)
    with pytest.raises(CheckpointError, match="checkpoint of step 0 is damaged") as caught:
        made.restore(step=0)
    assert "hint: the newest intact one is of step 1" in str(caught.value)
    with pytest.raises(CheckpointError, match="there is no checkpoint of step 9") as caught:
        made.restore(step=9)
    assert "expected: one of the steps [0, 1, 2]" in str(caught.value)
    spoil(made, 1)
    with pytest.raises(CheckpointError, match="hint: no other checkpoint is intact"):
        made.restore(step=0)


def test_a_full_disk_while_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, range(2))
    with monkeypatch.context() as patch:
        patch.setattr(files, "locked", _full)
        restored = Manager(tmp_path).restore()
        assert restored is not None
        assert restored.step == 1
        with pytest.raises(OSError, match="No space"):
            Manager(tmp_path / "new")


def _full(*args: object, **options: object) -> None:
    raise OSError(28, "No space left on device")


# --- several managers at once --------------------------------------------------------------------


def test_two_managers_at_once(tmp_path: Path) -> None:
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            made = Manager(tmp_path, keep=2)
            for step in range(first, 40, 2):
                made.save(step, {"step": step, "w": ef.tensor([float(step)] * 3)})
                restored = made.restore()
                assert restored is not None
                assert restored.tree["w"].numpy().tolist() == [restored.step] * 3
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failed == []
    assert len(Manager(tmp_path).steps()) == 2


def test_what_was_restored_prints_in_one_line(tmp_path: Path) -> None:
    made = Manager(tmp_path)
    net = ef.nn.Sequential(ef.nn.Linear(2, 3), ef.nn.Linear(3, 2))
    made.save(4, {"net": net, "epoch": 1}, {"loss": 0.5})
    restored = made.restore(like={"net": net, "epoch": 0})
    assert repr(restored) == "Restored(step=4, tree=<dict of net, epoch>, metrics={'loss': 0.5})"
    assert repr(Restored(1, [net], {})) == "Restored(step=1, tree=<list>, metrics={})"
