"""Names of resources: unique for ever, and the order in which locks are taken."""

from __future__ import annotations

import gc
import json
import multiprocessing
import random
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors
from eagerflow.graph import Graph
from eagerflow.resources.containers import DEFAULT, PROCESS, ResourceContainer, ResourceName
from eagerflow.resources.generator import GeneratorState
from eagerflow.resources.mutex import MutexState
from eagerflow.resources.variable import VariableGroup, in_order

MAKERS: dict[str, Callable[[], Any]] = {
    "variable": lambda: ef.Variable(0.0).resource,
    "generator": lambda: ef.random.Generator(0)._state,
    "queue": lambda: ef.Queue(1, "f32[]").resource,
    "mutex": lambda: ef.Mutex().resource,
    "accumulator": lambda: ef.Accumulator("f32[]").resource,
    "barrier": lambda: ef.Barrier(("f32[]",)).resource,
    "reader": lambda: ef.io.TextLineReader(ef.Queue(1, "bytes[]")).resource,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_every_resource_has_a_name_that_finds_it(kind: str) -> None:
    one, other = MAKERS[kind](), MAKERS[kind]()
    assert one.identity != other.identity
    assert re.fullmatch(rf"/default/{kind}(#\d+)?", str(one.identity))
    for state in (one, other):
        assert DEFAULT.find(state.identity.name) is state
        assert state.identity[:3] == (PROCESS.task, PROCESS.incarnation, "default")


def test_the_name_is_that_of_the_user_if_it_is_free() -> None:
    container = ResourceContainer("test")
    made = [MutexState() for _ in range(3)]
    assert [container.add(m, "w").name for m in made] == ["w", "w#1", "w#2"]
    assert container.add(made[0]).name == "mutex"


def test_a_name_is_never_given_again() -> None:
    container = ResourceContainer("test")
    mutex = MutexState()
    name = container.add(mutex, "w").name
    del mutex
    gc.collect()
    assert container.find(name) is None
    assert len(container) == 0
    assert container.add(MutexState(), "w").name == "w#1"


@given(st.lists(st.sampled_from(["w", "w#1", "w#", "#", "w#1#0", "", "mutex"]), max_size=30))
def test_names_differ_whatever_users_call_them(bases: list[str]) -> None:
    container = ResourceContainer("test")
    mutex = MutexState()
    names = [container.add(mutex, base).name for base in bases]
    assert len({*names}) == len(names)


def test_threads_get_different_names() -> None:
    container, mutex, names = ResourceContainer("test"), MutexState(), []
    threads = [
        threading.Thread(
            target=lambda: names.extend(container.add(mutex, "w").name for _ in range(500))
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({*names}) == len(names) == 2000


def test_locks_are_taken_in_the_order_of_names() -> None:
    states = [ef.Variable(0.0, name=f"v{i}").resource for i in range(40)]
    mixed = states.copy()
    random.Random(0).shuffle(mixed)
    ordered = in_order(mixed)
    assert [s.identity for s in ordered] == sorted(s.identity for s in states)
    assert [id(s) for s in in_order(states)] == [id(s) for s in ordered]
    assert VariableGroup(mixed)._locks == [s.lock for s in ordered]


def test_the_order_is_one_over_tasks_and_incarnations() -> None:
    names = [
        ResourceName(task, incarnation, container, name)
        for task in ("", "ps:0", "ps:1")
        for incarnation in (1, 2)
        for container in ("default", "shared")
        for name in ("v", "w")
    ]
    mixed = names.copy()
    random.Random(1).shuffle(mixed)
    assert sorted(mixed) == names
    assert len({str(name) for name in names}) == len(names) / 2  # the text has no incarnation


def test_names_find_what_a_text_of_a_graph_means() -> None:
    w, queue = ef.Variable(2.0, name="w"), ef.Queue(1, "f32[]")
    other = ef.Variable(3.0, name="w")

    @ef.trace
    def f() -> ef.Tensor:
        queue.enqueue(w * other)
        return queue.dequeue()

    graph = f.graph()
    names = json.dumps({k: r.identity.name for k, r in graph.resources.items()})
    resources = {k: DEFAULT.find(name) for k, name in json.loads(names).items()}
    again = Graph.parse(str(graph), resources)
    assert {id(r) for r in again.resources.values()} == {
        id(x.resource) for x in (w, other, queue)
    }  # fmt: skip
    assert again.run(again.outputs, {})[0].item() == 6.0


def test_a_named_container_joins_what_is_the_same() -> None:
    shared = ResourceContainer("shared", owns=True)
    made = shared.join("w", "mutex", MutexState, creator="first.ipynb")
    assert shared.join("w", "mutex", MutexState, creator="second.ipynb") is made
    assert shared.names() == ["w"]
    with pytest.raises(errors.ResourceError, match=r"'w' in the container 'shared'") as raised:
        shared.join("w", "generator", GeneratorState, creator="second.ipynb")
    assert raised.value.expected == "mutex, as made by first.ipynb"
    identity = id(made)
    del made
    gc.collect()
    mutex = shared.find("w")
    assert id(mutex) == identity
    shared.clear()
    assert shared.find("w") is None
    assert shared.add(MutexState(), "w").name == "w#1"


def _names(connection: Any) -> None:
    connection.send((PROCESS.incarnation, ef.Variable(0.0).resource.identity.incarnation))
    connection.close()


def test_a_forked_process_is_another_one() -> None:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    with ours, theirs:
        with DEFAULT._lock:  # another thread may hold it at that moment
            child = context.Process(target=_names, args=(theirs,))
            child.start()
        process, variable = ours.recv()
        child.join()
    assert process == variable != PROCESS.incarnation
    assert child.exitcode == 0


def test_a_task_that_begins_anew_gives_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    task, incarnation = PROCESS.task, PROCESS.incarnation
    monkeypatch.setattr(PROCESS, "task", task)
    monkeypatch.setattr(PROCESS, "incarnation", incarnation)
    before = MutexState()
    PROCESS.begin("ps:0")
    after = MutexState()
    assert str(after.identity).startswith("ps:0/default/mutex")
    assert before.identity.task == task
