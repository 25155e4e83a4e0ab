"""Programs with device scopes, eagerly and traced: the same bits, devices and moves."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.errors import MoveWarning
from eagerflow.events import TransferEvent
from tests.hardware.scope_programs import (  # noqa: F401 - they fill the table
    control_flow,
    derivatives,
    ends_of_scopes,
    ops,
    state,
)
from tests.hardware.scope_programs.table import ROWS, Row, Wrap
from tests.recorded import recorded
from tests.source_tree import ROOT

pytestmark = pytest.mark.filterwarnings(f"ignore::{MoveWarning.__module__}.MoveWarning")


def _eager(function: Any) -> Any:
    return function


def _run(row: Row, wrap: Wrap) -> tuple[list[tuple[str, bytes]], str, str]:
    """The values of the results, their devices, and the moves."""
    with ef.config(cpu_devices=3), recorded(TransferEvent) as seen:
        results = [leaf for leaf in tree.leaves(row.run(wrap)) if leaf is not None]
    values = [(str(leaf.type.type), leaf.numpy().tobytes()) for leaf in results]
    moves = sorted(f"{e.origin[-1]}>{e.device[-1]}" for e in seen.events)
    return values, " ".join(str(leaf.device)[-1] for leaf in results), " ".join(moves)


def _sorted(moves: str) -> str:
    return " ".join(sorted(moves.split()))


@pytest.mark.parametrize("name", ROWS)
def test_eagerly_and_traced(name: str) -> None:
    row = ROWS[name]
    values, *eager = _run(row, _eager)
    assert eager == [row.devices, _sorted(row.moves)], "eagerly"
    traced_values, *traced = _run(row, ef.trace)
    assert traced == [row.devices, _sorted(row.traced)], "traced"
    assert traced_values == values


def test_there_are_enough_programs() -> None:
    assert len(ROWS) >= 60


def test_the_page_on_devices_says_where_a_graph_moves_something_else() -> None:
    page = (ROOT / "docs/devices.md").read_text()
    for row in ROWS.values():
        assert bool(row.why) == (_sorted(row.traced) != _sorted(row.moves))
        assert [why for why in row.why if f"*{why}*" not in page] == []
    assert sum(bool(row.why) for row in ROWS.values()) <= 5, "is this one needed?"
