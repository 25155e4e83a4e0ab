"""Python functions at a task: functions that the task has listed, and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from time import sleep
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.cluster.clusters import Cluster
from eagerflow.cluster.processes.local_provisioner import LocalProvisioner
from eagerflow.cluster.processes.server_grants import ServerGrants
from eagerflow.cluster.protocol.messages import Register
from eagerflow.cluster.protocol.partitions import read_partition
from eagerflow.errors import EagerflowError, GraphError, ResourceError, TensorValueError
from tests.cluster.remote.python_functions import (
    both,
    fails,
    positive,
    process,
    tell,
    tells_much,
    unlisted,
)
from tests.cluster.warm import warm

MODULE = "tests.cluster.remote.python_functions"
LISTED = [f"{MODULE}:{one.__name__}" for one in (process, both, positive, tell, tells_much, fails)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    options = [part for name in LISTED for part in ("--allow-python", name)]
    with Cluster(LocalProvisioner("ipc", options), ["py:0"], owned=True) as made:
        warm(made)
        yield made


def eagerly(f: Callable[..., Any], out: Any, *args: ef.Tensor) -> Any:
    with ef.device("py:0"):
        return ef.py_call(f, out, *args)


def traced(f: Callable[..., Any], out: Any, *args: ef.Tensor) -> Any:
    @ef.trace
    def one(x: ef.Tensor) -> Any:
        with ef.device("py:0"):
            return ef.py_call(f, out, x)

    @ef.trace
    def two(x: ef.Tensor, y: ef.Tensor) -> Any:
        with ef.device("py:0"):
            return ef.py_call(f, out, x, y)

    return (one if len(args) == 1 else two)(*args)


ways = pytest.mark.parametrize("call", [eagerly, traced])


@ways
def test_a_listed_function_runs_in_the_process_of_the_task(call: Any, cluster: Cluster) -> None:
    there = cluster.tasks["py:0"].pid
    result = call(process, "i64[2]", ef.zeros(2))
    assert str(result.device) == "py:0/cpu:0"
    assert result.tolist() == [there, there]


@ways
def test_another_function_runs_here(call: Any, cluster: Cluster) -> None:
    assert call(unlisted, "i64[1]", ef.zeros(1)).tolist() == [os.getpid()]
    assert call(lambda x: process(x), "i64[1]", ef.zeros(1)).tolist() == [os.getpid()]


@ways
def test_results_of_several_tensors_and_of_sizes_that_data_decide(
    call: Any, cluster: Cluster
) -> None:
    total, product = call(both, ("f32[2]", "f32[]"), ef.tensor([1.0, 2.0]), ef.tensor([3.0, 4.0]))
    assert (total.tolist(), product.item()) == ([4.0, 6.0], 11.0)
    assert call(positive, "f32[k]", ef.tensor([1.0, -2.0, 3.0])).tolist() == [1.0, 3.0]


@ways
def test_what_it_prints_is_in_the_log(call: Any, cluster: Cluster) -> None:
    assert call(tell, None, ef.tensor([1.0, 2.0])) is None
    ef.hardware.synchronize("py:0")
    assert "told [1.0, 2.0]" in cluster.logs("py:0")


@ways
def test_an_error_in_it_is_told_with_its_class(call: Any, cluster: Cluster) -> None:
    with pytest.raises(EagerflowError, match="LookupError: not here"):
        call(fails, "f32[1]", ef.zeros(1)).numpy()
    assert call(process, "i64[1]", ef.zeros(1)).tolist() == [cluster.tasks["py:0"].pid]


@ways
def test_another_type_than_was_said_is_an_error(call: Any, cluster: Cluster) -> None:
    with pytest.raises(EagerflowError, match="another type than out_types says"):
        call(process, "f32[1]", ef.zeros(1)).numpy()


def test_eager_calls_of_one_type_are_one_template(cluster: Cluster) -> None:
    eagerly(process, "i64[3]", ef.zeros(3))
    backend: Any = ef.hardware.as_device("py:0").backend
    known = len(backend.task._templates)
    for _ in range(5):
        eagerly(process, "i64[3]", ef.zeros(3))
    assert len(backend.task._templates) == known


def test_arguments_of_this_process_keep_a_call_here(cluster: Cluster) -> None:
    with ef.device("py:0"):
        assert ef.py_call(_with_a_text, "i64[]", ef.zeros(1), "text").item() == os.getpid()


def _with_a_text(x: ef.Tensor, text: str) -> int:
    return os.getpid()


# --- refusals of a server ----------------------------------------------------------------------


ALLOWED = ServerGrants(functions=["math:fsum"])


def registered(call: str, grants: ServerGrants, container: str = "&python") -> ef.Graph:
    text = b"graph f() { %x = py_call() {resource=@q} : f32[]@cpu:0 return %x }"
    message = Register(1, 1, {}, {"q": (container, call)}, {})
    (graph,) = read_partition(message, [text], grants.find, allows=grants.allows)
    return graph


def test_what_is_listed_is_taken() -> None:
    assert registered("math:fsum() -> f32[]@cpu:0", ALLOWED).nodes[0].op == "py_call"


@pytest.mark.parametrize("name", [
    "os:system", "math:fsum.__call__", "math:__loader__", "math.fsum", "", "math", ":fsum", "math:",
    "math:fsum ", "python:math:fsum", "tests.cluster.remote.python_functions:os.system",
])  # fmt: skip
def test_what_is_not_listed_is_refused_with_the_list(name: str) -> None:
    with pytest.raises(ResourceError, match="may not be called here") as told:
        registered(f"{name}() -> f32[]@cpu:0", ALLOWED)
    assert told.value.expected == "math:fsum"
    assert "--allow-python" in str(told.value.hint)


@pytest.mark.parametrize("call", [
    "math:fsum", "math:fsum()", "math:fsum() -> ", "math:fsum() -> nothing",
    "math:fsum(x[2]) -> None",
    "math:fsum() -> (f32[]@cpu:0", "math:fsum() -> f32[]@cpu:0, f32[]@cpu:0",
    "math:fsum() -> f32[]@ps:9/cpu:0",
])  # fmt: skip
def test_calls_that_are_none(call: str) -> None:
    with pytest.raises(EagerflowError):
        registered(call, ALLOWED)


def test_what_prints_at_a_task_is_refused() -> None:
    text = b"graph f() { &p: print() {resource=@q} return }"
    message = Register(1, 1, {}, {"q": ("&python", "math:fsum() -> None")}, {})
    with pytest.raises(GraphError, match="print may not run"):
        read_partition(message, [text], ALLOWED.find, allows=ALLOWED.allows)


def test_a_task_that_lists_none_refuses_all() -> None:
    with pytest.raises(ResourceError, match="may not be called here"):
        registered("math:fsum() -> f32[]@cpu:0", ServerGrants())
    with pytest.raises(ResourceError, match="there is no"):
        registered("math:fsum() -> f32[]@cpu:0", ServerGrants(), container="default")


@pytest.mark.parametrize("name", [
    "math", "math:", "math:pi", "math:nothing", "no_such_module:f", "math:fsum.__call__", "os.path",
    "math;os:system", "math:fsum\n",
])  # fmt: skip
def test_names_of_functions_that_are_none(name: str) -> None:
    with pytest.raises(TensorValueError):
        ServerGrants(functions=[name])


def test_only_what_is_listed_is_told_to_clients(cluster: Cluster) -> None:
    backend: Any = ef.hardware.as_device("py:0").backend
    assert backend.task.allows == {f"python:{name}" for name in LISTED}


@ways
def test_what_a_function_prints_is_shown_where_its_call_is_waited_for(
    call: Any, cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    sleep(1.1)  # other tests have used up this second's lines
    call(tells_much, "f32[3]", ef.zeros(3)).numpy()
    assert capsys.readouterr().out == (
        "[py:0] line 0\n[py:0] line 1\n[py:0] line 2\n[py:0] not ended\n"
    )
    call(tells_much, "f32[500]", ef.zeros(500)).numpy()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "[py:0] line 0"
    assert lines[-1] == f"[py:0] … {500 + 1 - (len(lines) - 1)} more lines are in its log"
    assert len(lines) <= 101
    assert "line 499\n" in cluster.logs("py:0")


def test_other_clients_are_not_told(capsys: pytest.CaptureFixture[str], cluster: Cluster) -> None:
    """A client hears its own call only, even if another client waits at the same time."""
    program = (
        "import eagerflow as ef\n"
        f"with ef.cluster.connect({str(cluster.folder)!r}) as c, ef.device('py:0'):\n"
        f"    from {MODULE} import tells_much\n"
        "    ef.py_call(tells_much, 'f32[1]', ef.zeros(1)).numpy()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )  # fmt: skip
    assert done.stdout == "[py:0] line 0\n[py:0] not ended\n"
    eagerly(process, "i64[1]", ef.zeros(1)).numpy()
    assert capsys.readouterr().out == ""
