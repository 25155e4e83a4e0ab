"""Each test of this folder runs in all modes, if it takes ``call``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.runtime.scheduled import detached
from eagerflow.runtime.threads import workers
from eagerflow.runtime.threads.timers import timers
from tests.queues.modes import MODES, Call, caller

#: makes a file and gives its name
MakeFile = Callable[..., str]


@pytest.fixture(params=MODES)
def call(request: Any, monkeypatch: pytest.MonkeyPatch) -> Call:
    return caller(request.param, monkeypatch)


@pytest.fixture(autouse=True)
def _no_threads() -> Iterator[None]:
    yield
    detached.serving.close()
    workers.shared.close()
    timers.join()


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
