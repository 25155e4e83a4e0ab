"""Ends of loops: refusals of `range`, names read after a loop, reductions of no elements."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.autograph.checks import check_error

# --- names that are read after a loop ----------------------------------------------------------


def bound_before(x, n):
    i = -1
    for i in range(n):
        if x > 3:
            break
        x = x * (i + 1)
    else:
        x = -x
    return x, i


def one_iteration_for_sure(x, n):
    for i in range(4):
        x = x * (i + 1)
        if x > n:
            break
    return x, i


@pytest.mark.parametrize("function", [bound_before, one_iteration_for_sure])
def test_the_last_value_is_read(function) -> None:
    traced = ef.trace(function)
    for n in (0, 1, 2, 9):
        args = ef.tensor(1.0), ef.tensor(n)
        assert str(traced(*args)) == str(function(*args))


def bound_by_the_loop(x, n):
    for i in range(n):  # the loop
        x = x * (i + 1)
    return x, i


def broken_off(x, n):
    for i in range(n):  # the loop
        if x > 3:
            break
        x = x * 2
    return x, i


def printed(x, n):
    for _ in range(n):  # the loop
        x = x * 2
    print(_)
    return x


def enumerated(x, n):
    for i, j in enumerate(range(n)):  # the loop
        x = x + i
    return x + j


@pytest.mark.parametrize("function", [bound_by_the_loop, broken_off, printed, enumerated])
def test_a_name_of_a_loop_that_may_have_no_iteration(function) -> None:
    words = [
        "is bound only in a loop that may have no iteration",
        "# the loop",
        "before the loop: ",
    ]
    check_error(function, (ef.tensor(1.0), ef.tensor(3)), words)


# --- ranges ------------------------------------------------------------------------------------


def counted(n):
    c = 0
    for i in range(n):
        c += i
    return c


@pytest.mark.parametrize(
    "n", [ef.tensor(4.5), ef.tensor([1, 2]), ef.tensor(True), ef.tensor(3), 2.5], ids=str
)
def test_a_range_of_a_tensor(n) -> None:
    assert _outcome(ef.trace(counted), n) == _outcome(counted, n)


def of_a_changing_number(x):
    n = 0.5
    while x < 5:
        n += 1
        x = x + 1
    for _ in range(n):
        x = x + 1
    return x


def test_a_range_of_a_float_that_iterations_change() -> None:
    x = ef.tensor(1.0)
    assert _outcome(ef.trace(of_a_changing_number), x) == _outcome(of_a_changing_number, x)


def _outcome(function, *args):
    try:
        return str(function(*args))
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


# --- reductions of no elements -----------------------------------------------------------------


def greatest(xs):
    return max(xs)


def least(xs):
    return min(xs, key=lambda x: -x)


def greatest_of_some(xs):
    return max([x for x in xs if x > 0])


def least_of_some(xs):
    return min(x for x in xs if x > 0)


def with_a_default(xs):
    return max((x for x in xs if x > 0), default=ef.tensor(-1.0))


@pytest.mark.parametrize(
    "function", [greatest, least, greatest_of_some, least_of_some, with_a_default]
)
def test_reductions_of_nothing(function) -> None:
    traced = ef.trace(function)
    for values in ([2.0], [1.0, 5.0, 3.0], [-1.0, 3.0, 4.0, 2.0], [-1.0, -4.0], [-1.0] * 5, []):
        xs = ef.tensor(values, dtype=ef.float32)
        assert _outcome(traced, xs) == _outcome(function, xs)


# --- texts of errors ---------------------------------------------------------------------------


def test_a_slice_by_a_tensor_says_what_to_write() -> None:
    def cut(x, n):
        return x[:n]

    def masked(x, n):
        return x[ef.arange(x.shape[0]) < n]

    args = ef.tensor([1.0, 2.0, 3.0]), ef.tensor(2)
    check_error(cut, args, ["in the place of x[:n]", "ef.arange(x.shape[0]) < n: x[mask]"])
    assert str(ef.trace(masked)(*args)) == str(cut(*args))


def test_a_comprehension_that_is_returned_has_a_line() -> None:
    def kept(xs):
        return [x for x in xs if x > 0]  # returned

    limit = 0

    def kept_above(xs):  # with a variable from around it
        return [x for x in xs if x > limit]

    for function in (kept, kept_above):
        with pytest.raises(TraceError) as caught:
            ef.trace(function)(ef.tensor([1.0, -2.0]))
        assert caught.value.source.line >= function.__code__.co_firstlineno
