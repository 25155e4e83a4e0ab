"""Events of nodes that a native kernel runs: the kernel runs as without a listener."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.events import NodeEvent
from eagerflow.hardware.kernel_library import in_force
from tests.recorded import recorded

pytestmark = pytest.mark.skipif(in_force() != "native", reason="needs native kernels")

X = ef.sin(ef.arange(60, dtype=ef.float32)).reshape(5, 12)


def _made() -> Any:
    """A new function, as one that has run often may have found its kernels slower."""

    @ef.trace(compile="now")
    def centred(x: Any) -> Any:
        y = ef.exp(x - 1.0) * 2.0
        return y @ ef.ones((12, 3)) + 1.0, y

    return centred


@ef.trace(compile="now")
def repeated(x: Any) -> Any:
    for _ in ef.arange(3):
        x = ef.tanh(x * 0.5) + 1.0
    return x


def _events(f: Any, *args: Any) -> tuple[Any, list[NodeEvent]]:
    with recorded(NodeEvent) as log:
        result = f(*args)
    return result, log.of("node")


def test_nodes_of_a_kernel_share_its_time() -> None:
    centred = _made()
    alone = centred(X)
    observed, events = _events(centred, X)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(alone, observed, strict=True))
    by_node = {e.node: e for e in events}
    assert [e.name for e in events] == ["subtract", "exp", "multiply", "matmul", "add"]
    first = [by_node[n] for n in ("subtract", "exp", "multiply")]
    (kernel,) = {e.kernel for e in first}
    assert kernel
    assert by_node["matmul"].kernel == ""
    assert [e.nbytes for e in first] == [0, 0, 240]  # what stays within the kernel has no memory
    assert [e.detail for e in first] == ["", "", "f32[5,12]@cpu:0"]
    assert {e.device for e in events} == {"cpu:0"}
    assert all(e.stop is not None and e.seconds >= 0 for e in events)
    assert [e.start for e in first[1:]] == [e.stop for e in first[:-1]]  # one after the other
    assert first[1].seconds > first[0].seconds  # an exponential is more work than a difference


def test_a_kernel_in_a_loop_tells_the_iteration() -> None:
    want = repeated(X)
    result, events = _events(repeated, X)
    assert np.array_equal(result.numpy(), want.numpy())
    inside = [e for e in events if e.name == "tanh"]
    assert [e.iteration for e in inside] == [0, 1, 2]
    assert all(e.kernel for e in inside)


def test_a_profile_says_that_kernels_ran() -> None:
    centred = _made()
    centred(X)
    with ef.profile() as p:
        for _ in range(3):
            centred(X)
    shown = str(p)
    ran = sum(e.kernel != "" for e in p.events if isinstance(e, NodeEvent))
    assert 9 <= ran <= 12
    assert f"ran {ran} of these ops: each has a share of its kernel's time" in shown
    assert sum(row.calls for row in p.table()) == 15
    (row,) = [row for row in p.table() if row.name == "exp"]
    assert (row.calls, row.nbytes) == (3, 0)
    assert sum(row.total for row in p.lines()) == pytest.approx(sum(r.total for r in p.table()))


def test_statistics_count_each_node_of_a_kernel() -> None:
    centred = _made()
    centred(X)
    with centred.stats() as statistics:
        centred(X)
    assert {(row.op, row.count) for row in statistics.table()} == {
        (op, 1) for op in ("subtract", "exp", "multiply", "matmul", "add")
    }


@pytest.mark.parametrize("read", [(0, 2), (2,), (0, 1, 2)], ids=str)
def test_some_results_of_a_node_may_stay_within_the_kernel(read: tuple[int, ...]) -> None:
    @ef.trace(compile="now")
    def f(x: Any) -> Any:
        parts = ef.standardize(x * 2.0, axis=1)
        return ef.tanh(parts[0]) * parts[2], [parts[i] for i in read]

    want = f(X)
    (product, parts), events = _events(f, X)
    assert np.array_equal(product.numpy(), want[0].numpy())
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(parts, want[1], strict=True))
    (event,) = [e for e in events if e.name == "standardize"]
    assert event.kernel
    assert event.nbytes >= sum(part.numpy().nbytes for part in parts)
