"""Cost of a step's messages alone: ZeroMQ and msgspec, no framework, real processes.

The messages are those of a null training step: the client tells a worker and some parameter servers
(``ps``) to run the step; each ps sends its parameter to the worker, which sends each an update;
all tell the client that they are done. That is 4n + 2 messages for n of them, two thirds with a
tensor, and they go from task to task in three legs, one after the other.

Rows differ in one thing each from the first:

- *transport*: ``ipc``, ``tcp``, ``curve`` (tcp, encrypted and authenticated).
- *sockets*: ``dealers``, one for each destination, and one ROUTER to receive; or
  ``router``, one ROUTER for all.
- *threads* of a server: one that owns the sockets and does the work; or two, a queue and a socket
  that wakes the first.
- *polling*: ``sleep`` until a message comes, ``drain`` all messages before sleeping again, or
  ``spin`` for 50 us before.
- *answers*: whether each ps answers the client, or the worker alone, at the end.

The last rows combine the best choice in each respect.

A row is measured in slices, alternately with the others. Besides the time of a step, which other
work on the machine makes longer, the processor's time of all processes is counted.

Run: ``python -m tests.bench.messages``; ``--ps 16 --steps 300 --rounds 7 --only tcp``.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from time import perf_counter, process_time
from typing import Any, Final

import msgspec
import numpy as np
import zmq

from tests.bench.harness import arguments

CLIENT: Final = b"client"
WORKER: Final = b"worker:0"
TENSOR: Final = np.ones((), np.float32)
SPIN: Final = 50e-6


class RunStep(msgspec.Struct, array_like=True, tag="run"):
    step: int
    partition: int


class SendValue(msgspec.Struct, array_like=True, tag="value"):
    step: int
    edge: str
    dtype: str
    shape: tuple[int, ...]


class StepDone(msgspec.Struct, array_like=True, tag="done"):
    step: int


class Stop(msgspec.Struct, array_like=True, tag="stop"):
    seconds: float = 0.0  # of the processor, in the answer


Told = RunStep | SendValue | StepDone | Stop
encode: Final = msgspec.msgpack.Encoder().encode
decode: Final = msgspec.msgpack.Decoder(Told).decode


@dataclass(frozen=True)
class Row:
    transport: str = "ipc"
    sockets: str = "dealers"
    threads: int = 1
    polling: str = "sleep"
    answers: str = "each"

    @property
    def name(self) -> str:
        return f"{self.transport}, {self.sockets}, {self.threads} thread, {self.polling}" + (
            "" if self.answers == "each" else ", one answer"
        )


BASE: Final = Row()
#: the best choice in each respect, all at once
BEST: Final = Row(polling="drain", answers="one")
ROWS: Final = (
    BASE, replace(BASE, transport="tcp"), replace(BASE, transport="curve"),
    replace(BASE, sockets="router"), replace(BASE, threads=2), replace(BASE, polling="drain"),
    replace(BASE, polling="spin"), replace(BASE, answers="one"),
    BEST, replace(BEST, transport="tcp"), replace(BEST, transport="curve"),
)  # fmt: skip


class Wire:
    """The sockets of one process: a bound socket, and sockets connected to other processes.

    Args:
        me: the name of this process.
        row: the row that is measured.
        addresses: the addresses of all tasks.
        keys: a pair of keys for all processes, where messages are encrypted.
    """

    def __init__(
        self, me: bytes, row: Row, addresses: dict[bytes, str], keys: tuple[bytes, bytes]
    ) -> None:
        self.me = me
        self._row = row
        self._keys = keys
        self._addresses = addresses
        self._context = zmq.Context()
        self._bound = self._socket(zmq.ROUTER)
        self._out: dict[bytes, Any] = {}
        self._poller = zmq.Poller()
        self._poller.register(self._bound, zmq.POLLIN)
        self._inside: list[Any] = []
        self._parent = os.getppid()
        if me in addresses:
            if row.transport == "curve":
                self._bound.curve_server = True
            self._bound.bind(addresses[me])

    def _socket(self, kind: int) -> Any:
        socket = self._context.socket(kind)
        socket.linger = 1000
        if self._row.transport == "curve":
            socket.curve_publickey, socket.curve_secretkey = self._keys
        return socket

    def connect(self, to: bytes) -> None:
        """Connect to a task, so that messages can be sent to it."""
        if self._row.sockets == "router" and self.me not in self._addresses:
            socket = self._bound  # the client's socket, which is not bound
            socket.setsockopt(zmq.CONNECT_ROUTING_ID, to)
        else:
            socket = self._socket(zmq.DEALER)
            self._poller.register(socket, zmq.POLLIN)
        socket.routing_id = self.me
        if self._row.transport == "curve":
            socket.curve_serverkey = self._keys[0]
        socket.connect(self._addresses[to])
        self._out[to] = socket

    def send(self, to: bytes, *frames: Any) -> None:
        socket = self._out.get(to, self._bound)
        socket.send_multipart(frames if socket is not self._bound else (to, *frames), copy=True)

    def receive(self) -> list[tuple[bytes, list[bytes]]]:
        """Messages that have come, with their senders; waits for the first."""
        row, messages = self._row, []
        if row.polling == "spin":
            end = perf_counter() + SPIN
            while not (ready := self._poller.poll(0)) and perf_counter() < end:
                pass
            ready = ready or self._sleep()
        else:
            ready = self._sleep()
        for socket, _ in ready:
            messages.append(self._take(socket))
            while row.polling == "drain" and socket.getsockopt(zmq.EVENTS) & zmq.POLLIN:
                messages.append(self._take(socket))
        return messages

    def _sleep(self) -> list[tuple[Any, int]]:
        """The sockets with messages; exits if the process that started this one has ended."""
        while not (ready := self._poller.poll(2000)):
            if os.getppid() != self._parent:
                sys.exit("the process that measures has ended")
        return ready

    def _take(self, socket: Any) -> tuple[bytes, list[bytes]]:
        frames = socket.recv_multipart()
        if socket is self._bound:
            return frames[0], frames[1:]
        return b"", frames

    def wake(self) -> Any:
        """A socket by which another thread wakes `receive`."""
        ours, theirs = self._context.socket(zmq.PAIR), self._context.socket(zmq.PAIR)
        ours.bind("inproc://wake")
        theirs.connect("inproc://wake")
        self._poller.register(ours, zmq.POLLIN)
        self._inside += [ours, theirs]
        return theirs

    def close(self) -> None:
        for socket in (*{*self._out.values()} - {self._bound}, *self._inside, self._bound):
            socket.close()
        self._context.term()


class Server:
    """A task, whose handling of a message is the same in either thread."""

    def __init__(self, wire: Wire, peers: list[bytes], row: Row) -> None:
        self.wire = wire
        self._peers = peers
        self._answers = row.answers == "each" or wire.me == WORKER
        self._seen: dict[int, int] = {}
        self._needed = len(peers) + (wire.me == WORKER or self._answers)
        self._begun = 0.0

    def handle(self, frames: list[bytes]) -> list[tuple[bytes, tuple[Any, ...]]]:
        told = decode(frames[0])
        if type(told) is Stop:
            return [(CLIENT, (encode(Stop(process_time() - self._begun)),))]
        self._begun = self._begun or process_time()
        step, out = told.step, []
        if type(told) is RunStep and self.wire.me != WORKER:
            out = [(to, self._value(step)) for to in self._peers]
        elif type(told) is SendValue:
            np.frombuffer(frames[1], told.dtype).reshape(told.shape)
        seen = self._seen[step] = self._seen.get(step, 0) + 1
        if seen == self._needed:
            del self._seen[step]
            if self.wire.me == WORKER:
                out = [(to, self._value(step)) for to in self._peers]
            if self._answers:
                out.append((CLIENT, (encode(StepDone(step)),)))
        return out

    def _value(self, step: int) -> tuple[Any, ...]:
        value = SendValue(step, "read -> worker:0/cpu:0", TENSOR.dtype.str, TENSOR.shape)
        return encode(value), TENSOR.data

    def run(self) -> None:
        while True:
            for _, frames in self.wire.receive():
                for to, answer in self.handle(frames):
                    self.wire.send(to, *answer)
                if type(decode(frames[0])) is Stop:
                    return

    def run_in_two(self) -> None:
        """Serve the sockets in this thread, and do the work in another thread."""
        work: SimpleQueue[list[bytes]] = SimpleQueue()
        done: deque[tuple[bytes, tuple[Any, ...]]] = deque()
        bell, over = self.wire.wake(), False

        def body() -> None:
            while True:
                frames = work.get()
                answers = self.handle(frames)
                if answers:
                    done.extend(answers)
                    bell.send(b"")
                if type(decode(frames[0])) is Stop:
                    return

        thread = threading.Thread(target=body)
        thread.start()
        while not over:
            for _, frames in self.wire.receive():
                if frames != [b""]:
                    work.put(frames)
            while done:
                to, answer = done.popleft()
                over = type(decode(answer[0])) is Stop
                self.wire.send(to, *answer)
        thread.join()


def serve(
    me: bytes, row: Row, addresses: dict[bytes, str], keys: tuple[bytes, bytes], ready: Any
) -> None:
    """Run the process of a task."""
    wire = Wire(me, row, addresses, keys)
    peers = [name for name in addresses if (name == WORKER) != (me == WORKER)]
    ready.wait()  # all are bound
    for to in peers:
        wire.connect(to)
    server = Server(wire, peers, row)
    if row.threads == 1:
        server.run()
    else:
        server.run_in_two()
    wire.close()


class Cluster:
    """The processes of a row, and from `connect` on the client in this process.

    Processes are forked: all of them before the first socket is made here.
    """

    def __init__(self, row: Row, ps: int, folder: Path, port: int) -> None:
        names = [WORKER, *[f"ps:{i}".encode() for i in range(ps)]]
        if row.transport == "ipc":
            addresses = {name: f"ipc://{folder}/{name.decode()}" for name in names}
        else:
            addresses = {name: f"tcp://127.0.0.1:{port + i}" for i, name in enumerate(names)}
        keys = zmq.curve_keypair() if row.transport == "curve" else (b"", b"")
        processes = multiprocessing.get_context("fork")
        ready = processes.Barrier(len(names) + 1)
        self._tasks = [
            processes.Process(target=serve, args=(name, row, addresses, keys, ready))
            for name in names
        ]
        for task in self._tasks:
            task.start()
        self._connect = partial(Wire, CLIENT, row, addresses, keys)
        self._ready = ready
        self._names = names
        self._answers = len(names) if row.answers == "each" else 1
        self._step = 0
        self.seconds: list[float] = []
        self.processor = 0.0

    def connect(self) -> None:
        self._ready.wait()
        self._wire = self._connect()
        for name in self._names:
            self._wire.connect(name)

    def run(self, steps: int, *, counts: bool) -> None:
        begun = process_time()
        for _ in range(steps):
            start = perf_counter()
            self._step += 1
            told = encode(RunStep(self._step, 1))
            for name in self._names:
                self._wire.send(name, told)
            self._wait(self._answers)
            if counts:
                self.seconds.append(perf_counter() - start)
        self.processor += process_time() - begun

    def _wait(self, count: int) -> list[Any]:
        answers: list[Any] = []
        while len(answers) < count:
            answers += [decode(frames[0]) for _, frames in self._wire.receive()]
        return answers

    def close(self) -> None:
        for name in self._names:
            self._wire.send(name, encode(Stop()))
        self.processor += sum(answer.seconds for answer in self._wait(len(self._names)))
        self.processor /= self._step
        for task in self._tasks:
            task.join()
        self._wire.close()


def main() -> None:
    """Print a table."""
    parser = arguments("Messages of a null step")
    parser.add_argument("--ps", type=int, default=16)
    parser.add_argument("--steps", type=int, default=200, help="of a row in one round")
    options = parser.parse_args()
    rows = [row for row in ROWS if options.only in row.name]
    ps, steps, rounds = options.ps, options.steps, options.rounds
    if options.smallest:
        ps, steps, rounds = 2, 2, 1
    with tempfile.TemporaryDirectory(prefix="ef-") as folder:
        clusters = []
        for i, row in enumerate(rows):
            place = Path(folder, str(i))
            place.mkdir()
            clusters.append(Cluster(row, ps, place, 21_000 + 50 * i))
        for cluster in clusters:
            cluster.connect()
        for cluster in clusters:
            cluster.run(steps // 4 + 1, counts=False)
        for _ in range(rounds):
            for cluster in clusters:
                cluster.run(steps, counts=True)
        for cluster in clusters:
            cluster.close()
    print(f"{ps} ps, 1 worker, 1 client, {4 * ps + 2} messages a step\n")
    print(
        "| row | median ms | p10 | p90 | of the first | processor ms |\n|---|---|---|---|---|---|"
    )
    first = statistics.median(clusters[0].seconds)
    for row, cluster in zip(rows, clusters, strict=True):
        times = np.array(cluster.seconds) * 1e3
        low, middle, high = np.percentile(times, [10, 50, 90])
        print(
            f"| {row.name} | {middle:.2f} | {low:.2f} | {high:.2f} | "
            f"{middle / first / 1e3:.2f} | {cluster.processor * 1e3:.2f} |"
        )


if __name__ == "__main__":
    main()
