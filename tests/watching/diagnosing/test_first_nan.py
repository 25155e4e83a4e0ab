"""The first NaN: of many nodes with NaN values, the node that made them."""

from __future__ import annotations

import numpy as np

import eagerflow as ef
from eagerflow.watching.diagnosing.first_nan import NanCheck
from eagerflow.watching.graph_columns import NodeIndex

TEXT = """
graph f(%x: f32[2]) {
  %root = sqrt(%x) : f32[2]
  %far = exp(%root) : f32[2]
  %other = log(%x) : f32[2]
  %end = negative(%far) : f32[2]
  return %end
}
"""


BAD, GOOD = np.array([1.0, np.nan], "f4"), np.ones(2, "f4")


def looked(values: dict[str, object]) -> NanCheck:
    """A check after a look at the given values of nodes."""
    check = NanCheck(NodeIndex(ef.Graph.parse(TEXT)))
    looks = check.looks()
    for name, value in values.items():
        looks[name]([value])
    return check


def test_the_node_that_makes_it() -> None:
    assert looked({"root": BAD, "far": BAD, "other": BAD, "end": BAD}).first() == 0
    assert looked({"root": GOOD, "far": BAD, "other": GOOD, "end": BAD}).first() == 1


def test_a_node_that_was_not_seen_is_passed() -> None:
    """A move to another device, for instance, is no call of a kernel and is not seen."""
    assert looked({"root": BAD, "other": GOOD, "end": BAD}).first() == 0


def test_what_gets_into_no_result_is_well() -> None:
    check = looked({"root": GOOD, "far": GOOD, "other": BAD, "end": GOOD})
    assert check.makers == {2}
    assert check.first() is None


def test_values_that_cannot_be_looked_at_are_left_out() -> None:
    values = {"root": object(), "far": np.array([], "f4"), "other": np.array([1, 2]), "end": "NaN"}
    check = looked(values)
    assert check.makers == set()
    assert check.first() is None
