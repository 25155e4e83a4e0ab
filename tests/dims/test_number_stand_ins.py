"""Stand-ins for numbers: their look to Python, and the places that take the number itself."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.dims import Dim, resolving
from eagerflow.dims.number_stand_ins import asked, has_a_say

N = Dim("n")


class Asked:
    """A resolver that answers with 7 and records the reasons of the questions."""

    def __init__(self) -> None:
        self.whats: list[str] = []

    def __call__(self, dim: Dim, what: str) -> int:
        self.whats.append(what)
        return dim.evaluate({"n": 7})


@pytest.fixture
def asks() -> Any:
    note = Asked()
    with resolving(note):
        yield note


class Pair(NamedTuple):
    a: Any
    b: Any


def test_a_size_is_an_int_to_isinstance_alone(asks: Asked) -> None:
    assert isinstance(N, int)
    assert not issubclass(Dim, int)
    assert not isinstance(N, (bool, float))
    assert isinstance(N, Dim)
    assert asks.whats == []


def test_what_numbers_lack_is_not_asked_for(asks: Asked) -> None:
    for name in ("shape", "__name__", "__dlpack__", "mro"):
        assert not hasattr(N, name)
    with pytest.raises(AttributeError, match="'int' object has no attribute 'shape'"):
        N.shape
    assert asks.whats == []
    assert N.bit_length() == 3
    assert asks.whats == [".bit_length"]


def test_copies_are_the_same(asks: Asked) -> None:
    assert copy.copy(N) is N
    assert copy.deepcopy([N])[0] is N
    assert asks.whats == []


def test_numpy_asks(asks: Asked) -> None:
    assert np.arange(N).shape == (7,)
    assert np.sqrt(N) == np.sqrt(7)
    assert np.stack([np.ones(2), np.ones(2) * N]).max() == 7
    assert np.array((N, 2.5)).tolist() == [7.0, 2.5]
    assert set(asks.whats) >= {"NumPy"}


def test_numbers_take_their_places(asks: Asked) -> None:
    plain, numbers = ["a", {"b": (1, 2)}], [1, {"k": N, N: (N, N)}, Pair(N, [N])]
    assert asked(plain, "f()") is plain
    assert asked(numbers, "f()") is numbers
    assert numbers == [1, {"k": 7, 7: (7, 7)}, Pair(7, [7])]
    parts: Any = asked((N, slice(N), frozenset({N})), "f()")
    assert [type(x) for x in (*parts[2], parts[0], parts[1].stop)] == [int] * 3
    assert set(asks.whats) <= {"f()", "hash(n)"}


def test_numbers_take_their_places_while_python_loops(asks: Asked) -> None:
    sizes = {"a": N, "b": N + 1, "c": N}
    for _ in sizes:
        asked(sizes, "f()")
    assert list(map(repr, sizes.values())) == ["7", "8", "7"]


def test_a_list_that_holds_itself(asks: Asked) -> None:
    items: list[Any] = [N]
    items.append(items)
    assert asked(items, "f()") is items
    assert items[0] == 7
    assert items[1] is items


def test_who_has_a_say() -> None:
    class Mine:
        def __radd__(self, other: Any) -> Any: ...

        __rmul__ = None

    assert has_a_say(Mine(), "__radd__")
    assert has_a_say(Mine(), "__rmul__")
    assert has_a_say(ef.ones(2), "__radd__")
    for other in ("a", [1], np.ones(2), 2.5, None):
        assert not has_a_say(other, "__rmul__")
