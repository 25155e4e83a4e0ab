"""Each column runs programs as its name says: a setting that looks at ops would replay them all."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.events import StepEvent
from tests.programs.columns import COLUMNS, renew
from tests.recorded import recorded

#: by column the tier of its steps; None where ops go through `bind` one by one
TIERS = {
    "placed by a rule": "partitioned",
    "placed by a rule inside": "partitioned",
    "converted": None,
    "scheduled": "scheduled",
    "scheduled node by node": "scheduled",
    "partitioned": "partitioned",
    "partitioned, by the scheduler": "partitioned",
    "partitioned, by the worst network": "partitioned",
    "partitioned, late and in pieces": "partitioned",
    "replayed": None,
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_runs_in_its_tier(name: str) -> None:
    column = COLUMNS[name]

    def f(x: Any) -> Any:
        y = ef.exp(x) * 2.0
        while y.sum() > 4.0:
            y = y * 0.5
        return ef.sin(y) + x

    with ef.config(cpu_devices=4):
        run = column.run(f)
        run(ef.ones(3))
        with column.around() or nullcontext(), column.within():
            renew(run)
            with recorded(StepEvent) as recorder:
                assert run(ef.ones(3)).shape == (3,)
    tiers = {event.tier for event in recorder.of("step")}
    wanted = TIERS.get(name, "generated")
    assert tiers == (set() if wanted is None else {wanted})
