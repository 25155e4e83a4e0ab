"""Queues that live at a task: who waits there, who shares them, and when they end."""

from __future__ import annotations

import copy
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import eagerflow as ef
from eagerflow.cluster.processes.client.pending_answers import Pending
from eagerflow.errors import (
    ClusterWarning,
    DeadlineError,
    QueueClosedError,
    ResourceError,
    TaskLost,
    TensorIndexError,
)
from tests.cluster.remote.queues_at_tasks import left, queue_of
from tests.cluster.remote.waiting import Waiting, open_steps, watching
from tests.cluster.test_clusters import ENVIRONMENT, comes
from tests.cluster.warm import warm
from tests.ctrl_c import ctrl_c_raises
from tests.resources.queues.modes import until


@pytest.fixture(scope="module")
def cluster() -> Iterator[ef.cluster.Cluster]:
    with ef.cluster.local({"ps": 2, "worker": 1}) as made, watching(made):
        warm(made)
        yield made


def other_client(folder: Path, program: str) -> subprocess.Popen[str]:
    code = f"""
import sys, eagerflow as ef
with ef.cluster.connect(sys.argv[1]) as cluster:
    queue = ef.Queue(3, "f32[]", device="ps:0", name="both", container="shared")
{program}
"""
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], env=ENVIRONMENT, text=True,
        stdout=subprocess.PIPE,
    )  # fmt: skip


# --- where they are ----------------------------------------------------------------------------


def test_its_elements_are_at_the_task(cluster: ef.cluster.Cluster) -> None:
    queue = ef.Queue(4, {"x": "f32[2]", "n": "i64[]"}, device="ps:0", name="pairs")
    queue.enqueue({"x": [1.0, 2.0], "n": 3})
    taken = queue.dequeue()
    assert str(taken["x"].device) == "ps:0/cpu:0"
    assert (taken["x"].tolist(), taken["n"].item()) == ([1, 2], 3)
    assert repr(queue) == "Queue(fifo 'pairs', i64[]@ps:0/cpu:0, f32[2]@ps:0/cpu:0, at most 4)"
    assert "pairs" in queue._repr_html_()
    assert (queue.capacity, queue.kind, queue.name, queue.closed) == (4, "fifo", "pairs", False)


def test_it_is_on_the_device_of_the_task_that_is_named(cluster: ef.cluster.Cluster) -> None:
    queue = ef.Queue(1, ef.ones(2, device="worker:0"))
    queue.enqueue([1.0, 2.0])
    assert str(queue.dequeue().device) == "worker:0/cpu:0"


def test_each_kind_gives_what_it_gives_here(cluster: ef.cluster.Cluster) -> None:
    def program(device: str) -> list[Any]:
        shuffle = ef.Queue(9, "i64[]", kind="shuffle", seed=7, min_after_dequeue=2, device=device)
        shuffle.enqueue_many(list(range(8)))
        first = ef.Queue(9, "i64[]", kind="priority", device=device)
        first.enqueue_many([10, 20, 30], priority=[2, 1, 1])
        padding = ef.Queue(9, "f32[n,2]", kind="padding", device=device)
        for n in (2, 0, 1):
            padding.enqueue(ef.full((n, 2), n + 0.5, device=device))
        some = padding.dequeue_many(2)
        return [shuffle.dequeue_many(6).tolist(), first.dequeue_many(3).tolist(), some.tolist(),
                padding.dequeue().tolist()]  # fmt: skip

    assert program("ps:0") == program("cpu:0")


def test_in_a_step_its_ops_are_at_its_task(cluster: ef.cluster.Cluster) -> None:
    queue, total = queue_of(), ef.Variable(0.0, device="ps:0")

    @ef.trace
    def step(x: ef.Tensor) -> ef.Tensor:
        with ef.device("worker:0"):
            y = x * 2
        queue.enqueue(y.to("ps:0"))
        with ef.device("ps:0"):
            total.assign_add(queue.dequeue())
        return queue.size()

    assert step(ef.tensor(1.5)).item() == 0
    assert total.item() == 3
    graph = step.graph(ef.tensor(1.5))
    where = {str(node.device) for node in graph.nodes if node.op.startswith("queue_")}
    assert where == {"ps:0/cpu:0"}


# --- waits -------------------------------------------------------------------------------------


def test_a_wait_holds_up_its_own_thread_alone(cluster: ef.cluster.Cluster) -> None:
    queue, v = queue_of(), ef.Variable(0.0, device="ps:0")
    add = ef.trace(lambda: v.assign_add(1.0))
    waiting = [Waiting(queue.dequeue, queue), Waiting(ef.trace(lambda: queue.dequeue()), queue)]
    for _ in range(100):
        add()
        v.assign_add(1.0)
    assert v.item() == 200
    done = other_client(cluster.folder, "    print(ef.ones(2, device='ps:0').tolist())")
    assert done.communicate()[0] == "[1.0, 1.0]\n"
    assert all(one.waits for one in waiting)
    queue.enqueue_many([5.0, 6.0])
    assert [one.result().item() for one in waiting] == [5, 6]


def test_an_earlier_failure_of_the_thread_is_raised_first(cluster: ef.cluster.Cluster) -> None:
    queue = queue_of(1.0)
    with ef.device("ps:0"):
        ef.take(ef.arange(3), [7])
    with pytest.raises(TensorIndexError, match="index 7") as caught:
        queue.dequeue()
    assert "ef.take(ef.arange(3), [7])" in str(caught.value)
    assert left(queue) == [1]


def test_an_error_names_the_line_of_the_call(cluster: ef.cluster.Cluster) -> None:
    queue = queue_of(1.0)
    queue.close()
    for _ in range(2):
        with pytest.raises(QueueClosedError, match="enqueue: the queue is closed") as caught:
            queue.enqueue(2.0)  # here
    assert "# here" in str(caught.value)
    assert caught.value.__notes__ == ["  task: ps:0"]
    assert [x.item() for x in queue] == [1]


def test_ctrl_c_ends_a_wait_and_takes_nothing(cluster: ef.cluster.Cluster) -> None:
    queue = queue_of()
    main = threading.main_thread().ident
    assert main is not None

    def press() -> None:
        until(lambda: open_steps() > 0)
        signal.pthread_kill(main, signal.SIGINT)

    for wait in (queue.dequeue, ef.trace(lambda: queue.dequeue())):
        thread = threading.Thread(target=press)
        with ctrl_c_raises():
            thread.start()
            with pytest.raises(KeyboardInterrupt):
                wait()
        thread.join()
        assert comes(lambda: open_steps() == 0)
        queue.enqueue(1.0)
        assert left(queue) == [1]


def test_a_deadline_ends_a_wait_and_takes_nothing(cluster: ef.cluster.Cluster) -> None:
    queue = queue_of(1.0)
    for wait in (lambda: queue.dequeue_many(2), ef.trace(lambda: queue.dequeue_many(2))):
        with pytest.raises(DeadlineError) as caught, ef.deadline(0.05):
            wait()
        assert caught.value.wrong.endswith("its deadline has passed")
        assert open_steps() == 0
    with pytest.raises(ef.errors.WaitTimeoutError), ef.deadline(60):
        queue.dequeue_many(2, timeout=0.01)
    assert left(queue) == [1]


def test_many_waits_hold_no_threads(cluster: ef.cluster.Cluster) -> None:
    """Neither here nor at the task; those of pools end when they are idle."""
    queue = queue_of()
    task = psutil.Process(cluster.tasks["ps:0"].pid)
    take = ef.trace(lambda: queue.dequeue())
    queue.enqueue(0.0)
    take()
    before, here = task.num_threads(), threading.active_count()
    runners = [ef.spawn(take) for _ in range(50)]
    assert comes(lambda: open_steps() == 50)
    assert comes(lambda: task.num_threads() <= before)
    assert comes(lambda: threading.active_count() <= here)
    queue.enqueue_many([float(i) for i in range(20)])
    assert comes(lambda: sum(runner.steps for runner in runners) == 20)
    queue.close()
    assert all(runner.join(30) for runner in runners)
    assert open_steps() == 0


def test_large_elements(cluster: ef.cluster.Cluster) -> None:
    queue = ef.Queue(2, "f32[1048576]", device="ps:0")
    x = np.arange(1 << 20, dtype=np.float32)
    queue.enqueue(x)
    x[:] = 0
    queue.enqueue(ef.tensor(x, device="worker:0").to("ps:0"))
    assert queue.dequeue().sum().item() == np.arange(1 << 20, dtype=np.float32).sum()
    assert not queue.dequeue().numpy().any()


# --- other clients -----------------------------------------------------------------------------


def test_two_processes_share_a_queue(cluster: ef.cluster.Cluster) -> None:
    queue = queue_of(name="both", container="shared")
    answers = ef.Queue(9, "f32[]", device="ps:0", name="answers", container="shared")
    other = other_client(
        cluster.folder,
        "    answers = ef.Queue(9, 'f32[]', device='ps:0', name='answers', container='shared')\n"
        "    for x in queue: answers.enqueue(x * 2)\n"
        "    answers.close()",
    )
    queue.enqueue_many([1.0, 2.0, 3.0, 4.0])
    queue.close()
    assert [x.item() for x in answers] == [2, 4, 6, 8]
    assert other.wait(30) == 0
    other.communicate()


def test_a_shared_queue_outlives_who_made_it(cluster: ef.cluster.Cluster) -> None:
    program = """
    kept = ef.Queue(3, "f32[]", device="ps:0", name="kept", container="shared")
    kept.enqueue(7.0)
    own = ef.Queue(3, "f32[]", device="ps:0", name="own")
    own.enqueue(8.0)"""
    assert other_client(cluster.folder, program).communicate()[0] == ""
    assert left(queue_of(name="kept", container="shared")) == [7]
    assert queue_of(name="own").size().item() == 0
    a, b = (queue_of(name="kept", container="shared") for _ in range(2))
    assert a.resource is b.resource


@pytest.mark.parametrize(
    ("capacity", "like", "kind"),
    [(4, "f32[]", "fifo"), (3, "f32[2]", "fifo"), (3, "f32[]", "padding")],
)
def test_another_queue_of_that_name_is_an_error_that_names_who_made_it(
    capacity: int, like: str, kind: Any, cluster: ef.cluster.Cluster
) -> None:
    program = "    ef.Queue(3, 'f32[]', device='ps:0', name='taken', container='shared')"
    other_client(cluster.folder, program).communicate()
    with pytest.raises(ResourceError, match="'taken' in the container 'shared'") as caught:
        ef.Queue(capacity, like, kind=kind, device="ps:0", name="taken", container="shared")
    assert caught.value.expected is not None
    assert "fifo queue of f32[] for 3 on ps:0/cpu:0, as made by session" in caught.value.expected


def test_a_container_has_one_thing_of_a_name(cluster: ef.cluster.Cluster) -> None:
    v = ef.Variable(0.0, device="ps:0", name="thing", container="shared")
    with pytest.raises(ResourceError, match="is of another kind"):
        queue_of(name="thing", container="shared")
    assert v.item() == 0
    with pytest.raises(ResourceError, match="must be on a task"):
        ef.Queue(1, "f32[]", name="here", container="shared")


@pytest.mark.parametrize("end", ["kill", "goodbye"])
def test_the_waits_of_a_client_end_with_it(end: str, cluster: ef.cluster.Cluster) -> None:
    queue = ef.Queue(3, "f32[]", device="ps:0", name="both", container="left")
    program = """
    queue = ef.Queue(3, "f32[]", device="ps:0", name="both", container="left")
    own = ef.Queue(3, "f32[]", device="ps:0")
    import threading
    threading.Thread(target=queue.dequeue, daemon=True).start()
    threading.Thread(target=own.dequeue, daemon=True).start()
    while cluster.tasks["ps:0"].steps < 2: pass
    print("waits", flush=True)
    sys.stdin.readline()"""
    if end == "goodbye":
        program += "\n    import os\n    cluster.close(); os._exit(0)"
    before = cluster.tasks["ps:0"].variables
    other = subprocess.Popen(
        [sys.executable, "-c", "import sys, eagerflow as ef\n"
         f"with ef.cluster.connect(sys.argv[1]) as cluster:{program}", str(cluster.folder)],
        env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stdin=subprocess.PIPE,
    )  # fmt: skip
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == "waits\n"
        assert cluster.tasks["ps:0"].variables == before + 1
        if end == "kill":
            other.kill()
        else:
            other.communicate("\n")
        assert comes(lambda: open_steps() == 0)
    queue.enqueue(1.0)
    assert left(queue) == [1]
    assert cluster.tasks["ps:0"].variables == before


# --- their end ---------------------------------------------------------------------------------


def test_what_nobody_refers_to_is_freed(cluster: ef.cluster.Cluster) -> None:
    gc.collect()
    ef.hardware.synchronize("ps:0")
    before = cluster.tasks["ps:0"]
    for _ in range(20):
        queue = queue_of(1.0, 2.0)
        queue.dequeue()
        del queue
    gc.collect()
    ef.hardware.synchronize("ps:0")
    after = cluster.tasks["ps:0"]
    assert (after.variables, after.values, after.partitions) == (
        before.variables, before.values, before.partitions
    )  # fmt: skip


def test_a_task_that_dies_is_named_with_its_queue(cluster: ef.cluster.Cluster) -> None:
    cluster.add("gone:0")
    pid = cluster.tasks["gone:0"].pid
    assert pid is not None
    own = ef.Queue(2, "f32[]", device="gone:0", name="own")  # made here
    both = ef.Queue(2, "f32[]", device="gone:0", name="both", container="shared")
    step = ef.trace(lambda: own.dequeue())
    waiting = [Waiting(own.dequeue, own), Waiting(step, own)]
    os.kill(pid, signal.SIGKILL)
    for one in waiting:
        with pytest.raises(TaskLost, match="gone:0 is lost"):
            one.result()
    with pytest.raises(TaskLost, match="gone:0 is lost") as caught:
        own.enqueue(1.0)
    assert "fifo queue 'own' of f32[]@gone:0/cpu:0, made at" in str(caught.value.given)
    assert "# made here" in str(caught.value.given)
    assert "own.enqueue(1.0)" in str(caught.value.source)
    with pytest.warns(ClusterWarning, match="gone:0 was restarted"):
        cluster.restart("gone:0")
    for use in (own.size, lambda: own.enqueue(1.0), step):
        with pytest.raises(TaskLost, match="gone:0 was restarted: the queues") as caught:
            use()
        assert "fifo queue 'own'" in str(caught.value.given)
    again = ef.Queue(2, "f32[]", device="gone:0", name="both", container="shared")
    again.enqueue(4.0)
    assert both.dequeue().item() == 4
    cluster.remove("gone:0")


# --- what a stranger met -----------------------------------------------------------------------


@pytest.mark.parametrize("traced", [False, True])
def test_a_ctrl_c_after_the_element_was_taken_puts_it_back(
    traced: bool, cluster: ef.cluster.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer has come, and the call is interrupted before it returns."""
    queue = queue_of(1.0, 2.0)
    take = ef.trace(lambda: queue.dequeue()) if traced else queue.dequeue
    assert take().item() == 1
    queue.enqueue(3.0)
    results = Pending.results

    def interrupted(pending: Pending) -> Any:
        results(pending)
        if pending.step:
            monkeypatch.setattr(Pending, "results", results)
            raise KeyboardInterrupt
        return results(pending)

    monkeypatch.setattr(Pending, "results", interrupted)
    with pytest.raises(KeyboardInterrupt):
        take()
    assert left(queue) == [2, 3]


@pytest.mark.parametrize("kind", ["fifo", "shuffle", "priority", "padding"])
def test_elements_that_come_while_a_ctrl_c_is_on_its_way_go_back(
    kind: Any, cluster: ef.cluster.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step has ended at the task when the client aborts it."""
    how = {"priority": [1, 2]} if kind == "priority" else {}
    queue = ef.Queue(4, "f32[]", device="ps:0", kind=kind)
    queue.enqueue_many([1.0, 2.0], **how)
    wait = Pending.wait

    def interrupted(pending: Pending, seconds: float | None = None) -> bool:
        if pending.step:
            monkeypatch.setattr(Pending, "wait", wait)
            until(lambda: open_steps() == 0)
            raise KeyboardInterrupt
        return wait(pending, seconds)

    monkeypatch.setattr(Pending, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.dequeue_many(2)
    assert queue.size().item() == 2
    assert sorted(left(queue)) == [1, 2]


def test_an_accumulator_and_a_barrier_take_back_too(
    cluster: ef.cluster.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = ef.Accumulator("f32[]", device="ps:0")
    pairs = ef.Barrier(("f32[]",), device="ps:0")
    sums.add(3.0, 0)
    pairs.insert_many(0, [7], [1.0])
    results = Pending.results
    for take in (lambda: sums.take(1), lambda: pairs.take_many(1)):

        def interrupted(pending: Pending) -> Any:
            if pending.step:
                monkeypatch.setattr(Pending, "results", results)
                raise KeyboardInterrupt
            return results(pending)

        monkeypatch.setattr(Pending, "results", interrupted)
        with pytest.raises(KeyboardInterrupt):
            take()
    assert sums.take(1).item() == 3
    assert pairs.take_many(1)[0].tolist() == [7]


def test_errors_name_devices_as_this_process_does(cluster: ef.cluster.Cluster) -> None:
    queue = queue_of(capacity=1)
    queue.enqueue(1.0)
    with pytest.raises(ef.errors.WaitTimeoutError) as caught:
        queue.enqueue(1.0, timeout=0.0)
    assert "f32[]@ps:0/cpu:0 with 1 of 1" in str(caught.value)


def test_a_conflict_of_names_is_told_at_the_line_that_names(cluster: ef.cluster.Cluster) -> None:
    program = "    ef.Queue(3, 'i64[]', device='ps:0', name='told', container='shared')"
    other_client(cluster.folder, program).communicate()
    with pytest.raises(ResourceError) as caught:
        ef.Queue(3, "f32[]", device="ps:0", name="told", container="shared")
    assert "test_queues.py" in str(caught.value)
    assert "of i64[] for 3 on ps:0/cpu:0, as made by" in str(caught.value)


def test_a_copy_of_a_stand_in_ends_quietly(cluster: ef.cluster.Cluster) -> None:
    queue = queue_of(1.0)
    with pytest.raises(TypeError):
        copy.deepcopy(queue)
    gc.collect()
    assert left(queue) == [1]


@pytest.mark.parametrize("traced", [False, True])
def test_snapshots_of_variables_at_tasks(traced: bool, cluster: ef.cluster.Cluster) -> None:
    variables = [ef.Variable(float(i), device=d) for i, d in enumerate(["ps:0", "ps:1", "cpu:0"])]

    def take() -> Any:
        variables[0].assign_add(1.0)
        made = ef.snapshot(variables)
        variables[0].assign_add(1.0)
        return made

    call = ef.trace(take) if traced else take
    for i in range(2):
        made = call()
        assert [x.item() for x in made] == [2 * i + 1, 1, 2]
        assert [str(x.device) for x in made] == ["ps:0/cpu:0", "ps:1/cpu:0", "cpu:0"]
