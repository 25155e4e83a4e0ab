"""A client that trains on tasks that come and go, and checks each result to the last bit.

Beside the model at the tasks it has a local copy. A step that ends well gives the copy's loss, bit
for bit; a step that fails is reported in time. Then the model at the tasks is restored from the
copy, as from a checkpoint, over a new connection if a task was lost.

Run as ``python -m tests.cluster.chaos.training FILE SEED SECONDS``; it prints a line when it is
ready, waits for a line, and prints its results as a line of JSON.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import warnings
from collections import Counter
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final

import numpy as np
import psutil

import eagerflow as ef
from eagerflow.errors import ClusterWarning, EagerflowError
from eagerflow.runtime.threads.workers import shared

#: deadline of a step in seconds, and seconds after it within which the step has ended everywhere
DEADLINE: Final = 6.0
ENDED: Final = 4.0
#: seconds within which a connection is made or refused: clients wait 30 for a greeting
CONNECTED: Final = 40.0
_ROWS: Final = 64


class WrongNumberError(Exception):
    """A step that ended well, with a wrong result."""


def _model(devices: list[str], seed: int) -> tuple[list[ef.Variable], Any]:
    draw = np.random.default_rng(seed)
    first = [draw.standard_normal((8, 16)), draw.standard_normal((16, 1))]
    weights = [
        ef.Variable(value.astype(np.float32), device=device)
        for value, device in zip(first, devices[:2], strict=True)
    ]
    worker = devices[2]

    @ef.trace
    def step(x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
        with ef.device(worker):
            a, b = weights[0].value.to(worker), weights[1].value.to(worker)
            hidden = ef.tanh(x @ a)
            error = hidden @ b - y
            loss = (error * error).mean()
            back = error * (2.0 / _ROWS)
            to_b = hidden.T @ back
            to_a = x.T @ ((back @ b.T) * (1.0 - hidden * hidden))
        weights[0].assign_sub(to_a.to(devices[0]) * 0.05)
        weights[1].assign_sub(to_b.to(devices[1]) * 0.05)
        return loss

    return weights, step


class Client:
    """A client that trains until a given time.

    Args:
        file: its connection file.
        seed: seed of its data.
        ends: time at which it stops.

    Attributes:
        ends: as given.
        counts: numbers of events by kind.
        errors: numbers of errors of steps and connections, by text.
        longest: the longest time until a failure was reported, in seconds.
    """

    def __init__(self, file: str, seed: int, ends: float) -> None:
        self._file = file
        self.ends = ends
        self._draw = np.random.default_rng(seed)
        self._seed = seed
        self.counts: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.longest = 0.0
        self._own, self._own_step = _model(["cpu:0"] * 3, seed)

    def train(self) -> None:
        """Connect and train, again and again."""
        while monotonic() < self.ends:
            begun = monotonic()
            try:
                cluster = ef.cluster.connect(self._file)
            except EagerflowError as error:
                self._failed("connect", error, begun, CONNECTED)
                sleep(0.2)
                continue
            self.counts["connections"] += 1
            with cluster:
                self._train_on(cluster, devices_of(self._seed, list(cluster.tasks)))

    def _train_on(self, cluster: ef.cluster.Cluster, devices: list[str]) -> None:
        begun = monotonic()
        try:
            with ef.deadline(DEADLINE):
                weights, step = _model(devices, self._seed)
        except EagerflowError as error:
            self._failed("variables", error, begun, 2 * (DEADLINE + ENDED))
            return
        fresh = False
        while monotonic() < self.ends and "lost" not in repr(cluster):
            begun = monotonic()
            try:
                with ef.deadline(DEADLINE):
                    if not fresh:
                        for there, here in zip(weights, self._own, strict=True):
                            there.assign(here.value.to(there.device))
                        for there, here in zip(weights, self._own, strict=True):
                            _same("a variable", there.numpy(), here.numpy())
                    fresh = False
                    self._step(step)
                    fresh = True
            except EagerflowError as error:
                self._failed("step", error, begun, DEADLINE + ENDED)

    def _step(self, step: Any) -> None:
        x = self._draw.standard_normal((_ROWS, 8)).astype(np.float32)
        y = x.sum(1, keepdims=True)
        loss = step(ef.tensor(x), ef.tensor(y)).numpy()
        self.counts["steps"] += 1
        _same("a loss", loss, self._own_step(ef.tensor(x), ef.tensor(y)).numpy())

    def _failed(self, what: str, error: EagerflowError, begun: float, limit: float) -> None:
        seconds = monotonic() - begun
        self.longest = max(self.longest, seconds)
        self.counts[f"{what} failed"] += 1
        self.errors[f"{what}: {type(error).__name__}: {error.wrong[:90]}"] += 1
        if seconds > limit:
            self.counts["late"] += 1
            self.errors[f"{what} took {seconds:.1f} s"] += 1


def devices_of(seed: int, tasks: list[str]) -> list[str]:
    """The devices of both variables and of the computation: each client has its own worker."""
    workers = [task for task in tasks if task.startswith("worker")]
    servers = [task for task in tasks if task.startswith("ps")]
    return [servers[0], servers[-1], workers[seed % len(workers)]]


def _same(what: str, got: Any, wanted: Any) -> None:
    if got.tobytes() != wanted.tobytes():
        raise WrongNumberError(f"{what} is {got!r}, not {wanted!r}")


def _held(process: psutil.Process) -> dict[str, int]:
    """Numbers of open descriptors of each kind, and of threads, of a process.

    Threads of the pool are idle for some seconds before they end.
    """
    shared.close()
    kinds: Counter[str] = Counter(threads=process.num_threads())
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of the directory listing itself
            kinds[os.readlink(f"/proc/self/fd/{descriptor}").partition(":[")[0]] += 1
    return kinds


def main(file: str, seed: int, seconds: float) -> None:
    """Train, and print counts, errors and leaks."""
    warnings.simplefilter("ignore", ClusterWarning)
    process = psutil.Process()
    Client(file, seed, monotonic() + 1.0).train()  # opens what is opened once only
    client = Client(file, seed, monotonic() + seconds)
    gc.collect()
    before = _held(process)
    print("ready", flush=True)
    sys.stdin.readline()
    client.ends = monotonic() + seconds
    wrong = ""
    try:
        client.train()
    except WrongNumberError as error:
        wrong = str(error)
    gc.collect()
    sleep(0.5)
    told = {
        **client.counts, "wrong": wrong, "longest": round(client.longest, 2), "before": before,
        "after": _held(process), "errors": client.errors,
    }  # fmt: skip
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
