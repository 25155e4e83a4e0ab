from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import eagerflow as ef

VERBOSE = False
CONFIG = SimpleNamespace(verbose=False, level=0)


@pytest.fixture(autouse=True)
def _flags() -> Iterator[None]:
    yield
    globals()["VERBOSE"] = False
    CONFIG.verbose, CONFIG.level = False, 0


def if_block(x: Any) -> Any:
    if VERBOSE:
        print("step")
    return x + 1


def negated(x: Any) -> Any:
    if not VERBOSE:
        return x + 1
    print("step")
    return x + 1


def attribute(x: Any) -> Any:
    if CONFIG.verbose:
        print("step")
    return x + 1


def both(x: Any) -> Any:
    if CONFIG.verbose and VERBOSE:
        print("step")
    return x + 1


def conditional(x: Any) -> Any:
    return x + (random.random() if VERBOSE else 1.0)


def other_side(x: Any) -> Any:
    if not CONFIG.level:
        y = x + 1
    else:
        y = x + random.random()
    return y


def told(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in seen]


@pytest.mark.parametrize("function", [if_block, negated, attribute, both, conditional, other_side])
def test_what_a_flag_leaves_out_is_told_when_it_runs(
    function: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    f = ef.trace(function)
    assert told(lambda: f(ef.ones(2))) == []
    monkeypatch.setitem(globals(), "VERBOSE", True)
    CONFIG.verbose, CONFIG.level = True, 1
    (text,) = told(lambda: f(ef.ones(2)))
    assert "while tracing" in text or "gives the value it had" in text
    capsys.readouterr()


def test_strict_traces_what_is_not_called(capsys: pytest.CaptureFixture[str]) -> None:
    f = ef.trace(conditional, strict=True)
    assert f(ef.ones(2)).tolist() == [2.0, 2.0]


def loop(x: Any) -> Any:
    while VERBOSE:
        print("step")
    return x


def handler(x: Any) -> Any:
    try:
        if VERBOSE:
            print("inside")
        return x + 1
    except ValueError:
        print("handled")
        raise


def set_here(x: Any) -> Any:
    global VERBOSE
    VERBOSE = x.ndim == 1
    if VERBOSE:
        print("step")
    return x


def test_a_loop_that_is_not_entered() -> None:
    f = ef.trace(loop)
    assert told(lambda: f(ef.ones(2))) == []


def test_a_handler_that_does_not_run_prints_nothing() -> None:
    f = ef.trace(handler)
    assert told(lambda: f(ef.ones(2))) == []


def draws_in_a_handler(x: Any) -> Any:
    try:
        return x + 1
    except ValueError:
        return x + random.random()


def test_handlers_may_run() -> None:
    f = ef.trace(draws_in_a_handler)
    assert any("random" in text for text in told(lambda: f(ef.ones(2))))


def test_what_the_code_sets_is_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    f = ef.trace(set_here)
    assert any("print" in text for text in told(lambda: f(ef.ones(2))))
    capsys.readouterr()
