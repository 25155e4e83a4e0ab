"""Two ends of shared memory in one process, which leave no slab behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from eagerflow.cluster.processes.listening import Doors, doors_in
from eagerflow.cluster.processes.shared_memory.slabs import Slabs
from eagerflow.cluster.protocol.message_limits import LIMITS
from tests.cluster.processes.shared_memory.hostile_sender import Sender
from tests.cluster.processes.shared_memory.mappings import maps


@pytest.fixture
def doors(tmp_path: Path) -> Doors:
    return doors_in(tmp_path, "b:0")


@pytest.fixture
def reads_in_place() -> bool:
    """Whether the receiver reads fixed slabs in place, as tasks do; some tests say so."""
    return False


@pytest.fixture
def moves_variables() -> bool:
    """Whether variables may move into the slabs of the sender, as in tasks; some tests say so."""
    return False


@pytest.fixture
def pair(
    tmp_path: Path, doors: Doors, reads_in_place: bool, moves_variables: bool
) -> Iterator[tuple[Slabs, Slabs]]:
    told: list[str] = []
    a = Slabs(doors_in(tmp_path, "a:0"), LIMITS, told.append, moves_variables=moves_variables)
    b = Slabs(doors, LIMITS, told.append, reads_in_place=reads_in_place)
    a.connect("b:0", doors)
    before = maps()
    yield a, b
    a.close()
    b.close()
    assert a._kept.held == 0
    assert maps() <= before


@pytest.fixture
def sender(doors: Doors, pair: tuple[Slabs, Slabs]) -> Iterator[Sender]:
    made = Sender(doors)
    yield made
    made.socket.close()
