"""Runs resumed in the middle of an epoch: bit for bit as if never interrupted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

import eagerflow as ef
from eagerflow.data.workers.processes import stop_server
from tests.checkpoint.resumed import EVERY, PIPELINES, WORKERS, Run
from tests.source_tree import ROOT

#: more than two epochs of each pipeline
STEPS = 20


@pytest.fixture(autouse=True, scope="module")
def _no_server() -> Iterator[None]:
    """Stops the fork server of the workers after these tests, however long that takes."""
    yield
    stop_server()


@pytest.fixture(scope="module", params=list(PIPELINES))
def uninterrupted(request: pytest.FixtureRequest) -> tuple[str, list[object], int]:
    """A pipeline's name, the losses of a run over it without workers, and the steps of an epoch."""
    run, epochs, losses = Run(request.param, "none", 1), [], []
    for _ in range(STEPS):
        losses.append(run.loss())
        epochs.append(run.batches.state["epoch"])
    run.batches.close()
    assert max(epochs) >= 2
    assert len(set(losses)) == STEPS
    return request.param, losses, epochs.index(1)


@pytest.mark.parametrize("workers", list(WORKERS))
def test_workers_change_no_loss(uninterrupted: tuple[str, list[object], int], workers: str) -> None:
    pipeline, want, _ = uninterrupted
    run = Run(pipeline, workers, 1)
    assert [run.loss() for _ in range(STEPS)] == want
    run.batches.close()


@pytest.mark.parametrize("workers", list(WORKERS))
def test_a_run_goes_on_wherever_it_was_broken_off(
    uninterrupted: tuple[str, list[object], int], workers: str, tmp_path: Path
) -> None:
    """Interrupted at the first step, in the middle of an epoch, at its end, and in later ones."""
    pipeline, want, epoch = uninterrupted
    stops = (0, epoch // 2, epoch, epoch + 1, epoch + epoch // 2)
    for stop in stops if workers == "none" else stops[-1:]:
        manager = ef.checkpoint.Manager(tmp_path / str(stop))
        first = Run(pipeline, workers, 1)
        assert [first.loss() for _ in range(stop)] == want[:stop]
        manager.save(stop, first.tree)
        first.batches.close()  # elements were read ahead of training
        other = Run(pipeline, workers, 2)
        other.restore(manager)
        assert other.steps == stop
        assert [other.loss() for _ in range(stop, STEPS)] == want[stop:]
        other.batches.close()


def _train(folder: Path, pipeline: str, workers: str, lines: int) -> list[tuple[int, str]]:
    """Train in a process, killed after ``lines`` steps; the printed steps and losses."""
    program = (
        f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'kernels')]!r}\n"
        f"from tests.checkpoint.resumed import main; main(*{[str(folder), pipeline, workers]!r}, "
        f"'{STEPS}')"
    )
    told: list[tuple[int, str]] = []
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            number, loss = line.split()
            told.append((int(number), loss))
            if len(told) == lines:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        assert process.wait() in (0, -signal.SIGKILL)
    return told


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_a_run_that_is_killed_goes_on(workers: str, tmp_path: Path) -> None:
    """Killed by ``kill -9`` several times; the next process resumes from the newest checkpoint."""
    pipeline = {"threads": "stream", "processes": "rows"}[workers]
    run = Run(pipeline, "none", 1)
    want = {step: run.loss()[-1].hex() for step in range(1, STEPS + 1)}
    run.batches.close()
    choose, told = random.Random(0), [(0, "")]
    kills = 0
    while told[-1][0] < STEPS:
        lines = choose.randint(5, 11)
        losses = _train(tmp_path, pipeline, workers, lines)
        assert losses, "no step was made"
        assert dict(losses).items() <= want.items()
        first, last = losses[0][0], told[-1][0]
        # steps since the last checkpoint are repeated
        assert last - EVERY <= first - 1 <= last + 1
        kills += losses[-1][0] < STEPS
        told = losses
    assert kills >= 2
    restored = ef.checkpoint.Manager(tmp_path).restore()
    assert restored is not None
    assert restored.tree["steps"] > STEPS - EVERY
