"""The cache of traces: their number and lifetime, and lookups by cells that run again."""

from __future__ import annotations

import gc
import linecache
import math
import threading
import warnings
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import RetraceWarning, TraceError, TraceWarning
from eagerflow.function.lookup import trace_cache


@pytest.fixture
def no_collector() -> Iterator[None]:
    """The cyclic collector off: what is freed is freed at once."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# --- number of traces ---------------------------------------------------------------------------


def test_200_lengths_are_two_traces() -> None:
    @ef.trace
    def f(x):
        return (x * 2).sum() + x.shape[0]

    for length in range(200):
        assert f(ef.ones(length)).item() == 3.0 * length
    assert len(f.traces) == 2


def test_forty_sizes_have_names() -> None:
    """More than there are letters: names go on with digits, and u1 would be a dtype."""

    @ef.trace
    def f(xs):
        return [x.sum() for x in xs]

    for length in (3, 4, 5):
        sums = f([ef.ones((length, length + i)) for i in range(20)])
        assert [y.item() for y in sums] == [length * (length + i) for i in range(20)]
    assert len(f.traces) == 2
    names = {str(dim) for value in f.latest().graph.inputs for dim in value.type.shape}
    assert len(names) == 40


def test_100_floats_are_one_trace() -> None:
    @ef.trace
    def f(x, rate):
        return x * rate + rate * 2

    x = ef.tensor([1.0, 2.0])
    for i in range(100):
        rate = i / 7
        assert f(x, rate).tolist() == (x * rate + rate * 2).tolist()
    assert len(f.traces) == 1


def test_answers_that_alternate_are_found_without_parsing_the_call() -> None:
    @ef.trace
    def f(x, step):
        h = x * 2 if step % 3 == 0 else x + step
        return h.reshape(2)

    x = ef.tensor([1.0, 2.0])
    for step in range(6):
        f(x, step)
    parsed: list[Any] = []
    parse = f._lookup.signature.parse
    f._lookup.signature.parse = lambda *call: parsed.append(call) or parse(*call)
    for step in range(6):
        assert f(x, step).tolist() == ([2.0, 4.0] if step % 3 == 0 else [1.0 + step, 2.0 + step])
        assert f.value("h").node.op == ("multiply" if step % 3 == 0 else "add")
    assert parsed == []
    f(x, step=1)
    assert len(parsed) == 1


def test_a_full_cache_drops_what_was_used_longest_ago() -> None:
    kept = trace_cache.Cache({})
    for i in range(trace_cache.MOST_TRACES):
        kept.add(_call("first" if i < 2 else i), f"trace {i}")
    assert len(kept) == trace_cache.MOST_TRACES
    kept.add(_call("last"), "last")
    assert len(kept) == trace_cache.MOST_TRACES
    assert "trace 1" in kept.entries()
    assert "trace 0" not in kept.entries()


def _call(key: Any) -> Any:
    return SimpleNamespace(key=key)


def test_a_method_is_traced_once_per_instance() -> None:
    class Scale:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @ef.trace
        def __call__(self, x):
            return x * self.factor

    x = ef.tensor([1.0, 2.0])
    two, three = Scale(2.0), Scale(3.0)
    for _ in range(5):
        assert two(x).tolist() == [2.0, 4.0]
        assert three(x).tolist() == [3.0, 6.0]
    two.factor = 10.0
    assert two(x).tolist() == [10.0, 20.0]
    assert len(Scale.__call__.traces) == 2


def test_a_bound_method_passed_around_is_the_method() -> None:
    class Layer:
        def __init__(self) -> None:
            self.w = ef.tensor([3.0])

        @ef.trace
        def forward(self, x):
            """Multiply."""
            return x * self.w

    layer = Layer()
    forward = layer.forward
    assert forward(ef.tensor([2.0])).tolist() == [6.0]
    assert forward.__name__ == "forward"
    assert forward.__doc__ == "Multiply."
    assert len(forward.traces) == 1
    assert [n.op for n in forward.graph(ef.tensor([2.0])).nodes] == ["multiply"]


def test_a_size_stays_a_number_until_it_differs() -> None:
    @ef.trace
    def f(x, y):
        return x @ y

    f(ef.ones((2, 3)), ef.ones((3, 4)))
    f(ef.ones((5, 3)), ef.ones((3, 4)))
    assert [r.signature for r in f.traces] == [
        "f(x: f32[2,3]@cpu:0, y: f32[3,4]@cpu:0)",
        "f(x: f32[n,3]@cpu:0, y: f32[3,4]@cpu:0)",
    ]


def test_more_traces_than_allowed_are_an_error() -> None:
    @ef.trace(max_traces=1)
    def f(x):
        return x + 1

    f(ef.tensor(1.0))
    with pytest.raises(TraceError, match="f needs more than 1 traces\n  got: x: now f64"):
        f(ef.tensor(1.0, dtype=ef.float64))
    assert f(ef.tensor(2.0)).item() == 3.0


@pytest.mark.parametrize(
    ("function", "remedy"),
    [
        (lambda x, n: x * math.cos(n) * math.exp(n),
         "; to keep n symbolic, write ef.cos in place of math.cos and ef.exp in place of"),
        (lambda x, n: x * math.cos(0) * np.exp(n / 2),
         "; to keep n symbolic, write ef.exp in place of np.exp; f.explain"),
        (lambda x, n: x * np.zeros(n + 1).sum(), "; n stays symbolic"),
        (lambda x, n: x * np.linspace(0, 1, n + 2).sum(), "; n stays symbolic"),
        (lambda x, n: x * math.log(n + 2, 2), "; n stays symbolic"),
        (lambda x, n: x * np.sqrt(2.0) if str(n) else x, "; n stays symbolic"),
        (lambda x, n: x * math.sqrt(int(n)), "; n stays symbolic"),
        (lambda x, n: x * math.cos(n) * float(n), "; n stays symbolic"),
        (lambda x, n: x * round(n + 0.5), "; n stays symbolic"),
        (lambda x, n: x * math.gamma(n + 1), "; n stays symbolic in arithmetic, comparisons and"),
        (lambda x, n: x * len(str(n)), "; n stays symbolic in arithmetic, comparisons and"),
        (lambda x, n: x + ef.arange(5.0)[n],
         "; where a tensor is indexed, ef.tensor(n) keeps it symbolic"),
        (lambda x, n: x + ef.arange(5.0)[n:].sum(), None),
        (lambda x, n: x + ef.zeros(n + 1).sum(), None),
    ],
)  # fmt: skip
def test_the_warning_names_the_remedy(function: Any, remedy: str | None) -> None:
    f = ef.trace(function)
    x = ef.tensor(1.0)
    f(x, 0)
    f(x, 1)
    with pytest.warns(RetraceWarning) as caught:
        f(x, 2)
    (text,) = [str(w.message) for w in caught]
    assert (remedy or "; f.explain() lists them") in text
    assert ("symbolic" in text) == (remedy is not None)
    assert ("; to keep" in text) == (remedy is not None and "; to keep" in remedy)


@pytest.mark.parametrize(
    ("asked", "written"),
    [
        (lambda x: x / float(x.shape[0]), "(1.0 * x.shape[0]) in place of float(x.shape[0])"),
        (lambda x: x / float(x.shape[0] - 1), "(1.0 * (x.shape[0] - 1)) in place of float("),
        (lambda x: x / math.sqrt(x.shape[0]), "ef.sqrt in place of math.sqrt; f.explain"),
        (lambda x: x * np.log(x.shape[0]), "ef.log in place of np.log; f.explain"),
        (lambda x: x[: int(x.shape[0] * 0.5)], "n // 2 in place of int(n / 2)"),
        (lambda x: x[: math.ceil(x.shape[0] / 4)], "-(-n // 2) of math.ceil(n / 2)"),
    ],
)
def test_the_warning_names_what_keeps_a_size_symbolic(asked: Any, written: str) -> None:
    f = ef.trace(asked)
    f(ef.ones(3))
    f(ef.ones(4))
    with pytest.warns(RetraceWarning) as caught:
        f(ef.ones(5))
    text = str(caught[0].message)
    assert "; to keep the size symbolic, write " in text
    assert written in text


@pytest.mark.parametrize(
    ("function", "plain"),
    [
        (lambda x: x / (1.0 * x.shape[0]), lambda n: [1 / n] * n),
        (lambda x: ef.round(x * ef.sqrt(x.shape[0])), lambda n: [round(math.sqrt(n))] * n),
        (lambda x: x[: -(-x.shape[0] // 4)], lambda n: [1] * math.ceil(n / 4)),
        (lambda x: x[: x.shape[0] * 4 // 5], lambda n: [1] * int(0.8 * n)),
    ],
)
def test_what_keeps_a_size_symbolic_takes_every_size(function: Any, plain: Any) -> None:
    f = ef.trace(function)
    for n in range(3, 9):
        assert f(ef.ones(n, dtype=ef.float64)).tolist() == plain(n)
    assert len(f.traces) == 2  # of the first size, and of all others


def test_what_the_warning_promises_holds() -> None:
    f = ef.trace(lambda x, n: x * ef.exp(n / 2))
    for n in range(3):
        f(ef.tensor(1.0), n)
    assert len(f.traces) == 1


def test_the_third_trace_for_one_reason_warns_with_it() -> None:
    @ef.trace
    def f(x, n):
        for _ in range(n):
            x = x + 1
        return x

    x = ef.tensor(0.0)
    f(x, 1)
    f(x, 2)
    with pytest.warns(
        RetraceWarning,
        match=r"f was traced 3 times because of n; n: now 3, before 2 \(static\); "
        r"static: n=3, because of its use as an index or a size at .*"
        r": for _ in range\(n\):; to keep n symbolic, pass ef.tensor\(n\), for a loop of the "
        r"graph; f.explain\(\) lists them$",
    ):
        f(x, 3)


def test_the_warning_names_the_line_that_asks_for_a_size() -> None:
    @ef.trace
    def f(other, x):
        return x[:2] if x.shape[0] > 2 else other  # <- line

    f(ef.ones(1), ef.ones(3))
    f(ef.ones(1), ef.ones(4))
    with pytest.warns(
        RetraceWarning, match=r"; static: axis 0 of x = 5, because of n > 2 at .* # <- line; f.exp"
    ):
        f(ef.ones(1), ef.ones(5))


# --- lifetime of traces -------------------------------------------------------------------------


def test_a_function_that_goes_takes_its_graphs_along(no_collector) -> None:
    @ef.trace
    def f(x):
        return x * 2

    f(ef.tensor(1.0))
    graph = weakref.ref(f.graph(ef.tensor(1.0)))
    assert graph() is not None
    del f
    assert graph() is None


def test_a_static_object_that_dies_takes_its_traces_along(no_collector) -> None:
    class Config:
        scale = 2.0

    @ef.trace
    def f(x, config):
        return x * config.scale

    config = Config()
    f(ef.tensor(1.0), config)
    graph = weakref.ref(f.graph(ef.tensor(1.0), config))
    gone = weakref.ref(config)
    del config
    assert gone() is None
    assert graph() is None


def test_the_cache_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(trace_cache, "MOST_TRACES", 5)

    @ef.trace
    def f(x, n):
        return x + n * int(n)

    x = ef.tensor(0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)
        for n in range(20):
            assert f(x, n).item() == n * n
    assert len(list(f._lookup.cache.entries())) == 5
    assert f(x, 19).item() == 361
    assert len(f.traces) == 20


def test_many_threads_trace_once() -> None:
    @ef.trace
    def f(x):
        return x * 2 + 1

    values: list[float] = []
    barrier = threading.Barrier(8)

    def call(value: float) -> None:
        barrier.wait()
        values.append(f(ef.tensor(value)).item())

    threads = [threading.Thread(target=call, args=(float(i),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values) == [2.0 * i + 1 for i in range(8)]
    assert len(f.traces) == 1


# --- cells that run again -----------------------------------------------------------------------


class Notebook:
    """Runs cells in one namespace, as IPython does: each text has a file name of its own."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"ef": ef, "__name__": "__notebook__"}

    def run(self, text: str) -> None:
        file = f"<cell {abs(hash(text))}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), self.names)


CELL = """
@ef.trace
def f(x):
    return x * rate + helper(x)
"""


@pytest.fixture
def notebook() -> Notebook:
    made = Notebook()
    made.run("rate = 2.0\ndef helper(x): return x")
    made.run(CELL)
    made.run("y = f(ef.tensor(1.0))")
    return made


def test_an_unchanged_cell_finds_its_traces(notebook) -> None:
    before = notebook.names["f"].traces
    del before
    notebook.run(CELL)
    notebook.run("y = f(ef.tensor(4.0)); traces = f.traces")
    assert notebook.names["y"].item() == 12.0
    assert len(notebook.names["traces"]) == 1


def test_a_changed_cell_traces_anew(notebook) -> None:
    notebook.run(CELL.replace("+ helper", "- helper"))
    notebook.run("y = f(ef.tensor(4.0))")
    assert notebook.names["y"].item() == 4.0


def test_an_unchanged_cell_with_another_helper_traces_anew(notebook) -> None:
    notebook.run("def helper(x): return x * 100")
    notebook.run(CELL)
    notebook.run("y = f(ef.tensor(4.0))")
    assert notebook.names["y"].item() == 408.0


def test_another_number_is_no_new_trace(notebook) -> None:
    notebook.run("rate = 5.0")
    notebook.run(CELL)
    notebook.run("y = f(ef.tensor(4.0))")
    assert notebook.names["y"].item() == 24.0
    assert len(notebook.names["f"].traces) == 1


def test_functions_of_a_factory_do_not_share(notebook) -> None:
    notebook.run(
        "def make(k):\n    @ef.trace\n    def g(x): return x * k\n    return g\n"
        "a, b = make(2.0), make(3.0)\n"
        "x = ef.tensor(1.0)\n"
        "results = [a(x).item(), b(x).item(), a(x).item()]"
    )
    assert notebook.names["results"] == [2.0, 3.0, 2.0]


def test_variables_made_inside_are_made_anew(notebook) -> None:
    cell = (
        "class Box: pass\nbox = Box(); box.v = None\n"
        "@ef.trace\ndef count(x):\n"
        "    if box.v is None: box.v = ef.Variable(0.0)\n"
        "    return box.v.assign_add(x)\n"
    )
    for _ in range(2):
        notebook.run(cell)
        notebook.run("counts = [count(ef.tensor(1.0)).item() for _ in range(3)]")
        assert notebook.names["counts"] == [1.0, 2.0, 3.0]


def test_code_that_asks_for_types_says_why_sizes_are_static() -> None:
    @ef.trace
    def f(x):
        return x if type(x) is int else x * 2

    for size in (2, 3):
        f(ef.zeros(size))
    assert any("axis 0 of x = 3, because of type()" in text for text in f.traces[1].static)


def test_a_training_step_finds_its_trace_by_the_form_of_the_call() -> None:
    """Libraries tell variables apart with `id`: that is no reason to look at each argument."""
    model = ef.nn.Linear(3, 2)
    optimiser = ef.optim.Adam(model.trainable)
    gradient = ef.value_and_grad(lambda x: (model(x) ** 2).mean(), wrt=model.trainable)

    @ef.trace
    def step(x):
        loss, gradients = gradient(x)
        optimiser.update(gradients)
        return loss

    step(ef.ones((4, 3)))
    step(ef.ones((4, 3)))
    assert len(step._lookup.shortcuts) == 1
