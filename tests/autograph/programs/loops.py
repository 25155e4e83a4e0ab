"""`while` and `for` in all forms."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from tests.autograph.programs.program import row


def while_loop(x):
    n = 0
    while x > 1:
        x = x / 2
        n += 1
    return x, n


def while_break(x):
    n = 0
    while n < 10:
        x = x * 2
        if x > 50:
            break
        n += 1
    return x, n


def while_continue(x):
    total = x * 0
    while x > 0:
        x = x - 1
        if x > 3:
            continue
        total = total + x
    return total


def while_else(x):
    while x < 10:
        x = x * 3
        if x > 20:
            break
    else:
        x = -x
    return x


def while_true(x):
    n = 0
    while True:
        n += 1
        x = x * 1.5
        if x > 100:
            return x, n


def for_rows(xs):
    total = 0.0
    for x in xs:
        total = total + x * x
    return total


def for_range(x, n):
    for i in range(n):
        if x > 5:
            x = x - i
        else:
            x = x * 2
    return x


def for_range_of_size(xs):
    total = xs[0] * 0
    for i in range(len(xs)):
        total = total + i * xs[i]
    return total


def for_break_continue(xs):
    total = 0.0
    for x in xs:
        if x < 0:
            continue
        if x > 10:
            break
        total = total + x
    return total


def for_return(xs):
    for x in xs:
        if x > 3:
            return x
    return -1.0


def for_else(xs):
    value = 0.0
    for x in xs:
        if x > 3:
            value = x
            break
    else:
        value = -5.0
    return value


def nested_loops(xs):
    total = 0.0
    for x in xs:
        y = x
        while y < 10:
            if y < 0:
                break
            y = y * 2
        total = total + y
    return total


def for_zip(xs, ys):
    total = 0.0
    for x, y in zip(xs, ys):
        if x > y:
            total = total + x * y
    return total


def for_enumerate(xs):
    total = 0.0
    for i, x in enumerate(xs, 1):
        total = total + i * x
    return total


def for_nested_targets(xs, ys):
    total = 0.0
    for i, (x, y) in enumerate(zip(xs, reversed(ys))):
        total = total + (x - y) * (i + 1)
    return total


def break_out_of_a_range(x):
    for i in range(100):
        if x > 1000:
            break
        x = x * 2 + i
    return x


def break_out_of_a_list(x):
    for factor in [2, 3, 5, 7]:
        x = x * factor
        if x > 20:
            break
    return x


def append_in_a_loop(xs):
    sums = []
    total = 0.0
    for x in xs:
        total = total + x
        sums.append(total)
    return sums


def bound_in_the_body(xs):
    for x in xs:
        last = x * 2
    return last


PROGRAMS = [
    row(while_loop, ((100.0,), (0.78125, 7)), ((0.5,), (0.5, 0)), ops="while_loop"),
    row(while_break, ((1.0,), (64.0, 5)), ((0.001,), (1.024, 10)), ops="while_loop cond"),
    row(while_continue, ((6.0,), 6.0), ((-1.0,), 0.0), ops="while_loop cond"),
    row(while_else, ((1.0,), 27.0), ((4.0,), -12.0), ops="while_loop cond"),
    row(while_true, ((1.0,), (129.746337890625, 12)), ops="while_loop cond"),
    row(for_rows, (([1.0, 2.0, 3.0],), 14.0), ops="scan"),
    row(for_range, ((1.0, 4), 5.0), ((7.0, 2), 6.0), ops="cond"),
    row(for_range_of_size, (([1.0, 2.0, 3.0],), 8.0)),
    row(for_break_continue, (([1.0, -2.0, 3.0, 11.0, 4.0],), 4.0), (([1.0],), 1.0),
        ops="while_loop cond"),
    row(for_return, (([1.0, 5.0, 7.0],), 5.0), (([1.0],), -1.0), ops="while_loop cond"),
    row(for_else, (([1.0, 5.0, 7.0],), 5.0), (([1.0, 2.0],), -5.0), ops="while_loop cond"),
    row(nested_loops, (([1.0, -3.0, 12.0],), 25.0), ops="scan while_loop cond"),
    row(for_zip, (([3.0, 1.0, 5.0], [2.0, 2.0, 2.0]), 16.0), ops="scan cond"),
    row(for_enumerate, (([3.0, 1.0, 5.0],), 20.0), ops="scan"),
    row(for_nested_targets, (([3.0, 1.0, 5.0], [1.0, 2.0, 4.0]), 9.0), ops="scan"),
    row(break_out_of_a_range, ((1.0,), 1014.0), ((2000.0,), 2000.0), ops="while_loop cond"),
    row(break_out_of_a_list, ((1.0,), 30.0), ((0.01,), 2.1), ((15.0,), 30.0), ops="cond"),
    row(append_in_a_loop, (([1.0, 2.0, 3.0],), [1.0, 3.0, 6.0]), ops="scan"),
    row(bound_in_the_body, (([1.0, 2.0],), 4.0), ops="scan"),
]  # fmt: skip
