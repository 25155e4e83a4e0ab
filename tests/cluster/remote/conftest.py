"""A cluster for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from zmq.utils.garbage import gc as frees

import eagerflow as ef
from tests.cluster.warm import warm


@pytest.fixture(scope="module")
def cluster() -> Iterator[ef.cluster.Cluster]:
    frees.start()  # pyzmq's thread, which the first large message would start
    with ef.cluster.local({"ps": 2, "worker": 1}) as made:
        warm(made)
        yield made
    frees.stop()
