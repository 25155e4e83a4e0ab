"""Other statements around control flow: `match`, `try`, `with`, `global`, `assert`, `del`."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from contextlib import contextmanager

from tests.autograph.programs.program import row

_level = 0


def with_match(x, mode):
    match mode:
        case "double" if x is not None:
            if x > 0:
                return x * 2
        case ["add", n]:
            x = x + n
        case _:
            return -x
    return x


def try_finally(x):
    steps = []
    try:
        if x > 0:
            return x
        x = x - 1
    finally:
        steps.append("done")
    return x * len(steps)


def try_except(x, key):
    table = {"a": 2.0}
    try:
        factor = table[key]
    except KeyError:
        factor = -1.0
        if x > 5:
            factor = 0.0
    else:
        x = x + 1
    return x * factor


@contextmanager
def _raised(amount):
    global _level
    _level += amount
    try:
        yield _level
    finally:
        _level -= amount


def with_block(x):
    with _raised(2) as level:
        if x > 0:
            return x * level
        x = x - level
    return x * _level - 1


def returns_of_a_loop_in_with(x):
    with _raised(2):
        while x > 1:
            x = x / 2
            if x < 3:
                return x
        return x - 1


def returns_of_a_loop_in_try(xs, limit):
    count = 0
    try:
        for x in xs:
            if x > limit:
                return x * 2, count
            count += 1
        if limit > 50:
            return xs[0], -1
        return xs[1], -2
    finally:
        count = 0


def with_global(x):
    global _level
    before = _level
    _level = 3
    if x > 0:
        y = x * _level
    else:
        y = x
    _level = before
    return y


def assertion(x):
    assert x > -100, "too small"
    assert isinstance(x, object)
    if x > 0:
        return x
    return -x


def with_del(x):
    t = x * 2
    if t > 0:
        y = t
    else:
        y = -t
    del t
    return y


def annotated(x: float) -> float:
    y: float
    if x > 0:
        y: float = x * 2
    else:
        y = x
    return y


def imports(x):
    if x is not None:
        import math

        y = math.floor(2.5) * x
    if y > 0:
        return y
    return -y


def unpacked_dict(x):
    state = {"x": x, "n": 0}
    while state["x"] > 1:
        state["x"] = state["x"] / 2
        state["n"] += 1
    return state["x"], state["n"]


def items_of_a_list(x):
    xs = [x, x + 1, x + 2]
    if x > 0:
        xs[0] = xs[2]
        xs[-1] = x * 10
    return xs


PROGRAMS = [
    row(with_match, ((2.0, "double"), 4.0), ((-2.0, "double"), -2.0), ((-2.0, ["add", 3]), 1.0),
        ((2.0, 7), -2.0), ops="cond"),
    row(try_finally, ((2.0,), 2.0), ((-2.0,), -3.0), ops="cond"),
    row(try_except, ((2.0, "b"), -2.0), ((2.0, "a"), 6.0), ((6.0, "b"), 0.0), ops="cond"),
    row(with_block, ((2.0,), 4.0), ((-2.0,), -1.0), ops="cond"),
    row(returns_of_a_loop_in_with, ((30.0,), 1.875), ((0.5,), -0.5), ((6.0,), 1.5),
        ops="cond while_loop"),
    row(returns_of_a_loop_in_try, (([1.0, 2.0, 3.0], 1.5), (4.0, 1)),
        (([1.0, 2.0, 3.0], 60.0), (1.0, -1)), (([1.0, 2.0, 3.0], 9.0), (2.0, -2)),
        ops="cond while_loop"),
    row(with_global, ((2.0,), 6.0), ((-2.0,), -2.0), ops="cond"),
    row(assertion, ((2.0,), 2.0), ((-2.0,), 2.0), ops="cond"),
    row(with_del, ((2.0,), 4.0), ((-2.0,), 4.0), ops="cond"),
    row(annotated, ((2.0,), 4.0), ((-2.0,), -2.0), ops="cond"),
    row(imports, ((2.0,), 4.0), ((-2.0,), 4.0), ops="cond"),
    row(unpacked_dict, ((8.0,), (1.0, 3)), ops="while_loop"),
    row(items_of_a_list, ((1.0,), [3.0, 2.0, 10.0]), ((-1.0,), [-1.0, 0.0, 1.0]), ops="cond"),
]  # fmt: skip
