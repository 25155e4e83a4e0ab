"""Explanations of traces for users: reasons, tables, values of local names."""

from __future__ import annotations

import gc
import os
import pickle
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.capture.reads import with_article
from eagerflow.errors import TraceError
from eagerflow.function.explanations import Explanation, TraceRecord
from eagerflow.hardware.kernel_library import in_force


def test_sizes_are_no_reason_where_something_else_is() -> None:
    f = ef.trace(lambda x, mode="a": x)
    f(ef.ones(2))
    f(ef.ones(3))
    f(ef.ones(4), "b")
    assert f.traces[-1].reason == "mode: now 'b', before 'a'"


def test_the_reason_is_the_difference_to_the_nearest_call() -> None:
    f = ef.trace(lambda x, a, b: x)
    f(ef.ones(2), "a", "b")
    f(ef.ones(2), "c", "d")
    f(ef.ones(2, dtype=ef.int32), "a", "b")
    assert f.traces[-1].reason == "x: now i32[2]@cpu:0, before f32[2]@cpu:0"


def test_one_node_is_not_nodes() -> None:
    f = ef.trace(lambda x: ef.exp(x))
    f(ef.ones(2))
    assert "1 node, traced in" in str(f.explain())


def test_nodes_in_loops_and_branches_are_counted() -> None:
    @ef.trace
    def f(x):
        for i in ef.arange(3):
            x = x * 1.5 + ef.sin(x) * i
            if x.sum() > 0:
                x = x - 1
        return x

    f(ef.ones(2))
    record = f.traces[0]
    loop = next(node for node in f.graph(ef.ones(2)).nodes if [*node.subgraphs()])
    assert record.nodes == len(f.graph(ef.ones(2)).nodes)
    assert record.inner_nodes > len(next(loop.subgraphs())[1].nodes)
    text = f"{record.nodes} nodes, {record.inner_nodes} in loops and branches"
    assert f": {text}, traced in " in f.explain()
    assert f">{record.nodes}, {record.inner_nodes} in loops and branches</td>" in (
        f.explain()._repr_html_()
    )


def test_traces_whose_objects_went_are_folded_into_a_sentence() -> None:
    records = [TraceRecord("f(x)", "earlier traces were dropped with the objects")] * 6
    text = Explanation("f", records, "native")
    assert "4 more traces like these, because earlier traces were dropped with the objects" in text


def test_an_explanation_is_a_text() -> None:
    f = ef.trace(lambda x: ef.exp(x), name="f")
    explanation = f.explain()
    assert explanation == str(explanation) == repr(explanation) == "f: not traced yet"
    f(ef.ones(2))
    explanation = f.explain()
    assert isinstance(explanation, str)
    assert "the first call" in explanation
    assert explanation[:10] == "f: 1 trace"
    assert len(explanation.splitlines()) >= 3
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(explanation, protocol))
        assert (again, again.name, again.records[0].nodes) == (explanation, "f", 1)
        assert again._repr_html_() == explanation._repr_html_()


@pytest.mark.filterwarnings("ignore::eagerflow.errors.RetraceWarning")
def test_traces_that_differ_in_one_value_are_folded() -> None:
    f = ef.trace(lambda x, n, mode: x * int(n), name="f")
    for n in range(9):
        f(ef.ones(2), n, "a")
    for mode in ("b", "c"):
        f(ef.ones(2), 1, mode)
    text = f.explain()
    begins = [line.partition(" ")[0] for line in text.splitlines()[1:] if line[0] != " "]
    assert begins == ["1.", "2.", "3.-8.", "9.", "10.", "11."]
    assert "\n3.-8. 6 more traces like these, which differ in n, traced in " in text
    assert text.startswith("f: 11 traces, ")
    assert ">3.-8</td>" in text._repr_html_()
    assert "6 more traces like these, which differ in n</td>" in text._repr_html_()


@pytest.mark.filterwarnings("ignore::eagerflow.errors.RetraceWarning")
def test_traces_of_other_numbers_of_axes_are_not_folded() -> None:
    f = ef.trace(lambda x: x + 1, name="f")
    for rank in range(6):
        f(ef.ones((2,) * rank))
    assert "more traces" not in f.explain()
    assert all(f"\n{i}. f(x: f32[" in f.explain() for i in range(1, 7))


@pytest.mark.filterwarnings("ignore::eagerflow.errors.RetraceWarning")
def test_traces_for_one_change_outside_are_folded() -> None:
    state = SimpleNamespace(mode="")
    f = ef.trace(lambda x: x * len(state.mode), name="f")
    for n in range(6):
        state.mode = "a" * n
        f(ef.ones(2))
    assert "3.-5. 3 more traces like these, which differ in state.mode, " in f.explain()


def test_explanations_are_tables_in_notebooks() -> None:
    f = ef.trace(lambda x, mode: x, name="<f>")
    f(ef.ones(2), "a<b")
    html = f.explain()._repr_html_()
    assert f"<b>&lt;f&gt;</b>, run op by op on {in_force()} kernels" in html
    assert "mode=&#x27;a&lt;b&#x27;" in html
    assert " ms</td>" in html


def test_a_local_variable_that_passes_removed() -> None:
    def f(x: ef.Tensor) -> ef.Tensor:
        first = ef.sin(x)
        second = ef.sin(x)
        return first + second

    traced = ef.trace(f)
    traced(ef.ones(2))
    assert traced.value("first").name == "sin"
    with pytest.raises(TraceError, match=r"no value of its own for 'second'[^$]*\.diff\(\) shows"):
        traced.value("second")


def test_the_value_of_a_loss_that_is_computed_with_its_gradient() -> None:
    w = ef.Variable(ef.ones((2, 3)))

    @ef.trace
    def step(x: ef.Tensor, y: ef.Tensor) -> ef.Tensor:
        with ef.GradientTape() as tape:
            loss = ef.nn.functional.cross_entropy(x @ w, y)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    x, y = ef.ones((4, 2)), ef.tensor([0, 1, 2, 0])
    result = step(x, y)
    w.assign(ef.ones((2, 3)))
    (again,) = step.graph(x, y).run([step.value("loss")], {"x": x, "y": y})
    assert again.item() == result.item()
    assert (w == 1.0).all()


def test_parts_of_numpy_that_are_not_loaded_yet_are_known() -> None:
    program = """
import warnings, eagerflow as ef, numpy as np
assert "random" not in vars(np)
f = ef.trace(lambda x: x + np.random.rand())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    f(ef.ones(2))
print(*[w.message for w in caught])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "np.random.rand gives the value it had while tracing" in done.stdout, done.stderr


def test_traces_that_went_with_an_object() -> None:
    f = ef.trace(lambda x, mode: x)
    f(ef.ones(2), type("Mode", (), {})())
    gc.collect()
    f(ef.ones(2), "b")
    assert f.traces[-1].reason == "earlier traces were dropped with the objects that they were for"


def test_a_static_number_names_the_line_that_asked() -> None:
    @ef.trace
    def f(n):
        return ef.arange(n).sum()

    f(20)
    (static,) = f.traces[-1].static
    assert static.startswith("n=20, because of ")
    assert static.endswith("f: return ef.arange(n).sum()")


def test_static_values_of_one_reason_are_one_line() -> None:
    class Conv(ef.nn.Module):
        def __init__(self) -> None:
            self.stride, self.padding, self.dilation, self.groups = 1, 0, 1, 1

        def forward(self, x: ef.Tensor) -> ef.Tensor:
            sizes = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
            return ef.nn.functional.conv2d(x, x, groups=self.groups, **sizes)

    net = ef.nn.Sequential(Conv(), Conv())
    f = ef.trace(net)
    f(ef.ones((1, 1, 2, 2)))
    (record,) = f.traces
    assert len(record.static) == 8
    (line,) = [line for line in str(record).split("\n") if "static" in line]
    names = [f"layers[0].{name}" for name in ("stride=1", "padding=0", "dilation=1", "groups=1")]
    assert all(name in line for name in names)
    assert " and 4 more, because of their use as an index or a size in " in line
    assert line.endswith("groups=self.groups, **sizes)")
    assert "and 4 more, because of" in f.explain()._repr_html_()


def test_long_lists_are_cut() -> None:
    rates = SimpleNamespace(**{f"r{i}": float(i) for i in range(9)})

    @ef.trace
    def f(x: ef.Tensor) -> ef.Tensor:
        return x * (rates.r0 + rates.r1 + rates.r2 + rates.r3 + rates.r4 + rates.r5 + rates.r6)

    f(ef.ones(2))
    (record,) = f.traces
    assert len(record.outside) == 7
    lines = [line for line in str(record).split("\n") if "read from outside" in line]
    assert len(lines) == 6
    assert lines[-1] == "  read from outside: and 2 more"


def test_an_array_of_numpy_is_another_argument_than_a_tensor() -> None:
    f = ef.trace(lambda x: x + 1)
    f(ef.ones(2, dtype=ef.float64))
    f(np.ones(2))
    assert f.traces[-1].reason == (
        "x: now f64[2]@cpu:0 (an array, not a tensor), before f64[2]@cpu:0; "
        "made tensors by ef.asarray, arrays need no trace of their own"
    )


def test_a_size_that_is_a_tensor_is_an_error_that_names_the_loop() -> None:
    @ef.trace
    def f(x, n):
        for i in ef.arange(n):
            x = x + i
        return x

    with pytest.raises(ef.errors.TraceError, match="arange: stop is a tensor") as caught:
        f(ef.tensor(0), ef.tensor(10))
    assert "`for i in range(n)`" in str(caught.value.hint)

    @ef.trace
    def g(x, n):
        for i in range(n):
            x = x + i
        return x

    assert g(ef.tensor(0), ef.tensor(10)).item() == 45


def _of(n: int) -> Any:
    return ef.arange(n)  # <- arange


def _powers(n: int) -> Any:
    return ef.linalg.matrix_power(ef.eye(2), n)


def _conversion(n: int) -> Any:
    return ef.zeros(2) + int(n)


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (_of, r"int\(\) in arange at .*# <- arange"),
        (_powers, "its use as an index or a size in matrix_power at "),
        (_conversion, r"int\(\) at "),
    ],
)
def test_a_static_number_names_the_function_that_needs_it(function: Any, why: str) -> None:
    f = ef.trace(function)
    f(5)
    assert re.match(f"n=5, because of {why}", f.explain().records[0].static[0])


def test_a_static_size_names_the_function_that_needs_it() -> None:
    f = ef.trace(lambda x: ef.linalg.matrix_power(ef.eye(2), x.shape[0]))
    f(ef.zeros(2))
    f(ef.zeros(3))
    assert "in matrix_power at" in " ".join(f.explain().records[-1].static)


def test_many_kernels_are_one_line() -> None:
    places = [f"region_b4c0{i % 3} runs %add_{i}, %relu_{i}" for i in range(20)]
    alone = f"alone: {', '.join(f'%matmul_{i}' for i in range(20))}: left to NumPy or BLAS"
    record = TraceRecord("f()", "the first call", compiled=[*places, alone])
    lines = [text for kind, text in record.shown() if kind == "compiled"]
    assert lines == [
        "3 kernels run 40 nodes in 20 calls, the largest of them %add_0, %relu_0",
        "alone: %matmul_0, %matmul_1, %matmul_2, %matmul_3, %matmul_4, %matmul_5 and 14 more: "
        "left to NumPy or BLAS",
    ]
    few = TraceRecord("f()", "the first call", compiled=[places[0], "alone: %log: not native"])
    assert [text for _, text in few.shown()] == [
        "a kernel runs %add_0, %relu_0", "alone: %log: not native"
    ]  # fmt: skip
    none = TraceRecord("f()", "the first call", compiled=["nothing: compile='off'"])
    assert [text for _, text in none.shown()] == ["nothing: compile='off'"]


def test_sets_have_one_order_in_reasons() -> None:
    program = (
        "import eagerflow as ef\n"
        "names = {'b', 'a', 'c'}\n"
        "f = ef.trace(lambda x, mode: x * ('a' in names))\n"
        "f(ef.ones(2), frozenset('xyz'))\n"
        "names = {'f', 'd', 'e'}\n"
        "f(ef.ones(2), frozenset('xyz'))\n"
        "f(ef.ones(2), {'s', 'r'})\n"
        "print(*[t.reason for t in f.traces], sep='\\n')"
    )
    shown = {
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }  # fmt: skip
    assert len(shown) == 1
    assert "was {'a', 'b', 'c'}, now {'d', 'e', 'f'}" in shown.pop()


@pytest.mark.parametrize(
    "name", ["an Adam", "an SGD", "an LSTM", "a GRU", "a Linear", "an int", "a dict", "an RMSprop"]
)
def test_articles(name: str) -> None:
    assert with_article(name.partition(" ")[2]) == name


def test_counts_of_nodes_differ_by_the_constants() -> None:
    w = ef.Variable(ef.ones((4, 4)))
    optimiser = ef.optim.Adam([w], lr=0.1)
    gradients_of = ef.value_and_grad(lambda x: ef.relu(x @ w).sum(), wrt=[w])

    @ef.trace(compile="off")
    def step(x: Any) -> Any:
        loss, gradients = gradients_of(x)
        optimiser.update(gradients)
        return loss

    step(ef.ones((3, 4)))
    nodes = step.graph(ef.ones((3, 4))).nodes
    constants = [node for node in nodes if node.op == "constant"]
    rest = len(nodes) - len(constants)
    assert constants
    assert step.traces[-1].nodes == len(nodes)
    assert f"graph step: {rest} nodes: " in str(ef.show(step))
    assert f"step: {rest} ops, " in str(step.explain("costs"))


def test_settings_of_layers_that_only_these_read_are_left_out() -> None:
    class Block(ef.nn.Module):
        def __init__(self) -> None:
            self.norm = ef.nn.LayerNorm(4)
            self.eps, self.shift = 1e-3, 2

        def forward(self, x: ef.Tensor) -> ef.Tensor:
            x = ef.nn.functional.layer_norm(self.norm(x), 4, eps=self.eps)
            return ef.roll(x, self.shift, axis=0)

    net = Block()
    f = ef.trace(lambda x: net(x))
    f(ef.ones((3, 4)))
    (record,) = f.explain().records
    assert any("norm.eps=1e-05, because of float() in layer_norm" in s for s in record.static)
    shown = [item for kind, item in record.shown() if kind == "static"]
    assert not any("norm.eps" in item and " in layer_norm" in item for item in shown)
    assert any("net.eps=0.001" in item for item in shown)
    assert any("net.shift=2" in item for item in shown)


def test_what_the_trace_before_has_as_well_is_not_repeated() -> None:
    settings = {"a": 1.0, "b": 2.0}

    @ef.trace
    def f(x):
        return x * settings["a"] + settings["b"]

    f(ef.ones(2))
    f(ef.ones((2, 2)))
    first, second = f.traces
    assert first.outside == second.outside
    assert len(first.outside) > 1
    text = str(f.explain())
    assert text.count("read from outside: settings") == len(first.outside)
    assert text.count("read from outside: as in the trace before") == 1
    assert "as in the trace before" in f.explain()._repr_html_()
    assert "as in the trace before" not in str(second)  # alone it is whole
