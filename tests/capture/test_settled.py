"""Guards of networks: a call checks objects and the user's classes, not eagerflow's own code."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, final

import pytest

import eagerflow as ef
from eagerflow.capture.guards.guard_kinds import GuardWriter

X = ef.ones((2, 3))


class Doubled(ef.nn.Module):
    """A class of the user's."""

    factor = 2.0

    def __init__(self) -> None:
        self.layer = ef.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.factor


@final
class Halved(Doubled):
    """One that inherits."""

    factor = 0.5


def negated(self: Any, x: Any) -> Any:
    return -self.layer(x)


def _replaced(net: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Doubled, "forward", negated)


def _set_on_class(net: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(type(net), "factor", 5.0)


def _overridden(net: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Halved, "forward", negated, raising=False)


def _on_instance(net: Any, patch: pytest.MonkeyPatch) -> None:
    net.layer.__dict__["forward"] = MethodType(lambda self, x: x + self.bias, net.layer)


def _another_layer(net: Any, patch: pytest.MonkeyPatch) -> None:
    net.layer = ef.nn.Linear(3, 3)


def _another_class(net: Any, patch: pytest.MonkeyPatch) -> None:
    net.__class__ = Doubled


def _another_variable(net: Any, patch: pytest.MonkeyPatch) -> None:
    net.layer.bias = ef.Variable([1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    "change",
    [_replaced, _set_on_class, _overridden, _on_instance, _another_layer, _another_class,
     _another_variable],
)  # fmt: skip
def test_what_users_change_is_seen(
    change: Callable[[Any, pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Halved()
    f = ef.trace(lambda x: net(x))
    before = f(X).numpy()
    assert (before == f(X).numpy()).all()
    assert len(f.traces) == 1
    change(net, monkeypatch)
    output, want = f(X).numpy(), net(X).numpy()
    assert (output == want).all()
    assert (output != before).any()


def test_own_classes_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = ef.nn.Linear(3, 3)
    f = ef.trace(lambda x: layer(x))
    before = f(X).numpy()
    monkeypatch.setattr(ef.nn.Linear, "forward", lambda self, x: x)
    assert (f(X).numpy() == before).all()
    f.clear()
    assert (f(X).numpy() == X.numpy()).all()


def test_a_step_reads_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads of a training step, which it pays for at each call."""
    counts = []
    write = GuardWriter.write

    def counted(self: Any, *args: Any) -> Any:
        check = write(self, *args)
        counts.append(len(self.variables))
        return check

    monkeypatch.setattr(GuardWriter, "write", counted)
    net = ef.nn.Sequential(ef.nn.Linear(3, 3), ef.nn.functional.relu, ef.nn.Linear(3, 2))
    optimiser = ef.optim.Adam(net.trainable)
    gradient = ef.value_and_grad(lambda x: ef.sum(net(x)), wrt=net.trainable)

    @ef.trace
    def step(x: Any) -> Any:
        loss, gradients = gradient(x)
        optimiser.update(gradients)
        return loss

    for _ in range(3):
        step(X)
    assert max(counts) <= 45
