"""Draws in several threads: tickets are never shared, generators do not affect each other."""

from __future__ import annotations

import threading

import numpy as np

import eagerflow as ef


def in_threads(count, function) -> list:
    results = [None] * count

    def run(i) -> None:
        results[i] = function(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_no_ticket_is_given_twice() -> None:
    shared = ef.random.Generator(1)
    drawn = in_threads(8, lambda i: [tuple(shared.bits((2,)).tolist()) for _ in range(50)])
    got = [draw for thread in drawn for draw in thread]
    alone = ef.random.Generator(1)
    assert sorted(got) == sorted(tuple(alone.bits((2,)).tolist()) for _ in range(400))


def test_several_tickets_at_once_are_in_a_row() -> None:
    state = ef.random.Generator(1)._state
    firsts = sorted(t for ts in in_threads(4, lambda i: [state.reserve(10)[1] for _ in range(50)])
                    for t in ts)  # fmt: skip
    assert firsts == list(range(0, 2000, 10))


def test_generators_of_different_threads_do_not_disturb_each_other() -> None:
    size = 2**15 + 7  # more than one piece

    def draw(i):
        generator = ef.random.Generator(i)
        return [generator.normal((size,)).numpy() for _ in range(3)]

    for i, got in enumerate(in_threads(4, draw)):
        for a, b in zip(got, draw(i), strict=True):
            np.testing.assert_array_equal(a, b)
