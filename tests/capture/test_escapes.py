"""Escapes into code that is not inspected: the values that are guarded, and their guards."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.capture import escapes
from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.guards.guard_choice import collect
from eagerflow.capture.guards.guards import Guards

# mypy: disable-error-code="no-untyped-def"


@dataclass
class Config:
    name: str = "a"
    rate: float = 0.5


config, other, space = Config(), Config(), SimpleNamespace(name="a", rate=0.5)
event = threading.Event()


def kinds(function: Callable[..., Any]) -> dict[str, str]:
    return {read.path.text: read.kind for read in collect(function).reads}


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if config == other else -x,
        lambda x: x * len(str(config)),
        lambda x: x * len(f"{config}"),
        lambda x: x * len("%s" % config),  # noqa: UP031 - as older code is
        lambda x: x * {1: 2}.get(config, 3),
        lambda x: x * len({config: 1}),
        lambda x: x * [other].index(config),
        lambda x: x * len([*map(str, [config])]),
        lambda x: x * len(str((config, 1))),
        lambda x: x * len(str(config if x is None else 1)),
    ],
)
def test_all_that_is_compared_or_formatted_counts(function: Callable[..., Any]) -> None:
    got = kinds(function)
    assert got["config.name"] == "value"
    assert got["config.rate"] == "number"  # Python asks for its value when it needs it


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * len(json.dumps(space)),
        lambda x: x * len(dataclasses.asdict(space)),
        lambda x: x * len(json.dumps([space])),
    ],
)
def test_numbers_that_libraries_get_are_compared(function: Callable[..., Any]) -> None:
    assert kinds(function)["space.rate"] == "value"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * config.rate,
        lambda x: x * config.rate if config.name == "b" else x,
        lambda x: x * config.rate if isinstance(config, Config) else x,
        lambda x: x * config.rate if config is not None else x,
        lambda x: ef.exp(x) * (lambda c: c.rate)(config),
    ],
)
def test_names_that_code_does_not_read_do_not_count(function: Callable[..., Any]) -> None:
    def reads_rate(x):
        return function(x)

    got = kinds(reads_rate)
    assert got["config.rate"] == "number"
    assert "__dict__" not in got
    assert not any(kind == "keys" for kind in got.values())


def test_methods_of_libraries_read_what_their_objects_hold() -> None:
    assert kinds(lambda x: x if event.is_set() else -x)["event._flag"] == "value"


def test_what_libraries_hold_is_not_watched() -> None:
    reads = collect(lambda x: x if event.is_set() else -x)
    assert not reads.containers
    assert [held.path.text for held in reads.objects] == ["event"]


def test_more_than_can_be_compared_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(escapes, "MOST", 3)
    configs = [Config() for _ in range(5)]
    reads = collect(lambda x: x * len(str(configs)))
    assert any("more than 3 objects" in str(finding) for finding in reads.findings)


def test_objects_that_become_one_are_told() -> None:
    first, second = [1.0], [2.0]

    @ef.trace
    def f(x):
        first[0] = 3.0
        return x * second[0]

    f(ef.ones(2))
    second = first
    f(ef.ones(2))
    assert "one object under two names" in f.traces[-1].reason


def test_what_the_bytecode_says() -> None:
    def f(x):
        return a == b, c is d, e.index(g), h(), x == 1, i[x]  # noqa: F821

    facts = facts_of(f.__code__)
    assert facts.inspected == {("global", "a"), ("global", "b"), ("", "")}
    assert facts.asks_identity
    assert not facts.formats
    assert [(name, end) for name, _, end in facts.given] == [(("global", "g"), "index")]
    assert [load.name for load in facts.loads if load.called] == ["h"]


def test_a_name_made_at_run_time_beside_a_call_that_gets_a_text() -> None:
    class Config:
        mode = "up"

    config, name = Config(), "mode"
    config.mode = "up"

    def other(x, text):
        return x

    @ef.trace
    def f(x):
        return other(x, "text") * (2.0 if getattr(config, name) == "up" else 3.0)

    assert f(ef.ones(())).item() == 2.0
    config.mode = "down"
    assert f(ef.ones(())).item() == 3.0


def test_guards_follow_a_cell_that_runs_again() -> None:
    def make(by):
        def f(x, k=2.0):
            return x * by * k

        return f

    guards = Guards(collect(make(2.0)))
    assert guards.check()
    guards.rebase(make(3.0))
    assert guards.check()
