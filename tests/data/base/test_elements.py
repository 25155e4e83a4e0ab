"""Conversion to elements: the fast path for tuples agrees with that for pytrees."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.data.base.elements import _as_leaf, as_element, stack
from eagerflow.errors import DTypeError, TensorValueError

Pair = namedtuple("Pair", ["x", "y"])

VALUES = [
    (),
    (1, 2.5, True, 1j, "name", b"bytes"),
    (np.arange(3), ef.arange(2)),
    (np.float32(1), Path("a.png")),
    (1, None),
    (1, (2, "inner")),
    ({"x": 1}, 2),
    Pair(1, "y"),
    [1, "x"],
]


def shown(value: Any) -> Any:
    """The tree with the type and text of each leaf, which can be compared."""
    return tree.map(lambda x: (type(x).__name__, str(x)), value)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_tuples_are_trees(value: Any) -> None:
    leaves, treedef = tree.flatten(value)
    expected = tree.unflatten(treedef, [_as_leaf(leaf) for leaf in leaves])
    element = as_element(value)
    assert type(element) is type(expected)
    assert shown(element) == shown(expected)


def test_elements_are_not_the_containers_of_the_user() -> None:
    array = np.zeros(2)
    element = as_element((array, 1))
    array[:] = 1  # readers often fill one buffer again and again
    assert element[0].tolist() == [0, 0]


def test_tuples_stack_as_trees_do() -> None:
    pairs = [(ef.tensor(i), ef.ones(2) * i) for i in range(3)]
    batch = stack(pairs)
    assert type(batch) is tuple
    assert [x.tolist() for x in batch] == [[0, 1, 2], [[0, 0], [1, 1], [2, 2]]]
    assert type(stack([Pair(*pair) for pair in pairs])) is Pair


@pytest.mark.parametrize(
    "other",
    [
        (ef.tensor(1),),
        (ef.tensor(1), ef.tensor(2), ef.tensor(3)),
        [ef.tensor(1), ef.tensor(2)],
        Pair(ef.tensor(1), ef.tensor(2)),
        (ef.tensor(1), (ef.tensor(2),)),
    ],
    ids=["shorter", "longer", "list", "named", "nested"],
)
def test_what_is_no_such_tuple_does_not_stack_with_it(other: Any) -> None:
    pair = (ef.tensor(1), ef.tensor(2))
    for elements in ([pair, other], [other, pair]):
        with pytest.raises(TensorValueError, match="differ in structure"):
            stack(elements)
    with pytest.raises(DTypeError, match=r"element 1 of it has no tensor at \[1\]"):
        stack([pair, (ef.tensor(1), "text")])
