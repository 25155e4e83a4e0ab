"""No table of names of ops stands outside of the records of ops."""

from __future__ import annotations

import pytest

from tests.bench.measures.checkout import Checkout, Module
from tests.bench.measures.op_tables import op_tables
from tests.source_tree import ROOT

#: collections inside functions whose names are those of public functions
NO_TABLES = {"('tanh', 'relu')"}


@pytest.fixture(scope="module")
def checkout() -> Checkout:
    return Checkout(ROOT)


def test_facts_about_ops_stand_in_their_records(checkout: Checkout) -> None:
    """A table of names of ops elsewhere would be a fact that `Op` has no field for."""
    tables = op_tables(checkout)
    inside = [t for t in tables["inside"] if t["name"] not in NO_TABLES]
    found = [f"{t['place']} {t['name']}" for t in (*tables["ops"], *tables["numbers"], *inside)]
    assert not found, "state it in the record (eagerflow/core/facts.py), or in NumberOp"


def test_a_table_of_ops_is_seen(checkout: Checkout) -> None:
    text = "SLOW = frozenset({'exp', 'log', 'digamma', 'tanh'})\nEXTRA = {'exp': 1, 'x': 2}\n"
    made = Module("eagerflow.runtime.made", "eagerflow/runtime/made.py", text)
    other = Checkout(ROOT)
    other.modules = {**checkout.modules, made.name: made}
    (table,) = op_tables(other)["ops"]
    assert (table["name"], table["unknown"]) == ("SLOW", ["digamma"])
