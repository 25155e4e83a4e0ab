"""Programs with device scopes that exceptions, generators, threads and coroutines leave."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import eagerflow as ef
from tests.hardware.scope_programs.table import program, x


@program("0")
def an_exception_ends_a_scope(wrap):
    def f(a):
        with contextlib.suppress(KeyError), ef.device("cpu:1"):
            raise KeyError
        return a + ef.ones(3)

    return wrap(f)(x())


@program("1", "0>1")
def an_exception_passes_within(wrap):
    def f(a):
        with ef.device("cpu:1"):
            try:
                with ef.device("cpu:2"):
                    raise KeyError
            except KeyError:
                pass
            return a + ef.ones(3)

    return wrap(f)(x())


@program("0")
def returning_ends_a_scope(wrap):
    def inner():
        with ef.device("cpu:1"):
            return

    def f(a):
        inner()
        return a + ef.ones(3)

    return wrap(f)(x())


@program("1 1 1 0", "0>1")
def a_generator_keeps_its_scope_to_itself(wrap):
    def multiples(a):
        with ef.device("cpu:1"):
            for i in range(3):
                yield a * (i + 1)

    def f(a):
        results = []
        for b in multiples(a):
            results.append(b)
            last = ef.ones(2)
        return [*results, last]

    return wrap(f)(x())


@program("1 0 0", "0>1 1>0")
def a_generator_that_is_left_early(wrap):
    def multiples(a):
        with ef.device("cpu:1"):
            for i in range(3):
                yield a * (i + 1)

    def f(a):
        for b in multiples(a):
            inside = ef.ones(2) + b[:2].to("cpu:0") * 0
            break
        return b, inside, ef.ones(2) + a[:2]

    return wrap(f)(x())


@program("1 2 1 2 0", "0>1 0>2")
def generators_side_by_side(wrap):
    def multiples(a, name):
        with ef.device(name):
            for i in range(2):
                yield a * (i + 1)

    def f(a):
        results = []
        for pair in zip(multiples(a, "cpu:1"), multiples(a, "cpu:2"), strict=True):
            results += pair
        return [*results, ef.ones(2)]

    return wrap(f)(x())


@program("1 2 1", "0>1 0>2")
def a_generator_within_another_scope(wrap):
    def multiples(a):
        with ef.device("cpu:1"):
            yield a * 2
            yield a * 3

    def f(a):
        every = multiples(a)
        first = next(every)
        with ef.device("cpu:2"):
            return first, a + 1, next(every)

    return wrap(f)(x())


@program("1", "0>1")
def a_context_manager_of_ones_own(wrap):
    @contextlib.contextmanager
    def elsewhere():
        with ef.device("cpu:1"):
            yield

    def f(a):
        with elsewhere():
            return a * 2

    return wrap(f)(x())


@program("2 1 0", "0>2 0>1")
def scopes_that_end_in_another_order(wrap):
    first, second = ef.device("cpu:1"), ef.device("cpu:2")

    def f(a):
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        b = a * 2
        second.__exit__(None, None, None)
        with first:
            c = a * 3
        return b, c, a + 1

    return wrap(f)(x())


@program("1 0 1", "0>1")
def a_thread_starts_without(wrap):
    f = wrap(lambda a: a * 2)
    results = []
    with ef.device("cpu:1"):
        results.append(f(x()))
        thread = threading.Thread(target=lambda: results.append(f(x())))
        thread.start()
        thread.join()
        results.append(ef.ones(2))
    return results


@program("1", "0>1")
def a_thread_has_scopes_of_its_own(wrap):
    f = wrap(lambda a: a * 2)
    results = []

    def work():
        with ef.device("cpu:1"):
            results.append(f(x()))

    with ef.device("cpu:2"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return results


@program("1 2 0", "0>1 0>2")
def tasks_have_scopes_of_their_own(wrap):
    f = wrap(lambda a: a * 2)

    async def compute(name):
        with ef.device(name):
            await asyncio.sleep(0)
            return f(x())

    async def main():
        return await asyncio.gather(compute("cpu:1"), compute("cpu:2"))

    return [*asyncio.run(main()), ef.ones(2)]


@program("0", "0>1 1>0")
def a_spawned_runner_keeps_the_scope(wrap):
    inputs, outputs = ef.Queue(2, "f32[3]"), ef.Queue(2, "f32[3]")
    step = wrap(lambda: outputs.enqueue(inputs.dequeue() * 2))
    with ef.device("cpu:1"):
        runner = ef.spawn(step)
    with runner:
        inputs.enqueue(x())
        return outputs.dequeue()
