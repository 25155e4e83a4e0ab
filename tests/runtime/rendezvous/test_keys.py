"""Names of values, and sets of names that stay small in loops."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eagerflow.runtime.rendezvous.keys import Key, KeySet, LoopPath

PATHS = st.lists(st.tuples(st.sampled_from(["while_loop", "scan"]), st.integers(0, 4)), max_size=2)
KEYS = st.builds(Key, st.just(1), st.sampled_from(["a", "b"]), PATHS.map(tuple))


class _Text(NamedTuple):
    path: LoopPath
    text: str


@pytest.mark.parametrize("case", [
    _Text((), 'step 12, edge "y -> cpu:1"'),
    _Text((("while_loop", 3),), 'step 12, edge "y -> cpu:1", while_loop[3]'),
    _Text((("while_loop", 3), ("scan", 0)), 'step 12, edge "y -> cpu:1", while_loop[3], scan[0]'),
])  # fmt: skip
def test_text(case: _Text) -> None:
    assert str(Key(12, "y -> cpu:1", case.path)) == case.text


def test_keys_are_equal_by_their_parts() -> None:
    a, b = Key(1, "a", (("scan", 1),)), Key(1, "a", (("scan", 1),))
    assert a == b
    assert hash(a) == hash(b)
    assert len({a, Key(2, "a", (("scan", 1),)), Key(1, "b", (("scan", 1),)), Key(1, "a")}) == 4


@given(st.lists(KEYS))
@example(keys=[Key(1, "a", (("while_loop", 0),)), Key(1, "a", (("scan", 0),))])
def test_a_set_of_keys_is_a_set(keys: list[Key]) -> None:
    ours, theirs = KeySet(), set[Key]()
    for one in keys:
        assert (one in ours) == (one in theirs)
        ours.add(one)
        theirs.add(one)
        assert one in ours
    for one in keys:
        assert one in ours


def test_iterations_in_any_order_take_the_room_of_one() -> None:
    order = list(range(2000))
    random.Random(0).shuffle(order)
    keys = KeySet()
    most = 0
    for start in range(0, 2000, 100):  # a hundred keys at once are under way
        for i in sorted(order[start : start + 100], key=lambda i: i):
            keys.add(Key(1, "a", (("scan", 5), ("while_loop", i))))
        most = max(most, keys.room)
    assert keys.room == 1
    assert most > 1
    assert Key(1, "a", (("scan", 5), ("while_loop", 1999))) in keys
    assert Key(1, "a", (("scan", 5), ("while_loop", 2000))) not in keys
    assert Key(1, "a", (("scan", 4), ("while_loop", 0))) not in keys
