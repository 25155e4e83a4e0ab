"""`ef.move`: variables change devices between steps, and functions that use them are retraced."""

from __future__ import annotations

import copy
import gc
from collections.abc import Iterator
from pickle import dumps, loads
from typing import Any
from weakref import ref

import pytest

import eagerflow as ef
from eagerflow.errors import DeviceError, OutOfMemoryError


@pytest.fixture(autouse=True)
def two_devices() -> Iterator[None]:
    with ef.config(cpu_devices=2):
        yield


def test_a_variable() -> None:
    v = ef.Variable([1.0, 2.0])
    before = v.value
    ef.move(v, "cpu:1")
    assert (v.device, v.value.device, before.device) == ("cpu:1", "cpu:1", "cpu:0")
    assert v.numpy().tolist() == [1.0, 2.0]
    v.assign_add(ef.ones(2, device="cpu:1"))
    assert before.numpy().tolist() == [1.0, 2.0]  # a value that was read does not change
    with pytest.raises(DeviceError):
        v.assign(ef.ones(2))


def test_a_tree_of_variables_modules_and_optimisers() -> None:
    net = ef.nn.Linear(2, 3)
    optimiser = ef.optim.Adam(net.trainable)
    own, shared = ef.Variable(1.0), ef.Variable(2.0)
    ef.move({"net": net, "more": [optimiser, own, shared, shared], "rate": 0.1}, "cpu:1")
    every = [*net.state.values(), *optimiser.state.values(), own, shared]
    assert {str(v.device) for v in every} == {"cpu:1"}


def test_functions_that_use_it_are_traced_anew() -> None:
    v, w = ef.Variable([1.0, 2.0], name="v"), ef.Variable(3.0, name="w")
    f, g = ef.trace(lambda: v * 2), ef.trace(lambda: w + 1)
    f(), g()
    ef.move(v, "cpu:1")
    assert f().device == "cpu:1"
    assert g().device == "cpu:0"
    assert [len(f.traces), len(g.traces)] == [2, 1]
    assert f.traces[-1].reason == "the variable 'v' moved to cpu:1"
    ef.move(v, "cpu:1")  # its own device
    f()
    assert len(f.traces) == 2


@pytest.mark.filterwarnings("ignore::eagerflow.errors.MoveWarning")
def test_rules_hold_for_the_new_trace() -> None:
    v = ef.Variable([1.0, 2.0], name="v")

    @ef.trace
    def f(x: Any) -> Any:
        with ef.name_scope("a"):
            return v.value.to("cpu:0") * x

    f.place({"a": "cpu:1"})
    want = f(ef.ones(2)).numpy().tolist()
    crossing = [c.bytes for c in f.explain("placement").crossings]
    ef.move(v, "cpu:1")
    assert f(ef.ones(2)).numpy().tolist() == want
    assert len(f.explain("placement").crossings) < len(crossing)  # `v` is there already


def test_a_training_step_goes_on_elsewhere() -> None:
    def run(move_at: int) -> list[float]:
        net = ef.nn.Sequential(
            ef.nn.Linear(3, 4, generator=ef.random.Generator(0)),
            ef.nn.Linear(4, 1, generator=ef.random.Generator(1)),
        )
        optimiser = ef.optim.Adam(net.trainable, lr=0.01)
        x = ef.ones((5, 3))

        @ef.trace
        def step(x: Any) -> Any:
            loss, gradients = ef.value_and_grad(lambda: ef.mean(net(x) ** 2), wrt=net.trainable)()
            optimiser.update(gradients)
            return loss

        losses = []
        for i in range(6):
            if i == move_at:
                ef.move([net, optimiser], "cpu:1")
                x = x.to("cpu:1")
            losses.append(step(x).item())
        return losses

    assert run(3) == run(-1)


@pytest.mark.parametrize("make", [ef.optim.Adam, ef.optim.Momentum, ef.optim.LBFGS])
@pytest.mark.parametrize("copied", [lambda x: x, copy.deepcopy, lambda x: loads(dumps(x))])
@pytest.mark.parametrize("what", [0, 1])
def test_a_model_and_its_optimiser_move_together(make: Any, copied: Any, what: int) -> None:
    net = ef.nn.Linear(2, 3)
    pair = copied((net, make(net.trainable, lr=0.1)))
    ef.move(pair[what], "cpu:1")
    net, optimiser = pair
    every = [*net.state.values(), *optimiser.state.values()]
    assert {str(v.device) for v in every} == {"cpu:1"}
    assert {str(v.device) for v in ef.nn.Linear(2, 3).state.values()} == {"cpu:0"}


def test_a_training_step_goes_on_with_the_model_elsewhere() -> None:
    def run(moves: bool) -> list[float]:
        net = ef.nn.Linear(2, 1, generator=ef.random.Generator(0))
        optimiser = ef.optim.Adam(net.trainable, lr=0.1)
        loss = ef.value_and_grad(lambda x: ef.mean(net(x) ** 2), wrt=net.trainable)

        def step(x: Any) -> Any:
            error, gradients = loss(x)
            optimiser.update(gradients)
            return error

        traced, x = ef.trace(step), ef.ones((4, 2))
        traced(x)
        if moves:
            ef.move(net, "cpu:1")
            x = x.to("cpu:1")
        with ef.profile() as profile:
            errors = [step(x).item(), traced(x).item()]
        assert "transfer" not in [row.name for row in profile.table()]
        return errors

    assert run(moves=True) == run(moves=False)


def test_companions_of_some_are_companions_of_all() -> None:
    v, w = ef.Variable(1.0), ef.Variable(2.0)
    first, second = ef.optim.Momentum([v], lr=0.1), ef.optim.Momentum([v, w], lr=0.1)
    ef.move(v, "cpu:1")
    both = [*first.state.values(), *second.state.values()]
    assert {str(one.device) for one in both if "1" not in (one.name or "")} == {"cpu:1"}
    assert w.device == "cpu:0"


def test_an_optimiser_that_is_gone_holds_nobody_back() -> None:
    v = ef.Variable([1.0, 2.0])
    state = ref(ef.optim.Momentum([v], lr=0.1).state["count"].resource)
    gc.collect()
    assert state() is None
    ef.move(v, "cpu:1")
    assert v.device == "cpu:1"


def test_a_device_that_holds_too_much_besides() -> None:
    v, w = ef.Variable(ef.ones(8)), ef.Variable(ef.ones(8))
    gc.collect()
    ef.hardware.limit_memory(ef.memory("async:0").in_use + 64, "async:0")
    try:
        held = ef.ones(8, device="async:0")
        with pytest.raises(OutOfMemoryError, match=r"move: out of memory .32 B more"):
            ef.move([v, w], "async:0")
        assert (v.device, w.device) == ("cpu:0", "cpu:0")
        del held
    finally:
        ef.hardware.limit_memory(None, "async:0")


def test_snapshots_of_several_are_traced_anew() -> None:
    v, w = ef.Variable(1.0), ef.Variable(2.0)
    f = ef.trace(lambda: ef.snapshot([v, w]))
    f()
    ef.move(w, "cpu:1")
    assert [str(x.device) for x in f()] == ["cpu:0", "cpu:1"]
    assert len(f.traces) == 2


def test_derivatives_of_before_are_not_used() -> None:
    v = ef.Variable([1.0, 2.0])
    f = ef.trace(lambda: ef.sum(v * v))
    gradient_of = ef.grad(f, wrt=[v])
    gradient_of()
    ef.move(v, "cpu:1")
    (gradient,) = gradient_of()
    assert (gradient.device, gradient.numpy().tolist()) == ("cpu:1", [2.0, 4.0])
