"""`if` in all forms."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from tests.autograph.programs.program import row


def if_else(x):
    if x > 0:
        y = x * 2
    else:
        y = x - 1
    return y


def if_elif_else(x):
    if x > 10:
        y = x
    elif x > 0:
        y = x * 2
    elif x > -10:
        y = x * 3
    else:
        y = x * 4
    return y


def if_alone(x):
    y = x + 1
    if y > 0:
        y = y * y
    return y


def nested_if(x, y):
    if x > 0:
        if y > 0:
            z = x + y
        else:
            z = x - y
    else:
        z = y
        if y > 5:
            z = z * 2
    return z


def early_return(x):
    if x > 2:
        return x
    y = x + 1
    if y > 0:
        return y * 2
    return -y


def return_in_both(x):
    if x > 0:
        return x
    else:
        return -x


def returns_nested(x, y):
    if x > 0:
        if y > 0:
            return x * y
        x = x + 10
    x = x + 1
    return x


def several_values(x):
    a, b = x, x + 1
    if a > 1:
        a, b = b, a
    return a, b


def python_test(x, n):
    if n > 3:
        return x
    if not n:
        return -x
    return x * n


def temporaries_of_other_types(x):
    if x > 0:
        t = 1
        y = x + t
    else:
        t = "text"
        y = x * len(t)
    return y


def augmented(x):
    y = x + 0
    if x > 0:
        y += 5
    y *= 2
    return y


def with_none(x, bias):
    if bias is not None:
        x = x + bias
    if x > 0:
        return x
    return -x


PROGRAMS = [
    row(if_else, ((1.0,), 2.0), ((-1.0,), -2.0), ops="cond"),
    row(if_elif_else, ((20.0,), 20.0), ((1.0,), 2.0), ((-1.0,), -3.0), ((-20.0,), -80.0),
        ops="cond"),
    row(if_alone, ((1.0,), 4.0), ((-3.0,), -2.0), ops="cond"),
    row(nested_if, ((1.0, 2.0), 3.0), ((1.0, -2.0), 3.0), ((-1.0, 2.0), 2.0), ((-1.0, 6.0), 12.0),
        ops="cond"),
    row(early_return, ((3.0,), 3.0), ((1.0,), 4.0), ((-4.0,), 3.0), ops="cond"),
    row(return_in_both, ((3.0,), 3.0), ((-3.0,), 3.0), ops="cond"),
    row(returns_nested, ((2.0, 3.0), 6.0), ((2.0, -3.0), 13.0), ((-2.0, 3.0), -1.0), ops="cond"),
    row(several_values, ((3.0,), (4.0, 3.0)), ((0.0,), (0.0, 1.0)), ops="cond"),
    row(python_test, ((3.0, 4), 3.0), ((3.0, 0), -3.0), ((3.0, 2), 6.0)),
    row(temporaries_of_other_types, ((3.0,), 4.0), ((-3.0,), -12.0), ops="cond"),
    row(augmented, ((3.0,), 16.0), ((-3.0,), -6.0), ops="cond"),
    row(with_none, ((3.0, None), 3.0), ((-3.0, 1.0), 2.0), ops="cond"),
]  # fmt: skip
