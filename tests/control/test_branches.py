"""`cond` and `switch`: accepted and refused arguments, and effects of the branch not taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import (
    DTypeError,
    LeakedTensorError,
    ShapeError,
    TensorIndexError,
    TraceError,
)
from tests.messages import says

# mypy: disable-error-code="no-untyped-def"

YES, NO = ef.tensor(True), ef.tensor(False)


def both(f: Any) -> list[Any]:
    return [f, ef.trace(f)]


def test_a_python_bool_is_pythons_if() -> None:
    ran = []

    def f(x, flag):
        return ef.cond(flag, lambda: ran.append("yes") or x, lambda: ran.append("no") or -x)

    assert float(f(ef.tensor(1.0), True)) == 1
    assert float(f(ef.tensor(1.0), False)) == -1
    assert ran == ["yes", "no"]
    graph = ef.trace(lambda x: ef.cond(True, lambda: x + 1, lambda: x)).graph(ef.tensor(1.0))
    assert [n.op for n in graph.nodes if n.op != "constant"] == ["add"]


def test_predicates() -> None:
    for pred, error, words in (
        (ef.tensor([True]), ShapeError, "cond: pred has axes"),
        (ef.tensor(1.0), DTypeError, "cond: pred is no bool"),
        (1, DTypeError, "cond: pred is no bool"),
        (None, DTypeError, "cond: pred is no bool"),
    ):
        with pytest.raises(error, match=words):
            ef.cond(pred, lambda: 1, lambda: 2)
    assert ef.cond(np.bool_(True), lambda: 1, lambda: 2) == 1
    v = ef.Variable(True)
    for f in both(lambda: ef.cond(v, lambda: ef.tensor(1), lambda: ef.tensor(2))):
        v.assign(True)
        assert int(f()) == 1
        v.assign(False)
        assert int(f()) == 2


def test_what_is_no_function() -> None:
    x = ef.ones(2)
    for call, what in (
        (lambda: ef.cond(x.sum() > 0, x, x), "cond: true_fn"),
        (lambda: ef.cond(x.sum() > 0, lambda: x, 0), "cond: false_fn"),
        (lambda: ef.switch(0, {"a": lambda: x}), "switch: a branch"),
        (lambda: ef.while_loop(True, lambda x: x, x), "while_loop: cond"),
        (lambda: ef.while_loop(lambda x: True, x, x), "while_loop: body"),
        (lambda: ef.scan(None, 0, x), "scan: f"),
        (lambda: ef.map(x, x), "map: f"),
    ):
        for f in both(call):
            with pytest.raises(TraceError, check=says(f"{what} is not a function")):
                f()


def test_a_function_that_calls_itself_in_a_branch() -> None:
    """Eagerly it ends; a trace of both branches would not."""

    def factorial(n):
        return ef.cond(n <= 1, lambda: ef.ones_like(n), lambda: n * factorial(n - 1))

    assert int(factorial(ef.tensor(5))) == 120
    with pytest.raises(TraceError, match="branches and loops are nested too deeply"):
        ef.trace(factorial)(ef.tensor(5))


def test_indices_of_branches() -> None:
    branches = [lambda: ef.tensor(0), lambda: ef.tensor(1)]
    for f in both(lambda i: ef.switch(i, branches)):
        assert int(f(ef.tensor(1))) == 1
        for i in (2, -1):
            with pytest.raises(TensorIndexError, match="switch: there is no such branch"):
                f(ef.tensor(i))
    for index, error in ((ef.tensor([1]), ShapeError), (1.5, DTypeError), (True, DTypeError)):
        with pytest.raises(error, match="switch: index"):
            ef.switch(index, branches)
    with pytest.raises(TraceError, match="there are no branches"):
        ef.switch(0, [])


def test_only_the_branch_that_is_taken_has_effects() -> None:
    v, n = ef.Variable(0.0), ef.Variable(0)

    def f(p):
        def yes():
            n.assign_add(1)
            return v.assign_add(1.0)

        return ef.cond(p, yes, lambda: v.assign_sub(10.0)), v.value

    for g in both(f):
        v.assign(0.0)
        n.assign(0)
        assert [float(x) for x in g(YES)] == [1.0, 1.0]
        assert [float(x) for x in g(NO)] == [-9.0, -9.0]
        assert int(n.value) == 1


def test_an_error_in_the_branch_that_is_not_taken_does_not_happen() -> None:
    def f(p, x, i):
        return ef.cond(p, lambda: ef.take(x, i, axis=0), lambda: x[:2])

    x = ef.arange(3.0)
    for g in both(f):
        np.testing.assert_array_equal(g(NO, x, ef.tensor([7, 8])).numpy(), [0, 1])
        with pytest.raises(TensorIndexError, match="index 7 is out of range"):
            g(YES, x, ef.tensor([7, 8]))


def test_sizes_may_differ() -> None:
    def f(p, x):
        y = ef.cond(p, lambda: x[:2], lambda: x[x > 1.0])
        return y, y.shape[0] * 2, ef.zeros(y.shape)

    x = ef.arange(5.0)
    traced = ef.trace(f)
    for p in (YES, NO):
        for a, b in zip(f(p, x), traced(p, x), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert "f32[size]" in str(traced.graph(YES, x))


def test_numbers_and_tensors_meet() -> None:
    @ef.trace
    def f(p, x):
        return ef.cond(p, lambda: x * 2, lambda: 0.0)

    assert f(NO, ef.tensor(3.0)).type == ef.tensor(0.0).type
    with pytest.raises(TraceError, match="of different types in two branches"):
        ef.trace(lambda p, x: ef.cond(p, lambda: x, lambda: 0.5))(YES, ef.tensor(3))


def test_a_branch_may_give_what_is_around_it() -> None:
    def f(p, x, n, m):
        a = ef.cond(p, lambda: (n, x, 1), lambda: (n + m, -x, m))
        return a, ef.cond(p, lambda: (x.shape[0], m), lambda: (m, x.shape[0] * 2))

    for p in (YES, NO):
        args = (p, ef.ones(2), 3, 4)
        assert str(ef.trace(f)(*args)) == str(f(*args))


def test_what_branches_give_alike_stays_as_it_is() -> None:
    @ef.trace
    def f(p, x, n):
        same = ef.cond(p, lambda: {"k": 3, "n": n, "s": "a", "x": x, "none": None},
                       lambda: {"k": 3, "n": n, "s": "a", "x": -x, "none": None})  # fmt: skip
        return same, x.reshape(same["k"], 1), x[: same["n"]]

    entries, y, z = f(NO, ef.arange(3.0), 2)
    assert (entries["k"], entries["n"], entries["s"], entries["none"]) == (3, 2, "a", None)
    assert (y.shape, z.shape) == ((3, 1), (2,))


def _lines(f: Any, *args: Any) -> str:
    with pytest.raises(TraceError) as caught:
        ef.trace(f)(*args)
    return str(caught.value)


def test_errors_name_both_lines() -> None:
    def yes(x):
        return {"a": x.astype(ef.float64)}

    def no(x):
        return {"a": x}

    text = _lines(lambda p, x: ef.cond(p, yes, no, x), YES, ef.ones(2))
    assert "result['a'] is of different dtypes" in text
    assert "x.astype(ef.float64)" in text
    assert "in test_errors_name_both_lines.<locals>.no" in text
    text = _lines(lambda p, x: ef.cond(p, lambda: x, lambda: (x, x)), YES, ef.ones(2))
    assert "different structures" in text
    assert text.count("test_branches.py") >= 2
    text = _lines(lambda p, x: ef.cond(p, lambda: x, lambda: x.sum()), YES, ef.ones(2))
    assert "different numbers of axes" in text
    text = _lines(lambda p: ef.cond(p, lambda: 1, lambda: 0.5), YES)
    assert "different kinds of numbers" in text
    text = _lines(lambda p: ef.cond(p, lambda: "a", lambda: "b"), YES)
    assert "different objects" in text
    text = _lines(lambda p, x: ef.cond(p, lambda: x, lambda: None), YES, ef.ones(2))
    assert "different structures" in text


def test_python_cannot_have_a_number_that_a_branch_decides() -> None:
    def use(operation):
        return lambda p, x: operation(ef.cond(p, lambda: 1, lambda: 2), x)

    for operation in (
        lambda n, x: range(n),
        lambda n, x: int(n),
        lambda n, x: [x][n],
    ):
        text = _lines(use(operation), YES, ef.ones(3))
        assert "a number that is known only when the graph runs" in text
        assert "comes from a cond" in text
        assert "ef.cond(p, lambda: 1, lambda: 2)" in text
    values = ef.trace(use(lambda n, x: (x[n], n < 2, x * n, n / 2)))(NO, ef.arange(3.0))
    assert [float(f) for f in (values[0], values[1], values[3])] == [2.0, 0.0, 1.0]


def test_updates_stay_inside() -> None:
    def f(p, x):
        def yes(y):
            y += 1.0
            y[0] = 9.0
            return y

        return ef.cond(p, yes, lambda y: y, x), x

    for g in both(f):
        x = ef.zeros(2)
        y, again = g(YES, x)
        assert (list(map(float, y)), list(map(float, x))) == ([9.0, 1.0], [0.0, 0.0])
        assert again is x

    @ef.trace
    def outside(p, x):
        def yes():
            x[0] = 1.0
            return x

        return ef.cond(p, yes, lambda: x)

    with pytest.raises(TraceError, match="updates a tensor from outside in place"):
        outside(YES, ef.zeros(2))


class Counter:
    """An object with attributes."""

    def __init__(self) -> None:
        self.n = 0
        self.log: list[Any] = []


CALLS: list[int] = []
LAST = 0


def _stores(counter: Counter) -> dict[str, Any]:
    total = 0

    def nonlocal_name(x):
        nonlocal total
        total = total + 1
        return x

    def global_name(x):
        global LAST
        LAST = 5
        return x

    def attribute(x):
        counter.n += 1
        return x

    def list_of_an_object(x):
        counter.log.append(x)
        return x

    def global_list(x):
        CALLS.append(1)
        return x

    return {f.__name__: f for f in
            (nonlocal_name, global_name, attribute, list_of_an_object, global_list)}  # fmt: skip


@pytest.mark.parametrize("name", list(_stores(Counter())))
def test_python_state_cannot_be_changed_inside(name: str) -> None:
    """A branch is traced whether it is taken or not: the change would happen in any case."""
    counter = Counter()
    store = _stores(counter)[name]

    @ef.trace
    def branch(p, x):
        return ef.cond(p, lambda: store(x), lambda: x)

    @ef.trace
    def direct(p, x):
        return ef.cond(p, store, lambda x: x, x)

    @ef.trace
    def loop(p, x):
        return ef.while_loop(lambda x: x < 3, lambda x: store(x) + 1, x)

    for f in (direct, branch, loop):
        with pytest.raises((TraceError, LeakedTensorError)):
            f(YES, ef.tensor(1.0))
    assert (counter.n, counter.log, CALLS, LAST) == (0, [], [], 0)
    store(ef.tensor(1.0))  # eagerly all may be changed
    CALLS.clear()
    globals()["LAST"] = 0


def test_a_value_does_not_leave_its_branch() -> None:
    kept: list[Any] = []

    @ef.trace
    def f(p, x):
        ef.cond(p, lambda: kept.append(x * 2) or x, lambda: x)
        return kept[0] + 1

    with pytest.raises(TraceError, match="changes something outside") as caught:
        f(YES, ef.tensor(1.0))
    assert "kept" in str(caught.value)
    assert kept == []

    @ef.trace
    def g(p):
        return ef.cond(p, lambda: ef.Variable(1.0).value, lambda: ef.tensor(0.0))

    with pytest.raises(TraceError, match="a variable is made inside a branch or a loop"):
        g(YES)


def test_changes_deep_in_objects_are_refused_as_well() -> None:
    class Part:
        inner: Any = None

    outer = Part()
    outer.inner = Part()
    outer.inner.log = {"steps": [1]}

    def appends(x):
        outer.inner.log["steps"].append(2)
        return x

    with pytest.raises(TraceError, match="changes something outside") as caught:
        ef.trace(
            lambda x: ef.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, appends(x)), (0, x))
        )(1.0)
    assert "outer.inner.log['steps']" in str(caught.value)
    assert outer.inner.log == {"steps": [1]}


def test_draws() -> None:
    generator = ef.random.Generator(5)

    def f(p):
        a = generator.uniform(())
        b = ef.cond(p, lambda: generator.normal((2,)), lambda: ef.zeros(2))
        return a, b, generator.uniform(())

    traced = ef.trace(f)
    for p in (YES, NO, YES):
        state = generator.state
        expected = f(p)
        after, generator.state = generator.state, state
        for x, y in zip(traced(p), expected, strict=True):
            assert x.numpy().tobytes() == y.numpy().tobytes()
        assert generator.state == after


def test_parts_of_a_graph() -> None:
    """A fetch that needs no branch runs none."""
    v = ef.Variable(0.0)

    @ef.trace
    def f(p, x):
        y = x * 2
        return y, ef.cond(p, lambda: v.assign_add(y), lambda: y)

    graph = f.graph(YES, ef.tensor(1.0))
    (y,) = graph.run([graph.outputs[0]], {"x": ef.tensor(4.0)})
    assert (float(y), float(v.value)) == (8.0, 0.0)
    (z,) = graph.run([graph.outputs[1]], {"x": ef.tensor(4.0), "p": True})
    assert (float(z), float(v.value)) == (8.0, 8.0)


def test_one_input_serves_all_sizes() -> None:
    @ef.trace
    def f(x):
        return ef.cond(x.sum() > 2, lambda: x * x.shape[0], lambda: ef.concat([x, x]))

    for n in (1, 2, 3, 5, 0):
        x = ef.ones(n)
        expected = x * n if n > 2 else ef.concat([x, x])
        np.testing.assert_array_equal(f(x).numpy(), expected.numpy())
    assert len(f.traces) == 2
