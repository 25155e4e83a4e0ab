"""Key files of a cluster, and the list of clients and tasks that are let in."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import eagerflow as ef
from eagerflow.cli import main
from eagerflow.cluster.processes.keys import (
    AllowedKeys,
    AllowList,
    KeyFolder,
    client_credentials,
    new_pair,
    server_credentials,
    task_keys,
)
from eagerflow.cluster.processes.listening import Doors, doors_at, is_address, is_within
from eagerflow.errors import AuthenticationError, ResourceError, TensorValueError


@pytest.fixture
def keys(tmp_path: Path) -> KeyFolder:
    made = KeyFolder(tmp_path / "keys")
    made.add_task("ps:0", "tcp://10.0.0.1:7400")
    made.add_task("worker:0", "tcp://10.0.0.2:7400")
    made.add_client("alice")
    return made


def test_all_files_are_for_one_user_alone(keys: KeyFolder) -> None:
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o700
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in keys.path.iterdir()}
    assert modes == dict.fromkeys(
        ["allowed.json", "alice.json", "ps-0.key.json", "worker-0.key.json"], 0o600
    )


def test_each_process_has_a_pair_of_its_own_and_keeps_it(keys: KeyFolder) -> None:
    alice, tasks = client_credentials(keys.path / "alice.json")
    pairs = [task_keys(keys.path, "ps:0"), task_keys(keys.path, "worker:0"), alice.keys]
    assert len({pair.secret for pair in pairs}) == 3
    assert tasks["ps:0"] == Doors("tcp://10.0.0.1:7400", "tcp://10.0.0.1:7401", pairs[0].public)
    again = KeyFolder(keys.path)
    again.add_task("ps:0", "tcp://10.0.0.9:7400")
    path = again.add_client("alice")
    alice, tasks = client_credentials(path)
    assert [task_keys(keys.path, "ps:0"), alice.keys] == [pairs[0], pairs[2]]
    assert tasks["ps:0"].client == "tcp://10.0.0.9:7400"


@pytest.mark.parametrize("change", ["chmod", "damage"])
def test_keys_are_not_replaced_in_silence(keys: KeyFolder, change: str) -> None:
    """New keys would need a new connection file for each client."""
    path = keys.path / "ps-0.key.json"
    if change == "chmod":
        path.chmod(0o644)
    else:
        path.write_text("{}")
    before = path.read_bytes()
    with pytest.raises(AuthenticationError, match=r"ps-0\.key\.json is"):
        keys.add_task("ps:0", "tcp://10.0.0.9:7400")
    assert path.read_bytes() == before


def test_secrets_are_not_shown(keys: KeyFolder) -> None:
    pair = task_keys(keys.path, "ps:0")
    assert pair.secret not in repr(pair)
    assert not any(pair.secret in line for line in keys.lines())
    (keys.path / "ps-0.key.json").write_text(f'{{"task": "ps:0", "secret": "{pair.secret}"')
    with pytest.raises(AuthenticationError, match="is damaged") as caught:
        task_keys(keys.path, "ps:0")
    assert pair.secret not in str(caught.value)


def test_the_list_is_what_it_is_now(keys: KeyFolder) -> None:
    allowed = server_credentials(keys.path, "ps:0").allowed
    alice, _ = client_credentials(keys.path / "alice.json")
    worker = task_keys(keys.path, "worker:0").public
    assert allowed.user("client", alice.keys.public) == "client alice"
    assert allowed.user("task", alice.keys.public) == "client alice"
    assert allowed.user("task", worker) == "worker:0"
    assert allowed.user("client", worker) is None
    assert allowed.user("client", new_pair().public) is None
    before = allowed.refresh()
    keys.revoke("alice")
    assert not (keys.path / "alice.json").exists()
    assert allowed.refresh() == allowed.refresh() == before + 1
    assert allowed.user("client", alice.keys.public) is None
    with pytest.raises(ResourceError, match="no keys of 'alice'"):
        keys.revoke("alice")


@pytest.mark.parametrize("change", ["chmod", "remove", "damage", "link"])
def test_a_list_that_cannot_be_trusted_lets_nobody_in(keys: KeyFolder, change: str) -> None:
    allowed = server_credentials(keys.path, "ps:0").allowed
    alice, _ = client_credentials(keys.path / "alice.json")
    path, before = keys.path / "allowed.json", allowed.refresh()
    if change == "chmod":
        path.chmod(0o640)
    elif change == "damage":
        path.write_text("{}}")
    else:
        path.rename(path.with_suffix(".old"))
        if change == "link":
            path.symlink_to(path.with_suffix(".old"))
    assert allowed.refresh() == before + 1
    assert allowed.user("client", alice.keys.public) is None


def test_who_may_say_where_a_task_listens(keys: KeyFolder) -> None:
    allowed = server_credentials(keys.path, "ps:0").allowed
    alice, tasks = client_credentials(keys.path / "alice.json")
    own = Doors("", "tcp://10.0.0.5:4000", alice.keys.public)
    assert allowed.allows_peer("worker:0", tasks["worker:0"], "client alice")
    assert not allowed.allows_peer("worker:0", tasks["ps:0"], "client alice")
    assert not allowed.allows_peer("worker:0", own, "client alice")
    moved = tasks["worker:0"]._replace(task="tcp://10.6.6.6:1")
    assert not allowed.allows_peer("worker:0", moved, "client alice")
    assert allowed.allows_peer("client-77", own, "client alice")
    assert not allowed.allows_peer("client-77", own, "client bob")
    assert not allowed.allows_peer("worker:1", own, "client alice")


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o604])
def test_files_that_others_may_read_are_refused(keys: KeyFolder, mode: int) -> None:
    path = keys.path / "alice.json"
    path.chmod(mode)
    with pytest.raises(AuthenticationError, match="not for this user alone"):
        ef.cluster.connect(path)


def test_what_is_no_connection_file(keys: KeyFolder, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ef.cluster.connect(tmp_path / "nothing.json")
    fifo = keys.path / "fifo"
    os.mkfifo(fifo, 0o600)
    with pytest.raises(AuthenticationError):
        ef.cluster.connect(fifo)
    (keys.path / "link").symlink_to(keys.path / "alice.json")
    with pytest.raises(AuthenticationError, match="is a link"):
        ef.cluster.connect(keys.path / "link")
    with pytest.raises(AuthenticationError, match="is damaged"):
        ef.cluster.connect(keys.path / "ps-0.key.json")
    with pytest.raises(ResourceError, match="has no task ps:7"):
        ef.cluster.connect(keys.path / "alice.json", ["ps:7"])


def test_addresses_without_keys_need_to_be_asked_for() -> None:
    with pytest.raises(AuthenticationError, match="need keys"):
        ef.cluster.connect({"ps:0": "tcp://127.0.0.1:7400"})
    with pytest.raises(TensorValueError, match="is not an address"):
        ef.cluster.connect({"ps:0": "127.0.0.1"}, plain_tcp=True)
    with pytest.raises(TensorValueError, match="no such transport"):
        ef.cluster.local({"ps": 1}, transport="http")


def test_addresses() -> None:
    assert doors_at("tcp://*:0").task == "tcp://*:0"
    for wrong in ("tcp://a:70000", "tcp://a:65535", "ipc://a", "tcp://a/b:1", "tcp://:1", ""):
        with pytest.raises(TensorValueError):
            doors_at(wrong)
    assert is_address("tcp://host:1")
    assert not any(map(is_address, ("tcp://*:1", "tcp://host:0", "ipc://x", "tcp://h:1;tcp://i:2")))
    folder = Path("/run/tasks")
    assert is_within("ipc:///run/tasks/ps-0.task", folder)
    for wrong in ("ipc:///run/x.task", "ipc:///run/tasks/a/x.task", "ipc:///run/tasks/../x",
                  "ipc:///run/tasks/..", "tcp://h:1"):  # fmt: skip
        assert not is_within(wrong, folder)


def test_an_empty_list() -> None:
    allowed = AllowedKeys(AllowList())
    assert allowed.refresh() == allowed.refresh()
    assert allowed.user("task", new_pair().public) is None


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "keys")
    main(["keys", folder, "--task", "ps:0=tcp://127.0.0.1:7400", "--client", "alice"])
    told = capsys.readouterr().out
    assert "alice.json" in told
    assert "tcp://127.0.0.1:7400" in told
    main(["keys", folder, "--revoke", "alice"])
    assert "alice" not in capsys.readouterr().out
    with pytest.raises(AuthenticationError, match="has no keys"):
        main(["serve", "--task", "ps:1", "--listen", "tcp://127.0.0.1:0", "--keys", folder])
    with pytest.raises(AuthenticationError, match="any process that reaches"):
        main(["serve", "--task", "ps:1", "--listen", "tcp://127.0.0.1:0"])
    with pytest.raises(SystemExit):
        main(["serve", "--task", "ps:1", "--folder", folder, "--plain-tcp"])
