"""The remedies for what optimisers and `wrt` get in place of a tree of variables."""

# mypy: disable-error-code="arg-type, attr-defined, call-arg, list-item"

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError
from eagerflow.wrong_calls import add_remedy
from tests.messages import says


class Constant(ef.nn.Module):
    def __init__(self) -> None:
        self.weight = ef.ones(3)


NET = ef.nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ef.optim.Adam(NET.parameters.values()), "list(.*)"),
        (lambda: ef.grad(NET, wrt=NET.parameters.values())(ef.ones((1, 2))), "wrt=list"),
        (lambda: ef.optim.Adam(Constant().trainable), "self.weight = ef.Variable"),
        (lambda: ef.optim.Adam([ef.ones(3)]), "make it a variable"),
        (lambda: ef.gradcheck, "ef.check_grads"),
        (lambda: ef.register_kernel, "@portable"),
    ],
)
def test_the_hint_says_what_works(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(EagerflowError, check=says(f"(?s)hint: .*{words}")):
        call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ef.optim.SGD(NET.trainable, learning_rate=0.1), "use lr= .*: SGD("),
        (lambda: sum(p.size for p in NET.trainable), ".values()"),
    ],
)
def test_what_python_refuses_gets_a_remedy(call: Callable[[], Any], words: str) -> None:
    with pytest.raises((TypeError, AttributeError)) as caught:
        call()
    add_remedy(caught.value)
    (note, *_) = caught.value.__notes__
    first, _, last = words.partition(" .*")
    assert first in note
    assert last in note
