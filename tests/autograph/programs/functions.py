"""Callees: helpers, methods, closures, lambdas, partials, decorators, recursion."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import functools

from tests.autograph.programs.program import row


def _clip(x, low=0.0, *, high=10.0):
    if x < low:
        return low + x * 0
    if x > high:
        return high + x * 0
    return x


def helper(x):
    return _clip(x) + _clip(x, -5.0, high=5.0)


def nested_function(x):
    def double(y):
        if y > 0:
            return y * 2
        return y

    return double(x) + double(-x)


def closure_that_counts(xs):
    total = 0.0

    def add(x):
        nonlocal total
        if x > 0:
            total = total + x

    for x in xs:
        add(x)
    return total


class _Account:
    fee = 1.0

    def __init__(self, balance):
        self.balance = balance
        self.log = {"count": 0}

    def pay(self, amount):
        if amount > self.balance:
            self.log["count"] += 1
            return self.balance * 0
        self.balance = self.balance - amount - self.fee
        return amount

    def __call__(self, amount):
        return self.pay(amount) + self.pay(amount)


def methods_and_attributes(balance, amount):
    account = _Account(balance)
    paid = account(amount)
    return paid, account.balance, account.log["count"]


class _Bold(_Account):
    def pay(self, amount):
        if amount > 100:
            return amount
        return super().pay(amount)


def inherited(balance, amount):
    return _Bold(balance).pay(amount)


def lambdas(x):
    f, g = lambda y: y if y > 0 else -y, lambda y: y if y < 0 else -y
    return f(x), g(x)


def with_partial(x):
    return functools.partial(_clip, high=2.0)(x)


def _doubled(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@_doubled
def decorated(x):
    if x > 0:
        return x
    return -x


def defaults(x, factor=3, *rest, power=2, **options):
    if x > 0:
        return x * factor
    return x**power + len(rest) + len(options)


def _repeat(x, n):
    if n == 0:
        return x
    if x > 100:
        return x
    return _repeat(x * 3, n - 1)


def recursion(x, n):
    return _repeat(x, n)


def star_arguments(*xs):
    total = 0.0
    for x in xs:
        total = total + x if x > 0 else total
    return total


def generator(x, n):
    def powers(y):
        for _ in range(n):
            yield y
            y = y * y

    total = 0.0
    for y in powers(x):
        if y > 1:
            total = total + y
    return total


def class_in_a_function(x):
    class Scale:
        factor = 2 if x is not None else 1

        def apply(self, y):
            if y > 0:
                return y * self.factor
            return y

    return Scale().apply(x)


def functions_as_arguments(xs):
    return list(map(lambda x: x if x > 0 else -x, xs))


PROGRAMS = [
    row(helper, ((20.0,), 15.0), ((-2.0,), -2.0), ((-20.0,), -5.0), ops="cond"),
    row(nested_function, ((2.0,), 2.0), ((-3.0,), 3.0), ops="cond"),
    row(closure_that_counts, (([1.0, -2.0, 3.0],), 4.0), ops="scan cond"),
    row(methods_and_attributes, ((10.0, 3.0), (6.0, 2.0, 0)), ((5.0, 3.0), (3.0, 1.0, 1)),
        ops="cond"),
    row(inherited, ((10.0, 3.0), 3.0), ((10.0, 200.0), 200.0), ((10.0, 50.0), 0.0), ops="cond"),
    row(lambdas, ((2.0,), (2.0, -2.0)), ((-3.0,), (3.0, -3.0)), ops="cond"),
    row(with_partial, ((3.0,), 2.0), ((1.0,), 1.0), ops="cond"),
    row(decorated, ((3.0,), 6.0), ((-1.0,), 2.0), ops="cond"),
    row(defaults, ((3.0,), 9.0), ((-3.0, 1, 5, 6), 11.0), ops="cond"),
    row(recursion, ((1.0, 3), 27.0), ((60.0, 3), 180.0), ops="cond"),
    row(star_arguments, ((1.0,), 1.0)),
    row(generator, ((2.0, 3), 22.0), ((0.5, 3), 0.0), ops="cond"),
    row(class_in_a_function, ((3.0,), 6.0), ((-3.0,), -3.0), ops="cond"),
    row(functions_as_arguments, (([1.0, -2.0],), [1.0, 2.0]), ops="cond"),
]  # fmt: skip
