"""The null steps of `tests.bench.null_steps` by TensorFlow's task servers, which speak gRPC.

One process for each parameter server (``ps``) and worker, as there; the steps of a worker are run
by a session at that worker, each in a thread of the client, as the authors of TensorFlow ran them
(Abadi et al., OSDI 2016, Figure 6).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from time import perf_counter
from typing import Any, Final

import numpy as np

_ROWS: Final = 32
_WIDTH: Final = 64
_SERVER: Final = """
import json, sys
import tensorflow as tf
tasks, job, index = json.loads(sys.argv[1]), sys.argv[2], int(sys.argv[3])
server = tf.distribute.Server(tasks, job_name=job, task_index=index)
print("ready", flush=True)
sys.stdin.read()
"""
#: a graph's step by worker, with its variables' initialiser
Steps = tuple[list[Any], Any]


def _free_ports(count: int) -> list[int]:
    with ExitStack() as open_sockets:
        every = [open_sockets.enter_context(socket.create_server(("localhost", 0)))
                 for _ in range(count)]  # fmt: skip
        return [one.getsockname()[1] for one in every]


@contextmanager
def servers(ps: int, workers: int) -> Iterator[Mapping[str, Sequence[str]]]:
    """Task servers as processes; gives their addresses by job."""
    ports = iter(_free_ports(ps + workers))
    jobs = {"ps": ps, "worker": workers}
    tasks = {job: [f"localhost:{next(ports)}" for _ in range(n)] for job, n in jobs.items()}
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    with ExitStack() as processes:
        every = []
        for job, number in jobs.items():
            for i in range(number):
                command = [sys.executable, "-c", _SERVER, json.dumps(tasks), job, str(i)]
                process = subprocess.Popen(
                    command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )  # fmt: skip
                processes.callback(process.wait)
                processes.callback(process.kill)
                every.append(process)
        for process in every:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        yield tasks


def scalar(tf: Any, ps: int, workers: int) -> Steps:
    """As `tests.bench.null_steps.scalar_steps`."""
    weights, steps = [], []
    for i in range(ps):
        with tf.device(f"/job:ps/task:{i}"):
            weights.append(tf.compat.v1.Variable(1.0, use_resource=True))
    for worker in range(workers):
        reads = []
        for i, w in enumerate(weights):
            with tf.device(f"/job:ps/task:{i}"):
                reads.append(w * 1.0)
        with tf.device(f"/job:worker/task:{worker}"):
            total = tf.add_n(reads)
        updates = []
        for i, w in enumerate(weights):
            with tf.device(f"/job:ps/task:{i}"):
                updates.append(w.assign_sub(total * 0.0, read_value=False))
        with tf.control_dependencies(updates), tf.device(f"/job:worker/task:{worker}"):
            steps.append(tf.identity(total))
    return steps, tf.compat.v1.global_variables_initializer()


def dense(tf: Any, ps: int, workers: int, size: int) -> Steps:
    """As `tests.bench.null_steps.dense_steps`."""
    weights, steps = [], []
    for i in range(ps):
        with tf.device(f"/job:ps/task:{i}"):
            first = tf.ones(size // 4 // ps)
            weights.append(tf.compat.v1.Variable(first, use_resource=True))
    for worker in range(workers):
        with tf.device(f"/job:worker/task:{worker}"):
            steps.append(tf.add_n([tf.reduce_sum(w.read_value()) for w in weights]))
    return steps, tf.compat.v1.global_variables_initializer()


def sparse(tf: Any, ps: int, workers: int, rows: int) -> Steps:
    """As `tests.bench.null_steps.sparse_steps`; the rows are drawn at each ps."""
    tables, steps = [], []
    for i in range(ps):
        with tf.device(f"/job:ps/task:{i}"):
            first = tf.ones((rows, _WIDTH))
            tables.append(tf.compat.v1.Variable(first, use_resource=True))
    for worker in range(workers):
        taken, drawn = [], []
        for i, table in enumerate(tables):
            with tf.device(f"/job:ps/task:{i}"):
                which = tf.random.uniform((_ROWS,), 0, rows, tf.int32)
                drawn.append(which)
                taken.append(tf.gather(table, which))
        with tf.device(f"/job:worker/task:{worker}"):
            total = tf.add_n(taken)
        updates = []
        for i, (table, which) in enumerate(zip(tables, drawn, strict=True)):
            with tf.device(f"/job:ps/task:{i}"):
                change = tf.IndexedSlices(total * 0.0, which)
                updates.append(table.scatter_add(change).op)
        with tf.control_dependencies(updates), tf.device(f"/job:worker/task:{worker}"):
            steps.append(tf.reduce_sum(total))
    return steps, tf.compat.v1.global_variables_initializer()


def seconds_of(run: Callable[[], Any], count: int, want: float) -> list[float]:
    """Times of a worker's steps, whose results are checked."""
    seconds = []
    for _ in range(count):
        begin = perf_counter()
        total = run()
        seconds.append(perf_counter() - begin)
    assert total == want, (total, want)
    return seconds


def row(
    tf: Any, name: str, build: Callable[[], Steps], count: int, want: float,
    tasks: Mapping[str, Sequence[str]],
) -> None:  # fmt: skip
    """Print a row of the table."""
    with tf.Graph().as_default(), ExitStack() as sessions:
        steps, initialise = build()
        runs = []
        for worker, step in enumerate(steps):
            target = f"grpc://{tasks['worker'][worker]}"
            session = sessions.enter_context(tf.compat.v1.Session(target))
            if not worker:
                session.run(initialise)
            runs.append(session.make_callable(step))
        with ThreadPoolExecutor(len(runs)) as pool:
            list(pool.map(lambda run: seconds_of(run, 1 + count // 4, want), runs))
            every = list(pool.map(lambda run: seconds_of(run, count, want), runs))
    seconds = np.array(every).reshape(-1)
    low, middle, high = np.percentile(seconds * 1e3, [10, 50, 90])
    print(f"| {name} | {middle:.2f} | {low:.2f} | {high:.2f} |", flush=True)


def print_rows(ps: int, workers: int, steps: int, kinds: Sequence[str], size: int) -> None:
    """Print a table of null steps, those whose ``kinds`` are given; ``size`` is that of dense."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow as tf  # type: ignore[import-untyped]  # a peer without stubs

    with servers(ps, workers) as tasks:
        print(f"\nTensorFlow {tf.__version__}: {workers} workers, {ps} ps, gRPC\n")
        print("| null step | median ms | p10 | p90 |\n|---|---|---|---|")
        if "scalar" in kinds:
            row(tf, "scalar", partial(scalar, tf, ps, workers), steps, ps, tasks)
        if "dense" in kinds:
            build = partial(dense, tf, ps, workers, size)
            row(tf, "dense", build, 1 + steps // 20, size // 4 // ps * ps, tasks)
        if "sparse" in kinds:
            for rows in (1_000, 8_000, 64_000):
                build = partial(sparse, tf, ps, workers, rows)
                name = f"sparse, {rows:,} rows a ps"
                row(tf, name, build, steps, _ROWS * _WIDTH * ps, tasks)
