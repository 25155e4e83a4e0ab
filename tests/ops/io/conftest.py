"""Each test of this folder runs in all modes, if it takes ``call``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import eagerflow as ef
from tests.resources.queues.modes import call, no_threads

__all__ = ["MakeFile", "call", "make_file", "make_records", "no_threads"]

#: makes a file and gives its name
MakeFile = Callable[..., str]


@pytest.fixture
def make_file(tmp_path: Path) -> MakeFile:
    def make(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return str(path)

    return make


@pytest.fixture
def make_records(tmp_path: Path) -> MakeFile:
    def make(name: str, *records: bytes) -> str:
        path = tmp_path / name
        ef.data.write_records(path, records)
        return str(path)

    return make
