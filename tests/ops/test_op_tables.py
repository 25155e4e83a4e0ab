"""Absence of tables of names of ops outside of the op records."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.bench.measures.checkout import Checkout, Module
from tests.bench.measures.op_tables import op_tables
from tests.source_tree import ROOT

#: collections of names that are not of ops: activations that callers name, names that completion
#: hides (`_FOR_LIBRARIES`), and names of other frameworks (`ALSO_METHODS`, `PAIRS`)
NO_TABLES: Final = {
    "('tanh', 'relu')", "ALSO_METHODS", "Activation", "_ACTIVATIONS", "_FOR_LIBRARIES", "PAIRS",
}  # fmt: skip

#: permitted comparisons with the name of one op, by file and name, with the reason
SINGLE: Final = {
    ("eagerflow/compilation/instruction_roles.py", "assign"):
        "of what changes a variable it alone neither reads it nor computes",
    ("eagerflow/compilation/instruction_roles.py", "cast"):
        "its native kernel depends on the dtype of its result",
    ("eagerflow/compilation/instruction_roles.py", "concat"):
        "it alone puts results side by side into one array",
    ("eagerflow/compilation/instruction_roles.py", "pad"):
        "it alone puts a result into the inside of a larger array",
    ("eagerflow/compilation/instruction_roles.py", "sum_to"):
        "of what reduces it alone says by shapes, not by an attribute, along which axes",
    ("eagerflow/graph/passes/simplify.py", "reshape"):
        "a rule of rewriting tells the ops that it rewrites apart",
}  # fmt: skip


@pytest.fixture(scope="module")
def checkout() -> Checkout:
    return Checkout(ROOT)


@pytest.fixture(scope="module")
def tables(checkout: Checkout) -> dict[str, Any]:
    return op_tables(checkout)


def test_facts_about_ops_stand_in_their_records(tables: dict[str, Any]) -> None:
    """A table of names of ops elsewhere would be a fact for which `Op` lacks a field."""
    every = (t for kind in ("ops", "numbers", "inside") for t in tables[kind])
    tables_elsewhere = [f"{t['place']} {t['name']}" for t in every if t["name"] not in NO_TABLES]
    assert not tables_elsewhere, (
        "state it in the record (core/op_records/op_facts.py), or in NumberOp"
    )


def test_comparisons_with_one_op_have_a_reason(tables: dict[str, Any]) -> None:
    """Code asks for a fact of the op record, unless it is about this op alone."""
    single = {tuple(row.split()) for row in tables["single"]}
    comparisons = {(place.partition(":")[0], name) for place, name in single}
    assert comparisons == set(SINGLE), "ask the record of the op, or give a reason here"


def test_a_table_of_ops_is_seen(checkout: Checkout) -> None:
    text = (
        "SLOW = frozenset({'exp', 'log', 'digamma', 'tanh'})\nEXTRA = {'exp': 1, 'x': 2}\n"
        "MORE = frozenset('exp log tanh'.split())\n"
        "def cost(node):\n"
        "    if node.op == 'exp':\n        return 1\n"
        "    elif 'log' == node.op:\n        return 2\n"
        "    return 0\n"
    )
    made = Module("eagerflow.runtime.made", "eagerflow/runtime/made.py", text)
    other = Checkout(ROOT)
    some = ("eagerflow.core", "eagerflow.ops")
    other.modules = {m.name: m for m in (*checkout.of(*some), made)}
    seen = op_tables(other)
    rows = [(table["name"], table["unknown"]) for table in seen["ops"]]
    assert rows == [("SLOW", ["digamma"]), ("MORE", [])]
    assert "comparisons of node.op" in [table["name"] for table in seen["inside"]]
    assert "eagerflow/runtime/made.py:5 exp" in seen["single"]
