"""Prints under conditions on numbers: told by the trace that reaches them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError


def told(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in seen]


class Report:
    """Prints in a method that is not converted, and in one that is."""

    def __init__(self, step: int) -> None:
        self.tell(step)

    def tell(self, step: int) -> None:
        if step % 10 == 0:
            print("step")


def by_comparison(x: Any, step: int) -> Any:
    if step > 9:
        print("step")
    return x * step


def by_remainder(x: Any, step: int) -> Any:
    if step % 10 == 0:
        print("step", *"ab")
    return x * step


def in_a_helper(x: Any, step: int) -> Any:
    if step == 10:
        by_remainder(x, 10)
    return x * step


def early(x: Any, step: int) -> Any:
    if step < 10:
        return x
    print("step")
    return x


def in_an_initializer(x: Any, step: int) -> Any:
    if step > 9:
        Report(step)
    return x * step


def in_a_method(x: Any, step: int) -> Any:
    Report.tell(Report.__new__(Report), 3)  # converted
    return in_an_initializer(x, step)


CONDITIONAL = [by_comparison, by_remainder, in_a_helper, early, in_an_initializer,
               in_a_method]  # fmt: skip


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("function", CONDITIONAL)
def test_a_print_under_a_condition_on_numbers_is_told_by_the_trace_that_reaches_it(
    function: Any, strict: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    f = ef.trace(function, strict=strict)
    assert told(lambda: [f(ef.ones(2), step) for step in range(1, 10)]) == []
    if strict:
        with pytest.raises(TraceError, match="print runs only while tracing"):
            f(ef.ones(2), 10)
    else:
        assert any("print runs only" in text for text in told(lambda: f(ef.ones(2), 10)))
    assert "step" in capsys.readouterr().out


def under_another_name(x: Any, step: int) -> Any:
    say = print
    if step > 9:
        list(map(say, ["step"]))
    return x * step


def passed_on(x: Any, step: int) -> Any:
    if step > 9:
        list(map(print, ["step"]))
    return x * step


@pytest.mark.parametrize("function", [under_another_name, passed_on])
def test_a_print_that_other_code_may_call_is_told_at_once(function: Any) -> None:
    f = ef.trace(function)
    assert any("print runs only" in text for text in told(lambda: f(ef.ones(2), 1)))
