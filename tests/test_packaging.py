"""The wheel and the editable install, in fresh virtual environments. They need the network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.source_tree import ROOT

pytestmark = pytest.mark.slow

PACKAGES = ("eagerflow", "eagerflow_kernels", "eagerflow_widgets")
LIMIT = 4 * 2**20


def _run(*command: object, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files under version control, so that a build leaves nothing in the checkout."""
    copy = tmp_path_factory.mktemp("source") / "eagerflow"
    built = ("dist", "build", "node_modules", "static", "labextensions")
    skip = shutil.ignore_patterns(".*", "__pycache__", *built)
    shutil.copytree(ROOT, copy, ignore=skip)
    shutil.copy(ROOT / ".gitignore", copy)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built by pip."""
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source, cwd=folder)
    (file,) = folder.glob("*.whl")
    return file


def _venv(folder: Path) -> Path:
    _run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of a virtual environment with the wheel and its base dependencies."""
    programs = _venv(tmp_path_factory.mktemp("base") / "venv")
    _run(programs / "python", "-m", "pip", "install", "-q", wheel, cwd=wheel.parent)
    return programs


def test_wheel_holds_three_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {t for t in tops if not t.endswith((".dist-info", ".data"))} == set(PACKAGES)
    data = {name.partition(".data/data/")[2] for name in names if ".data/" in name}
    lab = "share/jupyter/labextensions/eagerflow"
    assert data == {f"{lab}/package.json", f"{lab}/panel.js"}
    assert {f"{p}/py.typed" for p in PACKAGES} <= set(names)
    assert "eagerflow/__init__.pyi" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith((".pyc", ".so", ".ipynb"))]
    static = [name.rpartition("/")[2] for name in names if "/static/" in name]
    assert sorted(static) == ["index.css", "index.js", "layout.js"]
    kernels = [name.rpartition("/")[2] for name in names if "/native/objects/" in name]
    assert sorted(kernels) == ["aarch64.kernels", "x86-64-v3.kernels", "x86-64-v4.kernels"]


def test_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < LIMIT


def test_wheel_works(installed: Path, tmp_path: Path) -> None:
    use = "import eagerflow as ef; print(ef.grad(lambda x: (x * x).sum())(ef.tensor([1.0, 2.0])))"
    assert _run(installed / "python", "-c", use, cwd=tmp_path) == "[2. 4.]\n"
    assert "eagerflow 0." in _run(installed / "eagerflow", "info", cwd=tmp_path)


def test_native_kernels_need_no_compiler(installed: Path, tmp_path: Path) -> None:
    use = """
import importlib.util
import eagerflow as ef
assert importlib.util.find_spec("llvmlite") is None
try:
    ef.config(kernels="native")
except ef.errors.SettingError as error:  # a processor without a target
    assert "AVX2 and FMA" in str(error)
print(ef.exp(ef.zeros(2)), ef.softmax(ef.zeros(2)), ef.trace(lambda x: x * 2 + 1)(ef.zeros(2)))
"""
    output = _run(installed / "python", "-W", "error", "-c", use, cwd=tmp_path)
    assert output == "[1. 1.] [0.5 0.5] [1. 1.]\n"


def test_demo_names_its_extra(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run([installed / "eagerflow", "demo"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 1
    assert b"pip install 'eagerflow[notebook]'" in done.stderr


def test_source_distribution_builds_the_same_wheel(
    source: Path, wheel: Path, tmp_path: Path
) -> None:
    programs = _venv(tmp_path / "venv")
    _run(programs / "python", "-m", "pip", "install", "-q", "build", cwd=tmp_path)
    _run(programs / "python", "-m", "build", "-o", tmp_path, source, cwd=tmp_path)
    (rebuilt,) = tmp_path.glob("*.whl")
    names = [sorted(zipfile.ZipFile(one).namelist()) for one in (rebuilt, wheel)]
    assert names[0] == names[1]  # a source distribution lists the kernels in another order


def test_editable_install(source: Path, tmp_path: Path) -> None:
    programs = _venv(tmp_path / "venv")
    _run(programs / "python", "-m", "pip", "install", "-q", "-e", source, cwd=tmp_path)
    where = "import eagerflow, eagerflow_kernels as k, eagerflow_widgets as w; "
    where += "print(eagerflow.__file__, k.__file__, w.__file__)"
    files = _run(programs / "python", "-c", where, cwd=tmp_path).split()
    assert [Path(f).is_relative_to(source) for f in files] == [True] * 3
    assert "eagerflow 0." in _run(programs / "eagerflow", "info", cwd=tmp_path)
