"""Functions with a cache: called outside of the trace, and again by its guard."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import functools
from typing import Any

import pytest

import eagerflow as ef
from tests.autograph.checks import check_error, check_same
from tests.function.expectations.program import picture

everywhere: list[Any] = []
settings = {"scale": 2.0}
weight = ef.tensor([1.0])


class Box:
    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self.scale = 2.0


@functools.lru_cache
def log() -> list[Any]:
    return []


@functools.cache
def box() -> Box:
    return Box()


@functools.cache
def known() -> list[Any]:
    return everywhere


@functools.cache
def scale() -> float:
    return settings["scale"]


@functools.cache
def shifted() -> Any:
    return weight + 1


@functools.cache
def counts() -> int:
    everywhere.append(1)
    return 1


@pytest.fixture(autouse=True)
def _empty() -> None:
    for cached in (log, box, known, scale, shifted, counts):
        cached.cache_clear()
    everywhere.clear()
    settings["scale"] = 2.0


def appends(x):
    log().append(x)
    return x


def inserts(x):
    log().insert(0, x * 2)
    return x


def sets_an_attribute(x):
    box().h = x
    return x


def sets_an_item_of_a_part(x):
    def inner(parts):
        parts["h"] = [x]

    inner(box().parts)
    return x


def appends_to_what_others_hold(x):
    known().append(x * 2)
    return x


def sets_an_attribute_under_a_condition(x):
    if x > 1:
        box().scale = x * 2
    return x


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    "function",
    [appends, inserts, sets_an_attribute, sets_an_item_of_a_part, appends_to_what_others_hold,
     sets_an_attribute_under_a_condition],
)  # fmt: skip
def test_what_a_cache_holds_is_changed_as_eagerly(function, warm) -> None:
    pictures = []
    for f in (function, ef.trace(function)):
        for cached in (log, box):
            cached.cache_clear()
        everywhere.clear()
        if warm:
            log().append(1)
            box().parts["k"] = 1
        for value in (1.0, 3.0, 1.0):
            f(ef.tensor(value))
        pictures.append(picture([log(), vars(box()), everywhere]))
    assert pictures[1] == pictures[0]


def appends_under_a_condition(x):
    if x > 0:
        log().append(x)
    return x


def appends_some_to_what_others_hold(x):
    if x > 0:
        known().append(x)
    return x


@pytest.mark.parametrize("function", [appends_under_a_condition, appends_some_to_what_others_hold])
def test_what_a_cache_holds_gets_no_length_that_depends_on_data(function) -> None:
    check_error(function, (1.0,), ["gets a length that depends"])
    assert (log(), everywhere) == ([], [])


def reads(x):
    if x > 0:
        return x * box().scale
    return x + len(log())


def test_what_a_cache_holds_is_read() -> None:
    check_same(reads, [(1.0,), (-1.0,)])
    f = ef.trace(lambda x: x * box().scale)
    assert f(ef.tensor(1.0)).item() == 2.0
    box().scale = 5.0
    assert f(ef.tensor(1.0)).item() == 5.0


def test_the_value_in_the_cache_counts_and_not_what_it_is_made_of() -> None:
    f = ef.trace(lambda x: x * scale())
    assert f(ef.tensor(1.0)).item() == 2.0
    settings["scale"] = 7.0
    assert f(ef.tensor(1.0)).item() == 2.0
    scale.cache_clear()
    assert f(ef.tensor(1.0)).item() == 7.0
    assert len(f.traces) == 2


def test_a_cached_tensor_is_an_input() -> None:
    global weight
    f = ef.trace(lambda x: x * shifted())
    assert f(ef.tensor(1.0)).item() == 2.0
    weight = weight * 4
    shifted.cache_clear()
    assert f(ef.tensor(1.0)).item() == 5.0
    assert len(f.traces) == 1
    assert isinstance(shifted().numpy()[0].item(), float)


def test_the_function_runs_as_often_as_eagerly() -> None:
    f = ef.trace(lambda x: x * counts())
    for _ in range(3):
        f(ef.tensor(1.0))
    assert everywhere == [1]


def reads_what_was_set(x):
    settings["scale"] = 5.0
    return x * scale()  # the culprit


def changes_what_is_used(x):
    return x * counts() + len(everywhere)  # the culprit


@functools.cache
def doubled(y):
    return y * 2


def gives_it_a_tensor(x):
    return x * doubled(x)  # the culprit


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (reads_what_was_set, "reads state that the traced function has changed: settings['scale']"),
        (changes_what_is_used, "changes state that the traced function uses: everywhere"),
        (gives_it_a_tensor, "f.__wrapped__(x)"),
    ],
)
def test_what_is_refused(function, words) -> None:
    check_error(function, (1.0,), [words, "# the culprit"])
    assert settings == {"scale": 2.0}
