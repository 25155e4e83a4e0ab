"""Pytrees."""

from __future__ import annotations

from dataclasses import dataclass

import eagerflow as ef
from eagerflow.core import tree


def test_flatten_and_back() -> None:
    value = {"b": [1, (2, None)], "a": 3}
    leaves, treedef = tree.flatten(value)
    assert leaves == [3, 1, 2]
    assert tree.unflatten(treedef, leaves) == value
    assert tree.leaves(value) == leaves
    assert tree.map(lambda x, y: x + y, value, value) == {"b": [2, (4, None)], "a": 6}


def test_paths() -> None:
    _, treedef = tree.flatten({"b": [1, (2,)], "a": 3})
    assert tree.paths(treedef) == ["['a']", "['b'][0]", "['b'][1][0]"]
    assert tree.paths(tree.flatten(7)[1]) == [""]


def test_show() -> None:
    assert tree.show(tree.flatten(({"w": 1, "b": [2, None]}, 4))[1]) == (
        "({'w': *, 'b': [*, None]}, *)"
    )
    assert tree.show(tree.flatten(1)[1]) == "*"


def test_tensors_variables_and_slices_are_leaves() -> None:
    leaves = [ef.ones(2), ef.Variable(1.0), ef.IndexedSlices([1.0], [0], (2,))]
    assert all(a is b for a, b in zip(tree.leaves(leaves), leaves, strict=True))


def test_all_attributes_are_children_of_a_whole() -> None:
    @dataclass
    class Batch:
        x: object

    batch, items = Batch(1), Items([3, 4])
    vars(batch)["n"], vars(items)["count"] = 2, 5
    assert tree.leaves([batch, items]) == [1, 3, 4]
    leaves, treedef = tree.flatten([batch, items], whole=True)
    assert leaves == [1, 2, 3, 4, 5]
    assert tree.paths(treedef)[1].endswith(".n")
    batch, items = tree.unflatten(treedef, [10, 20, 30, 40, 50])
    assert (vars(batch), items, vars(items)) == ({"x": 10, "n": 20}, [30, 40], {"count": 50})
    del batch.n
    assert tree.flatten([batch, items], whole=True)[1] != treedef


class Items(list[int]):
    pass
