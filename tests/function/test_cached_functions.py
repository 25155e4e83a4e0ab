"""What a function with a cache gives, which no trace can follow: it is not changed in silence."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import functools
from typing import Any

import pytest

import eagerflow as ef
from tests.autograph.checks import check_error, check_same

everywhere: list[Any] = []


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


def appends(x):
    log().append(x)  # the culprit
    return x


def appends_under_a_condition(x):
    if x > 0:
        log().append(x)  # the culprit
    return x


def appends_in_iterations(xs):
    for x in xs:
        log().append(x * 2)  # the culprit
    return xs


def sets_an_attribute(x):
    box().h = x  # the culprit
    return x


def sets_an_item_of_a_part(x):
    def inner(parts):
        parts["h"] = [x]

    inner(box().parts)  # the culprit
    return x


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    "function",
    [appends, appends_under_a_condition, appends_in_iterations, sets_an_attribute,
     sets_an_item_of_a_part],
)  # fmt: skip
def test_what_only_a_cache_holds_is_not_changed(function, warm) -> None:
    log.cache_clear()
    box.cache_clear()
    if warm:
        log().append(1)
        box().parts["k"] = 1
    x = ef.tensor([1.0, 2.0]) if function is appends_in_iterations else ef.tensor(1.0)
    check_error(function, (x,), ["gives is changed in a trace", "# the culprit", "a global"])
    assert log() == [1] * warm
    assert vars(box()) == {"parts": {"k": 1} if warm else {}, "scale": 2.0}


def reads(x):
    if x > 0:
        return x * box().scale
    return x + len(log())


def test_what_a_cache_holds_is_read() -> None:
    check_same(reads, [(1.0,), (-1.0,)])


def appends_to_what_others_hold(x):
    known().append(x * 2)
    return x


def test_what_others_hold_as_well_is_followed() -> None:
    found = []
    for function in (appends_to_what_others_hold, ef.trace(appends_to_what_others_hold)):
        everywhere.clear()
        function(ef.tensor(1.0))
        function(ef.tensor(3.0))
        found.append(str(everywhere))
    assert found[1] == found[0]


def appends_some_to_what_others_hold(x):
    if x > 0:
        known().append(x)
    return x


def test_what_others_hold_as_well_gets_no_length_that_depends_on_data() -> None:
    everywhere.clear()
    check_error(appends_some_to_what_others_hold, (1.0,), ["everywhere gets a length that depends"])
    assert everywhere == []
