"""Differentiation in several threads at a time: each thread has its own interpreters."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import eagerflow as ef

THREADS = 4


def together(work) -> list:
    """The results of ``work(i)`` in threads that start at the same time."""
    barrier = threading.Barrier(THREADS)

    def run(i: int):
        barrier.wait()
        return work(i)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_an_op_of_one_thread_never_lands_on_the_tape_of_another() -> None:
    x = ef.tensor([1.0, 2.0])
    entered, done = threading.Event(), threading.Event()
    result = {}

    def other() -> None:
        entered.wait()
        result["y"] = x * x  # while the main thread's tape watches x
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with ef.GradientTape(persistent=True) as tape:
        tape.watch(x)
        entered.set()
        done.wait()
        z = x * 3
    thread.join()
    assert tape.gradient(result["y"], x) is None
    np.testing.assert_array_equal(tape.gradient(z, x).numpy(), [3, 3])


def test_threads_watch_one_tensor() -> None:
    x, v = ef.tensor([1.0, 2.0]), ef.Variable([3.0, 4.0])

    def work(i: int) -> list:
        gradients = []
        for _ in range(50):
            with ef.GradientTape() as tape:
                tape.watch(x)
                y = (x * x * (i + 1.0) * v).sum()
            gradients.append([g.numpy() for g in tape.gradient(y, (x, v))])
        return gradients

    for i, gradients in enumerate(together(work)):
        for gx, gv in gradients:
            np.testing.assert_array_equal(gx, [6.0 * (i + 1), 16.0 * (i + 1)])
            np.testing.assert_array_equal(gv, [1.0 * (i + 1), 4.0 * (i + 1)])


def test_transforms_in_threads() -> None:
    x = ef.tensor([0.5, 1.0, 1.5], dtype=ef.float64)

    def f(x):
        return (ef.remat(ef.sin)(x) * x).sum()

    want = [ef.grad(f)(x).numpy(), ef.hessian(f)(x).numpy(), float(ef.jvp(f, (x,), (x,))[1])]

    def work(i: int) -> None:
        for _ in range(20):
            np.testing.assert_array_equal(ef.grad(f)(x).numpy(), want[0])
            np.testing.assert_array_equal(ef.hessian(f)(x).numpy(), want[1])
            assert float(ef.jvp(f, (x,), (x,))[1]) == want[2]

    together(work)


def test_a_tape_may_be_used_in_another_thread() -> None:
    x = ef.tensor(3.0)
    with ef.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with ThreadPoolExecutor(1) as pool:
        assert float(pool.submit(tape.gradient, y, x).result()) == 6.0
