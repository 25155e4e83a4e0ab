"""Network namespaces: a network of this host, from which each task can be cut off and restored.

Each task has a namespace with one interface, whose other end is on a bridge. An interface that is
down loses every packet, without notice to either side, like a cable that is pulled out. The
network needs root; `Network.made` gives the reason where it cannot be made.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Self, final

#: prefixes of addresses and names, from this process's id, as others may run the same test
_PREFIX: Final = f"10.231.{os.getpid() % 256}"
_BRIDGE: Final = f"ef{os.getpid()}"
_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET, <linux/sched.h>
_libc: Final = ctypes.CDLL(None, use_errno=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@final
class Network:
    """A bridge with a namespace for each task.

    Attributes:
        host: the address of this host on the bridge.
    """

    host: Final = f"{_PREFIX}.1"

    def __init__(self, tasks: list[str]) -> None:
        self._numbers: Final = {task: i for i, task in enumerate(tasks)}
        try:
            _ip("link", "add", _BRIDGE, "type", "bridge")
            _ip("addr", "add", f"{self.host}/24", "dev", _BRIDGE)
            _ip("link", "set", _BRIDGE, "up")
            for i in self._numbers.values():
                self._add(i)
        except BaseException:
            self.close()
            raise

    @classmethod
    def made(cls, tasks: list[str]) -> Self | str:
        """A network, or the reason why it cannot be made."""
        try:
            return cls(tasks)
        except FileNotFoundError:
            return "there is no ip"
        except subprocess.CalledProcessError as error:
            return str(error.stderr).strip()

    def _add(self, i: int) -> None:
        space = f"{_BRIDGE}-{i}"
        _ip("netns", "add", space)
        _ip("link", "add", f"{space}h", "type", "veth", "peer", "name", f"{space}n")
        _ip("link", "set", f"{space}h", "master", _BRIDGE, "up")
        _ip("link", "set", f"{space}n", "netns", space)
        _ip("-n", space, "addr", "add", f"{_PREFIX}.{i + 2}/24", "dev", f"{space}n")
        _ip("-n", space, "link", "set", f"{space}n", "up")
        _ip("-n", space, "link", "set", "lo", "up")

    def address(self, task: str) -> str:
        """The address at which a task listens."""
        return f"{_PREFIX}.{self._numbers[task] + 2}"

    def cut(self, task: str) -> None:
        """Lose every packet from and to a task."""
        _ip("link", "set", f"{_BRIDGE}-{self._numbers[task]}h", "down")

    def heal(self, task: str) -> None:
        """Restore the connection of a task."""
        _ip("link", "set", f"{_BRIDGE}-{self._numbers[task]}h", "up")

    def inside(self, task: str, make: Callable[[], Any]) -> Any:
        """The result of ``make`` in a thread in the namespace; processes that it starts stay there.

        Raises:
            OSError: this process may not enter the namespace.
        """
        made: list[Any] = []

        def enter() -> None:
            space = os.open(f"/run/netns/{_BRIDGE}-{self._numbers[task]}", os.O_RDONLY)
            try:
                if _libc.setns(space, _NEW_NETWORK):
                    raise OSError(ctypes.get_errno(), "setns")
            finally:
                os.close(space)
            made.append(make())

        thread = threading.Thread(target=enter, name=f"inside {task}")
        thread.start()
        thread.join()
        return made[0]

    def close(self) -> None:
        """Remove the network; a namespace goes with its last process."""
        for i in self._numbers.values():
            for words in (("link", "del", f"{_BRIDGE}-{i}h"), ("netns", "del", f"{_BRIDGE}-{i}")):
                with suppress(subprocess.CalledProcessError, FileNotFoundError):
                    _ip(*words)
        with suppress(subprocess.CalledProcessError, FileNotFoundError):
            _ip("link", "del", _BRIDGE)
