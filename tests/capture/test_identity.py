"""State outside of a traced function whose values move, are aliases, or have a derivative."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import eagerflow as ef


def swapped_numbers(wrap):
    o, x = SimpleNamespace(a=1.0, b=2.0), ef.tensor([1.0, 2.0])

    def f(x):
        o.a, o.b = o.b, o.a
        return x * o.a

    f = wrap(f)
    return [(f(x).tolist(), o.a, o.b) for _ in range(4)]


def fibonacci(wrap):
    o, x = SimpleNamespace(a=1.0, b=1.0), ef.tensor([1.0, 2.0])

    def f(x):
        o.a, o.b = o.b, o.a + o.b
        return x * o.a

    f = wrap(f)
    return [(f(x).tolist(), o.a, o.b) for _ in range(5)]


def running_window(wrap):
    losses, x = [1.0, 2.0, 3.0], ef.tensor([1.0, 2.0])

    def f(x, n):
        losses.append(n)
        losses.pop(0)
        return x * losses[0]

    f = wrap(f)
    return [(f(x, float(i)).tolist(), list(losses)) for i in range(5)]


def reversed_list(wrap):
    numbers, x = [3.0, 1.0, 2.0], ef.tensor([1.0, 2.0])

    def f(x):
        numbers.reverse()
        return x * numbers[0]

    f = wrap(f)
    return [(f(x).tolist(), list(numbers)) for _ in range(3)]


def two_places_become_one_tensor(wrap):
    o = SimpleNamespace(w=ef.tensor([1.0, 2.0]), v=ef.tensor([5.0, 6.0]))
    x = ef.tensor([1.0, 1.0])

    def f(x):
        o.w[0] = 9.0
        return x * o.v

    f = wrap(f)
    results = [f(x).tolist()]
    o.v = o.w
    o.w[0] = 3.0
    return [*results, f(x).tolist(), o.w.tolist()]


def gradient_after_an_update(wrap):
    a = ef.tensor([1.0, 2.0, 3.0])

    def f(x):
        x[0] = 4.0
        return (x * x).sum()

    f = wrap(f)
    with ef.GradientTape() as tape:
        tape.watch(a)
        y = f(a)
    return [g if g is None else g.tolist() for g in tape.gradient(y, [a])]


def none_where_nothing_depends(wrap):
    a, b = ef.tensor(1.0), ef.tensor(2.0)
    f = wrap(lambda x, y: (x * 2, y * 3))
    with ef.GradientTape() as tape:
        tape.watch(a)
        tape.watch(b)
        p, _ = f(a, b)
    return [g if g is None else g.tolist() for g in tape.gradient(p, [a, b])]


def one_tensor_twice(wrap):
    f = wrap(lambda a, b: a + 1 if a is b else a + 2)
    x, y = ef.tensor(1.0), ef.tensor(2.0)
    return [f(x, y).item(), f(x, y).item(), f(x, x).item(), f(x, y).item()]


class Loose:
    """Equal to others of another factor."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loose)

    def __hash__(self) -> int:
        return 1


def equal_objects(wrap):
    f = wrap(lambda x, one: x * one.factor)
    x = ef.tensor(1.0)
    return [f(x, Loose(2.0)).item(), f(x, Loose(3.0)).item()]


def keys_that_are_equal(wrap):
    f = wrap(lambda d: (next(iter(d)), d[1] * 2))
    x = ef.tensor(1.0)
    return [f({1: x})[0], f({True: x})[0]]


@pytest.mark.parametrize(
    "program",
    [
        keys_that_are_equal,
        swapped_numbers,
        fibonacci,
        running_window,
        reversed_list,
        two_places_become_one_tensor,
        gradient_after_an_update,
        none_where_nothing_depends,
        one_tensor_twice,
        equal_objects,
    ],
    ids=lambda program: program.__name__,
)
def test_traced_is_eager(program) -> None:
    assert repr(program(ef.trace)) == repr(program(lambda f: f))
