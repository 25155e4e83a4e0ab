"""Each statement of Python on tensors, traced: the result of the eager run, or an error."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import contextlib

import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError
from tests.autograph.checks import check_error, check_same
from tests.messages import says

# --- statements --------------------------------------------------------------------------------


def while_else(x, limit):
    while x < 10:
        x = x * 2
        if x > limit:
            break
    else:
        x = -x
    return x


def for_else(xs):
    value = xs[0]
    for x in xs:
        if x > 2:
            value = x
            break
    else:
        value = value * 0
    return value


def for_else_binds(xs):
    for x in xs:
        if x > 2:  # here
            value = x
            break
    else:
        value = xs[0]
    return value


def deleted_in_a_branch(x):
    y = x * 2
    if x > 0:
        del y  # deleted
    return y


def deleted_and_bound_again(x):
    y = x * 2
    if x > 0:
        del y
        y = x
    return y


def walrus(x):
    if (y := x * 2) > 3:
        return y
    while (y := y + 1) < 3:
        x = x + y
    return x + y


def walrus_behind_and(x):
    y = x
    if x > 0 and (y := x * 2) > 3:
        x = x + y
    return x + y


def walrus_behind_and_unbound(x):
    if x > 0 and (y := x * 2) > 3:  # here
        return y
    return x


def star_assignments(xs, x):
    a, *b = xs
    if x > 0:
        a, *b = b[0], a, *b[1:]
    return a, b


def items_and_attributes(x):
    class Box:
        total = ef.zeros(())

    box, table, values = Box(), {"n": x}, [x, x]
    if x > 0:
        box.total += x
        table["n"] *= 2
        values[1] -= x
    return box.total, table["n"], values


_count = 0.0


def global_stores(x):
    global _count
    _count = x * 0
    while x > 1:
        _count = _count + 1
        x = x / 2
    return _count * 1


def nonlocal_stores(xs):
    best = xs[0]

    def look(x):
        nonlocal best
        if x > best:
            best = x

    for x in xs:
        look(x)
    return best


def with_and_break(xs):
    total = ef.zeros(())
    for x in xs:
        with contextlib.nullcontext(x) as y:
            if y < 0:
                break
            total = total + y
    return total


def try_and_return(xs):
    y = xs[0]
    for x in xs:
        try:
            if x > 1:
                return x
            y = {"a": x}["a"]
        except KeyError:
            y = -x
        finally:
            xs = xs + 1
    return xs[0] + y


def raised_after_a_return(x):
    try:
        if x > 1:
            return x
        y = {"a": x}["b"]  # here
    except KeyError:
        y = -x
    return y


def raised_and_caught(x):
    try:
        if x > 0:
            raise ValueError("positive")  # here
    except ValueError:
        return -x
    return x


def asserted_and_caught(x):
    try:
        assert x < 0, "positive"  # here
    except AssertionError:
        return -x
    return x


def trace_errors_are_not_caught(x):
    try:
        return x * float(x)  # here
    except Exception:
        return x


def broad_handlers_and_loops(x):
    try:
        ys = []
        while x > 1:
            x = x / 2
            if x > 2:
                ys.append(x)
    except Exception:
        return x
    return ef.stack(ys), len(ys)


def matched(x):
    match x:
        case 1.0:  # here
            return x
    return -x


def matched_python(x, kind):
    match kind:
        case {"op": "scale", "by": by} if by > 1:
            y = x * by
        case [first, *_]:
            y = x + first
        case _:
            return x if x > 0 else -x
    while y > 10:
        y = y / 2
    return y


def class_body(x):
    class Box:
        if x > 0:  # here
            y = 1

    return Box.y * x


class _Box:
    def __init__(self, x):
        self.x = x

    @property
    def magnitude(self):
        return self.x if self.x > 0 else -self.x  # here


def property_that_branches(x):
    return _Box(x).magnitude


def nested_generator(x):
    def items():
        if x > 0:  # here
            yield x

    return next(items())


def endless_recursion(x):
    if x > 1:  # here
        return x * endless_recursion(x - 1)
    return x


def counted_recursion(x, n):
    if n == 0:
        return x
    return counted_recursion(x * 2 if x < 4 else x - 1, n - 1)


def read_before_it_is_bound(xs):
    for x in xs:
        if x > 0:
            y = x  # bound
        else:
            y = y + 1  # here
    return y


def constant_of_init(x):
    weights = [1.0, 2.0, 3.0]

    def body(x, n):
        for i in range(n):
            x = x + weights[i]
        return x, n

    return ef.while_loop(lambda x, n: x < 10, body, (x, 3))


def not_constant_of_init(x):
    weights = [1.0, 2.0, 3.0]

    def body(x, n):
        for i in range(n):
            x = x + weights[i]  # here
        return x, n - 1

    return ef.while_loop(lambda x, n: n > 0, body, (x, 3))


V = [1.0, -2.0, 3.0]
W = [-1.0, -2.0]

EQUAL = [
    (while_else, [(1.0, 100.0), (1.0, 5.0), (20.0, 1.0)]),
    (for_else, [(V,), (W,)]),
    (deleted_and_bound_again, [(1.0,), (-1.0,)]),
    (walrus, [(2.0,), (0.5,), (-3.0,)]),
    (walrus_behind_and, [(2.0,), (1.0,), (-3.0,)]),
    (star_assignments, [(V, 1.0), (V, -1.0)]),
    (items_and_attributes, [(1.0,), (-1.0,)]),
    (global_stores, [(9.0,), (0.5,)]),
    (nonlocal_stores, [(V,), (W,)]),
    (with_and_break, [(V,), ([1.0, 2.0],)]),
    (try_and_return, [(V,), (W,)]),
    (broad_handlers_and_loops, [(20.0,), (9.0,)]),
    (matched_python, [(3.0, {"op": "scale", "by": 5}), (3.0, [1, 2]), (-3.0, None)]),
    (counted_recursion, [(1.0, 4), (5.0, 2)]),
    (constant_of_init, [(1.0,), (20.0,)]),
]

ERRORS = [
    (deleted_in_a_branch, (1.0,), ["y is deleted in only one branch", "set it"]),
    (walrus_behind_and_unbound, (1.0,), ["y is bound in only one branch", "# here", "bind it"]),
    (raised_and_caught, (1.0,), ["raised under a condition", "# here", "except ValueError"]),
    (asserted_and_caught, (1.0,), ["raised under a condition", "# here", "except AssertionError"]),
    (trace_errors_are_not_caught, (1.0,), ["float() of a tensor", "# here"]),
    (matched, (1.0,), ["bool()", "# here", "match", "ef.where(condition"]),
    (class_body, (1.0,), ["bool()", "# here", "class body"]),
    (property_that_branches, (1.0,), ["bool()", "# here", "a property"]),
    (nested_generator, (1.0,), ["because it is a generator", "# here"]),
    (endless_recursion, (1.0,), ["calls itself under a condition", "# here", "a loop"]),
    (for_else_binds, (V,), ["value is bound in only one branch", "value = x", "# here"]),
    (raised_after_a_return, (1.0,), ["raised under a condition", "# here", "except KeyError"]),
    (read_before_it_is_bound, (V,), ["y is read where it may not be bound", "# here", "# bound"]),
    (not_constant_of_init, (1.0,), ["known only when the graph runs", "# here"]),
]


@pytest.mark.parametrize(("function", "calls"), EQUAL, ids=lambda x: getattr(x, "__name__", ""))
def test_traced_is_eager(function, calls) -> None:
    check_same(function, calls)


@pytest.mark.parametrize(
    ("function", "args", "words"), ERRORS, ids=lambda x: getattr(x, "__name__", "")
)
def test_error(function, args, words) -> None:
    check_error(function, args, words)


def test_generators_and_coroutines_are_refused() -> None:
    def generator(x):
        yield x

    async def coroutine(x):
        return x

    for function, word in ((generator, "generator"), (coroutine, "coroutine")):
        with pytest.raises(EagerflowError, check=says(word)):
            ef.trace(function)(ef.tensor(1.0))


def test_a_variable_may_have_the_name_of_what_counts_iterations() -> None:
    def counted(x, n):
        iteration = x[0] * 0.0
        for i in range(n):
            iteration = iteration + x[i] * i
        return iteration

    check_same(counted, [(ef.tensor([1.0, 2.0, 3.0]), ef.tensor(3))])
