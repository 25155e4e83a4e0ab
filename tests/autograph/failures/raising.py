"""Programs that raise exceptions with values in their texts.

This module is not rewritten by pytest, so that a failing `assert` has the text that users see.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import eagerflow as ef


class OverError(ValueError):
    """Has an `__init__` with arguments of its own."""

    def __init__(self, value, limit):
        super().__init__(f"{value} is over {limit}")
        self.value, self.limit = value, limit


class SlotError(Exception):
    """Keeps its value in a slot, and makes its text late."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __str__(self):
        return f"the value {self.value}"


class KeywordError(RuntimeError):
    """Cannot be made of its `args`."""

    def __init__(self, *, value):
        super().__init__("value", value)
        self.value = value


@dataclasses.dataclass
class RecordError(Exception):
    """Has fields."""

    value: Any
    text: str = "nothing"


def in_a_loop(x):
    for i, v in enumerate(x):
        if v > 2:
            raise ValueError(f"element {i} is {v}")
    return x


def formats(x):
    if x[0] > 0:
        raise ValueError(f"{x[0]:.3f} {x} {x[1]!s:>6}| {x[2]!r} {x[0]=} {x[1]!s:>8}|")


def other_ways_to_format(x):
    if x[0] > 0:
        text = "%.2f %s %6s|" % (x[0], x, x[1]) + " {:.1f} {}".format(x[0], x)
        raise ValueError(text, "%(a)s" % {"a": x[1]}, "".join([str(x[0]), "!"]), repr(x))


def containers(x):
    if x[0] > 0:
        raise ValueError(["a", {"k": x[0]}, (f"{x[1]}",)], f"{[x[0], 1]} {{}} { ({'k': x}) }")


def computed_for_the_message(x):
    if x[0] > 0:
        total = ef.sum(x * x)
        raise ValueError(f"{total} {ef.max(x) - 1:.1f}")


def own_class(x):
    for v in x:
        if v > 2:
            raise OverError(v, 2)


def slots(x):
    if x[0] > 0:
        raise SlotError(x[1])


def keywords(x):
    if x[0] > 0:
        raise KeywordError(value=x[0] + 1)


def record(x):
    if x[0] > 0:
        raise RecordError(x[0], f"{x}")


def key(x):
    if x[0] > 0:
        raise KeyError(f"{x[0]}")


def system(x):
    if x[0] > 0:
        raise OSError(2, f"no {x[0]}", "file")


def stops(x):
    if x[0] > 0:
        raise StopIteration(x[0])


def bare_class(x):
    if x[0] > 0:
        raise ValueError


def group(x):
    if x[0] > 0:
        raise ExceptionGroup("several", [ValueError(f"{x[0]}"), KeyError(x[1])])


def notes(x):
    if x[0] > 0:
        error = ValueError("see the note")
        error.add_note(f"it is {x[1]:.3f}")
        raise error


def cause(x):
    if x[0] > 0:
        raise ValueError("first") from KeyError(f"second {x[0]}")


def asserted(x):
    for i in range(3):
        x = x * 2
        assert x[0] < 5, f"iteration {i}: {x}"


def asserted_without_a_text(x):
    assert x[0] < 0


def asserted_with_a_tensor(x):
    assert x[0] < 0, x


def asserted_with_a_pair(x):
    assert x[0] < 0, (x[0], "or")


def counted(x):
    n = 0
    while x[n % 3] < 100:
        n += 1
        x = x * 2
        if n > 3:
            raise ValueError(f"{n:03d} {n!r} {[n]} {n} {x[0] * 2:.2e}", n)


def nested_loops(x):
    for i, a in enumerate(x):
        for j, b in enumerate(x):
            if a * b > 5:
                raise ValueError(f"{i} {j} {a} {b}")
            if a * b > 100:
                raise KeyError(i, j)


def nested_branches(x):
    if x[0] > 0:
        if x[1] > 3:
            raise KeyError("not this")
        raise ValueError(f"{x[1]}")
    return x


def either(x):
    if x[0] > 0:
        raise KeyError(x[0])
    else:
        raise ValueError("not this")


def one_after_the_other(x):
    if x[0] > 0:
        raise KeyError(x[0])
    raise ValueError("not this")


def always(x):
    raise ValueError(f"{x}")


def sizes(x):
    (indices,) = ef.nonzero(x - 1)
    if x[0] > 0:
        raise ValueError(f"{indices.shape[0]} {indices.shape[0]:3d} {indices.shape} of {x.shape}")


def updated_in_place(x):
    x += 1
    before = f"{x[0]}"
    if x[0] > 0:
        x += 1
        raise ValueError(before, x, f"{x}")


def constants(x):
    c = ef.ones(2) * 3
    if x[0] > 0:
        raise ValueError(f"{c} {c[0]:.3f} {c!r}")


def shared_call(x):
    def check(y, limit):
        if y[0] > limit:
            raise ValueError(f"{y} over {limit}")
        return y

    return ef.call(check, x, 5.0) + ef.call(check, x, 0.5)


def differentiated(x):
    def loss(y):
        total = ef.zeros(())
        for i, v in enumerate(y):
            total = total + v * v
            assert total < 4, f"iteration {i}: {total:.1f}"
        return total

    return ef.grad(loss)(x)


def in_forward_mode(x):
    def loss(y):
        for v in y:
            if v > 2:
                raise ValueError(f"{v}")
        return ef.sum(y)

    return ef.jvp(loss, (x,), (x,))


def recomputed(x):
    def step(y):
        if y[0] > 0:
            raise ValueError(f"{y}")
        return y

    return ef.grad(lambda y: ef.sum(ef.remat(step)(y)))(x)


def error_of_eagerflow(x):
    if x[0] > 0:
        raise ef.errors.AxisError("no such axis", given="2", hint=f"{x[0]}")


def error_of_tracing(x):
    if x[0] > 0:
        raise ef.errors.TraceError(f"{x}")


def error_of_two_builtins(x):
    if x[0] > 0:
        raise ef.errors.DeadlineError(f"{x}", hint="")


def error_of_eagerflow_always(x):
    raise ef.errors.ShapeError(f"{x}")


def system_exit(x):
    if x[0] > 0:
        raise SystemExit(f"{x[0]}")


def exit_by_call(x):
    if x[0] > 0:
        sys.exit(3)


def interrupt(x):
    if x[0] > 0:
        raise KeyboardInterrupt


def name(x):
    if x[0] > 0:
        raise NameError(f"{x}")


def spelled_by_format(x):
    if x[0] > 0:
        raise ValueError("{!r:>40} {a} {{}}".format(x[0], a=x), "{a!r}".format_map({"a": x[1]}))


def marks_of_the_user(x):
    if x[0] > 0:
        raise ValueError(f"« {x} »", f"«{x[0]:.1f}»«", f"{x} «#no", f"«#1» {x!a} #1»")


def explicit_scan(x):
    def body(total, v):
        assert v < 3, f"{v} after {total}"
        return total + v, total

    return ef.scan(body, ef.tensor(0.0), x)


RAISING = [in_a_loop, formats, other_ways_to_format, containers, computed_for_the_message,
           own_class, slots, keywords, record, key, system, stops, bare_class, group, notes, cause,
           asserted, asserted_without_a_text, asserted_with_a_tensor, asserted_with_a_pair, counted,
           nested_loops, nested_branches, either, one_after_the_other, always, sizes,
           updated_in_place, constants, shared_call, differentiated, in_forward_mode, recomputed,
           error_of_eagerflow, error_of_tracing, error_of_two_builtins, error_of_eagerflow_always,
           system_exit, exit_by_call, interrupt, name, spelled_by_format, marks_of_the_user,
           explicit_scan]  # fmt: skip
