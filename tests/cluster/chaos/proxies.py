"""Proxies of TCP connections that can be slow, silent, or cut.

They forward bytes of encrypted connections, so they cannot lose single messages: closed connections
and silent ones stand in for that.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, final

_PIECE: Final = 1 << 16


def two_ports(host: str) -> int:
    """A free port of an address whose next port is free as well."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind((host, 0))
            port: int = first.getsockname()[1]
            with suppress(OSError, OverflowError):
                second.bind((host, port + 1))
                return port


@final
class Link:
    """A proxy in front of both doors of a task.

    Args:
        host: address of the proxy.

    Attributes:
        host: as given.
        port: port for the door for clients; the next port is for the door for tasks.
        targets: addresses of the doors of the task; port 0 while there is no task.
        delay: seconds of delay of each chunk of data.
        silent: whether no data passes.
        refused: number of connections closed for lack of a task.
    """

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host: Final = host
        self.port: Final = two_ports(host)
        self.targets = [("127.0.0.1", 0)] * 2
        self.delay = 0.0
        self.silent = False
        self.refused = 0
        self._open: set[asyncio.StreamWriter] = set()

    async def listen(self) -> list[asyncio.Server]:
        """Listen on both ports."""
        return [
            await asyncio.start_server(
                lambda reader, writer, door=door: self._pass_on(door, reader, writer),
                self.host, self.port + door,
            )
            for door in (0, 1)
        ]  # fmt: skip

    async def _pass_on(
        self, door: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._open.add(writer)
        try:
            inner, outer = await asyncio.open_connection(*self.targets[door])
        except OSError:
            self.refused += 1
            self._shut(writer)
            return
        self._open.add(outer)
        pumps = [
            asyncio.ensure_future(self._pump(a, b)) for a, b in ((reader, outer), (inner, writer))
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        for one in (writer, outer):
            self._shut(one)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_PIECE):
                if self.delay:
                    await asyncio.sleep(self.delay)
                while self.silent:
                    await asyncio.sleep(0.02)
                writer.write(data)
                await writer.drain()

    def _shut(self, writer: asyncio.StreamWriter) -> None:
        self._open.discard(writer)
        with suppress(RuntimeError):
            writer.close()

    def cut(self) -> None:
        """Close all connections; clients can connect again."""
        for writer in list(self._open):
            writer.transport.abort()


@final
class Links:
    """The proxies of tasks, and the thread in which they run."""

    def __init__(self, tasks: list[str], host: str = "127.0.0.1") -> None:
        self.of: Final = {task: Link(host) for task in tasks}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="links")
        self._thread.start()
        self._servers = [s for link in self.of.values() for s in self._wait(link.listen())]

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def cut(self, task: str) -> None:
        """Close the connections of a task."""
        self._loop.call_soon_threadsafe(self.of[task].cut)

    def close(self) -> None:
        """End all proxies and the thread."""
        self._wait(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for link in self.of.values():
            link.cut()
        await asyncio.sleep(0.1)
        left = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
        for one in left:
            one.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def target(address: str) -> tuple[str, int]:
    """The host and the port of an address such as ``tcp://127.0.0.1:7400``."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return host, int(port)
