"""The programs that are made at random keep to what a traced function may do."""

from __future__ import annotations

import pytest

import eagerflow as ef
from tests.programs.language import Program, State, keeps_to_top
from tests.programs.strategies import Call

_RETURN = ("branch", 0, 0, 0, [("append", 0, 0, 0)], [("return", 0, 0, 0)])
_REMEMBER = ("remember", 0, 0, 0)


def test_appends_to_outer_lists_do_not_follow_returns_in_branches() -> None:
    assert keeps_to_top([_REMEMBER, _RETURN, ("append", 0, 0, 0)])
    assert not keeps_to_top([("append", 0, 0, 0), _RETURN, _REMEMBER])


def test_such_an_append_is_refused() -> None:
    program = Program([_RETURN, _REMEMBER], python=True).function(move=lambda x, device: x)
    state = State.fresh("float32")
    tensors, numbers = Call(1, 1).arguments()
    with pytest.raises(
        ef.errors.TraceError, match=r"state\.log gets a length that depends on data"
    ):
        ef.trace(lambda t, n: program(state, t, n))(tensors, numbers)
