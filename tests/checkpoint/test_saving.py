"""Atomicity of saves: killed at any moment, overwritten during a read, in traced functions."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

import eagerflow as ef
from eagerflow import atomic_files, extending
from eagerflow.checkpoint import files
from eagerflow.errors import CheckpointError, TensorValueError, TraceError
from tests.checkpoint.disks import Disk
from tests.checkpoint.killed import tree
from tests.checkpoint.trees import content, plainly
from tests.source_tree import ROOT

# --- kill -9 -------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    """The process that forks the processes to be killed."""
    paths = [str(ROOT), str(ROOT / "kernels")]
    program = (
        f"import sys; sys.path[:0] = {paths!r}\n"
        "from tests.checkpoint.killed import serve; serve()"
    )  # fmt: skip
    command = [sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait() == 0


def _kill_one(server: subprocess.Popen[str], folder: Path, number: int, delay: float) -> None:
    """Let a process save from ``number`` on, and kill it."""
    stdin, stdout = server.stdin, server.stdout
    assert stdin is not None
    assert stdout is not None
    stdin.write(f"{folder} {number}\n")
    stdin.flush()
    child = int(stdout.readline())
    _wait_until_it_ends(stdout, delay)
    os.kill(child, signal.SIGKILL)
    assert stdout.readline() == "ended\n"


def _wait_until_it_ends(stdout: IO[str], delay: float) -> None:
    ended, _, _ = select.select([stdout], [], [], delay)
    assert not ended, stdout.readline()


def _done(folder: Path, what: str) -> int:
    """The highest number of a kind of line in the log; 0 if there is none."""
    lines = (folder / "log").read_text().splitlines() if (folder / "log").exists() else []
    return max([int(line.split()[1]) for line in lines if line.startswith(what)], default=0)


def _check(folder: Path, run_before: int, latest_before: int) -> tuple[int, int]:
    """Check that complete checkpoints exist and are exact: the newest known one, or one more.

    Gives the newest number of the run, and the number in the overwritten checkpoint.
    """
    begun = _done(folder, "begin")
    manager = ef.checkpoint.Manager(folder / "run")
    restored = manager.restore()
    run = 0 if restored is None else restored.step
    assert run in (max(_done(folder, "run"), run_before), begun)
    if restored is not None:
        assert content(restored.tree) == content(plainly(tree(run)))
    known = max(_done(folder, "latest"), latest_before)
    if not known and not (folder / "latest" / files.MANIFEST).exists():
        return run, 0
    latest = ef.checkpoint.load(folder / "latest")
    assert latest["number"] in (known, begun)
    assert content(latest) == content(plainly(tree(latest["number"])))
    return run, latest["number"]


@pytest.mark.parametrize("kills", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_kill(tmp_path: Path, server: subprocess.Popen[str], kills: int) -> None:
    """Killed at random moments: the newest complete checkpoint loads and is exact."""
    delays = random.Random(kills)
    numbers = (0, 0)
    for _ in range(kills):
        _kill_one(server, tmp_path, _done(tmp_path, "begin") + 1, delays.uniform(0.0, 0.25))
        numbers = _check(tmp_path, *numbers)
    assert min(numbers) > 0


def _save_and_die(path: Path, number: int) -> bool:
    """Save in a process that is killed before a given change of files; whether it was killed."""
    child = os.fork()
    if child == 0:
        files.os = atomic_files.os = Disk(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        ef.checkpoint.save(path, {"x": [ef.tensor(2.0)] * 2}, shard_bytes=4)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_kill_before_each_change(tmp_path: Path) -> None:
    path = tmp_path / "c"
    complete: list[bool] = []
    while _save_and_die(path, len(complete)):
        complete.append((path / files.MANIFEST).exists())
        if complete[-1]:
            assert [float(x) for x in ef.checkpoint.load(path)["x"]] == [2.0, 2.0]
            files.remove(path)
    assert len(complete) > 12
    assert complete == sorted(complete)
    assert set(complete) == {False, True}


# --- readers and writers at once -----------------------------------------------------------------


def test_overwritten_while_it_is_read(tmp_path: Path) -> None:
    """A reader gets one whole checkpoint, the one before or the one after."""
    path = tmp_path / "c"
    ef.checkpoint.save(path, [ef.tensor(0)] * 5, shard_bytes=8)
    stop = threading.Event()

    def write() -> None:
        number = 1
        while not stop.is_set():
            ef.checkpoint.save(path, [ef.tensor(number) for _ in range(5)], shard_bytes=8)
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen: list[int] = []
        while len(set(seen)) < 10 and thread.is_alive():
            first, *rest = (int(x) for x in ef.checkpoint.load(path))
            assert rest == [first] * 4
            seen.append(first)
    finally:
        stop.set()
        thread.join()
    assert seen == sorted(seen)
    assert len(set(seen)) == 10


def test_two_writers_at_once(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(10):
            ef.checkpoint.save(tmp_path / "c", [ef.tensor(number)] * 3, shard_bytes=8)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first, *rest = (int(x) for x in ef.checkpoint.load(tmp_path / "c"))
    assert rest == [first] * 2
    assert len(list((tmp_path / "c").iterdir())) == 3  # a shard, the manifest, the lock


def test_a_variable_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The values saved are those at the start."""
    variables = [ef.Variable([1.0, 2.0]), ef.Variable([3.0, 4.0])]
    new_file = extending.new_file

    def changing(path: Path) -> object:
        for v in variables:
            v.assign_add(10.0)
        return new_file(path)

    monkeypatch.setattr("eagerflow.checkpoint.shards.new_file", changing)
    ef.checkpoint.save(tmp_path / "c", variables)
    monkeypatch.undo()
    assert [x.numpy().tolist() for x in ef.checkpoint.load(tmp_path / "c")] == [[1, 2], [3, 4]]
    assert variables[0].numpy().tolist() == [11, 12]


def test_variables_are_read_at_one_instant(tmp_path: Path) -> None:
    """A thread increments one, then another: at no instant do they differ by more than one."""
    first, last = ef.Variable(0), ef.Variable(0)
    tree = {"first": last, "between": [ef.Variable(0) for _ in range(50)], "last": first}
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            first.assign_add(1)
            last.assign_add(1)

    thread = threading.Thread(target=work)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        for number in range(10):
            ef.checkpoint.save(tmp_path / str(number), tree)
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(before)
    checkpoints = [ef.checkpoint.load(tmp_path / str(number)) for number in range(10)]
    assert {int(x["last"]) - int(x["first"]) for x in checkpoints} <= {0, 1}
    assert len({int(x["last"]) for x in checkpoints}) > 1


# --- calls ---------------------------------------------------------------------------------------


def test_within_a_traced_function(tmp_path: Path) -> None:
    manager = ef.checkpoint.Manager(tmp_path / "run")
    path = tmp_path / "c"
    calls = {
        "save": lambda x: ef.checkpoint.save(path, {"x": x}),
        "load": lambda x: ef.checkpoint.load(path),
        "Manager.save": lambda x: manager.save(1, {"x": x}),
        "Manager.restore": lambda x: manager.restore(),
    }
    for name, call in calls.items():
        with pytest.raises(TraceError, match=f"{name}: files cannot be read or written"):
            ef.trace(call)(ef.tensor(1.0))
    assert not path.exists()


def test_beside_a_traced_step(tmp_path: Path) -> None:
    v = ef.Variable(0.0)

    @ef.trace
    def step(x: ef.Tensor) -> ef.Tensor:
        return v.assign_add(x)

    manager = ef.checkpoint.Manager(tmp_path, every=2)
    for number in range(5):
        step(ef.tensor(1.0))
        manager.save(number, {"v": v})
    v.assign(-1.0)
    restored = manager.restore(like={"v": v})
    assert restored is not None
    assert (restored.step, float(step(ef.tensor(1.0)))) == (4, 6.0)


def test_shards_of_no_size(tmp_path: Path) -> None:
    with pytest.raises(TensorValueError, match="at least a byte"):
        ef.checkpoint.save(tmp_path / "c", {}, shard_bytes=0)


def test_a_tensor_without_values(tmp_path: Path) -> None:
    with pytest.raises(ef.errors.DeviceError, match="has no values"):
        ef.checkpoint.save(tmp_path / "c", ef.zeros((2,), device="null:0"))
    assert not (tmp_path / "c").exists()


def test_paths_as_text_and_parents(tmp_path: Path) -> None:
    ef.checkpoint.save(f"{tmp_path}/a/b/c", 1)
    assert ef.checkpoint.load(f"{tmp_path}/a/b/c") == 1


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ef.checkpoint.save("c", 1)
    assert ef.checkpoint.load("c") == 1
    (Path("c") / files.MANIFEST).unlink()
    ef.checkpoint.save("d", 1)
    with pytest.raises(CheckpointError, match="beside it is d\n"):
        ef.checkpoint.load("c")
