"""Automatic placement of programs in which the host waits for asynchronous devices."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import eagerflow as ef
from eagerflow.placement.automatic.cost_model import CostModel, works_later
from eagerflow.placement.automatic.planning import PlacementPlan, plan
from eagerflow.placement.automatic.rates import MachineRates
from eagerflow.placement.automatic.requests import as_request
from tests.placement.automatic.random_graphs import traits

LATER = "async:0"


def cond(x: ef.Tensor) -> ef.Tensor:
    return ef.cond(x.sum() > 0, lambda x: ef.exp(x), lambda x: ef.sin(x), x)


def branch(x: ef.Tensor) -> ef.Tensor:
    y = ef.exp(x) if x.sum() > 0 else ef.sin(x)
    return y + 1


def switch(x: ef.Tensor) -> ef.Tensor:
    return ef.switch((x.sum() > 0).astype("int64"), [ef.exp, ef.sin], x)


def mask(x: ef.Tensor) -> ef.Tensor:
    return x[x > 0].sum() + x


def two_devices(x: ef.Tensor) -> ef.Tensor:
    with ef.device("async:1"):
        y = ef.exp(x)
    with ef.device(LATER):
        return ef.cond(y.sum() > 0, lambda x: ef.exp(x), lambda x: ef.sin(x), x)


def planned(f: Callable[[ef.Tensor], ef.Tensor]) -> PlacementPlan:
    graph = ef.trace(f).graph(ef.ones(3, device=LATER))
    return plan(graph, as_request(None, None, None), CostModel(MachineRates()), traits(), "f")


@pytest.mark.parametrize("program", [cond, branch, switch, mask, two_devices])
def test_branches_and_masks_are_planned(program: Callable[[ef.Tensor], ef.Tensor]) -> None:
    made = planned(program)
    assert made.own.predicted > 0
    assert {device.kind for device in made.devices} == {"async"}


def test_what_the_host_reads_takes_until_it_is_there() -> None:
    """The ops after a read are issued when the value has been read, and not before."""
    read, issued = planned(mask), planned(lambda x: ef.where(x > 0, x, 0.0).sum() + x)
    assert read.own.predicted > issued.own.predicted


def test_steps_are_tried_on_such_a_device() -> None:
    f = ef.trace(cond)
    x = ef.ones(3, device=LATER)
    expected = f(x).numpy()
    f.place("auto")
    for _ in range(3):
        assert (f(x).numpy() == expected).all()


def test_null_devices_work_beside_the_host_and_virtual_cpus_do_not() -> None:
    names = ("cpu:0", LATER, "null:0")
    assert [works_later(ef.hardware.as_device(name)) for name in names] == [False, True, True]
