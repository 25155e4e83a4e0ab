"""Snapshots of variables that many threads share: values of several at one instant."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from tests.resources.queues.modes import Call, numbers


def test_values_of_a_tree(call: Call) -> None:
    v = {"a": ef.Variable(1.0), "b": [ef.Variable([1, 2]), ef.Variable(True)]}
    first = call(lambda: ef.snapshot(v))
    v["a"].assign(5.0)
    assert numbers(first["a"]) == 1.0
    assert [numbers(x) for x in first["b"]] == [[1, 2], True]
    assert numbers(call(lambda: ef.snapshot([v["a"], v["a"]])[1])) == 5.0
    assert call(lambda: ef.snapshot({})) == {}


def test_in_the_order_of_effects() -> None:
    v, w = ef.Variable(0), ef.Variable(0)

    @ef.trace
    def f() -> Any:
        v.assign_add(1)
        snapshot = ef.snapshot((v, w))
        w.assign_add(1)
        return snapshot, ef.snapshot((v, w))

    assert [[numbers(x) for x in pair] for pair in f()] == [[1, 0], [1, 1]]


def test_one_instant(call: Call) -> None:
    """One thread increments ``a``, then ``b``: at no instant do they differ by more than one."""
    a, b, stop = ef.Variable(0), ef.Variable(0), threading.Event()

    def work() -> None:
        while not stop.is_set():
            a.assign_add(1)
            b.assign_add(1)

    look = ef.trace(lambda: ef.snapshot((b, a)))
    look()
    thread = threading.Thread(target=work)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        pairs = [[numbers(x) for x in look()] for _ in range(300)]
        pairs += [[numbers(x) for x in call(lambda: ef.snapshot((b, a)))] for _ in range(5)]
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(before)
    assert {y - x for x, y in pairs} <= {0, 1}


def test_two_that_take_the_same_in_another_order() -> None:
    a, b = ef.Variable(0), ef.Variable(0)

    def work(pair: Any) -> None:
        for _ in range(300):
            ef.snapshot(pair)

    threads = [threading.Thread(target=work, args=(p,)) for p in [(a, b), (b, a)] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_what_is_no_variable(call: Call) -> None:
    with pytest.raises(errors.VariableError, match="an argument is not a variable"):
        call(lambda: ef.snapshot([ef.tensor(1.0)]))


def test_several_devices() -> None:
    """One instant for all devices; in a graph one node, each output of which has its own device."""
    with ef.config(cpu_devices=2):
        v, w = ef.Variable(1.0), ef.Variable(2.0, device="cpu:1")
        snapshot = ef.snapshot({"v": v, "w": [w, v]})
        assert [numbers(x) for x in (snapshot["v"], *snapshot["w"])] == [1.0, 2.0, 1.0]
        assert [str(x.device) for x in (snapshot["v"], *snapshot["w"])] == [
            "cpu:0",
            "cpu:1",
            "cpu:0",
        ]
        traced = ef.trace(lambda: ef.snapshot([v, w]))
        assert [numbers(x) for x in traced()] == [1.0, 2.0]
        assert [str(x.device) for x in traced()] == ["cpu:0", "cpu:1"]
        (node,) = traced.graph().nodes
        assert [str(x.device) for x in node.outputs] == ["cpu:0", "cpu:1"]
