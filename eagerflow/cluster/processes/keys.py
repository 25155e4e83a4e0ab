"""Keys of tasks and clients: the files that hold them, and the allow-list.

A directory of keys has ``allowed.json``, with the public keys and addresses of all tasks and the
public keys of all clients, a file ``ps-0.key.json`` with the key pair of each task, and a
*connection file* for each client, with its key pair and the addresses of the tasks. All are
private to one user, mode 0600; whoever can read such a file can impersonate its owner.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Final, Literal, final

import msgspec
import zmq
from msgspec import Meta, Struct

from eagerflow.atomic_files import replaced
from eagerflow.cluster.processes.listening import (
    Doors,
    check_folder,
    checked_name,
    doors_at,
    file_name,
)
from eagerflow.cluster.protocol.message_heads import is_client
from eagerflow.errors import AuthenticationError, ResourceError, TensorValueError

#: 32 bytes in the letters of Z85
Key = Annotated[str, Meta(pattern=r"^[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}$")]
_Name = Annotated[str, Meta(max_length=1_000)]
_LIST: Final = "allowed.json"
_LARGEST: Final = 16 << 20  # bytes of a file


@final
class KeyPair(Struct, frozen=True, forbid_unknown_fields=True):
    """The key pair of a process, its identity.

    Attributes:
        public: the key by which others know the process.
        secret: the key that proves the identity.
    """

    public: Key
    secret: Key

    def __repr__(self) -> str:
        return f"KeyPair({self.public})"


def new_pair() -> KeyPair:
    """A new pair of keys.

    >>> from eagerflow.cluster.processes.keys import new_pair
    >>> len(new_pair().public)
    40
    """
    public, secret = zmq.curve_keypair()
    return KeyPair(public.decode(), secret.decode())


@final
class AllowList(Struct, forbid_unknown_fields=True):
    """The allow-list: the processes that are let in.

    Attributes:
        clients: public keys by name.
        tasks: doors by name, with public keys.
    """

    clients: dict[_Name, Key] = {}
    tasks: dict[_Name, tuple[_Name, _Name, Key]] = {}


@final
class TaskKeys(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a task's key file."""

    task: _Name
    keys: KeyPair


@final
class ConnectionFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a client's connection file.

    Attributes:
        client: the name of the client.
        keys: its key pair.
        tasks: doors by name, with public keys.
    """

    client: _Name
    keys: KeyPair
    tasks: dict[_Name, tuple[_Name, _Name, Key]]


# --- files ---------------------------------------------------------------------------------------


def read_file(path: Path, kind: type[Any]) -> Any:
    """The content of a key file.

    Raises:
        AuthenticationError: others may read the file, it is a link, or it has another form.
        FileNotFoundError: the file is not there.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise AuthenticationError(
            f"{path} is a link, which is not followed", hint=f"name the file: {path.resolve()}"
        ) from None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        mode = stat.S_IMODE(status.st_mode)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or mode & 0o077:
            raise AuthenticationError(
                f"{path} is not for this user alone",
                given=f"mode {mode:o}, of user {status.st_uid}",
                expected="a file of mode 600, of this user",
                hint=f"chmod 600 {path}; if others could read it, revoke it and make new keys",
            )
        content = file.read(_LARGEST)
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # nothing of the file itself: a note must not show a secret key
        raise AuthenticationError(
            f"{path} is damaged: {type(error).__name__}", hint="eagerflow keys writes such files"
        ) from None


def _write(path: Path, content: Struct) -> None:
    # the file never exists with another mode, and replaces a link, not the link's target
    with replaced("keys", path, mode=0o600, follows=False) as write:
        write(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def task_keys(folder: Path, task: str) -> KeyPair:
    """The key pair of a task in a directory of keys.

    Raises:
        AuthenticationError: there is none.
    """
    path = folder / f"{file_name(task)}.key.json"
    try:
        file: TaskKeys = read_file(path, TaskKeys)
    except FileNotFoundError:
        raise AuthenticationError(
            f"{task} has no keys in {folder}", hint=f"eagerflow keys {folder} --task {task}=tcp://…"
        ) from None
    if file.task != task:
        raise AuthenticationError(f"{path} has the keys of {file.task}, not of {task}")
    return file.keys


@final
class KeyFolder:
    """A directory of keys, as its owner changes it.

    Args:
        path: the directory; it is created if missing.

    Raises:
        AuthenticationError: others may enter the directory.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(mode=0o700, exist_ok=True)
        check_folder(path)
        self.path: Final = path
        try:
            self._known: AllowList = read_file(path / _LIST, AllowList)
        except FileNotFoundError:
            self._known = AllowList()

    def add_task(self, task: str, address: str) -> Doors:
        """Make the keys of a task; a task that has keys keeps them.

        Args:
            task: its name.
            address: where it is going to listen; a host and port 0 if the port is not known yet.

        Raises:
            TensorValueError: ``address`` is no address, or ``task`` no name of a task.
            AuthenticationError: the key file is damaged, or not private to this user.
        """
        doors = doors_at(address)
        path = self.path / f"{file_name(checked_name(task))}.key.json"
        if os.path.lexists(path):
            pair = task_keys(self.path, task)
        else:
            pair = new_pair()
            _write(path, TaskKeys(task, pair))
        self._known.tasks[task] = (doors.client, doors.task, pair.public)
        self._save()
        return doors._replace(key=pair.public)

    def add_client(self, name: str) -> Path:
        """Make the connection file of a client; a client that has a key pair keeps it.

        Raises:
            TensorValueError: ``name`` is no name of a client.
        """
        if not name.isidentifier() or not name.isascii() or name == "allowed":
            raise TensorValueError(f"{name!r} names no client", expected="a word, such as 'alice'")
        path = self.path / f"{name}.json"
        try:
            pair = read_file(path, ConnectionFile).keys
        except FileNotFoundError:
            pair = new_pair()
        _write(path, ConnectionFile(name, pair, self._known.tasks))
        self._known.clients[name] = pair.public
        self._save()
        return path

    def allow_client(self, name: str, public: str) -> None:
        """Let in a client that has made its own key pair."""
        self._known.clients[name] = public
        self._save()

    def allow_task(self, task: str, doors: Doors) -> None:
        """Let in a task that has made its own key pair."""
        self._known.tasks[task] = doors.client, doors.task, doors.key
        self._save()

    def revoke(self, name: str) -> None:
        """Remove a client, or a task, from the allow-list, and delete its file.

        Raises:
            ResourceError: neither has that name.
        """
        if name in self._known.clients:
            del self._known.clients[name]
            path = self.path / f"{name}.json"
        elif name in self._known.tasks:
            del self._known.tasks[name]
            path = self.path / f"{file_name(name)}.key.json"
        else:
            raise ResourceError(
                f"{self.path} has no keys of {name!r}",
                expected=", ".join([*self._known.tasks, *self._known.clients]) or "keys",
            )
        self._save()
        path.unlink(missing_ok=True)

    def lines(self) -> list[str]:
        """A line for each task and client, with its public key."""
        tasks = [f"task   {name}  {key}  {at}" for name, (at, _, key) in self._known.tasks.items()]
        return tasks + [f"client {name}  {key}" for name, key in self._known.clients.items()]

    def _save(self) -> None:
        _write(self.path / _LIST, self._known)


# --- the allow-list ------------------------------------------------------------------------------

#: the kind of a door: ``"client"`` or ``"task"``
Domain = Literal["client", "task"]
#: prefix of the name by which a client is known at the door for tasks
CLIENT: Final = "client "


@final
class AllowedKeys:
    """The allow-list per kind of door, read anew when its file has changed.

    Args:
        known: the list.
        path: the file of the list, if it has one.
    """

    def __init__(self, known: AllowList, path: Path | None = None) -> None:
        self._path = path
        self._stamp: tuple[int, ...] = ()
        self._changes = 0
        self._take(known)
        if path is not None:
            self.refresh()

    def _take(self, known: AllowList) -> None:
        self._known = known
        self._clients = {key: name for name, key in known.clients.items()}
        self._tasks = {key: name for name, (_, _, key) in known.tasks.items()}
        self._changes += 1

    def refresh(self) -> int:
        """Read the list again if its file has changed; an unreadable list is empty.

        Returns:
            Number of changes so far. Each of several callers compares it with that of its own
            last call.
        """
        if self._path is None:
            return self._changes
        stamp: tuple[int, ...] = ()
        with suppress(OSError):
            status = self._path.lstat()
            stamp = status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode
        if stamp == self._stamp:
            return self._changes
        known = AllowList()
        with suppress(OSError, AuthenticationError):
            known = read_file(self._path, AllowList)
        self._take(known)
        self._stamp = stamp
        return self._changes

    def add_task(self, task: str, doors: Doors) -> None:
        """Let in another task."""
        self._known.tasks[task] = doors.client, doors.task, doors.key
        self._take(self._known)

    def user(self, domain: str, key: str) -> str | None:
        """The owner of a key that is used at a kind of door; None if the key is refused."""
        if domain == "task" and key in self._tasks:
            return self._tasks[key]
        return CLIENT + self._clients[key] if key in self._clients else None

    def allows_peer(self, task: str, doors: Doors, user: str) -> bool:
        """Whether a client, known as ``user``, may claim that a task listens at ``doors``."""
        known = self._known.tasks.get(task)
        if known is None:
            return is_client(task) and user == CLIENT + self._clients.get(doors.key, "\0")
        _, door, key = known
        return key == doors.key and (door.endswith(":0") or door == doors.task)


@final
class Credentials:
    """The key pair that proves a process's identity, and the keys that the process lets in.

    Attributes:
        keys: the key pair.
        allowed: the keys of others.
    """

    __slots__ = ("allowed", "keys")

    def __init__(self, keys: KeyPair, allowed: AllowedKeys) -> None:
        self.keys = keys
        self.allowed = allowed


def server_credentials(folder: Path, task: str) -> Credentials:
    """The credentials of a task, read from a directory of keys.

    Raises:
        AuthenticationError: the task has no keys there, or others may enter the directory.
    """
    check_folder(folder)
    return Credentials(task_keys(folder, task), AllowedKeys(AllowList(), folder / _LIST))


def client_credentials(path: Path) -> tuple[Credentials, Mapping[str, Doors]]:
    """The credentials of a client, and the tasks' doors, read from a connection file.

    Raises:
        AuthenticationError: the file is damaged, or not for this user alone.
        FileNotFoundError: the file is not there.
    """
    file: ConnectionFile = read_file(path, ConnectionFile)
    allowed = AllowedKeys(AllowList(tasks=file.tasks))
    return Credentials(file.keys, allowed), {
        checked_name(task): Doors(*doors) for task, doors in file.tasks.items()
    }
