"""No table of names of ops stands outside of the records of ops."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.bench.measures.checkout import Checkout
from tests.bench.measures.op_tables import op_tables
from tests.source_tree import ROOT

#: collections inside functions whose names are those of public functions
NO_TABLES = {"('tanh', 'relu')"}


def test_facts_about_ops_stand_in_their_records() -> None:
    """A table of names of ops elsewhere would be a fact that `Op` has no field for."""
    tables = op_tables(Checkout(ROOT))
    inside = [t for t in tables["inside"] if t["name"] not in NO_TABLES]
    found = [f"{t['place']} {t['name']}" for t in (*tables["ops"], *tables["numbers"], *inside)]
    assert not found, "state it in the record (eagerflow/core/facts.py), or in NumberOp"


def test_a_table_of_ops_is_seen(tmp_path: Path) -> None:
    for package in ("eagerflow", "kernels"):
        shutil.copytree(ROOT / package, tmp_path / package)
    made = tmp_path / "eagerflow" / "runtime" / "made.py"
    made.write_text(
        "SLOW = frozenset({'exp', 'log', 'digamma', 'tanh'})\nEXTRA = {'exp': 1, 'x': 2}\n"
    )
    (table,) = op_tables(Checkout(tmp_path))["ops"]
    assert (table["name"], table["unknown"]) == ("SLOW", ["digamma"])
