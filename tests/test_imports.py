"""``import eagerflow`` is cheap: it loads no heavy package, and rare parts only on use."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from importlib.util import resolve_name

import pytest

from tests.source_tree import PACKAGES, modules

#: packages that the import must not load
HEAVY = ("zmq", "msgspec", "cupy", "llvmlite", "scipy", "IPython", "ipywidgets", "anywidget",
         "matplotlib", "sklearn", "pandas", "pyarrow", "PIL", "cloudpickle", "torch", "tqdm",
         "eagerflow.cli", "eagerflow.demo", "eagerflow_widgets")  # fmt: skip

#: parts that programs of plain ops do not use, and the package that only these parts need
LATER = ("eagerflow.autodiff", "eagerflow.autograph", "eagerflow.checkpoint", "eagerflow.control",
         "eagerflow.data", "eagerflow.extending", "eagerflow.function", "eagerflow.graph",
         "eagerflow.hints", "eagerflow.nn", "eagerflow.optim", "eagerflow.profiling",
         "eagerflow.runtime", "eagerflow.views", "eagerflow.watching", "optree")  # fmt: skip

#: families of ops that few programs need
FAMILIES = ("eagerflow.ops.fft", "eagerflow.ops.io", "eagerflow.ops.linalg.solvers",
            "eagerflow.ops.state.callbacks", "eagerflow.ops.state.mutexes",
            "eagerflow.ops.state.queues", "eagerflow.ops.state.snapshots")  # fmt: skip

#: parts of Python that take a millisecond or more, and are needed by pictures, files and errors
#: alone
SLOW = ("argparse", "asyncio", "concurrent.futures", "email", "fractions", "html",
        "logging", "multiprocessing", "statistics", "unittest")  # fmt: skip

PATHS = [p for p in sys.path if p]


@cache
def run(code: str) -> str:
    """The output of a fresh Python process that runs ``code``."""
    program = f"import sys; sys.path[:0] = {PATHS!r}\n{code}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loaded(code: str, names: tuple[str, ...] = HEAVY) -> list[str]:
    """Modules among ``names`` that a fresh Python process has loaded after running ``code``."""
    return run(f"{code}\nprint(*[n for n in {names!r} if n in sys.modules])").split()


def test_import_loads_nothing_heavy() -> None:
    assert loaded("import eagerflow") == []


def test_plain_use_loads_nothing_heavy() -> None:
    use = "import eagerflow as ef; x = ef.ones((3, 3)); repr((x @ x + 1).sum()); ef.devices()"
    assert loaded(use) == []


def _processor_time(code: str) -> float:
    pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", code])
    _, status, used = os.wait4(pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime


def test_import_takes_a_few_times_that_of_numpy() -> None:
    """It was six times with ml_dtypes 0.7.0, and is twice with 0.6.0."""
    tries = ((_processor_time("import eagerflow"), _processor_time("import numpy")) for _ in "123")
    assert any(ours < 4 * numpys for ours, numpys in tries)


@pytest.mark.parametrize("name", ["scipy", "matplotlib", "IPython"])
def test_a_heavy_import_is_seen(name: str) -> None:
    assert name in loaded(f"import eagerflow, {name}")


# --- lazy imports -----------------------------------------------------------------------------


def test_import_leaves_for_later_what_plain_ops_do_without() -> None:
    assert loaded("import eagerflow", LATER + FAMILIES) == []


def test_a_family_comes_alone_and_all_come_with_the_registry() -> None:
    assert loaded("import eagerflow as ef; ef.fft.fft", FAMILIES) == ["eagerflow.ops.fft"]
    assert loaded("import eagerflow as ef; ef.Mutex", FAMILIES) == ["eagerflow.ops.state.mutexes"]
    for all_of_them in ("ef.trace", "get_op('svd')", "all_ops()"):
        code = f"from eagerflow.core.op import *; import eagerflow as ef; {all_of_them}"
        assert loaded(code, FAMILIES) == list(FAMILIES)


def test_traced_functions_load_no_automatic_placement() -> None:
    names = (
        "eagerflow.function.placing.automatic",
        "eagerflow.function.placing.placement_trials",
        "eagerflow.placement.automatic.search",
        "eagerflow.placement.automatic.rates",
    )
    use = "import eagerflow as ef; ef.config(kernels='portable'); "  # native kernels need `pathlib`
    use += "f = ef.trace(lambda x: x + 1); f(ef.ones(2)); f.place(None)"
    assert loaded(use, names) == []
    assert loaded(f"{use}; f.place('auto')", names) == list(names)


def test_plain_ops_load_no_graphs() -> None:
    use = (
        "import eagerflow as ef; v = ef.Variable(ef.ones((3, 3)))\n"
        "t = ef.ones(3); t[0] = 2.0; v.assign_add(v @ v); str(v); v.tolist(); ef.linalg.svd(v)\n"
        "ef.random.normal((2,)); ef.bfloat16; ef.config(check_nan=True)"
    )
    assert loaded(use, LATER) == []


@pytest.mark.parametrize(
    "code",
    ["ef.ones(3) + 1", "ef.trace(lambda x: x + 1)(ef.ones(3))", "ef.grad(ef.sum)(ef.ones(3))"],
)
def test_first_uses_load_nothing_slow(code: str) -> None:
    known = {*loaded("import numpy", SLOW), *loaded("import optree", SLOW)}
    assert set(loaded(f"import eagerflow as ef; {code}", SLOW)) <= known


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        ("import eagerflow.nn; print(eagerflow.nn.Linear(3, 2).weight.shape)", "(2, 3)"),
        ("from eagerflow import nn; print(nn.Linear(3, 2).weight.shape)", "(2, 3)"),
        ("import eagerflow as ef; print(ef.nn.Linear(3, 2).weight.shape)", "(2, 3)"),
        ("from eagerflow import trace; print(trace(lambda x: x + 1)(1.0))", "2.0"),
        ("from eagerflow import *; print(grad(square)(tensor(3.0)).item())", "6.0"),
        ("from eagerflow.graph import Graph; print(Graph.parse('graph () { return }').run([]))",
         "[]"),
        ("import eagerflow as ef; print(ef.graph.Graph is ef.Graph, ef.runtime.__name__)",
         "True eagerflow.runtime"),
        ("import eagerflow as ef; print({'trace', 'nn', 'exp', 'io'} <= {*dir(ef)})", "True"),
        ("from eagerflow import linalg, Queue; print(linalg.det([[2.0]]), Queue.__name__)",
         "2. Queue"),
        ("from eagerflow import *; print(fft.fft.__name__, py_call.__name__)", "fft py_call"),
        ("import eagerflow as ef, pickle\nfrom eagerflow.core.op import get_op\n"
         "print(pickle.loads(pickle.dumps(get_op('svd'))), ef.Mutex.__name__)", "Op('svd') Mutex"),
        ("import eagerflow as ef\ntry: ef.tracs\nexcept AttributeError as e: print(e.hint)",
         "did you mean 'trace'?"),
        ("import eagerflow as ef; print(hasattr(ef, 'tracs'), hasattr(ef, 'cond'))", "False True"),
    ],
)  # fmt: skip
def test_every_way_to_a_name_that_is_loaded_later(code: str, printed: str) -> None:
    assert run(code).strip() == printed


_AT_ONCE = """
import threading
import eagerflow as ef

sys.setswitchinterval(1e-6)
x = ef.ones(3)
uses = [
    lambda: ef.trace(lambda x: ef.cond(x.sum() > 0, lambda: x * 2, lambda: x))(x),
    lambda: ef.trace(lambda x: ef.grad(lambda x: (x * x).sum())(x))(x),
    lambda: ef.grad(lambda x: (x * x).sum())(x),
    lambda: ef.nn.Linear(3, 3)(x),
    lambda: __import__("eagerflow.nn").nn.Linear(3, 3)(x),
    lambda: __import__("eagerflow.data").data.Dataset,
    lambda: ef.optim.Adam,
    lambda: ef.checkpoint.save,
    lambda: ef.Graph.parse("graph (%x: f32[n]) { return %x }").run(["x"], {"x": x}),
    lambda: ef.stop_gradient(x),
]
start, failed = threading.Barrier(len(uses)), []

def use(function):
    start.wait()
    try:
        function()
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=use, args=(f,), daemon=True) for f in uses]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(60)
print(failed, sum(t.is_alive() for t in threads))
"""


def test_threads_may_ask_for_them_at_once() -> None:
    assert run(_AT_ONCE).strip() == "[] 0"


# --- imports by a string ----------------------------------------------------------------------


def named_imports() -> dict[str, str]:
    """Modules of ours that code imports by a string, each with the place of that import."""
    named = {}
    for module, file in modules().items():
        source = file.read_text(encoding="utf-8")
        if "import_module" not in source:
            continue
        for call in ast.walk(ast.parse(source)):
            if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
                function, text = call.func, str(call.args[0].value)
                if isinstance(function, ast.Name) and function.id in ("import_module", "_above"):
                    package = module.rpartition(".")[0]
                    named[resolve_name(text, package)] = f"{module}:{call.lineno}"
    return named


def test_what_is_imported_by_its_name_is_there() -> None:
    """A renamed module is found even where no import statement names it."""
    named, known = named_imports(), modules()
    assert "eagerflow.graph.text.printer" in named
    ours = {m: where for m, where in named.items() if m.partition(".")[0] in PACKAGES}
    assert {m: where for m, where in ours.items() if m not in known} == {}
