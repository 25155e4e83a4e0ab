"""Traced functions with rules of placement: when traces are placed, and the reports of it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import MoveWarning, PlacementError, PlacementWarning, TraceError
from eagerflow.function.placing import placer
from eagerflow.runtime.scheduled import scheduled_tier

X = ef.ones((4, 2))


@pytest.fixture(autouse=True)
def four_devices() -> Iterator[None]:
    with ef.config(cpu_devices=4):
        yield


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often graphs are placed, and cut."""
    counts: Counter[str] = Counter()

    def counted(name: str, function: Any) -> Any:
        def count(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return function(*args, **kwargs)

        return count

    monkeypatch.setattr(placer, "place", counted("placed", placer.place))
    monkeypatch.setattr(scheduled_tier, "cut", counted("cut", scheduled_tier.cut))
    return counts


def layers(x: Any) -> Any:
    with ef.name_scope("a"):
        x = ef.exp(x)
    with ef.name_scope("b"):
        return ef.sin(x)


def where(f: Any, x: Any = X) -> dict[str, str]:
    return {node.op: str(node.device) for node in f.graph(x).nodes if node.op != "transfer"}


def test_place_gives_the_function() -> None:
    f = ef.trace(layers)
    assert f.place({"a": "cpu:1"}) is f
    assert f.place(None) is f


def test_as_a_decorator() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        return layers(x)

    f.place({"a": "cpu:1"})
    assert f(X).numpy().tobytes() == layers(X).numpy().tobytes()
    assert where(f) == {"exp": "cpu:1", "sin": "cpu:0"}


def test_a_second_step_places_and_cuts_nothing(done: Counter[str]) -> None:
    f = ef.trace(layers).place({"a": "cpu:1"})
    f(X)
    assert done == {"placed": 1, "cut": 1}
    for _ in range(3):
        f(X)
        f.graph(X)
        f.explain("placement")
    assert done == {"placed": 1, "cut": 1}


def test_a_gradient_is_placed_and_cut_once(done: Counter[str]) -> None:
    f = ef.trace(lambda x: ef.sum(layers(x))).place({"a": "cpu:1"})
    gradient = ef.grad(f)
    want = ef.grad(lambda x: ef.sum(layers(x)))(X).numpy()
    for _ in range(3):
        assert gradient(X).numpy().tobytes() == want.tobytes()
    assert done == {"placed": 1, "cut": 3}  # the step, and both graphs of its derivative


def test_rules_that_are_the_same_place_nothing(done: Counter[str]) -> None:
    f = ef.trace(layers).place({"a": "cpu:1"})
    f(X)
    f.place({"a": "cpu:1"}).place({"a": ef.hardware.as_device("cpu:1")})
    f(X)
    assert done == {"placed": 1, "cut": 1}


def test_other_rules_take_hold_at_the_next_step(done: Counter[str]) -> None:
    f = ef.trace(layers)
    want = f(X).numpy().tobytes()
    seen = []
    for rules in ({"a": "cpu:1"}, {"b": "cpu:2"}, lambda node: "cpu:3", None, {"*": "cpu:1"}):
        assert f.place(rules)(X).numpy().tobytes() == want
        seen.append(where(f))
    assert seen == [
        {"exp": "cpu:1", "sin": "cpu:0"},
        {"exp": "cpu:0", "sin": "cpu:2"},
        {"exp": "cpu:3", "sin": "cpu:3"},
        {"exp": "cpu:0", "sin": "cpu:0"},
        {"exp": "cpu:1", "sin": "cpu:1"},
    ]
    assert len(f.traces) == 1
    assert done["placed"] == 4


def test_a_derivative_follows_other_rules() -> None:
    f = ef.trace(lambda x: ef.sum(layers(x)))
    gradient = ef.grad(f)
    want = gradient(X).numpy().tobytes()
    (entry,) = f._lookup.cache.entries()
    for device in ("cpu:1", "cpu:2"):
        f.place({"a": device})
        assert gradient(X).numpy().tobytes() == want
        nodes = [node for one in entry.executables() for node in one.graph.nodes]
        assert {str(n.device) for n in nodes if n.scope == "a" and n.because} == {device}


def test_residuals_stay_where_they_are_made() -> None:
    f = ef.trace(lambda x: ef.sum(layers(x))).place({"a": "cpu:1", "b": "cpu:2"})
    ef.grad(f)(X)
    (entry,) = f._lookup.cache.entries()
    _, forward, backward = [one.graph for one in entry.executables()]
    assert forward.outputs[0].device == "cpu:0"
    assert {str(v.device) for v in forward.outputs[1:]} <= {"cpu:1", "cpu:2"}
    kept = [v.device for v in forward.outputs[1:]]
    assert [v.device for v in backward.inputs][: len(kept)] == kept


def test_all_traces_are_placed() -> None:
    f = ef.trace(layers)
    other = ef.ones((4, 2), dtype=ef.float64)
    f(X), f(other)
    f.place({"a": "cpu:1"})
    assert where(f) == where(f, other) == {"exp": "cpu:1", "sin": "cpu:0"}
    assert len(f.traces) == 2


def test_a_pattern_has_to_match_in_one_trace_alone() -> None:
    @ef.trace
    def f(x: Any, training: bool) -> Any:
        if training:
            with ef.name_scope("dropout"):
                x = x * 2
        return layers(x)

    f.place({"dropout": "cpu:1", "a": "cpu:2"})
    with pytest.raises(PlacementError, match="'dropout' matches nothing"):
        f(X, False)
    f(X, True)
    f(X, False)  # the scope exists by now
    f.place({"dropout": "cpu:3"})
    assert len(f.traces) == 2
    with pytest.raises(PlacementError, match="'drop' matches nothing"):
        f.place({"drop": "cpu:3"})


def test_a_cell_that_runs_again_takes_traces_over_and_no_rules(done: Counter[str]) -> None:
    source = "@ef.trace\ndef again(x):\n    with ef.name_scope('a'):\n        return ef.exp(x)\n"
    space: dict[str, Any] = {"ef": ef, "__name__": "a_cell"}
    exec(source, space)
    space["again"].place({"a": "cpu:1"})(X)
    exec(source, space)
    f = space["again"]
    f(X)
    assert where(f) == {"exp": "cpu:0"}
    assert len(f.traces) == 1
    f.place({"a": "cpu:2"})
    del f
    exec(source, space)
    space["again"].place({"a": "cpu:2"})(X)  # rules for the trace that it takes over
    assert where(space["again"]) == {"exp": "cpu:2"}
    assert done["placed"] == 2


def test_runners_follow_rules() -> None:
    inputs, results = ef.Queue(4, "f32[2]"), ef.Queue(4, "f32[2]")

    @ef.trace
    def step() -> None:
        results.enqueue(layers(inputs.dequeue()))

    step.place({"a": "cpu:1"})
    with ef.spawn(step):
        for i in range(4):
            if i == 2:
                step.place({"a": "cpu:2"})
            inputs.enqueue(ef.ones(2) * i)
            want = layers(ef.ones(2) * i).numpy().tobytes()
            assert results.dequeue().numpy().tobytes() == want


def test_threads_may_run_while_rules_change() -> None:
    f = ef.trace(layers)
    want = f(X).numpy().tobytes()
    wrong: list[Any] = []
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            if f(X).numpy().tobytes() != want:
                wrong.append(f.place)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(12):
        f.place({"a": f"cpu:{i % 4}", "b": f"cpu:{(i + 1) % 4}"} if i % 5 else None)
    stop.set()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_under_monitors_and_tapes_upon_tapes_it_runs_where_the_program_says() -> None:
    f = ef.trace(lambda x: ef.sum(layers(x))).place({"a": "cpu:1"})
    want = ef.grad(lambda x: ef.sum(ef.grad(lambda y: ef.sum(layers(y)))(x)))(X)
    got = ef.grad(lambda x: ef.sum(ef.grad(f)(x)))(X)
    assert got.numpy().tobytes() == want.numpy().tobytes()
    with ef.config(check_nan=True):
        assert f(X).device == "cpu:0"


# --- variables that cross -----------------------------------------------------------------------


def _reading(*variables: ef.Variable) -> Any:
    def f(x: Any) -> Any:
        with ef.name_scope("a"):
            for v in variables:
                x = x * v
        return x

    return ef.trace(f)


def test_variables_that_rules_let_cross_are_told_of_once() -> None:
    v, w = ef.Variable(ef.ones(2), name="v"), ef.Variable(ef.ones((4, 2)), name="w")
    f = _reading(v)
    f(X)
    with pytest.warns(MoveWarning) as told:
        f.place({"a": "cpu:1"})
    assert str(told[0].message) == (
        "variable 'v' f32[2]@cpu:0 is read on cpu:1 in every step: 8 bytes cross each time; "
        "ef.move(..., 'cpu:1') moves variables there, and ops in ef.colocate(variable) go along"
    )
    assert told[0].filename == __file__
    g = _reading(v, w)
    with pytest.warns(MoveWarning, match="variable 'w'.* is read on cpu:2.* 32 bytes"):
        g.place({"a": "cpu:2"})(X)
    g.place({"a": "cpu:3"})(X)  # both were reported before
    f(X)


def test_of_many_variables_that_cross_there_is_one_warning() -> None:
    v, w = ef.Variable(ef.ones(2), name="v"), ef.Variable(ef.ones(2), name="w")
    with pytest.warns(MoveWarning, match="'v'.* and 1 more variable are read.*: 16 bytes") as told:
        _reading(v, w).place({"a": "cpu:1"})(X)
    assert len(told) == 1


def test_what_does_not_cross_because_of_rules_is_nothing_to_tell() -> None:
    v = ef.Variable(ef.ones(2, device="cpu:1"))

    def f(x: Any) -> Any:
        with ef.name_scope("b"):
            moved = v.value.to("cpu:0")  # the program says so
        with ef.name_scope("a"):
            return ef.sin(moved * x)

    ef.trace(f).place({"a/sin": "cpu:2"})(X)
    ef.move(v, "cpu:0")
    g = _reading(v)
    ef.move(v, "cpu:1")
    g.place({"a": "cpu:1"})(X.to("cpu:1"))


# --- explain ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::eagerflow.errors.MoveWarning")
def test_explanation() -> None:
    v = ef.Variable([1.0, 2.0], name="v")

    @ef.trace
    def f(x: Any) -> Any:
        with ef.name_scope("a"):
            y = ef.exp(x) * v
        return ef.sin(y)

    f.place({"a": "cpu:1"})(X)
    told = f.explain("placement")
    assert told.devices == ["cpu:0", "cpu:1"]
    assert [(c.source, c.target, c.bytes) for c in told.crossings] == [
        ("cpu:0", "cpu:1", 32), ("cpu:0", "cpu:1", 8), ("cpu:1", "cpu:0", 32),
    ]  # fmt: skip
    lines = str(told).split("\n")
    assert lines[0].startswith("f: 4 nodes on 2 devices, by 'a': cpu:1 at ")
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["device", "scope", "nodes"], ["cpu:0", "a", "read"],
        ["cpu:0", "-", "sin"], ["cpu:1", "a", "exp,"],
    ]  # fmt: skip
    assert "stays where its state is: the variable 'v' on cpu:0" in lines[2]
    assert "72 bytes cross:" in lines
    assert "&lt;lambda&gt;" not in told._repr_html_()
    assert told._repr_html_().count("<table>") == 2


def test_an_explanation_without_rules() -> None:
    f = ef.trace(layers)
    with pytest.raises(TraceError, match="not traced yet"):
        f.explain("placement")
    f(X)
    told = f.explain("placement")
    assert str(told).startswith("layers: 2 nodes on cpu:0, where the program says\n")
    assert told.crossings == []
    with pytest.raises(TraceError, match="no 'devices' to explain"):
        f.explain("devices")


def test_what_crosses_in_loops_says_so() -> None:
    @ef.trace
    def f(x: Any, w: Any) -> Any:
        def body(i: Any, a: Any) -> Any:
            with ef.name_scope("body"):
                return i + 1, ef.sin(a) * w

        return ef.while_loop(lambda i, a: ef.sum(a) > i, body, (0, x))[1]

    f.place({"body": "cpu:1"})(X, X * 0.5)
    crossings = {(c.value.type.shape, c.when) for c in f.explain("placement").crossings}
    assert crossings == {
        ((4, 2), "in each iteration of &while_loop"), ((4, 2), "once for &while_loop"),
        ((), "in each iteration of &while_loop"), ((4, 2), ""),
    }  # fmt: skip


def test_long_tables_are_cut() -> None:
    def f(x: Any) -> Any:
        for i in range(60):
            with ef.name_scope(f"layer{i}"):
                x = ef.sin(x)
        return x

    g = ef.trace(f).place({"*": "cpu:1"})
    g(X)
    told = g.explain("placement")
    assert len(told.placed) == 60
    assert "and 20 more" in str(told)
    assert "and 20 more" in told._repr_html_()


def test_that_rules_do_not_hold_in_the_trace_of_another_function_is_said_once() -> None:
    @ef.trace
    def encode(x: Any) -> Any:
        return ef.exp(x)

    @ef.trace
    def step(x: Any) -> Any:
        return encode(x) + encode(-x)

    step(X)  # nothing is placed yet
    encode.place({"exp": "cpu:1"})
    with pytest.warns(PlacementWarning, match="place step, as by the pattern 'encode'") as told:
        step.graph(ef.ones(3))
    assert len(told) == 1
    assert {str(n.device) for n in step.graph(ef.ones(3)).nodes} == {"cpu:0"}
    step.place({"encode": "cpu:1"})
    graph = step.graph(ef.ones(3))
    assert [str(n.device) for n in graph.nodes if n.op == "exp"] == ["cpu:1", "cpu:1"]
    encode(X)  # where the rules hold


def test_a_function_that_calls_itself_is_placed_as_a_whole() -> None:
    @ef.trace
    def halve(x: Any, times: int) -> Any:
        return halve(x * 0.5, times - 1) if times else x

    halve.place({"multiply*": "cpu:1"})
    assert halve(X, 2).device == "cpu:0"
    devices = [str(n.device) for n in halve.graph(X, 2).nodes if n.op == "multiply"]
    assert devices == ["cpu:1", "cpu:1"]
