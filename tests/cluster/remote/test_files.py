"""Files of a task: access is refused outside of the directory that the task was started with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import eagerflow as ef
from eagerflow.cluster.clusters import Cluster
from eagerflow.cluster.processes.local_provisioner import LocalProvisioner
from eagerflow.cluster.protocol.partitions import read_op, write_op
from eagerflow.core.op import get_op
from eagerflow.errors import FileError, GraphError
from eagerflow.resources.files import FILES, FileSystem


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("files")
    (root / "inside").mkdir()
    (root / "inside" / "a").write_bytes(b"of the task")
    (root / "secret").write_bytes(b"secret")
    (root / "inside" / "link").symlink_to(root / "secret")
    (root / "inside" / "way").symlink_to(root)
    os.mkfifo(root / "inside" / "fifo")
    return root


@pytest.fixture(scope="module")
def cluster(folder: Path) -> Iterator[Cluster]:
    provisioner = LocalProvisioner("ipc", ["--allow-files", str(folder / "inside")])
    with Cluster(provisioner, ["files:0"], owned=True) as made:
        yield made


def test_files_of_a_task_are_read_and_written_there(cluster: Cluster, folder: Path) -> None:
    assert cluster.folder is not None

    @ef.trace
    def copy(x: ef.Tensor) -> ef.Tensor:
        with ef.device("files:0"):
            ef.io.write_file("traced", ef.io.read_file("a"))
            return x + 1

    with ef.device("files:0"):
        read = ef.io.read_file("a")
        ef.io.write_file(str(folder / "inside" / "eager"), read)
    assert str(read.device) == "files:0/cpu:0"
    assert read.item() == b"of the task"
    copy(ef.zeros(1))
    ef.hardware.synchronize("files:0")
    assert (folder / "inside" / "eager").read_bytes() == b"of the task"
    assert (folder / "inside" / "traced").read_bytes() == b"of the task"


OUTSIDE = [
    "link", "way/secret", "../secret", "way/inside/a", "/etc/passwd", "./a", "a/", "", "fifo",
]  # fmt: skip


@pytest.mark.parametrize("path", OUTSIDE)
def test_what_lies_outside_is_refused(cluster: Cluster, path: str) -> None:
    with ef.device("files:0"):
        x = ef.io.read_file(path.encode())
    with pytest.raises(FileError):
        x.item()
    assert ef.ones(1, device="files:0").tolist() == [1]


def test_a_link_is_replaced_and_not_followed(cluster: Cluster, folder: Path) -> None:
    target = folder / "inside" / "replaced"
    target.symlink_to(folder / "secret")
    with ef.device("files:0"):
        ef.io.write_file("replaced", b"new")
        ef.io.write_file("way/new", b"new")
    with pytest.raises(FileError):
        ef.hardware.synchronize("files:0")
    assert not target.is_symlink()
    assert target.read_bytes() == b"new"
    assert (folder / "secret").read_bytes() == b"secret"
    assert not (folder / "new").exists()


def test_a_task_that_was_told_nothing_has_no_files() -> None:
    message, frames = write_op("read_file", {"resource": FILES}, 1)
    with pytest.raises(GraphError, match="read_file may not run in a graph of another process"):
        read_op(message, iter(frames), lambda container, name: FILES)
    op, _ = read_op(message, iter(frames), lambda container, name: FILES, allows=("files",))
    assert op.name == "read_file"


def test_what_ops_reach_is_a_fact_of_their_records() -> None:
    reaches = {name: get_op(name).reaches for name in ("add", "assign", "read_file", "py_call")}
    assert reaches == {
        "add": "nothing", "assign": "nothing", "read_file": "files", "py_call": "python",
    }  # fmt: skip


def test_each_part_of_a_path_is_opened_within_the_one_before(folder: Path) -> None:
    files = FileSystem(str(folder / "inside"))
    with files.enter("a") as (directory, name):
        assert os.listdir(directory) == os.listdir(folder / "inside")
        assert name == "a"
    with pytest.raises(PermissionError) as caught, files.enter("/inside-not/a"):
        pass
    assert "outside" in str(caught.value).splitlines()[0]
