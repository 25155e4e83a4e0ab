"""The table of what users expect: eager and traced agree, or the user is told."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError
from tests.function.expectations import PROGRAMS
from tests.function.expectations.program import Program, eagerly, run

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "program": nullcontext,
    "replay": lambda: ef.config(check_nan=True),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("row", PROGRAMS, ids=lambda row: row.name)
def test_program(row: Program, mode: str) -> None:
    with MODES[mode]():
        want = run(row.body, eagerly)
        got = run(row.body, ef.trace)
    for i, (a, b) in enumerate(zip(want.steps, got.steps, strict=False)):
        assert i in row.frozen or a == b, f"step {i}"
    if row.error is None:
        assert want.error is None, want.error
        assert got.error is None, got.error
    else:
        assert type(got.error) is row.error, got.error
        assert isinstance(got.error, EagerflowError) or row.eagerly
        assert (type(want.error) is row.error) is row.eagerly, want.error
        for words in row.words:
            assert words in str(got.error)
        if row.eagerly:
            assert str(got.error) == str(want.error)
    if row.error is None or row.eagerly:
        assert len(want.steps) == len(got.steps)
    assert len(got.reports) == len(row.reports), got.reports
    for text, words in zip(got.reports, row.reports, strict=True):
        assert words in text
    assert want.reports == []
    assert got.warnings == want.warnings
    assert got.traces == row.traces


def test_size_of_the_table() -> None:
    assert len(PROGRAMS) >= 60
    assert len({row.name for row in PROGRAMS}) == len(PROGRAMS)
