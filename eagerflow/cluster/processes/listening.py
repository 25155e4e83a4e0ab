"""Addresses at which processes listen: sockets in a user's directory, or ports with a key."""

from __future__ import annotations

import os
import re
import socket
import stat
from pathlib import Path
from typing import Final, NamedTuple, final

from eagerflow.errors import AuthenticationError, ResourceError, TensorValueError

_TCP: Final = re.compile(r"tcp://(\*|[A-Za-z0-9._-]+):(\d{1,5})")
_PORTS: Final = 65_535


@final
class Doors(NamedTuple):
    """The addresses at which a process listens.

    Attributes:
        client: the address for clients; empty for a client.
        task: the address for tasks, and for clients as far as they take part in steps.
        key: the public key of the process; empty where there are no keys.
    """

    client: str
    task: str
    key: str = ""


def doors_in(folder: Path, task: str) -> Doors:
    """The doors of a task in a directory.

    >>> from pathlib import Path
    >>> from eagerflow.cluster.processes.listening import doors_in
    >>> doors_in(Path("/run/tasks"), "ps:0").client
    'ipc:///run/tasks/ps-0.client'
    """
    name = f"{folder}/{file_name(task)}"
    return Doors(f"ipc://{name}.client", f"ipc://{name}.task")


def doors_at(address: str, key: str = "") -> Doors:
    """The doors of a task on a port and the next one; with port 0 any two free ports.

    Args:
        address: such as ``"tcp://10.0.0.1:7400"``.
        key: the public key of the task.

    Raises:
        TensorValueError: ``address`` is no address.

    >>> from eagerflow.cluster.processes.listening import doors_at
    >>> doors_at("tcp://10.0.0.1:7400").task
    'tcp://10.0.0.1:7401'
    """
    host, port = _host_and_port(address)
    if port == _PORTS:
        raise TensorValueError(f"{address}: a task needs the next port, too")
    return Doors(address, f"tcp://{host}:{port + 1 if port else 0}", key)


def _host_and_port(address: str) -> tuple[str, int]:
    parts = _TCP.fullmatch(address)
    if parts is None or int(parts[2]) > _PORTS:
        raise TensorValueError(
            f"{address!r} is not an address", expected="such as tcp://10.0.0.1:7400"
        )
    return parts[1], int(parts[2])


def own_address(doors: Doors) -> str:
    """The address of a free port, on the interface that reaches a task."""
    host, _, port = doors.client.removeprefix("tcp://").rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, int(port)))  # sends nothing
        except OSError as error:
            raise ResourceError(f"{doors.client} cannot be reached: {error.strerror}") from None
        return f"tcp://{probe.getsockname()[0]}:0"


def is_address(text: str) -> bool:
    """Whether a text is an address to which a process can connect over TCP."""
    parts = _TCP.fullmatch(text)
    return parts is not None and parts[1] != "*" and 0 < int(parts[2]) <= _PORTS


def is_within(address: str, folder: Path) -> bool:
    """Whether an address is a socket that lies directly in a directory."""
    path = Path(address.removeprefix("ipc://"))
    return address.startswith("ipc://") and path.parent == folder and path.name not in ("", "..")


def file_name(task: str) -> str:
    """The stem of a task's files, ``ps-0`` for ``ps:0``."""
    return task.replace(":", "-")


def tasks_in(folder: Path) -> list[str]:
    """The tasks that listen in a directory."""
    names = [path.name.removesuffix(".client") for path in folder.glob("*-*.client")]
    return sorted(":".join(name.rsplit("-", 1)) for name in names)


def check_folder(folder: Path) -> None:
    """Refuse a directory that users other than this one may enter.

    Raises:
        AuthenticationError: others may enter the directory, or it belongs to another user.
    """
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid != os.getuid() or mode & 0o077 or folder.is_symlink():
        raise AuthenticationError(
            f"{folder} is not for this user alone",
            given=f"mode {mode:o}, of user {status.st_uid}",
            expected="mode 700, of this user",
        )


def checked_name(task: str) -> str:
    """The name of a task, checked.

    Raises:
        TensorValueError: it is no name of a task.
    """
    job, _, number = task.partition(":")
    if not job.isidentifier() or not task.isascii() or not number.isdecimal():
        raise TensorValueError(
            f"{task!r} names no task", expected="a job and a number, such as 'ps:0'"
        )
    return task
