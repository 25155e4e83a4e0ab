"""Variables in named containers: shared by several clients, and alive after their handles."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import eagerflow as ef
from eagerflow.errors import ClusterWarning, PlacementError, ResourceError, VariableError
from tests.cluster.warm import warm

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ef.cluster.Cluster]:
    with ef.cluster.local({"ps": 2}) as made:
        warm(made)
        yield made


def counter(value: float = 0.0, task: str = "ps:0", name: str = "count") -> ef.Variable:
    return ef.Variable([value], device=task, name=name, container="shared")


def other_client(folder: Path, program: str) -> str:
    code = f"""
import sys, eagerflow as ef
with ef.cluster.connect(sys.argv[1]) as cluster:
    {program}
"""
    done = subprocess.run([sys.executable, "-c", code, str(folder)], check=False, env=ENVIRONMENT,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


JOIN = """
    v = ef.Variable([100.0], device="ps:0", name="{name}", container="shared")
    @ef.trace
    def step(x):
        return v.assign_add(x.to("ps:0"))
    print(v.tolist(), v.assign_add([1.0]).tolist(), step(ef.tensor([10.0])).tolist())
"""


def test_another_client_joins_it(cluster: ef.cluster.Cluster) -> None:
    v = counter(5.0)
    assert other_client(cluster.folder, JOIN.format(name="count")) == "[5.0] [6.0] [16.0]\n"
    assert v.tolist() == [16.0]


def test_it_outlives_who_made_it(cluster: ef.cluster.Cluster) -> None:
    told = other_client(cluster.folder, JOIN.format(name="left"))
    assert told == "[100.0] [101.0] [111.0]\n"
    assert counter(name="left").tolist() == [111.0]


def test_it_outlives_the_handles_of_this_process(cluster: ef.cluster.Cluster) -> None:
    v = counter(name="kept")
    v.assign([3.0])
    own = ef.Variable([1.0], device="ps:0", name="kept")  # another variable with that name
    del v
    gc.collect()
    assert own.tolist() == [1.0]
    assert counter(name="kept").tolist() == [3.0]


def test_in_one_process_it_is_one_state(cluster: ef.cluster.Cluster) -> None:
    a, b = counter(1.0, name="twice"), counter(2.0, name="twice")
    assert a.resource is b.resource
    assert b.tolist() == [1.0]


def test_tasks_have_containers_of_their_own(cluster: ef.cluster.Cluster) -> None:
    a, b = counter(1.0, "ps:0", "each"), counter(2.0, "ps:1", "each")
    assert (a.tolist(), b.tolist()) == ([1.0], [2.0])


def test_another_type_is_an_error_that_names_who_made_it(cluster: ef.cluster.Cluster) -> None:
    program = 'ef.Variable([1, 2], device="ps:0", name="taken", container="shared"); print(1)'
    other_client(cluster.folder, program)
    with pytest.raises(ResourceError, match="'taken' in the container 'shared'") as told:
        counter(name="taken")
    assert told.value.given == "variable f32[1]@ps:0/cpu:0"
    assert "i64[2]" in str(told.value.expected)
    assert "as made by session" in str(told.value.expected)
    assert "process" in str(told.value.expected)
    mine = counter(name="mine")
    with pytest.raises(ResourceError, match="is of another kind"):
        ef.Variable([1, 2], device="ps:0", name="mine", container="shared")
    assert mine.tolist() == [0.0]


def test_what_cannot_be_shared(cluster: ef.cluster.Cluster) -> None:
    with pytest.raises(ResourceError, match="must be on a task"):
        ef.Variable(0.0, name="w", container="shared")
    with pytest.raises(ResourceError, match="must have a name"):
        ef.Variable(0.0, device="ps:0", container="shared")
    for name in ("", "default", "&python"):
        with pytest.raises(ResourceError, match="the name of the container is not allowed"):
            ef.Variable(0.0, device="ps:0", name="w", container=name)

    @ef.trace
    def inside(x: ef.Tensor) -> ef.Tensor:
        return x + ef.Variable(0.0, device="ps:0", name="w", container="shared")

    with pytest.raises(VariableError, match="outside of traced functions"):
        inside(ef.zeros(1))


def test_it_does_not_move(cluster: ef.cluster.Cluster) -> None:
    v = counter(4.0, name="stays")
    with pytest.raises(PlacementError, match="other clients share"):
        ef.move(v, "ps:1")
    assert v.tolist() == [4.0]


def test_it_is_made_anew_in_a_task_that_was_started_anew(cluster: ef.cluster.Cluster) -> None:
    v = counter(4.0, "ps:1", "again")
    with pytest.warns(ClusterWarning, match="ps:1 was restarted"):
        cluster.restart("ps:1")
    w = counter(7.0, "ps:1", "again")
    assert v.resource is w.resource
    assert v.tolist() == [7.0]
