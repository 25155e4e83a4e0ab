"""Aliases, state, effects, derivatives and names: graphs behave as Python does."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.autograph.test_programs import _ops


def _same(function, *args: Any) -> Any:
    """The result of an eager and of a traced call, which agree in the arguments as well."""
    first, second = [[ef.tensor(a) if isinstance(a, (float, list)) else a for a in args]
                     for _ in range(2)]  # fmt: skip
    want, got = function(*first), ef.trace(function)(*second)
    assert str(got) == str(want)
    assert str(second) == str(first)
    return got


def test_updates_in_place_reach_the_caller_and_aliases() -> None:
    def branch(x):
        y = x
        if x > 0:
            x += 5
        return x, y

    def loop(xs, total):
        alias = total
        for x in xs:
            total += x
        return alias

    def item(xs):
        if xs[0] > 0:
            xs[1] = 7.0
        return xs.sum()

    for value in (1.0, -1.0):
        _same(branch, value)
        _same(item, [value, 2.0])
    assert _same(loop, [1.0, 2.0], 10.0).item() == 13.0


def test_a_name_bound_anew_in_a_loop_leaves_the_argument_alone() -> None:
    def f(x, y):
        while x < 10:
            x = x * 2
            y += x
        return x

    _same(f, 1.0, 0.0)


def test_objects_from_outside_keep_what_branches_set() -> None:
    class Model:
        def __init__(self) -> None:
            self.h = ef.tensor(0.0)
            self.best = {"value": 0.0}
            self.seen = 0

        def step(self, x):
            if x > self.best["value"]:
                self.best["value"] = x
                self.seen += 1
            self.h = self.h + x

    eager, traced = Model(), Model()
    step = ef.trace(Model.step)
    for value in (1.0, 3.0, 2.0):
        eager.step(ef.tensor(value))
        step(traced, ef.tensor(value))
    assert traced.h.item() == eager.h.item() == 6.0
    assert float(traced.best["value"]) == float(eager.best["value"]) == 3.0
    assert int(traced.seen) == eager.seen == 2


def test_variables_are_assigned_in_the_branch_that_is_taken() -> None:
    v = ef.Variable(0.0)

    @ef.trace
    def f(x):
        for _ in range(3):
            if x > 0:
                v.assign_add(x)
            else:
                v.assign(0.0)
                break
        return v.value

    assert f(ef.tensor(2.0)).item() == 6.0
    assert f(ef.tensor(1.0)).item() == 9.0
    assert f(ef.tensor(-1.0)).item() == 0.0


def test_draws_of_a_branch_are_those_of_the_eager_run() -> None:
    def f(x):
        if x > 0:
            y = ef.random.normal(())
        else:
            y = x
        return y + ef.random.uniform(())

    for value in (1.0, -1.0):
        draws = []
        for g in (f, ef.trace(f), ef.trace(f)):
            ef.random.seed(3)
            draws.append(g(ef.tensor(value)).item())
        assert draws[0] == draws[1] == draws[2]


def test_print_belongs_to_the_branch(capsys) -> None:
    @ef.trace(strict=True)
    def f(x):
        if x > 0:
            print("positive", x)
        else:
            print("other")
        print("x is", x, sep=" ")
        return x

    for value in (1.0, -1.0, 2.0):
        f(ef.tensor(value))
    assert capsys.readouterr().out.splitlines() == [
        "positive 1.", "x is 1.", "other", "x is -1.", "positive 2.", "x is 2.",
    ]  # fmt: skip


def test_print_of_python_values_is_told_as_before(capsys) -> None:
    @ef.trace
    def f(x):
        for i in range(1):
            print("tracing", i)
        return x

    with pytest.warns(ef.errors.TraceWarning, match="print runs only while tracing"):
        f(ef.tensor(1.0))
    f(ef.tensor(1.0))
    assert capsys.readouterr().out == "tracing 0\n"


def test_gradients_go_through() -> None:
    def f(x):
        total = x * 0
        while x > 1:
            x = x / 2
            if x < 3:
                total = total + x * x
            else:
                total = total - x
        return total

    for value in (10.0, 7.0, 0.5):
        x = ef.tensor(value)
        want = ef.grad(f)(x).item()
        assert ef.grad(ef.trace(f))(x).item() == want
        assert ef.trace(ef.grad(f))(x).item() == want
        assert ef.trace(lambda y: ef.grad(f)(y))(x).item() == want


def test_a_transform_made_outside_is_converted() -> None:
    def loss(x):
        if x > 0:
            return x * x
        return -x

    gradient = ef.grad(loss)
    f = ef.trace(lambda x: gradient(x))
    assert (f(ef.tensor(3.0)).item(), f(ef.tensor(-3.0)).item()) == (6.0, -1.0)


def test_sizes_make_loops_and_two_traces_do() -> None:
    @ef.trace
    def f(xs):
        h, out = xs[0], []
        for t in range(xs.shape[0]):
            h = ef.tanh(h + xs[t])
            out.append(h)
        return ef.stack(out)

    for n in range(2, 12):
        xs = np.linspace(-1, 1, n, dtype="float32")
        want, h = [], xs[0]
        for x in xs:
            h = np.tanh(h + x)
            want.append(h)
        assert np.allclose(f(ef.tensor(xs)).numpy(), want, atol=1e-6)
    assert len(f.traces) == 2


def test_lists_of_loops_of_unknown_length() -> None:
    def f(x):
        ys = [x]
        while x > 1:
            x = x / 2
            ys.append(x)
        total = x * 0
        for y in ys:
            total = total + y
        return ef.stack(ys), ys[1], total

    for value in (10.0, 3.0):
        _same(f, value)


def test_a_loop_that_no_graph_can_have_is_unrolled() -> None:
    weights = [ef.tensor(2.0), ef.tensor(3.0)]

    def f(xs):
        for w, x in zip(weights, xs, strict=True):
            xs = xs * w + x
        return xs

    _same(f, [1.0, 2.0])
    assert not _ops(ef.trace(f).graph(ef.tensor([1.0, 2.0])))


def test_the_first_iteration_may_differ_from_the_others() -> None:
    def f(xs):
        h = None
        for x in xs:
            h = x if h is None else h * x
        return h

    assert _same(f, [2.0, 3.0, 4.0]).item() == 24.0
    assert "scan" in _ops(ef.trace(f).graph(ef.tensor([1.0, 2.0, 3.0])))


def test_python_values_stay_python() -> None:
    @ef.trace
    def f(x, n, name):
        if n > 3 and name:
            x = x * 2
        return x if name == "a" else -x

    assert f(ef.tensor(1.0), 4, "a").item() == 2.0
    assert f(ef.tensor(1.0), 3, "a").item() == 1.0
    assert f(ef.tensor(1.0), 4, "").item() == -1.0
    graph = f.graph(ef.tensor(1.0), 4, "a")
    assert not _ops(graph)
    assert "static: n > 3 is True" in str(f.explain())


def test_local_names_are_known() -> None:
    @ef.trace
    def f(x):
        if x > 0:
            h = x * 2
        else:
            h = x
        return h + 1

    f(ef.tensor(1.0))
    assert f.value("h").node.op == "cond"


def test_nodes_know_the_users_lines() -> None:
    def f(x):
        if x > 0:
            y = ef.exp(x)  # the line
        else:
            y = x
        return y

    graph = ef.trace(f).graph(ef.tensor(1.0))
    (cond,) = [node for node in graph.nodes if node.op == "cond"]
    assert cond.source.text == "if x > 0:"
    (exp,) = [n for n in cond.attrs["branches"][0].nodes if n.op == "exp"]
    assert exp.source.text == "y = ef.exp(x)  # the line"
    assert exp.source.function.endswith("test_nodes_know_the_users_lines.<locals>.f")


def test_threads_that_set_globals_meanwhile_are_left_alone() -> None:
    namespace = globals()

    def f(x):
        if x > 0:
            namespace["_from_another_thread"] = 1  # as one might do at this moment
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert ef.trace(f)(ef.tensor(1.0)).item() == 1.0
    namespace.pop("_from_another_thread", None)


def accumulates_a_number(xs):
    total = 0.0
    for x in xs:
        if x > 0:
            total = total + x
        total += 1
    return total


def accumulates_in_both(xs):
    total, seen = xs[0] * 0, 0
    for x in xs:
        if x > 0 and x < 3:
            total = total + x
            seen = seen + 1
        else:
            total -= x
        total += 1
        seen += 1
    return total, seen


def accumulates_while(xs):
    total = xs[0] * 2
    while total < 10:
        for x in xs:
            if x > 1:
                total = total + x
            total += 1
        total += 1
    else:
        total *= 2
    return total


def of_fresh_tensors(xs):
    x = xs[0]
    y = x * 2 if x > 0 else x * 3
    y += 1
    if x > -10:
        if x > 0:
            y = y + 1
        y += 1
    y -= 1
    return y, x


def appends_and_accumulates(xs):
    kept, total = [], 0.0
    for x in xs:
        if x > 0:
            kept.append(x)
            total = total + x
        total += 1
    return total, ef.stack(kept)


def accumulates_until(xs):
    total = 0.0
    for x in xs:
        if x == 2:
            break
        total = total + x
    else:
        total += 1
    return total


def of_an_attribute(xs):
    class Box:
        h = xs[0] * 2

    box = Box()
    for x in xs:
        if x > 0:
            box.h = box.h + x
        box.h += 1
    return box.h


@pytest.mark.parametrize(
    "function",
    [accumulates_a_number, accumulates_in_both, accumulates_while, of_fresh_tensors,
     appends_and_accumulates, accumulates_until, of_an_attribute],
)  # fmt: skip
@pytest.mark.parametrize("values", [[1.0, -2.0], [4.0, 2.0, -1.0], [2.5, 0.5]])
def test_what_nobody_else_has_is_updated_in_place(function, values) -> None:
    want = function(ef.tensor(values))
    traced = ef.trace(function)
    for _ in range(2):
        assert repr(traced(ef.tensor(values))) == repr(want)


def chooses_an_argument(x, y):
    if x > 0:
        z = x
    else:
        z = y
    z += 1  # here
    return z


def chooses_what_has_a_name(x, y):
    z = x * 2
    kept = z
    if y > 0:
        z = z + 1
    z += 1  # here
    return kept


def binds_two_names(x, y):
    if x > 0:
        z = kept = x * 2
    else:
        z = kept = y * 2
    z += 1  # here
    return z, kept


def best_of_rows(x, y):
    best = x
    for row in ef.stack([x, y]):
        if row > best:
            best = row
    best *= y - 1  # here
    return best


def chooses_in_iterations(x, y):
    z = x
    while z < y:
        z = z + 1
    z += 1  # here
    return z


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            chooses_an_argument,
            ["z is updated", "that x and y hold as well", "write z = z + 1"],
        ),
        (chooses_what_has_a_name, ["that kept holds as well: a condition", "write z = z + 1"]),
        (binds_two_names, ["z is updated", "as well: a condition", "write z = z + 1"]),
        (best_of_rows, ["best is updated", "write best = best * (y - 1) in the place of best *="]),
        (chooses_in_iterations, ["that x holds as well: a loop on tensors", "write z = z + 1"]),
    ],
)
def test_what_somebody_else_has_is_not_updated_in_place(function, words) -> None:
    with pytest.raises(TraceError) as caught:
        ef.trace(function)(ef.tensor(1.0), ef.tensor(2.0))
    for one in (*words, "# here"):
        assert one in str(caught.value)


@pytest.mark.parametrize("function", [accumulates_in_both, accumulates_until])
def test_what_a_debugger_holds_is_not_updated_in_place(function) -> None:
    def look(frame, *_):
        if frame.f_code.co_filename != __file__:
            return None
        return frame.f_locals and look  # as one that shows variables

    before = sys.gettrace()
    sys.settrace(look)
    try:
        with pytest.raises(TraceError) as caught:
            ef.trace(function)(ef.tensor([1.0, -2.0]))
    finally:
        sys.settrace(before)
    for one in ("total is updated in place", "or a debugger", "trace it without the debugger"):
        assert one in str(caught.value)
