"""A large array sent to a task and back, against the bare link.

The bare link is between two processes without a framework:

- *memfd*: each writes its bytes into a new file without a name, and passes the descriptor on by a
  Unix socket; the other one maps it.
- *tcp*: each sends its bytes by a socket of the loopback interface.

Each end has read a byte of every page received before the time is taken; adding up all would
hide the time of the link.

Run: ``python -m tests.bench.remote_bytes``; ``--bytes 1_000_000_000 --only tcp``.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import socket
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, Literal

import numpy as np

import eagerflow as ef
from tests.bench.harness import arguments

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_PIECE: Final = 1 << 20
_PAGE: Final = 4096
_TRANSPORTS: Final[dict[str, Literal["ipc", "plain tcp", "tcp"]]] = {
    "memfd": "ipc", "tcp": "plain tcp", "tcp, encrypted": "tcp",
}  # fmt: skip


def _give_file(to: socket.socket, data: Bytes) -> None:
    file = os.memfd_create("bench")
    left = data.data
    while left:
        left = left[os.write(file, left) :]
    socket.send_fds(to, [b"."], [file])
    os.close(file)


def _take_file(source: socket.socket, size: int) -> Bytes:
    _, (file, *_), *_ = socket.recv_fds(source, 1, 1)
    held = mmap.mmap(file, size, mmap.MAP_PRIVATE)
    os.close(file)
    return np.frombuffer(held, np.uint8)


def _give_stream(to: socket.socket, data: Bytes) -> None:
    to.sendall(data.data)


def _take_stream(source: socket.socket, size: int) -> Bytes:
    data = np.empty(size, np.uint8)
    left = data.data
    while left:
        left = left[source.recv_into(left, min(len(left), _PIECE)) :]
    return data


def _pair(kind: str) -> tuple[socket.socket, socket.socket]:
    """The two ends of a link."""
    if kind == "memfd":
        return socket.socketpair()
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
    return here, there


def _echo(there: socket.socket, size: int, rounds: int, kind: str) -> None:
    give, take = _WAYS[kind]
    for _ in range(rounds):
        data = take(there, size)
        assert data[::_PAGE].sum() == -(-size // _PAGE)
        give(there, data)


_WAYS: Final[dict[str, tuple[Callable[..., None], Callable[..., Bytes]]]] = {
    "memfd": (_give_file, _take_file), "tcp": (_give_stream, _take_stream),
}  # fmt: skip


def bare(kind: str, data: Bytes, rounds: int) -> float:
    """Seconds for a round trip between two processes; the best of some."""
    give, take = _WAYS[kind]
    here, there = _pair(kind)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_echo, args=(there, len(data), rounds, kind))
    process.start()
    there.close()
    best = float("inf")
    for _ in range(rounds):
        begin = perf_counter()
        give(here, data)
        back = take(here, len(data))
        assert back[::_PAGE].sum() == -(-len(data) // _PAGE)
        best = min(best, perf_counter() - begin)
        assert back.sum() == len(data)
        del back
    process.join()
    here.close()
    return best


def remote(transport: Literal["ipc", "plain tcp", "tcp"], data: Bytes, rounds: int) -> float:
    """Seconds for a round trip to a task; the best of some."""
    best = float("inf")
    with ef.cluster.local({"ps": 1}, transport=transport):
        for _ in range(rounds):
            begin = perf_counter()
            there = ef.tensor(data, device="ps:0")
            pages = ef.sum(there[::_PAGE], dtype="int64")
            back = there.numpy()
            assert back[::_PAGE].sum() == pages.item() == -(-len(data) // _PAGE)
            best = min(best, perf_counter() - begin)
            assert back.sum() == len(data)
            del there, pages, back
    return best


def main() -> None:
    """Print a table."""
    parser = arguments("A large array to a task and back")
    parser.add_argument("--bytes", type=int, default=1_000_000_000)
    options = parser.parse_args()
    size, rounds = (100_000, 1) if options.smallest else (options.bytes, min(options.rounds, 3))
    data = np.ones(size, np.uint8)
    print(f"{size / 1e6:,.1f} MB there and back, in GB/s both ways together\n")
    print("| link | alone | by a task | of the link |\n|---|---|---|---|")
    for name, transport in _TRANSPORTS.items():
        if options.only in name:
            link = bare("memfd" if name == "memfd" else "tcp", data, rounds)
            task = remote(transport, data, rounds)
            rates = [2 * size / seconds / 1e9 for seconds in (link, task)]
            print(f"| {name} | {rates[0]:.2f} | {rates[1]:.2f} | {link / task:.2f} |")


if __name__ == "__main__":
    main()
