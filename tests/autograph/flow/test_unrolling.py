"""Reports on unrolled loops, whose iterations are traced one by one."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import warnings

import pytest

import eagerflow as ef

x = ef.ones(3)


def test_unrolled_loops_are_told_with_their_lines() -> None:
    @ef.trace
    def f(x, k):
        for _ in range(k):  # outer
            x = x * 2
            for j in range(2):  # inner
                x = x + j
        n = 0
        while n < 3:  # counted
            n += 1
            x = x / n
        for y in x:  # a loop of the graph
            for w in [1.0, 2.0]:  # in its body
                x = x + y * w
        for _ in range(1):  # one iteration
            x = x + 1
        for y in [1, 2]:  # without nodes
            n += y
        return x

    f(x, 4)
    lines = [line for line in str(f.explain()).splitlines() if "unrolled: " in line]
    assert [line.partition(": for")[2] or line.partition(": while")[2] for line in lines] == [
        " _ in range(k):  # outer: 4 iterations made 12 nodes",
        " j in range(2):  # inner: 2 iterations, 4 times, made 8 nodes",
        " w in [1.0, 2.0]:  # in its body: 2 iterations made 4 nodes",
        " n < 3:  # counted: 3 iterations made 3 nodes",
    ]
    assert "unrolled" in f.explain()._repr_html_()


def test_runs_of_several_lengths_are_counted_together() -> None:
    @ef.trace
    def f(x):
        for i in range(3):
            for _ in range(i):  # inner
                x = x * 2
        return x

    f(x)
    assert "# inner: 3 iterations in 3 runs made 3 nodes" in str(f.explain())


def test_many_nodes_are_warned_of(monkeypatch) -> None:
    monkeypatch.setattr("eagerflow.function.new_traces.make_entry.LARGE", 600)

    @ef.trace
    def f(x):
        for _ in range(300):  # here
            for _ in range(2):
                x = x + 1
        return x

    with pytest.warns(ef.errors.TraceWarning) as caught:
        f(x)
    (text,) = [str(w.message) for w in caught]
    assert "# here is unrolled: so far 256 iterations made 512 nodes. Over a tensor" in text
    assert "`for i in ef.arange(n)` with a Python number n" in text


@pytest.mark.parametrize("iterations", [2, 3])
def test_the_first_iteration_counts(iterations) -> None:
    weights = [0.5] * iterations

    @ef.trace
    def f(x):
        for i, y in enumerate(x):  # indexes a list of Python
            x = x + y * weights[i]
        return x

    f(ef.ones(iterations))
    (line,) = [line for line in str(f.explain()).splitlines() if "unrolled: " in line]
    assert f" {iterations:,} iterations made" in line


def test_how_long_a_loop_is_does_not_decide_how_it_is_traced(monkeypatch) -> None:
    monkeypatch.setattr("eagerflow.autograph.flow.loop_statements._MOST", 20)
    weights = [0.05] * 30

    def indexes(x):
        total = ef.zeros(())
        for i in range(x.shape[0]):
            total = total + x[i] * weights[i]
        return total

    def ends(x):
        total = ef.zeros(())
        for i, y in enumerate(x):
            total = total + y * weights[i]
            if total > 1:
                break
        return total

    def a_list(x):
        for w in weights:
            x = x + w
            if x[0] > 2:
                return x
        return x

    for function in (indexes, ends, a_list):
        for n in (3, 30):
            x = ef.ones(n)
            assert ef.all(ef.trace(function)(x) == function(x))


def test_more_than_some_loops_are_counted_only() -> None:
    @ef.trace
    def f(x):
        for _ in range(2):
            x = x + 1
        for _ in range(2):
            x = x + 1
        for _ in range(2):
            x = x + 1
        for _ in range(2):
            x = x + 1
        for _ in range(2):
            x = x + 1
        for _ in range(3):  # the largest
            x = x + 1
        return x

    f(x)
    lines = str(f.explain()).splitlines()
    assert "# the largest" in lines[3]
    assert lines[-1].endswith("unrolled: and 1 more")


@pytest.mark.filterwarnings("ignore::eagerflow.errors.TraceWarning")
def test_conditions_after_many_iterations() -> None:
    """Whether they are constants is asked of long chains: without recursion, and once."""

    def f(x):
        y = x
        for _ in range(1200):
            y = ef.sin(y) + x
        if y > 0:
            y = y * 2
        for _ in range(300):
            y = ef.sin(y) + x
            if y > 100:
                raise ValueError("too large")
        return y

    x = ef.tensor(0.3)
    assert float(ef.trace(f)(x)) == float(f(x))

    def of_constants(x):
        y = ef.tensor(1.0)
        for _ in range(1200):
            y = ef.sin(y)
        return x + int(y * 0 + 2)

    assert float(ef.trace(of_constants)(x)) == float(of_constants(x))


def _grown(n: int, width: int):
    @ef.trace
    def f(x):
        for _ in range(n):
            for _ in [None] * width:
                x = x + 1
        return x

    return f


def test_a_loop_over_a_range_is_reported_while_it_is_unrolled(monkeypatch) -> None:
    monkeypatch.setattr("eagerflow.autograph.flow.unrolled_loops._reported", set())
    done = []

    @ef.trace
    def f(x, steps):
        for t in range(steps):  # grows
            done.append(t)
            for _ in range(10):
                x = x * 0.5
        return x

    seen = []
    monkeypatch.setattr(
        "warnings.showwarning", lambda text, *_: seen.append((str(text), len(done)))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        f(ef.ones(2), 70)
        f(ef.ones(2), 80)  # another trace of the same line
    texts = [one for one in seen if "is unrolled" in one[0]]
    ((text, count),) = texts
    assert count == 64
    assert "# grows is unrolled: so far 64 iterations made 640 nodes. Over a tensor it is" in text
    assert "`for i in ef.arange(n)` with a Python number n" in text


@pytest.mark.parametrize(("iterations", "nodes"), [(12, 60), (63, 20), (500, 1)])
def test_loops_over_layers_and_small_loops_are_not_reported(iterations: int, nodes: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _grown(iterations, nodes)(ef.ones(2))


def test_a_while_of_python_is_reported_too() -> None:
    @ef.trace
    def f(x):
        n = 0
        while n < 100:  # counts
            for _ in [None] * 10:
                x = x + 1
            n += 1
        return x

    with pytest.warns(ef.errors.TraceWarning, match="# counts is unrolled: so far 64 iterations"):
        f(ef.ones(2))


def test_a_large_loop_over_a_list_is_reported_after_the_trace() -> None:
    @ef.trace
    def f(x):
        for _ in [None] * 1500:  # listed
            x = x + 1 + 1
        return x

    with pytest.warns(ef.errors.TraceWarning, match="1,500 iterations made 3,000 nodes"):
        f(ef.ones(2))
