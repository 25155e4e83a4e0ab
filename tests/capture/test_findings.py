"""Findings: calls that do not belong into a graph, and hidden state."""

from __future__ import annotations

import array
import contextvars
import logging
import math
import random
import time
import types
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.capture.guards.guard_choice import collect

# mypy: disable-error-code="no-untyped-def"

lr = 0.5
stream = iter([1, 2, 3])
generator = np.random.default_rng(0)
dice = random.Random(3)
current = contextvars.ContextVar("current", default=1)
pointer = weakref.ref(random.Random)
shown = types.MappingProxyType({"a": [1]})
packed = array.array("d", [1.0])
window = memoryview(b"ab")
logger = logging.getLogger("tests")


def numbers() -> Iterator[int]:
    yield 1


produced = numbers()


@pytest.mark.parametrize(
    ("f", "text"),
    [
        (lambda x: print(x), "print runs only while tracing (use ef.print)"),
        (lambda: time.time(), "time.time gives the value it had while tracing"),
        (lambda: time.perf_counter(), "time.perf_counter gives"),
        (
            lambda: random.random(),
            "random.random gives the value it had while tracing (use ef.random",
        ),
        (lambda: np.random.normal(), "np.random.normal gives"),
        (lambda: np.random.default_rng(0), "np.random.default_rng gives"),
        (lambda: logger.info("x"), "logger.info runs only while tracing"),
        (lambda: open("x"), "open runs only while tracing"),  # noqa: SIM115 - what is found
        (lambda: eval("lr"), "eval cannot be followed"),
        (lambda: globals()["lr"], "globals cannot be followed"),
        (lambda: np.random.seed(0), "np.random.seed gives"),
        (lambda: warnings.warn("x", stacklevel=1), "warnings.warn runs only while tracing"),
        (lambda: next(stream), "stream: a list_iterator has a position"),
        (lambda: next(produced), "produced: a generator has a position"),
        (lambda: generator.normal(), "generator: a Generator has a state"),
        (lambda: dice.random(), "dice: a Random has a state"),
        (lambda: current.get(), "current: a ContextVar has a content that a trace cannot follow"),
        (lambda: pointer(), "pointer: a ReferenceType has a content"),
        (lambda: shown["a"], "shown: a mappingproxy has a content"),
        (lambda: packed[0], "packed: a array has a content"),
        (lambda: window[0], "window: a memoryview has a content"),
        (lambda: ef.config(), "ef.config has an effect only while tracing"),
    ],
)
def test_findings(f: Any, text: str) -> None:
    findings = collect(f).findings
    assert [str(x) for x in findings if text in str(x)], [str(x) for x in findings]
    assert len(findings) == 1, "one cause is told once"
    assert all(x.source is not None and x.source.file == __file__ for x in findings)


def test_findings_in_helpers_and_imports() -> None:
    def inner():
        import time as clock
        from datetime import datetime
        from random import randint

        return clock.time(), randint(0, 1), datetime.now()

    texts = [str(x) for x in collect(lambda: inner()).findings]
    assert [x.partition(" ")[0] for x in texts] == ["clock.time", "randint", "datetime.now"]
    assert "in test_findings_in_helpers_and_imports.<locals>.inner" in texts[0]


def test_no_finding_without_reason() -> None:
    layers, sizes = [lambda x: x * lr], [1, 2]

    def f(x):
        for i, layer in enumerate(layers):
            x = layer(x) * math.sqrt(2.0) + i
        return ef.random.normal((2,)) + np.float32(1) + x * len(sizes)

    assert collect(f).findings == []
