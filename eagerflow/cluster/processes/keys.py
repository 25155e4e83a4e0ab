"""Keys of tasks and clients: the files they lie in, and the list of those that are let in.

A directory of keys has ``allowed.json``, with the public keys and addresses of all tasks and the
public keys of all clients, a file ``ps-0.key.json`` with the pair of each task, and one with the
pair of each client, its *connection file*, which says where the tasks are. All are for one user
alone, mode 0600; whoever can read such a file can pass for whom it is of.
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
    """Who a process is.

    Attributes:
        public: what others know it by.
        secret: what proves it.
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
    """Who is let in.

    Attributes:
        clients: by name, their public keys.
        tasks: by name, where they listen, with their public keys.
    """

    clients: dict[_Name, Key] = {}
    tasks: dict[_Name, tuple[_Name, _Name, Key]] = {}


@final
class TaskKeys(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of a task."""

    task: _Name
    keys: KeyPair


@final
class ConnectionFile(Struct, frozen=True, forbid_unknown_fields=True):
    """The file of a client.

    Attributes:
        client: its name.
        keys: its pair.
        tasks: by name, where they listen, with their public keys.
    """

    client: _Name
    keys: KeyPair
    tasks: dict[_Name, tuple[_Name, _Name, Key]]


# --- files ---------------------------------------------------------------------------------------


def read_file(path: Path, kind: type[Any]) -> Any:
    """What a file of keys says.

    Raises:
        AuthenticationError: others may read it, it is a link, or of another form.
        FileNotFoundError: it is not there.
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
    # never there with another mode, and in the place of a link, not where it points to
    with replaced("keys", path, mode=0o600, follows=False) as write:
        write(msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n")


def task_keys(folder: Path, task: str) -> KeyPair:
    """The pair of a task in a directory of keys.

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
        path: the directory; it is made if it is not there.

    Raises:
        AuthenticationError: others may enter it.
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
        """Make the keys of a task; one that has some keeps them.

        Args:
            task: its name.
            address: where it is going to listen; a host and port 0 if nobody knows yet.

        Raises:
            TensorValueError: this is no address, or no name of a task.
            AuthenticationError: its file is damaged, or not for this user alone.
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
        """Make the connection file of a client; one that has a pair keeps it.

        Raises:
            TensorValueError: this is no name.
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
        """Let in a client that has made its own pair."""
        self._known.clients[name] = public
        self._save()

    def allow_task(self, task: str, doors: Doors) -> None:
        """Let in a task that has made its own pair."""
        self._known.tasks[task] = doors.client, doors.task, doors.key
        self._save()

    def revoke(self, name: str) -> None:
        """Let a client, or a task, in no more; its file goes.

        Raises:
            ResourceError: there is none of that name.
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
        """Who has keys, and which, in public."""
        tasks = [f"task   {name}  {key}  {at}" for name, (at, _, key) in self._known.tasks.items()]
        return tasks + [f"client {name}  {key}" for name, key in self._known.clients.items()]

    def _save(self) -> None:
        _write(self.path / _LIST, self._known)


# --- who is let in -------------------------------------------------------------------------------

#: which door: ``"client"`` or ``"task"``
Domain = Literal["client", "task"]
#: the name by which a client is known at the door of tasks
CLIENT: Final = "client "


@final
class AllowedKeys:
    """Who is let in by which door, as the list says at the time.

    Args:
        known: the list.
        path: the file that it is read from again when that has changed.
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
        """Read the list again if it has changed; if it cannot be read, it is empty.

        Returns:
            How often it has changed. Several ask, each whether it has since they asked before.
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
        """Let in one more task."""
        self._known.tasks[task] = doors.client, doors.task, doors.key
        self._take(self._known)

    def user(self, domain: str, key: str) -> str | None:
        """Whom a key that comes by a door is of; None if that is not let in."""
        if domain == "task" and key in self._tasks:
            return self._tasks[key]
        return CLIENT + self._clients[key] if key in self._clients else None

    def allows_peer(self, task: str, doors: Doors, user: str) -> bool:
        """Whether a client, known as ``user``, may say that this is where a task listens."""
        known = self._known.tasks.get(task)
        if known is None:
            return is_client(task) and user == CLIENT + self._clients.get(doors.key, "\0")
        _, door, key = known
        return key == doors.key and (door.endswith(":0") or door == doors.task)


@final
class Credentials:
    """What a process proves who it is with, and whom it lets in.

    Attributes:
        keys: its pair.
        allowed: the others.
    """

    __slots__ = ("allowed", "keys")

    def __init__(self, keys: KeyPair, allowed: AllowedKeys) -> None:
        self.keys = keys
        self.allowed = allowed


def server_credentials(folder: Path, task: str) -> Credentials:
    """Those of a task, out of a directory of keys.

    Raises:
        AuthenticationError: it has none there, or others may enter it.
    """
    check_folder(folder)
    return Credentials(task_keys(folder, task), AllowedKeys(AllowList(), folder / _LIST))


def client_credentials(path: Path) -> tuple[Credentials, Mapping[str, Doors]]:
    """Those of a client, and where the tasks are, out of its connection file.

    Raises:
        AuthenticationError: the file is damaged, or not for this user alone.
        FileNotFoundError: it is not there.
    """
    file: ConnectionFile = read_file(path, ConnectionFile)
    allowed = AllowedKeys(AllowList(tasks=file.tasks))
    return Credentials(file.keys, allowed), {
        checked_name(task): Doors(*doors) for task, doors in file.tasks.items()
    }
