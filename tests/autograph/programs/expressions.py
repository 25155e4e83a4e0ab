"""Expressions with branches: `and`, `or`, `not`, comparisons, `x if c else y`, comprehensions."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from tests.autograph.programs.program import row


def and_or_not(x, y):
    if x > 0 and (y > 0 or not x < 5):
        return x + y
    return x - y


def short_circuit(xs, i):
    if i < len(xs) and xs[i] > 0:
        return xs[i]
    return -1.0


def python_values_of_or(x, name):
    name = name or "none"
    return x * len(name) and x


def chained(x):
    if 0 < x <= 5:
        return x
    return -x


def ternary(x):
    y = x * 2 if x > 0 else -x
    return y + 1


def nested_ternary(x):
    return 1.0 if x > 1 else -1.0 if x < -1 else x


def comprehension(x, n):
    return [x * i if x > 0 else x for i in range(n) if i % 2]


def walrus(x):
    if (y := x * 2) > 3:
        return y
    return y - 1


def walrus_in_while(x):
    n = 0
    while (x := x / 2) > 1:
        n += 1
    return x, n


PROGRAMS = [
    row(and_or_not, ((1.0, 2.0), 3.0), ((1.0, -2.0), 3.0), ((6.0, -2.0), 4.0), ((-1.0, 2.0), -3.0),
        ops="cond"),
    row(short_circuit, (([1.0, 2.0], 1), 2.0), (([1.0, -2.0], 1), -1.0), (([1.0], 3), -1.0)),
    row(python_values_of_or, ((2.0, ""), 2.0), ((3.0, "ab"), 3.0)),
    row(chained, ((3.0,), 3.0), ((6.0,), -6.0), ((-1.0,), 1.0), ops="cond"),
    row(ternary, ((3.0,), 7.0), ((-3.0,), 4.0), ops="cond"),
    row(nested_ternary, ((3.0,), 1.0), ((-3.0,), -1.0), ((0.5,), 0.5), ops="cond"),
    row(comprehension, ((2.0, 4), [2.0, 6.0]), ((-2.0, 4), [-2.0, -2.0]), ops="cond"),
    row(walrus, ((2.0,), 4.0), ((1.0,), 1.0), ops="cond"),
    row(walrus_in_while, ((9.0,), (0.5625, 3)), ops="while_loop"),
]  # fmt: skip
