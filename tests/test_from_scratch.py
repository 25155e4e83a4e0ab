"""`docs/from_scratch.py` runs, is short, needs nothing but NumPy, and is right in what it shows."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import runpy
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.source_tree import ROOT

FILE = ROOT / "docs" / "from_scratch.py"
LINES = 600


@pytest.fixture(scope="module")
def mini() -> Any:
    """The file as a module, with its output as ``printed``; its own assertions hold."""
    module = ModuleType("from_scratch")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        module.__dict__.update(runpy.run_path(str(FILE), run_name="from_scratch"))
    module.__dict__["printed"] = printed.getvalue()
    return module


# --- form of the file ------------------------------------------------------------------------


def foreign(text: str) -> set[str]:
    """The packages that a file imports and that are neither NumPy nor the standard library."""
    packages = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            packages.add("." if node.level else str(node.module).partition(".")[0])
    return packages - sys.stdlib_module_names - {"numpy"}


def test_size() -> None:
    lines = FILE.read_text().splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= 100


def test_imports() -> None:
    assert foreign(FILE.read_text()) == set()


def test_a_foreign_import_is_seen() -> None:
    text = "import numpy as np, os\ndef f():\n    from scipy.special import erf\nfrom . import a\n"
    assert foreign(text) == {"scipy", "."}


def test_cells_and_sections() -> None:
    text = FILE.read_text()
    cells = re.findall(r"^# %%(.*)$", text, re.MULTILINE)
    assert cells == [" [markdown]", ""] * (len(cells) // 2) + [" [markdown]"]
    assert re.findall(r"^# ## (\d+)\. ", text, re.MULTILINE) == [str(i) for i in range(1, 11)]


def test_the_table_leads_somewhere() -> None:
    table = [line for line in FILE.read_text().splitlines() if re.match(r"# \| \d", line)]
    assert len(table) == 8
    for row in table:
        for path in re.findall(r"`([^`]*)`", row.split("|")[2]):
            assert (ROOT / "eagerflow" / path).exists(), path


# --- output ----------------------------------------------------------------------------------


def test_graphs_are_printed(mini: Any) -> None:
    assert mini.printed.startswith("f32[8,n]\n")
    assert "graph slope(%x: f32[2,3], %w: f32[3]) {" in mini.printed
    folded = "%constant = constant() {value=2.0} : f32[]\n  %multiply = multiply(%x, %constant)"
    assert folded in mini.printed
    assert "    del multiply\n" in mini.printed
    assert "graph scaled(%x: f32[n], %offset: f32[3]) {" in mini.printed


def test_reasons_are_printed(mini: Any) -> None:
    assert "first call\nx is f32[5], was f32[3]\nfactor is 4.0, was 3.0\n" in mini.printed
    assert "%multiply of the trace of careless is used outside of it" in mini.printed


# --- behaviour -------------------------------------------------------------------------------


def counted(function: Any) -> int:
    return len(function.traces)


def test_gradients_of_traced_functions(mini: Any) -> None:
    def f(x: Any) -> Any:
        return mini.mean(mini.tanh(x * x) / mini.exp(x))

    traced = mini.trace(f)
    for length in (3, 4, 1, 5):
        x = mini.tensor(np.linspace(-1, 1, length))
        for outer, inner in (
            (mini.grad(f), mini.grad(traced)),  # a tape sees the ops of the graph
            (mini.grad(f), mini.trace(lambda x: mini.grad(traced)(x))),
            (
                mini.grad(lambda x: mini.sum(mini.grad(f)(x) * x)),
                mini.grad(lambda x: mini.sum(mini.grad(traced)(x) * x)),
            ),
        ):
            assert outer(x).numpy().tobytes() == inner(x).numpy().tobytes()
    assert counted(traced) == 2


@pytest.mark.parametrize("rows", [0, 1, 2, 5])
def test_one_trace_for_every_size(mini: Any, rows: int) -> None:
    def f(x: Any, y: Any) -> Any:
        return mini.grad(lambda x: mini.sum(mini.tanh(x + y) * x))(x)

    traced = mini.trace(f)
    for n in (3, 4):
        traced(mini.tensor(np.ones((n, 2))), mini.tensor(np.ones((n, 1))))
    assert str(traced.traces[1].graph.inputs[0].type) == "f32[n,2]"
    assert str(traced.traces[1].graph.inputs[1].type) == "f32[m,1]"
    x = mini.tensor(np.linspace(-1, 1, 2 * rows).reshape(rows, 2))
    for y in (mini.tensor(np.full((rows, 1), 0.5)), mini.tensor([[0.25]])):
        assert traced(x, y).numpy().tobytes() == f(x, y).numpy().tobytes()
    assert counted(traced) == 2


def test_a_size_that_python_asks_for(mini: Any) -> None:
    traced = mini.trace(lambda x: x * float(x.type.shape[0] == 2))
    assert traced(mini.tensor([1.0, 2.0])).numpy().tolist() == [1.0, 2.0]
    with pytest.raises(mini.TraceError, match="asks for the size n"):
        traced(mini.tensor([1.0, 2.0, 3.0]))


def test_a_value_that_python_asks_for(mini: Any) -> None:
    traced = mini.trace(lambda x: x if x else -x)
    with pytest.raises(mini.TraceError, match="%x of the trace of <lambda> has no value yet"):
        traced(mini.tensor(1.0))


def test_what_is_read_outside(mini: Any) -> None:
    weight, power = mini.tensor(2.0), 1

    def helper(x: Any) -> Any:
        return x * weight * (x if power == 2 else 1.0)

    traced = mini.trace(lambda x: helper(x) + 1.0)
    assert float(traced(mini.tensor(3.0))) == 7.0
    weight = mini.tensor(4.0)
    assert (float(traced(mini.tensor(3.0))), counted(traced)) == (13.0, 1)
    power = 2
    assert (float(traced(mini.tensor(3.0))), counted(traced)) == (37.0, 2)
    assert traced.traces[1].reason == "power is 2, was 1"

    def helper(x: Any) -> Any:  # noqa: F811 - rebinding it is the point
        return x

    assert (float(traced(mini.tensor(3.0))), counted(traced)) == (4.0, 3)
    power = True
    assert (float(traced(mini.tensor(3.0))), counted(traced)) == (4.0, 3)


def test_arguments_that_are_no_tensors(mini: Any) -> None:
    traced = mini.trace(lambda x, flag: x if flag else -x)
    values = [float(traced(mini.tensor(1.0), flag)) for flag in (True, False, 1, 1.0, True)]
    assert (values, counted(traced)) == ([1.0, -1.0, 1.0, 1.0, 1.0], 4)
    with pytest.raises(TypeError, match="missing a required argument: 'flag'"):
        traced(mini.tensor(1.0))


@pytest.mark.parametrize("make", [list, dict, lambda: np.ones(2), lambda: SimpleNamespace(a=1)])
def test_what_might_change_unseen_is_refused(mini: Any, make: Callable[[], Any]) -> None:
    state = make()
    with pytest.raises(mini.TraceError, match="state might change unseen"):
        mini.trace(lambda x: (state, x)[1])(mini.tensor(1.0))


def test_two_names_of_one_tensor(mini: Any) -> None:
    first = second = mini.tensor(1.0)
    with pytest.raises(mini.TraceError, match="second and first are the same tensor"):
        mini.trace(lambda x: x * first + second)(mini.tensor(1.0))


def test_leaked_into_another_trace(mini: Any) -> None:
    leaked = None

    def leak(x: Any) -> Any:
        nonlocal leaked
        leaked = x + 1.0
        return x

    mini.trace(leak)(mini.tensor(1.0))
    with pytest.raises(mini.LeakedTensorError, match="%add of the trace of leak"):
        mini.trace(lambda x, y: x + y)(mini.tensor(1.0), leaked)


def test_traced_functions_in_traced_functions(mini: Any) -> None:
    factor = 2.0
    inner = mini.trace(lambda x: x * factor)
    outer = mini.trace(lambda x: inner(x) + 1.0)
    assert float(outer(mini.tensor(3.0))) == 7.0
    factor = 3.0
    assert float(outer(mini.tensor(3.0))) == 10.0
    assert (counted(inner), counted(outer)) == (0, 2)


def test_types_are_checked(mini: Any) -> None:
    with pytest.raises(ValueError, match="sizes 2 and 3 do not broadcast"):
        mini.graph_of(lambda x, y: x + y, mini.f32((2,)), mini.f32((3,)))
    variable = mini.Variable([1.0, 2.0], "v")
    with pytest.raises(ValueError, match="@v keeps its dtype and shape"):
        variable.assign(mini.tensor([1.0]))


def test_passes_keep_effects(mini: Any) -> None:
    variable = mini.Variable(1.0, "v")

    def twice(x: Any) -> Any:
        variable.assign(variable * x)
        variable.assign(variable * x)
        return x

    traced = mini.trace(twice)
    traced(mini.tensor(3.0))
    assert float(variable.value) == 9.0
    names = [n.op.name for n in traced.traces[0].graph.nodes]
    assert names == ["read", "multiply", "assign"] * 2


def test_gradients_by_variables_of_a_traced_function(mini: Any) -> None:
    weight = mini.Variable([2.0, 3.0], "w")

    def cost(x: Any) -> Any:
        return mini.sum(weight * x * weight)

    traced, x = mini.trace(cost), mini.tensor([1.0, -1.0])
    for f in (cost, traced, mini.trace(lambda x: traced(x))):
        value, (gradient,) = mini.value_and_grad(f, wrt=(weight,))(x)
        assert float(value) == -5.0
        assert gradient.numpy().tolist() == [4.0, -6.0]


def test_arrays_are_let_go_of(mini: Any) -> None:
    def f(x: Any) -> Any:
        for _ in range(4):
            x = mini.tanh(x)
        return x

    source = mini.Program(mini.graph_of(f, mini.f32((3,)))).source
    assert [line.strip() for line in source.splitlines() if "del" in line] == [
        "del x",
        "del tanh",
        "del tanh_1",
        "del tanh_2",
    ]
