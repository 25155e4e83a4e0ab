"""Traced functions over tasks: the same bits as in one process, and state on its device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.cluster.processes.client.connections import Connections
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.messages import Register, RunStep
from eagerflow.errors import (
    DeadlineError,
    PlacementError,
    QueueClosedError,
    TensorIndexError,
)
from tests.messages import says

pytestmark = pytest.mark.usefixtures("cluster")
#: the first and the second device, in this process and in tasks
HERE = ("cpu:0", "cpu:1")
THERE = ("worker:0", "ps:0")
X = ef.random.normal((40, 30), generator=ef.random.Generator(3))


def forth_and_back(one: str, two: str) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        with ef.device(two):
            y = ef.exp(x.T @ x)
        with ef.device(one):
            return y.sum() / x.mean(), y * 2

    return f


def loop(one: str, two: str) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        with ef.device(one):
            x = x * 1
            while x.sum() > 1:
                with ef.device(two):
                    half = x * 0.5
                x = half - 0.01
            return x

    return f


def branch(one: str, two: str) -> Callable[..., Any]:
    def f(x: Any) -> Any:
        if x.sum() > 0:
            with ef.device(two):
                y = ef.sin(x)
        else:
            with ef.device(two):
                y = ef.cos(x)
        with ef.device(one):
            return y + 1

    return f


def slope(one: str, two: str) -> Callable[..., Any]:
    return lambda x: ef.grad(lambda v: forth_and_back(one, two)(v)[0])(x)


def curve(one: str, two: str) -> Callable[..., Any]:
    return ef.grad(lambda x: (slope(one, two)(x) * ef.cos(x)).sum())


def scan(one: str, two: str) -> Callable[..., Any]:
    def body(carry: Any, row: Any) -> Any:
        with ef.device(two):
            y = ef.tanh(carry + row)
        with ef.device(one):
            return y * 0.5, y.sum() + 1

    def f(x: Any) -> Any:
        with ef.device(one):
            return ef.scan(body, ef.zeros(x.shape[1:]), x * 1)

    return f


def through_a_scan(one: str, two: str) -> Callable[..., Any]:
    return ef.grad(lambda x: ef.sin(scan(one, two)(x)[1]).sum())


def updates_in_a_loop(one: str, two: str) -> Callable[..., Any]:
    w = ef.Variable(ef.zeros((10,)), device=two)

    def f(x: Any) -> Any:
        with ef.device(two):
            w.assign(x * 0)
        with ef.device(one):
            left = x.sum()
            while left > 1:
                with ef.device(two):
                    if w.value.sum() > 12:
                        w.assign_sub(0.25 * w)
                    else:
                        w.assign_add(x)
                    total = w.value.sum()
                left = left - total.to(one) * 0.125
            return left

    return f


CASES: dict[str, tuple[Any, Any]] = {
    "forth and back": (forth_and_back, X),
    "a loop": (loop, ef.ones((10,))),
    "one branch": (branch, X),
    "the other branch": (branch, -ef.abs(X)),
    "a gradient": (slope, X),
    "a gradient of a gradient": (curve, X * 0.1),
    "a scan": (scan, X[:5]),
    "a gradient through a scan": (through_a_scan, X[:5]),
    "updates in a loop": (updates_in_a_loop, ef.ones((10,))),
    "three tasks": (lambda one, two: lambda x: loop(one, two)(loop(one, f"{two[:-1]}1")(x)),
                    ef.ones((10,))),
}  # fmt: skip


def values(result: Any) -> list[np.ndarray[Any, Any]]:
    return [x.numpy() for x in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("case", CASES)
def test_tasks_give_the_bits_of_one_process(case: str) -> None:
    make, x = CASES[case]
    with ef.config(cpu_devices=2):
        want = values(ef.trace(make(*HERE))(x))
    f = ef.trace(make(*THERE))
    for got in (f(x), f(x), make(*THERE)(x)):  # traced, then eagerly
        assert [y.tobytes() for y in values(got)] == [y.tobytes() for y in want]


def test_results_stay_where_they_are() -> None:
    y, z = ef.trace(forth_and_back(*THERE))(X)
    assert (str(y.device), str(z.device)) == ("worker:0/cpu:0",) * 2
    assert repr(z) == "Tensor(f32[30,30]@worker:0/cpu:0)"


def test_state_is_where_its_device_is() -> None:
    w = ef.Variable(ef.ones((3,)), device="ps:0")
    v = ef.Variable(ef.ones((3,)))

    @ef.trace
    def step(rate: Any) -> Any:
        with ef.device("ps:0"):
            w.assign_sub(rate * w)
        v.assign_sub(rate * v)
        return w * 1

    rate = ef.tensor(0.1)
    for _ in range(5):
        got = step(rate)
        assert got.numpy().tobytes() == v.numpy().tobytes()
    assert w.numpy().tobytes() == v.numpy().tobytes()


def test_what_belongs_to_this_process_runs_here() -> None:
    queue, seen = ef.Queue(4, "f32[3]"), []
    generator, again = ef.random.Generator(5), ef.random.Generator(5)

    @ef.trace
    def step(x: Any) -> Any:
        with ef.device("worker:0"):
            queue.enqueue(x * 2)
            y = ef.py_call(lambda v: (seen.append(v.numpy()), v + 1)[1], "f32[3]", queue.dequeue())
            return y * ef.random.normal((3,), generator=generator)

    got = step(ef.ones(3)).numpy()
    assert got.tobytes() == (3 * ef.random.normal((3,), generator=again)).numpy().tobytes()
    assert [x.tolist() for x in seen] == [[2.0, 2.0, 2.0]]


def test_an_error_has_its_line_and_the_next_step_runs() -> None:
    @ef.trace
    def fails(x: Any, i: Any) -> Any:
        with ef.device("ps:0"):
            y = ef.take(x, i)
        with ef.device("worker:0"):
            return y + 1

    x = ef.arange(5)
    with pytest.raises(TensorIndexError, match="index 7 is out of range") as raised:
        fails(x, ef.tensor([1, 7]))
    assert "y = ef.take(x, i)" in str(raised.value)
    assert "  task: ps:0" in raised.value.__notes__
    assert fails(x, ef.tensor([1, 2])).tolist() == [2, 3]


def test_a_step_that_failed_leaves_no_values(cluster: ef.cluster.Cluster) -> None:
    @ef.trace
    def fails(x: Any, i: Any) -> Any:
        return x.to("ps:0") * 2, ef.take(x.to("worker:0"), i.to("worker:0"))

    x = ef.ones(3)
    fails(x, ef.tensor(1))
    x.numpy()
    held = cluster.tasks["ps:0"].values
    for _ in range(5):
        with pytest.raises(TensorIndexError):
            fails(x, ef.tensor(7))
    fails(x, ef.tensor(1))
    assert cluster.tasks["ps:0"].values <= held + 1


def test_an_error_here_ends_the_step_there() -> None:
    queue = ef.Queue(4, "f32[2]")
    queue.close()

    @ef.trace
    def waits(x: Any) -> Any:
        with ef.device("ps:0"):
            return ef.exp(x) + queue.dequeue()

    for _ in range(2):
        with pytest.raises(QueueClosedError):
            waits(ef.ones(2))


def test_a_deadline_ends_a_step_everywhere(cluster: ef.cluster.Cluster) -> None:
    @ef.trace
    def endless(x: Any) -> Any:
        with ef.device("worker:0"):
            x = x * 1
            while x.sum() > 1:
                with ef.device("ps:0"):
                    y = x * 1.0
                x = y + 0.0
            return x

    with pytest.raises(DeadlineError), ef.deadline(0.3):
        endless(ef.ones(10))
    assert endless(ef.zeros(3)).tolist() == [0, 0, 0]
    assert {one.health for one in cluster.tasks.values()} == {"ready"}


def test_a_deadline_ends_a_loop_at_one_task(cluster: ef.cluster.Cluster) -> None:
    """The thread that is told to end it is another one than that of the loop, however light."""

    @ef.trace
    def endless(x: Any) -> Any:
        with ef.device("worker:0"):
            x = x * 1
            while x > 0:
                x = x + 1
            return x

    with pytest.raises(DeadlineError), ef.deadline(0.3):
        endless(ef.tensor(1.0))
    with ef.deadline(10):
        assert endless(ef.tensor(0.0)).item() == 0
    assert {one.health for one in cluster.tasks.values()} == {"ready"}


def test_large_values_cross() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        with ef.device("ps:0"):
            y = x + 1
        with ef.device("worker:0"):
            return y * 2

    got = f(ef.ones((2_000_000,))).numpy()
    assert got.tobytes() == (np.ones(2_000_000, np.float32) * 4).tobytes()


@pytest.mark.parametrize("way", [lambda f: f, ef.trace])
def test_floats_cross_with_fewer_bits(way: Callable[..., Any]) -> None:
    @way
    def f(x: Any) -> Any:
        return (x.to("ps:0") * 3).to("worker:0", sent_as="bfloat16") + 0.0

    x = ef.tensor(np.linspace(-3, 5, 1_000, dtype="f4"))
    got = f(x)
    assert str(got.device) == "worker:0/cpu:0"
    want = (x * 3).astype("bfloat16").astype("float32").numpy()
    assert got.numpy().tobytes() == want.tobytes()


def test_a_step_is_a_short_message_and_the_graph_goes_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[tuple[Any, int]] = []
    encode = codec.encode

    def counted(message: Any) -> bytes:
        header = encode(message)
        sent.append((message, len(header)))
        return header

    monkeypatch.setattr(codec, "encode", counted)
    w = ef.Variable(ef.ones((3,)), device="ps:0")

    @ef.trace
    def step(x: Any) -> Any:
        with ef.device("worker:0"):
            y = (x * w).sum()
        w.assign_add(y.to("ps:0"))
        return y

    x = ef.ones(3, device="worker:0")
    for _ in range(3):
        step(x)
    assert sum(isinstance(message, Register) for message, _ in sent) == 2
    steps = [size for message, size in sent if isinstance(message, RunStep)]
    assert len(steps) == 6
    assert max(steps) <= 200


def test_the_task_that_receives_most_begins_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes before its step has begun is kept, and handed over later."""
    weights = [ef.Variable(float(i), device=f"ps:{i}") for i in range(2)]

    @ef.trace
    def step() -> Any:
        with ef.device("worker:0"):
            return weights[0].value + weights[1].value

    order: list[list[str]] = []
    run = Connections.run

    def noted(self: Connections, pending: Any, parts: Any) -> None:
        order.append(list(parts))
        run(self, pending, parts)

    monkeypatch.setattr(Connections, "run", noted)
    assert step().item() == 1.0
    assert order == [["worker:0", "ps:0", "ps:1"]]


def test_a_runner_runs_steps_at_tasks() -> None:
    count = ef.Variable(0, device="ps:0", trainable=False)
    done = ef.Queue(100, "i64[]")

    @ef.trace
    def step() -> Any:
        value = count.assign_add(1)
        done.enqueue(value.to("cpu:0"))

    runner = ef.spawn(step)
    got = [done.dequeue().item() for _ in range(5)]
    runner.stop()
    assert got == [1, 2, 3, 4, 5]


def test_a_graph_that_is_not_used_is_let_go_of(
    cluster: ef.cluster.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = []
    connections = cluster._open()
    monkeypatch.setattr(connections, "release", lambda *given: released.append(given))
    f = ef.trace(forth_and_back(*THERE))
    f(X)
    del f
    assert {task for task, _ in released} == {"ps:0", "worker:0"}


def test_two_devices_of_this_process_are_too_many() -> None:
    def f(x: Any) -> Any:
        with ef.device("cpu:1"):
            y = ef.exp(x)
        with ef.device("ps:0"):
            return y + 1

    with (
        ef.config(cpu_devices=2),
        pytest.raises(PlacementError, check=says("cpu:0, cpu:1")),
    ):
        ef.trace(f)(ef.ones(3))


def test_networks_and_optimisers_work_there() -> None:
    losses = []
    for device in ("cpu:0", "ps:0"):
        with ef.device(device):
            net = ef.nn.Sequential(
                ef.nn.Linear(3, 4, generator=ef.random.Generator(1)), ef.tanh,
                ef.nn.Linear(4, 1, generator=ef.random.Generator(2)),
            )  # fmt: skip
            optimiser = ef.optim.Adam(net.trainable, 0.1)
            x, y = ef.ones((8, 3)), ef.zeros((8, 1))

            def step(net: Any = net, x: Any = x, y: Any = y, optimiser: Any = optimiser) -> Any:
                def loss() -> Any:
                    return ((net(x) - y) ** 2).mean()

                value, gradients = ef.value_and_grad(loss, wrt=net.trainable)()
                optimiser.update(gradients)
                return value

            losses.append([step().item() for _ in range(3)])
            traced = ef.trace(step)
            losses[-1] += [traced().item() for _ in range(3)]
    assert losses[0] == losses[1]


def test_calls_of_numpy_have_its_bits_at_a_task() -> None:
    x = X.numpy()
    graph = ef.Graph.parse("""graph (%x: f32[40,30]@ps:0) {
        %y = portable_exp(%x) : f32[40,30]
        %z = portable_sum(%y) {axis=(0,), keepdims=False} : f32[30]
        return %y, %z }""")
    y, z = graph.run(graph.outputs, {"x": x})
    assert str(y.device).startswith("ps:0")
    assert y.numpy().tobytes() == np.exp(x).tobytes()
    assert z.numpy().tobytes() == np.exp(x).sum(0).tobytes()
