"""Errors in branches, nested loops and converted helpers, for each way to run the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.graph import Graph
from eagerflow.runtime import Executable, generated_or_scheduled
from eagerflow.runtime.scheduled.step import ScheduledStep
from tests.runtime.graphs import by_scheduler, scheduled
from tests.runtime.scheduled.scheduled_graphs import heavy, notes, open_up

# --- failing functions ------------------------------------------------------------------------


def in_a_branch(x: Any) -> Any:
    return ef.cond(
        x[0] > 0,
        lambda: x[x.astype(ef.int64)[2] + 3],  # the line
        lambda: x[0],
    )


def in_a_nested_loop(x: Any) -> Any:
    def body(y: Any, i: Any) -> Any:
        def inner(z: Any, j: Any) -> Any:
            return z + x[ef.where((i == 2) & (j >= 38), 7, 0)], j + 1  # the line

        return ef.while_loop(lambda z, j: j < 50, inner, (y, 0))[0], i + 1

    return ef.while_loop(lambda y, i: i < 5, body, (x, ef.tensor(0)))[0].sum()


def helper(x: Any, n: Any) -> Any:
    total = x[0]
    for i in range(n):
        if x[0] > 0:
            total = total + x[ef.where(i >= 37, i, 0)]  # the line
    return total


def in_a_converted_helper(x: Any) -> Any:
    n = x.astype(ef.int64)[2] + 47  # a tensor: the loop is in the graph
    return helper(x, n)


def in_a_scan(x: Any) -> Any:
    """A reverse scan, whose iterations count down."""
    rows = ef.arange(50)

    def step(carry: Any, i: Any) -> Any:
        return carry + x[ef.where(i == 37, 7, 0)], carry  # the line

    return ef.scan(step, x[0], rows, reverse=True)[0]


def not_finite(x: Any) -> Any:
    def body(y: Any, i: Any) -> Any:
        return y + ef.log(37.0 - i + 0 * y), i + 1  # the line

    return ef.while_loop(lambda y, i: i < 50, body, (x, 0))[0].sum()


CASES: dict[Callable[..., Any], list[str]] = {
    in_a_branch: [],
    in_a_nested_loop: ["38", "2"],
    in_a_converted_helper: ["37"],
    in_a_scan: ["37"],
}
X = [1.0, 2.0, 3.0]


# --- ways to run ------------------------------------------------------------------------------


def traced(f: Callable[..., Any]) -> Any:
    return ef.trace(f)(ef.tensor(X))


def with_(setting: str) -> Callable[..., Any]:
    def run(f: Callable[..., Any]) -> Any:
        g = ef.trace(f)
        with ef.config(**{setting: True}):
            return g(ef.tensor(X))

    return run


def fetched(f: Callable[..., Any]) -> Any:
    graph = ef.trace(f).graph(ef.tensor(X))
    return graph.run(graph.outputs, dict.fromkeys(graph.inputs, ef.tensor(X)))


def in_scheduler(whole: Callable[[Any], bool] | None, helpers: int) -> Callable[..., Any]:
    def run(f: Callable[..., Any]) -> Any:
        graph = ef.trace(f).graph(ef.tensor(X))
        assert len(graph.inputs) == 1
        how = {} if whole is None else {"whole": whole}
        tier = scheduled(by_scheduler(graph, seconds=heavy, **how))
        return ScheduledStep(tier, helpers=helpers).run([ef.tensor(X).numpy()])

    return run


def gradient(f: Callable[..., Any]) -> Any:
    return ef.grad(ef.trace(f))(ef.tensor(X))


WAYS: dict[str, Callable[..., Any]] = {
    "traced": traced,
    "verify": with_("verify"),
    "check_nan": with_("check_nan"),
    "graph.run": fetched,
    "gradient": gradient,
    "scheduled": in_scheduler(None, 0),
    "lowered": in_scheduler(open_up, 0),
    "lowered, in threads": in_scheduler(open_up, 2),
}


def iterations(error: BaseException) -> list[str]:
    return [n.split("iteration ")[1].split()[0] for n in notes(error) if "in iteration " in n]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_the_line_the_iteration_and_the_types(f: Callable[..., Any], way: str) -> None:
    with pytest.raises(errors.TensorIndexError) as caught:
        WAYS[way](f)
    error = caught.value
    assert "# the line" in str(error.source)
    assert "# the line" in str(error)
    assert "f32[3]@cpu:0" in str(error)
    assert "i64[]" in str(error)
    assert iterations(error) == CASES[f]
    for note in notes(error):
        if "in iteration" in note:
            assert "test_errors_inside.py" in note
    shown = "\n".join(error._render_traceback_())
    assert "eagerflow/runtime" not in shown
    assert "eagerflow/control" not in shown


@pytest.mark.parametrize("lowered", [False, True])
def test_monitors_say_in_which_iteration(lowered: bool) -> None:
    """Under ``check_nan`` the result of each op is checked."""
    f = ef.trace(not_finite)
    f(ef.tensor(X))
    if lowered:  # with a step of the executor around it
        inner = f
        f = ef.trace(lambda x: ef.py_call(inner, "f32[]", x))
    with pytest.raises(errors.NonFiniteError) as caught, ef.config(check_nan=True):
        f(ef.tensor(X))
    error = caught.value
    assert "# the line" in str(error)
    assert "log: made an infinity" in str(error)
    assert "f32[3]@cpu:0" in str(error)
    assert iterations(error) == ["37"]


# --- writes before the error ------------------------------------------------------------------


def test_what_was_written_in_branches_and_loops() -> None:
    """Certain writes are reported: finished iterations have done those that come later in them."""
    names = ("first", "inner", "later", "branch", "other")
    v = {name: ef.Variable(0.0, name=name) for name in names}

    @ef.trace
    def f(x: Any) -> Any:
        first = v["first"].assign_add(1.0)  # before the loop, which needs it

        def body(y: Any, i: Any) -> Any:
            v["inner"].assign_add(1.0)
            ef.cond(i > 100, lambda: v["other"].assign_add(1.0), lambda: v["branch"].value)
            z = y + x[i]
            v["later"].assign_add(1.0)
            return z, i + 1

        return ef.while_loop(lambda y, i: i < 50, body, (x + first, 0))[0]

    graph = f.graph(ef.tensor(X))
    given = [ef.tensor(X).numpy()]
    reports = {}
    runs = {
        "function": Executable(graph),
        "scheduled": by_scheduler(graph, lambda node: True),
        "lowered": by_scheduler(graph, open_up),
    }
    for name, run in runs.items():
        with pytest.raises(errors.TensorIndexError) as caught:
            run(*given)
        reports[name] = [n.strip() for n in notes(caught.value) if n.startswith("  this step")]

    def variables(*names: str) -> str:
        return ", ".join(f"variable {name!r} f32[]@cpu:0" for name in names)

    sure = f"this step had already written: {variables('first', 'inner', 'later')}"
    perhaps = f"this step may have written: {variables('other')}"
    assert reports["function"] == [sure, perhaps]
    # effects on different variables may overlap: then less was written, and less is reported
    for way, rest in (("scheduled", [perhaps]), ("lowered", [])):
        (written, *others) = reports[way]
        told = [name for name in names if repr(name) in written]
        assert written == f"this step had already written: {variables(*told)}"
        assert {"inner"} <= set(told) <= {"first", "inner", "later"}
        assert others == rest


def test_a_loop_that_ended_may_have_written() -> None:
    v = ef.Variable(0.0, name="v")

    @ef.trace
    def f(x: Any, n: Any) -> Any:
        def body(i: Any) -> Any:
            v.assign_add(1.0)
            return i + 1

        i = ef.while_loop(lambda i: i < n, body, ef.tensor(0))
        return x[i + 3]

    with pytest.raises(errors.TensorIndexError) as caught:
        f(ef.tensor(X), 2)
    assert notes(caught.value)[-1] == "  this step may have written: variable 'v' f32[]@cpu:0"


# --- ends of other parts ----------------------------------------------------------------------

SIZE = 300_000


def test_a_failure_ends_what_runs_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other part iterates for ever; its writes are reported as well."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(generated_or_scheduled, "_GAIN", float("inf"))
    v = ef.Variable(0.0, name="v")

    @ef.trace
    def f(x: Any, n: Any, m: Any) -> Any:
        v.assign_add(1.0)
        failing = ef.exp(ef.sin(x))[m]  # the line
        beside = ef.while_loop(lambda y, i: i < n, lambda y, i: (ef.cos(y), i + 1), (x, 0))[0]
        return beside + failing

    x = ef.tensor(np.linspace(-1, 1, SIZE, dtype=np.float32))
    f(x, 2, ef.tensor(0))
    for _ in range(3):  # by scheduled nodes, and as one function
        with pytest.raises(errors.TensorIndexError) as caught:
            f(x, 10**9, ef.tensor(SIZE))
        assert "# the line" in str(caught.value)
        assert notes(caught.value)[-1] == (
            "  this step had already written: variable 'v' f32[]@cpu:0"
        )
    assert v.numpy() == 4.0
    assert np.isfinite(f(x, 2, ef.tensor(0)).numpy()).all()


def test_iterations_do_not_run_ahead_of_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one device, also where a loop is lowered since its body has parts to run at once."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    v = ef.Variable(0.0)

    @ef.trace
    def f(x: Any, rows: Any) -> Any:
        def body(y: Any, i: Any) -> Any:
            v.assign_add(1.0)
            return ef.sin(y) + ef.cos(y) + rows[i], i + 1

        return ef.while_loop(lambda y, i: i < 20, body, (x, 0))[0]

    x = ef.tensor(np.linspace(-1, 1, SIZE, dtype=np.float32))
    graph = f.graph(x, ef.ones(5))
    program = Executable(graph)
    for _ in range(2):
        v.assign(0.0)
        with pytest.raises(errors.TensorIndexError) as caught:
            program(x.numpy(), ef.ones(5).numpy())
        assert v.numpy() == 6.0
        assert iterations(caught.value) == ["5"]
    assert program.tier.name == "scheduled"


def test_an_error_of_a_text() -> None:
    """Without lines of the user, the error names nodes."""
    graph = Graph.parse(
        """graph f(%p: bool[]@cpu:0, %x: f32[3]@cpu:0, %i: i64[]@cpu:0) {
          %y = cond(%p, %x, %i) {branches=(
            graph (%x: f32[3]@cpu:0, %i: i64[]@cpu:0) {
              %z = take(%x, %i) {axis=0} : f32[]@cpu:0 return %z },
            graph (%x: f32[3]@cpu:0, %i: i64[]@cpu:0) {
              %z = take(%x, %i) {axis=0} : f32[]@cpu:0 return %z })}
            : f32[]@cpu:0
          return %y }"""
    )
    for run in (Executable(graph), by_scheduler(graph), by_scheduler(graph, open_up)):
        with pytest.raises(errors.TensorIndexError) as caught:
            run(np.asarray(True), np.ones(3, np.float32), np.asarray(7))
        assert any("node: %z" in n and "= take(" in n for n in notes(caught.value))
