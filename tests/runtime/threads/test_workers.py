"""The thread pool."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from eagerflow.runtime.threads.workers import Workers


def test_jobs_run_at_once() -> None:
    pool, both = Workers(), threading.Barrier(3, timeout=30)
    for _ in range(2):
        pool.submit(both.wait)
    both.wait()
    assert len(pool) == 2
    pool.close()
    assert len(pool) == 0


def test_threads_have_names() -> None:
    pool = Workers()
    names: set[str] = set()
    for _ in range(20):
        done = threading.Event()

        def job(done: threading.Event = done) -> None:
            names.add(threading.current_thread().name)
            done.set()

        pool.submit(job)
        assert done.wait(30)
    pool.close()
    assert names <= {f"eagerflow-worker-{i}" for i in range(1, 21)}


def test_idle_threads_end() -> None:
    pool = Workers(idle=0.001)
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(30)
    for thread in list(pool._threads):
        thread.join(30)
    assert len(pool) == 0


def test_after_it_was_closed_more_can_be_given() -> None:
    pool = Workers()
    pool.close()
    done = threading.Event()
    pool.submit(done.set)
    assert done.wait(30)
    pool.close()


def test_so_many_threads_at_most() -> None:
    pool, go = Workers(), threading.Event()
    assert pool.submit(lambda: go.wait(30), 1)
    assert not pool.submit(go.set, 1)
    assert len(pool) == 1
    assert pool.submit(go.set, 2)
    pool.close()
    assert go.is_set()


def test_an_error_is_told_and_the_thread_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: told.append(args.exc_value))
    pool, done, ident = Workers(most=lambda: 1), threading.Event(), list[int]()

    def fail() -> None:
        ident.append(threading.get_ident())
        raise RuntimeError("as planned")

    pool.submit(fail)
    pool.submit(lambda: (ident.append(threading.get_ident()), done.set()))
    assert done.wait(30)
    pool.close()
    assert ident[0] == ident[1]
    assert [str(e) for e in told] == ["as planned"]
