"""Each test of this folder runs in all modes, if it takes ``call``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from eagerflow.runtime.scheduled import detached
from eagerflow.runtime.threads import workers
from eagerflow.runtime.threads.timers import timers
from tests.queues.modes import MODES, Call, caller


@pytest.fixture(params=MODES)
def call(request: Any, monkeypatch: pytest.MonkeyPatch) -> Call:
    return caller(request.param, monkeypatch)


@pytest.fixture(autouse=True)
def _no_threads() -> Iterator[None]:
    yield
    detached.serving.close()
    workers.shared.close()
    timers.join()
