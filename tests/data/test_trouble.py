"""Faults from outside of a pipeline: killed processes, full disks, damaged files.

Each element comes once, or is named in an error, or is left out on request; nothing hangs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import eagerflow as ef
from eagerflow.data import Dataset, DatasetIterator, write_records
from eagerflow.data.workers.processes import stop_server
from eagerflow.errors import RecordError, WorkerError
from tests.data.test_pipelines import values
from tests.data.workers.test_parallel import (
    HOW,
    PROCESSES,
    THREADS,
    becomes,
    counted,
    numbers,
    workers,
)


@pytest.fixture(autouse=True)
def _no_server() -> Iterator[None]:
    """Stops the fork server of the workers after each test, however long that takes."""
    yield
    stop_server()
    assert psutil.Process().children(recursive=True) == []


def read_on(iterator: DatasetIterator, most: int = 1000) -> tuple[list[Any], list[Exception]]:
    """All elements, and all errors on the way, until the end."""
    elements: list[Any] = []
    wrong: list[Exception] = []
    for _ in range(most):
        try:
            elements.append(next(iterator))
        except StopIteration:
            return elements, wrong
        except Exception as error:
            wrong.append(error)
    pytest.fail("it has no end")


# --- killed -----------------------------------------------------------------------------------


class Killer:
    """Kills worker processes, again and again, until it is stopped."""

    def __init__(self) -> None:
        self.kills = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Killer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            with suppress(psutil.Error, ValueError):
                for process in workers():
                    process.kill()
                    self.kills += 1


def large(x: ef.Tensor) -> Any:
    """Slow to run and large to send, so that some workers are killed in the middle of a message."""
    total = 0
    for i in range(20_000):
        total += i
    return np.full(200_000, int(x), "i8")


@pytest.mark.parametrize("source", [numbers, counted])
def test_whoever_is_killed_is_named_and_the_rest_comes(source: Callable[[int], Dataset]) -> None:
    count = 60
    dataset = source(count).map(large, **PROCESSES).map(lambda x: x[0]).prefetch(2)
    with Killer() as killer:
        elements, wrong = read_on(iter(dataset))
        for _ in range(20):
            if killer.kills:
                break
            more = read_on(iter(dataset))
            elements, wrong = more
    assert killer.kills
    assert all(isinstance(error, WorkerError) for error in wrong), wrong
    named = [int(re.findall(r"worked on element (\d+) of", str(error))[0]) for error in wrong]
    assert values(elements) == [i for i in range(count) if i not in named]
    assert len(set(named)) == len(named)


def test_whoever_is_killed_is_left_out() -> None:
    told: list[str] = []
    dataset = numbers(60).map(large, on_error=lambda e: told.append(str(e)), **PROCESSES)
    with Killer():
        batches = values(dataset.map(lambda x: x[0]).batch(1))
    named = [int(re.findall(r"worked on element (\d+) of", text)[0]) for text in told]
    assert [x for (x,) in batches] == [i for i in range(60) if i not in named]


def run_program(text: str, folder: Path) -> list[str]:
    """The output lines of a program."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(text))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, cwd=folder,
        env=environment, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


SERVER = """
    import psutil
    import eagerflow as ef
    from eagerflow.data import Dataset

    def same(x):
        return x

    dataset = Dataset.from_tensors(ef.arange(40)).map(same, workers=2, processes=True)
    iterator = iter(dataset)
    elements = [next(iterator).item() for _ in range(3)]
    (server,) = psutil.Process().children()
    server.kill()
    elements += [x.item() for x in iterator]
    print(elements == list(range(40)))
    print([x.item() for x in dataset] == list(range(40)))
"""


def test_the_process_that_starts_workers_is_killed(tmp_path: Path) -> None:
    """Its workers go on; the next worker that is needed is started by a new server."""
    assert run_program(SERVER, tmp_path) == ["True", "True"]


# --- full disks -------------------------------------------------------------------------------

#: trains under a limit on the size of files, which stands in for a full disk
FULL = """
    import resource, signal, sys
    import numpy as np
    import eagerflow as ef

    def noisy(x, draws):
        return x + draws.normal(x.shape)

    if __name__ == "__main__":
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        rows = ef.data.Dataset.from_tensors(np.ones((30, 4), "f4"))
        batches = iter(rows.shuffle(seed=0).map(noisy, seed=1, {how}).batch(3).prefetch(2))
        weights, manager = ef.Variable(np.zeros(4, "f4")), ef.checkpoint.Manager("run", keep=2)
        history = []
        for step, batch in enumerate(batches):
            weights.assign_add(batch.sum(axis=0))
            history.append(weights.tolist())
            more = ef.zeros(50_000) if 3 <= step < 7 else ef.zeros(1)
            try:
                manager.save(step, {"weights": weights, "batches": batches, "more": more})
            except OSError as error:
                print(step, error.hint.split("; ")[-1])
            saved = ef.checkpoint.load(manager.path(manager.steps()[-1]))
            assert saved["weights"].tolist() == history[manager.steps()[-1]]
        print(manager.steps(), len(history))
"""


@HOW
def test_training_goes_on_when_the_disk_is_full(how: dict[str, Any], tmp_path: Path) -> None:
    """A checkpoint that cannot be written is an error; earlier checkpoints are intact."""
    options = ", ".join(f"{key}={value!r}" for key, value in how.items())
    *failed, last = run_program(FULL.replace("{how}", options), tmp_path)
    assert failed == [f"{step} nothing was saved" for step in range(3, 7)]
    assert last == "[8, 9] 10"


def no_space(x: ef.Tensor) -> ef.Tensor:
    if int(x) in (2, 3):
        with open("/dev/full", "w") as file:
            file.write("x" * 100_000)
    return x


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("how", [{}, THREADS, PROCESSES], ids=["here", "threads", "processes"])
def test_elements_that_find_the_disk_full(how: dict[str, Any]) -> None:
    dataset = numbers(6).map(no_space, **how)  # <- line
    elements, wrong = read_on(iter(dataset.prefetch(2)))
    assert values(elements) == [0, 1, 4, 5]
    for number, error in zip((2, 3), wrong, strict=True):
        assert isinstance(error, OSError)
        note = "\n".join(error.__notes__)
        assert f"in element {number} of map(no_space)" in note
        assert "# <- line" in note
    skipping = numbers(6).map(no_space, on_error="skip", **how).batch(2).prefetch(1)
    assert values(skipping) == [[0, 1], [4, 5]]


# --- damaged files ----------------------------------------------------------------------------


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Records of one byte each, two of which are damaged."""
    path = tmp_path / "x.records"
    write_records(path, [bytes([i]) for i in range(9)])
    data = bytearray(path.read_bytes())
    for number in (3, 7):
        data[number * 17 + 12] ^= 1
    path.write_bytes(data)
    return path


def first_byte(x: bytes) -> int:
    return x[0]


@pytest.mark.parametrize("how", [{}, THREADS, PROCESSES], ids=["here", "threads", "processes"])
def test_damaged_records_in_a_pipeline(how: dict[str, Any], records: Path) -> None:
    source = Dataset.from_records(records)  # <- line
    elements, wrong = read_on(iter(source.map(first_byte, **how).prefetch(2)))
    assert values(elements) == [0, 1, 2, 4, 5, 6, 8]
    for number, error in zip((3, 7), wrong, strict=True):
        assert isinstance(error, RecordError)
        assert f"record {number} of {records} is damaged" in str(error)
        assert "# <- line" in str(error)
    told: list[str] = []
    for policy in ("skip", lambda error: told.append(str(error))):
        source = Dataset.from_records(records, on_error=policy)  # <- line
        batches = source.map(first_byte, **how).shuffle(4, seed=0).batch(3).prefetch(2)
        assert sorted(x for batch in values(batches) for x in batch) == [0, 1, 2, 4, 5, 6, 8]
    assert [re.findall(r"record (\d)", text) for text in told] == [["3"], ["7"]]
    assert all("# <- line" in text for text in told)


@pytest.mark.parametrize("prefetched", [False, True])
def test_damaged_parquet_files(prefetched: bool, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "x.parquet"
    parquet.write_table(
        pyarrow.table({"x": np.arange(40)}), path, row_group_size=10, compression="snappy",
        use_dictionary=False,
    )  # fmt: skip
    whole = path.read_bytes()
    start = parquet.ParquetFile(path).metadata.row_group(2).column(0).data_page_offset
    data = bytearray(whole)
    data[start : start + 60] = b"\xff" * 60
    path.write_bytes(data)
    dataset = Dataset.from_parquet(path)  # <- line
    dataset = dataset.batch(10).prefetch(2) if prefetched else dataset.batch(10)
    batches, wrong = read_on(iter(dataset))
    assert [batch["x"].tolist()[0] for batch in batches] == [0, 10, 30]
    (error,) = wrong
    assert isinstance(error, RecordError)
    assert f"row group 2 of {path}, elements 20 to 29, is damaged" in str(error)
    assert "# <- line" in str(error)
    path.write_bytes(whole[:-20])
    with pytest.raises(RecordError, match=re.escape(f"{path} is not a Parquet file")):
        Dataset.from_parquet(path)


def test_a_file_that_goes_away(tmp_path: Path) -> None:
    """The error of the system is passed on unchanged."""
    path = tmp_path / "x.records"
    write_records(path, [b"one"])
    dataset = Dataset.from_records(path).prefetch(1)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        next(iter(dataset))
    assert becomes(lambda: not [t for t in threading.enumerate() if "prefetch" in t.name])
