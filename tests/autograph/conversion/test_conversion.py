"""Converted code: its extent, lines, cells and exceptions, and conversion once per function."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import functools
import linecache
import sys
import traceback
from types import FunctionType, MethodType
from typing import Any

import pytest

import eagerflow as ef
import eagerflow.autograph.operators  # defines what converted code calls
from eagerflow.autograph.conversion.convert import call, converted, why_not
from eagerflow.capture.bytecode import facts_of, nested


def test_only_what_branches_is_converted() -> None:
    def straight(x):
        return x + 1

    def looped(x):
        return [y for y in x]  # noqa: C416 - a loop

    assert converted(straight) is straight
    assert not any(facts_of(code).branches for code in nested(straight.__code__))
    assert any(facts_of(code).branches for code in nested(looped.__code__))
    assert converted(functools.wraps) is functools.wraps
    assert converted(ef.stack) is ef.stack


def test_code_is_converted_once() -> None:
    def make():
        def f(x):
            return x if x > 0 else -x

        return f

    first, second = make(), make()
    assert converted(first).__code__ is converted(second).__code__
    assert converted(converted(first)).__code__ is converted(first).__code__


def test_cells_globals_and_defaults_are_shared() -> None:
    count = 0

    def f(x, step=2, *, more=()):
        """Its text."""
        nonlocal count
        if x:
            count += step + len(more)
        return count

    g = converted(f)
    assert (g(1), count) == (2, 2)
    f.__defaults__ = (5,)
    assert converted(f)(1, more=(1,)) == 8 == count
    assert g.__globals__ is f.__globals__
    assert (g.__name__, g.__qualname__, g.__module__) == (f.__name__, f.__qualname__, f.__module__)


def test_private_names_are_those_of_the_class() -> None:
    class Base:
        def __init__(self) -> None:
            self.__x = 3

        def get(self, y):
            if y:
                return self.__x
            return super().__repr__()

    assert converted(Base.get)(Base(), 1) == 3
    assert "Base" in converted(Base.get)(Base(), 0)


def test_exceptions_and_their_lines_are_those_of_python() -> None:
    def f(x):
        for i in range(3):
            if x:
                while True:
                    value = 1 and 1 / 0  # the line
        return value, i

    frames = []
    for g in (f, converted(f)):
        with pytest.raises(ZeroDivisionError) as caught:
            g(1)
        frames.append(traceback.extract_tb(caught.tb)[-1])
    assert frames[0].line == frames[1].line
    assert frames[1].name == "f"

    def unbound(x):
        if x:
            y = 1
        return y

    for g in (unbound, converted(unbound)):
        with pytest.raises(UnboundLocalError, match="cannot access local variable 'y'"):
            g(0)


def test_evaluation_order_and_short_circuits() -> None:
    log: list[str] = []

    def say(name, value):
        log.append(name)
        return value

    def f():
        a = say("a", 1) and say("b", 0) and say("c", 1)
        b = say("d", 0) or say("e", 2) or say("f", 3)
        c = say("g", 1) < say("h", 3) < say("i", 2) < say("j", 9)
        d = say("k", 5) if say("l", 0) else say("m", 6)
        return a, b, c, d, not say("n", [])

    want = f()
    first, log[:] = list(log), []
    assert converted(f)() == want
    assert log == first


def test_two_lambdas_on_a_line() -> None:
    f, g = (lambda x: x if x > 0 else -x), (lambda x: 1 if x > 0 else 2)
    assert (converted(f)(-3), converted(g)(-3)) == (3, 2)
    assert converted(f) is not f


def test_a_notebook_cell() -> None:
    text = "def f(x):\n    if x > 0:\n        return x * 2\n    return -x\n"
    name = "/tmp/ipykernel_1/123.py"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), namespace)
    f = ef.trace(namespace["f"])
    assert (f(ef.tensor(2.0)).item(), f(ef.tensor(-2.0)).item()) == (4.0, 2.0)
    del linecache.cache[name]


def test_methods_partials_and_objects() -> None:
    class Clip:
        low = 0

        def __call__(self, x):
            return self.low if x < self.low else x

        def method(self, x):
            return self(x)

        @classmethod
        def of_class(cls, x):
            return cls.low if x < cls.low else x

        @staticmethod
        def static(x):
            return 0 if x < 0 else x

    clip = Clip()
    for f in (clip, clip.method, Clip.of_class, Clip.static, functools.partial(Clip.static)):
        made = call(f)
        assert made is not f
        assert (made(-1), made(2)) == (0, 2)
    assert type(call(clip)) is MethodType
    assert call(abs) is abs
    assert call(Clip) is Clip


def test_names_of_globals_do_not_hide_the_function_itself() -> None:
    factorial = converted(_factorial)
    assert factorial is not _factorial
    assert factorial(5) == 120


def _factorial(n: int) -> int:
    result: int = 1
    if n > 1:
        result = n * _factorial(n - 1)
    return result


def test_a_debugger_sees_the_users_variables() -> None:
    seen: list[dict[str, Any]] = []

    def f(x):
        y = 1
        if x:
            y = 2
            seen.append(dict(sys._getframe().f_locals))
        return y

    converted(f)(True)
    assert seen[0]["y"] == 2


def test_what_cannot_be_converted_says_why() -> None:
    def generator(x):
        if x:
            yield x

    def in_finally(x):
        for _ in range(x):
            try:
                x = x + 1
            finally:
                if x > 3:
                    break  # noqa: B012 - on purpose
        return x

    for f, words in ((generator, "it is a generator"), (in_finally, "`finally`")):
        assert type(f) is FunctionType
        assert converted(f) is f
        assert words in (why_not(f.__code__) or "")
