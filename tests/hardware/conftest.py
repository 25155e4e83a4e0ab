"""Devices that work when a test pumps them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eagerflow_kernels.asynchronous import AsyncBackend
from tests.fakes.by_hand import registered


@pytest.fixture
def hand() -> Iterator[AsyncBackend]:
    """Two devices ``hand:n`` that work when a test pumps them, or when the host waits."""
    yield from registered(AsyncBackend("hand", threads=False))
