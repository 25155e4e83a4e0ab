"""Devices of kind gpu without a GPU, for the tests of this folder that need none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eagerflow.hardware import register_backend, registry
from eagerflow_kernels.cuda import kernels, library
from tests.kernels.cuda.checked import CheckedCupy
from tests.kernels.cuda.checked_backend import CheckedBackend


@pytest.fixture(scope="module")
def checked_gpu() -> Iterator[CheckedBackend]:
    """Devices of kind gpu that refuse all calls that CuPy lacks."""
    assert kernels.FAILING
    before = registry._backends.pop("gpu", None)
    library.use(CheckedCupy())
    backend = CheckedBackend()
    register_backend(backend)
    yield backend
    library.use(None)
    registry._backends.pop("gpu")
    for i in range(2):
        registry._devices.pop(f"gpu:{i}", None)
    if before is not None:
        register_backend(before)
