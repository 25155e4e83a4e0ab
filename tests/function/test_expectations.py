"""The table of expectations: eager and traced runs agree, or the user gets an error or report."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core.monitors import monitored
from eagerflow.errors import EagerflowError
from tests.each import check_each, in_groups, names_of
from tests.function.expectations import PROGRAMS
from tests.function.expectations.program import Program, eagerly, run
from tests.programs.columns import SeesAllOps
from tests.source_tree import ROOT

MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "program": nullcontext,
    "replay": lambda: monitored(SeesAllOps()),
}


@pytest.mark.parametrize("rows", in_groups(PROGRAMS), ids=names_of)
def test_program(rows: list[Program]) -> None:
    check_each(((row, mode) for row in rows for mode in MODES), _is_as_users_expect)


def _is_as_users_expect(row: Program, mode: str) -> None:
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
    assert len(PROGRAMS) >= 200
    assert len({row.name for row in PROGRAMS}) == len(PROGRAMS)


def test_rows_of_the_page_name_their_tests() -> None:
    """Each row of a table of `docs/what_a_trace_sees.md` ends with programs, or files of tests."""
    known = {f"{row.body.__module__.rpartition('.')[2]}.{row.name}" for row in PROGRAMS}
    text = (ROOT / "docs" / "what_a_trace_sees.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and "| Test |" not in line]
    assert len(rows) > 30
    for row in rows:
        names = re.findall(r"`([^`]+)`", row.split(" | ")[-1])
        assert names, row
        for name in names:
            there = (ROOT / name).exists() if "/" in name else fnmatch.filter(known, name)
            assert there, f"{name} in {row}"
