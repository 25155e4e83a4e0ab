"""Ctrl-C wherever a trace begins, ends or runs: nothing stays installed or changed."""

from __future__ import annotations

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import interpreter
from eagerflow.core.interpreter import stack
from eagerflow.dims.size_questions import resolver
from eagerflow.tracing.tracer import Tracer
from tests import ctrl_c


def test_ctrl_c_wherever_a_trace_begins_and_ends_leaves_nothing_installed() -> None:
    def call() -> int:
        tracer = Tracer("f")
        return tracer.run(lambda: Tracer("part", tracer).run(lambda: 1))

    def state() -> tuple[Any, ...]:
        return stack.total, stack.installed, stack.engaged, interpreter.current(), resolver.get()

    before = state()
    with ctrl_c.ctrl_c_raises():
        count = ctrl_c.places(call)
        assert count > 20
        for after in range(1, count + 1):
            with pytest.raises(KeyboardInterrupt):
                ctrl_c.interrupted(call, after)
            assert state() == before, after
        assert ctrl_c.interrupted(call, count + 1) == 1


def test_ctrl_c_wherever_a_function_is_traced_leaves_the_world_as_it_was() -> None:
    world = SimpleNamespace(rate=2.0, items=[1.0], count=1)

    def function(x: Any) -> Any:
        world.count += 1
        world.items.append(x)
        return x * world.rate

    x = ef.tensor([1.0, 2.0])
    traced = ef.trace(function)
    world_before = (world.rate, [1.0], 1)
    with ctrl_c.ctrl_c_raises():
        count = ctrl_c.places(lambda: ef.trace(function).graph(x))
        for after in range(1, count, count // 60):
            with suppress(KeyboardInterrupt):
                ctrl_c.interrupted(lambda: ef.trace(function).graph(x), after)
            assert stack.total == 0, after
            assert (world.rate, world.items, world.count) == world_before, after
    assert traced(x).tolist() == [2.0, 4.0]
