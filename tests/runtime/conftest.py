"""Fixture for kernels that tests register in place of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from eagerflow_kernels import table


@pytest.fixture
def add_kernel() -> Iterator[Callable[[str, Any], None]]:
    """Registers portable kernels, and removes them after the test."""
    before: dict[str, Any] = {}

    def register(name: str, kernel: Any) -> None:
        before.setdefault(name, table.portable_kernel(name))
        table.portable(name, replace=True)(kernel)

    yield register
    for name, kernel in before.items():
        if isinstance(kernel, str):
            table.portable(name, kernel, replace=True)
        else:
            table.portable(name, replace=True)(kernel)
