"""Layering of imports: the contracts of pyproject.toml hold, and violations are found."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.each import check_each
from tests.source_tree import PACKAGES, ROOT, cycles, imports, modules

#: modules that may say ``import eagerflow``: they are written with public names
_USERS = (
    "cli", "demo", "distributions", "hints", "nn", "optim", "data", "checkpoint", "replicas",
    "onnx", "summary", "extending", "state_loading",
)  # fmt: skip
#: modules whose names are public, according to `eagerflow` or `docs/extending.md`
_PUBLIC = (
    "errors", "events", "extending", "fft", "hardware", "io", "linalg", "random", "types",
)  # fmt: skip


def _graph(packages: dict[str, Path] = PACKAGES) -> dict[str, set[str]]:
    files = modules(packages)
    return {name: imports(ast.parse(f.read_text()), name, files) for name, f in files.items()}


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """The modules that each module of the packages imports."""
    return _graph()


def test_no_import_cycle(graph: dict[str, set[str]]) -> None:
    assert graph["eagerflow.core.op"] >= {"eagerflow.core.interpreter", "eagerflow.errors"}
    assert cycles(graph) == []


def test_only_the_top_imports_the_package_itself(graph: dict[str, set[str]]) -> None:
    users = tuple(f"eagerflow.{name}" for name in _USERS)
    for name, imported in graph.items():
        if "eagerflow" in imported:
            assert name.startswith((*users, "eagerflow_widgets")), f"{name} imports eagerflow"


def test_a_cycle_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "made"
    package.mkdir()
    sources = {
        "__init__": "",
        "a": "from made import b",
        "b": "try:\n    import made.c\nexcept ImportError:\n    pass",
        "c": "if True:\n    from made.a import x",
        "d": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import made.e",
        "e": "import made.d\ndef f():\n    import made.e",
    }
    for name, source in sources.items():
        (package / f"{name}.py").write_text(source)
    assert cycles(_graph({"made": package})) == [["made.a", "made.b", "made.c"]]


# --- import-linter --------------------------------------------------------------------------


def _lint(root: Path) -> subprocess.CompletedProcess[str]:
    """`lint-imports` on a copy of the tree, which shadows the installed packages."""
    run = (
        f"import sys; sys.path[:0] = {[str(root / d) for d in ('.', 'kernels', 'widgets')]!r};"
        "from importlinter.cli import lint_imports;"
        "sys.exit(lint_imports(no_cache=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", run], cwd=root, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages and the contracts."""
    root = tmp_path_factory.mktemp("tree")
    for folder in PACKAGES.values():
        shutil.copytree(
            folder, root / folder.relative_to(ROOT), ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_the_contracts_hold(copy: Path) -> None:
    done = _lint(copy)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_module_is_public_or_forbidden_to_libraries() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (libraries,) = (c for c in contracts["contracts"] if c["name"].startswith("libraries"))
    told = [*libraries["source_modules"], *libraries["forbidden_modules"]]
    told += [f"eagerflow.{name}" for name in _PUBLIC]
    own = modules({"eagerflow": PACKAGES["eagerflow"]})
    there = {".".join(name.split(".")[:2]) for name in own} - {"eagerflow"}
    assert sorted(told) == sorted([*there, "eagerflow_kernels"])


#: files, lines added to them, and what the contracts that these break say of them
_VIOLATIONS = [
    (
        "eagerflow/nn/init.py", "from eagerflow.core.op import bind",
        "libraries: public names only", "eagerflow.nn.init -> eagerflow.core.op ",
    ),
    (
        "eagerflow/data/stages/maps.py", "import eagerflow_kernels.table",
        "libraries: public names only",
        "eagerflow.data.stages.maps -> eagerflow_kernels.table ",
    ),
    (
        "eagerflow/core/tree.py", "import eagerflow.ops.rules.type_rules",
        "eagerflow: imports go downward only",
        "eagerflow.core.tree -> eagerflow.ops.rules.type_rules ",
    ),
    (
        "eagerflow/ops/rules/type_rules.py", "import numpy",
        "numpy only where arrays are held", "eagerflow.ops.rules.type_rules -> numpy ",
    ),
    (
        "eagerflow/autodiff/tape.py", "import numpy",
        "numpy only where arrays are held", "eagerflow.autodiff.tape -> numpy ",
    ),
    (
        "eagerflow/core/to_tensor.py", "import scipy.linalg",
        "cupy, llvmlite and scipy only in eagerflow_kernels", "eagerflow.core.to_tensor -> scipy ",
    ),
    (
        "eagerflow/core/execute.py", "def f():\n    import zmq",
        "zmq only in eagerflow.cluster", "eagerflow.core.execute -> zmq ",
    ),
    (
        "eagerflow/events/event_kinds.py", "import ipywidgets",
        "anywidget and ipywidgets only in eagerflow_widgets",
        "eagerflow.events.event_kinds -> ipywidgets ",
    ),
    (
        "eagerflow/events/event_kinds.py", "import eagerflow_widgets",
        "widgets: nothing imports them, the display entry point finds them",
        "eagerflow.events.event_kinds -> eagerflow_widgets ",
    ),
    (
        "kernels/eagerflow_kernels/table.py", "import eagerflow.types",
        "kernels: nothing of eagerflow", "eagerflow_kernels.table -> eagerflow.types ",
    ),
    (
        "eagerflow/ops/elementwise/arithmetic.py", "import eagerflow.ops.names.linalg",
        "ops: one order among the families",
        "eagerflow.ops.elementwise.arithmetic -> eagerflow.ops.names.linalg ",
    ),
    (
        "eagerflow/runtime/rendezvous/outgoing.py", "import time",
        "channels are pure: no threads, no clock, no I/O",
        "eagerflow.runtime.rendezvous.outgoing -> time ",
    ),
    (
        "eagerflow/runtime/rendezvous/station.py", "import eagerflow.graph.ir",
        "a rendezvous knows no graphs",
        "eagerflow.runtime.rendezvous.station -> eagerflow.graph.ir ",
    ),
    (
        "eagerflow/unheard_of.py", "",
        "eagerflow: imports go downward only", "not listed as layers: - eagerflow.unheard_of ",
    ),
]  # fmt: skip


def test_broken_contracts_are_seen(copy: Path) -> None:
    """All at once: the report names the contract and the line of each."""
    before = {file: _text(copy / file) for file, *_ in _VIOLATIONS}
    for file, line, *_ in _VIOLATIONS:
        (copy / file).write_text(f"{_text(copy / file) or ''}\n{line}\n")
    try:
        done = _lint(copy)
    finally:
        for file, text in before.items():
            if text is None:
                (copy / file).unlink()
            else:
                (copy / file).write_text(text)
    assert done.returncode == 1, done.stdout + done.stderr
    told = _told(done.stdout)

    def is_told(file: str, line: str, contract: str, says: str) -> None:
        assert says in told.get(contract, ""), (file, line)

    check_each(_VIOLATIONS, is_told)


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _told(report: str) -> dict[str, str]:
    """By broken contract, the words of the report about it."""
    _, _, broken = report.partition("\nBroken contracts\n")
    parts = re.split(r"^(.+)\n-+$", broken, flags=re.MULTILINE)[1:]
    return {
        name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }
