"""Third-party ops, kernels and device kinds: from a notebook cell, and from a package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors, plugins
from eagerflow.core import op as ops
from eagerflow.core.op import bind, define, get_op
from eagerflow.hardware import registry
from eagerflow_kernels import table
from tests.kernel_table import restored_kernels
from tests.source_tree import ROOT

# --- from a cell ------------------------------------------------------------------------------


@pytest.fixture
def _restored() -> Iterator[None]:
    """Starts with portable kernels only, and restores ops and kernels after the test."""
    known = set(ops._ops)
    with restored_kernels():
        for key in list(table._special):
            table.remove(*key)
        yield
    for name in set(ops._ops) - known:
        del ops._ops[name]


def answer(*arrays: Any) -> Any:
    return np.full(arrays[0].shape, 42, arrays[0].dtype)


@pytest.mark.usefixtures("_restored")
def test_the_very_next_call_uses_a_new_kernel() -> None:
    x, number = ef.tensor([1.0, 2.0]), 1.0
    calls = [
        lambda: x + x,
        lambda: x + number,
        lambda: number + x,
        lambda: ef.add(x, x),
        lambda: ef.Variable(x) + x,
    ]
    before = [call().tolist() for call in calls]  # fills every cache
    table.special("add", "cpu")(answer)
    for call in calls:
        assert call().tolist() == [42.0, 42.0]
    table.special("add", "cpu")(lambda a, b: answer(a) + 1)
    for call in calls:
        assert call().tolist() == [43.0, 43.0]
    table.remove("add", "cpu")
    assert [call().tolist() for call in calls] == before


@pytest.mark.usefixtures("_restored")
def test_a_kernel_for_one_dtype_leaves_the_others() -> None:
    wide, narrow = ef.ones(2, dtype="float64"), ef.ones(2)
    assert (-wide).tolist() == (-narrow).tolist() == [-1.0, -1.0]
    table.special("negative", "cpu", ("float64",))(answer)
    assert (-wide).tolist() == [42.0, 42.0]
    assert (-narrow).tolist() == [-1.0, -1.0]
    table.special("negative", "cpu")(lambda a: answer(a) + 1)
    assert (-wide).tolist() == [42.0, 42.0]  # the more specific row wins
    assert (-narrow).tolist() == [43.0, 43.0]


@pytest.mark.usefixtures("_restored")
def test_a_portable_kernel_may_be_replaced() -> None:
    x = ef.ones(3)
    assert ef.exp(x).dtype == "float32"
    with pytest.raises(ValueError, match="has an op 'exp' with a kernel"):
        table.portable("exp")
    assert ef.exp(x).tolist() != [0.0, 0.0, 0.0]
    table.portable("exp", replace=True)(lambda xp, x: xp.zeros_like(x))
    assert ef.exp(x).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.usefixtures("_restored")
def test_an_op_may_be_defined_and_its_cell_run_again() -> None:
    def cell(factor: float, replace: bool) -> Any:
        @table.portable("scaled")
        def kernel(xp: Any, x: Any) -> Any:
            return x * xp.asarray(factor, dtype=x.dtype)

        return define(
            "scaled", infer=lambda x: x, vjp=(lambda g, out, x: g * factor,), replace=replace
        )

    first = cell(2.0, False)
    x = ef.tensor([1.0, 2.0])
    assert bind(first, x).tolist() == [2.0, 4.0]
    assert ef.grad(lambda v: bind(first, v).sum())(x).tolist() == [2.0, 2.0]
    with pytest.raises(errors.OpDefinitionError, match="exists"):
        cell(3.0, False)
    again = cell(3.0, True)
    assert again is first is get_op("scaled")
    assert bind(first, x).tolist() == [3.0, 6.0]
    assert ef.grad(lambda v: bind(first, v).sum())(x).tolist() == [3.0, 3.0]


class BrokenPoint:
    """An entry point whose module does not import."""

    name, value = "broken", "no_such_module:Backend"

    def load(self) -> Any:
        raise ModuleNotFoundError("No module named 'no_such_module'")


def test_a_broken_plug_in_is_named(monkeypatch) -> None:
    monkeypatch.setattr(registry, "_plugins_loaded", False)
    monkeypatch.setattr(plugins, "entry_points", lambda *groups: [BrokenPoint()])
    with pytest.raises(errors.DeviceError, match="plug-in broken") as caught:
        ef.device("abacus:0")
    assert "no_such_module:Backend" in str(caught.value)
    with pytest.raises(errors.DeviceError, match="no device of kind"):  # loading fails once only
        ef.device("abacus:0")


# --- search for entry points ------------------------------------------------------------------

_POINTS = "[console_scripts]\na = b:c\n\n[eagerflow.ops]\nabacus = abacus.ops\n"


def _install(place: Path, text: str = _POINTS) -> str:
    folder = place / "abacus-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(text)
    return str(place)


def _found(*groups: str) -> list[tuple[str, str, str]]:
    return [(p.group, p.name, p.value) for p in plugins.entry_points(*groups)]


def test_entry_points_are_found_in_folders(tmp_path: Path, monkeypatch) -> None:
    place = _install(tmp_path / "site")
    ours = [("eagerflow.ops", "abacus", "abacus.ops")]
    for path in ([place], ["", str(tmp_path / "nowhere"), place]):
        monkeypatch.setattr(sys, "path", path)
        assert _found("eagerflow.kernels", "eagerflow.ops") == ours
        assert _found("eagerflow.kernels") == []
    monkeypatch.setattr(sys, "path", [""])
    monkeypatch.chdir(place)
    assert _found("eagerflow.ops") == ours


def test_they_are_found_in_archives_and_by_finders_of_others(tmp_path: Path, monkeypatch) -> None:
    place = Path(_install(tmp_path / "site"))
    archive = tmp_path / "abacus.whl"
    with zipfile.ZipFile(archive, "w") as file:
        for path in place.glob("*/*"):
            file.write(path, path.relative_to(place))
    monkeypatch.setattr(sys, "path", [str(archive)])
    assert [name for _, name, _ in _found("eagerflow.ops")] == ["abacus"]

    class Finder:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(*_: object) -> list[metadata.Distribution]:
            return [metadata.PathDistribution(place / "abacus-1.0.dist-info")]

    monkeypatch.setattr(sys, "path", [])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert [name for _, name, _ in _found("eagerflow.ops")] == ["abacus"]


def test_without_plug_ins_nothing_that_is_slow_is_loaded(tmp_path: Path, monkeypatch) -> None:
    place = _install(tmp_path / "site", "[console_scripts]\na = b:c\n")
    monkeypatch.setattr(sys, "path", [place])
    monkeypatch.setattr("importlib.metadata.entry_points", None)
    assert plugins.entry_points("eagerflow.ops", "eagerflow.kernels") == []


# --- from a package ---------------------------------------------------------------------------

PACKAGE = {
    "abacus/__init__.py": "",
    "abacus/ops.py": '''
        """An op."""

        from eagerflow.core.op import bind, define
        from eagerflow_kernels.table import portable

        @portable("cube")
        def kernel(xp, x):
            return x * x * x

        cube = define("cube", infer=lambda x: x, vjp=(lambda g, out, x: g * 3 * x * x,))
    ''',
    "abacus/kernels.py": '''
        """A kernel for one dtype."""

        from eagerflow_kernels.table import special

        def register():
            special("negative", "cpu", ("float64",))(lambda x: x * 0 + 42)
    ''',
    "abacus/device.py": '''
        """A kind of device."""

        import numpy as np

        from eagerflow.hardware import CpuBackend

        class Beads(np.ndarray):
            pass

        class Backend:
            kind = "abacus"
            array_type = Beads
            _like = CpuBackend()

            def __getattr__(self, name):
                return getattr(self._like, name)

            def count(self):
                return 1

            def copy_in(self, array, index, *, borrowed):
                return array.copy().view(Beads)

            def copy_out(self, data, index):
                return np.asarray(data)
    ''',
    "abacus-1.0.dist-info/METADATA": """
        Metadata-Version: 2.1
        Name: abacus
        Version: 1.0
    """,
    "abacus-1.0.dist-info/WHEEL": """
        Wheel-Version: 1.0
        Generator: by hand
        Root-Is-Purelib: true
        Tag: py3-none-any
    """,
    "abacus-1.0.dist-info/entry_points.txt": """
        [eagerflow.ops]
        abacus = abacus.ops

        [eagerflow.kernels]
        abacus = abacus.kernels:register

        [eagerflow.devices]
        abacus = abacus.device:Backend
    """,
}

PROGRAM = """
    import json, sys
    import eagerflow as ef
    from eagerflow.core.op import bind, get_op

    x = ef.tensor([1.0, 2.0])
    early = "abacus" in sys.modules
    cube = get_op("cube")
    there = ef.tensor([1.0, 2.0], device="abacus:0")
    print(json.dumps({
        "early": early,
        "cube": bind(cube, x).tolist(),
        "gradient": ef.grad(lambda v: bind(cube, v).sum())(x).tolist(),
        "negative": [(-x).tolist(), (-x.astype("float64")).tolist()],
        "devices": [str(d) for d in ef.devices()],
        "there": [str((there + there).type), type(there._data).__name__, there.sum().item()],
    }))
"""


def run(*command: object, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL"))}
    done = subprocess.run(
        [str(c) for c in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """Python of a fresh environment that sees this source tree and the packages around it."""
    run(sys.executable, "-m", "venv", "--without-pip", "env", cwd=tmp_path)
    (site,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
    seen = [ROOT, ROOT / "kernels", ROOT / "widgets", sysconfig.get_path("purelib")]
    (site / "parent.pth").write_text("".join(f"{path}\n" for path in seen))
    return tmp_path / "env" / "bin" / "python"


def install(python: Path, name: str, package: dict[str, str], place: Path) -> None:
    """Build a wheel of a package, and have pip install it."""
    wheel, record = place / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info/RECORD"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in package.items():
            archive.writestr(path, dedent(text).lstrip())
        archive.writestr(record, "".join(f"{path},,\n" for path in (*package, record)))
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps",
        "--no-index", "--disable-pip-version-check", wheel, cwd=place,
    )  # fmt: skip


@pytest.mark.slow
def test_an_installed_package_adds_an_op_a_kernel_and_a_device(
    python: Path, tmp_path: Path
) -> None:
    install(python, "abacus", PACKAGE, tmp_path)
    assert json.loads(run(python, "-c", dedent(PROGRAM), cwd=tmp_path)) == {
        "early": False,  # `import eagerflow` loads no plug-in
        "cube": [1.0, 8.0],
        "gradient": [3.0, 12.0],
        "negative": [[-1.0, -2.0], [42.0, 42.0]],
        "devices": ["cpu:0", "abacus:0"],
        "there": ["f32[2]@abacus:0", "Beads", 3.0],
    }


SUNDIAL = {
    "sundial/__init__.py": "",
    "sundial/device.py": '''
        """A kind of device whose work is done later."""

        from eagerflow_kernels.asynchronous import AsyncBackend

        def backend():
            return AsyncBackend("sundial", devices=2)
    ''',
    "sundial-1.0.dist-info/METADATA": """
        Metadata-Version: 2.1
        Name: sundial
        Version: 1.0
    """,
    "sundial-1.0.dist-info/WHEEL": PACKAGE["abacus-1.0.dist-info/WHEEL"],
    "sundial-1.0.dist-info/entry_points.txt": """
        [eagerflow.devices]
        sundial = sundial.device:backend
    """,
}

CELL = """
    from eagerflow import hardware
    from eagerflow_kernels.asynchronous import AsyncBackend

    hardware.register_backend(AsyncBackend("hourglass", threads=False))
"""

TABLE = """
    import json, sys
    from IPython.core.interactiveshell import InteractiveShell
    import eagerflow as ef
    from tests.each import check_each, in_groups
    from tests.ops.cases import ALL_CASES
    from tests.ops.table import layout_of, one_of_each_kind
    from tests.ops.test_device_kinds import check, check_slopes, check_traced

    InteractiveShell.instance().run_cell(sys.argv[1]).raise_error()
    traceable = [case for case in ALL_CASES if not case.untraceable]
    smooth = [case for case in ALL_CASES if case.grad]
    for kind in ("sundial", "hourglass"):
        check_each(((c, one_of_each_kind(c)[0], kind) for c in ALL_CASES), check)
        for some in in_groups(traceable):
            check_traced([(c, one_of_each_kind(c)[0], layout_of(c)) for c in some], kind)
        check_each(((c, kind, 1) for c in smooth), check_slopes)
    print(json.dumps({
        "cases": [len(ALL_CASES), len(traceable), len(smooth)],
        "devices": [str(d) for d in ef.devices()],
        "installed": "site-packages" in sys.modules["sundial"].__file__,
    }))
"""


@pytest.mark.slow
def test_the_table_of_ops_on_kinds_of_an_installed_package_and_of_a_cell(
    python: Path, tmp_path: Path
) -> None:
    """Values, traced values and gradients of all cases, for kinds of a package and of a cell."""
    install(python, "sundial", SUNDIAL, tmp_path)
    *_, line = run(python, "-c", dedent(TABLE), dedent(CELL), cwd=tmp_path).splitlines()
    report = json.loads(line)
    assert report["installed"]
    assert {"sundial:0", "sundial:1", "hourglass:0", "hourglass:1"} <= {*report["devices"]}
    assert min(report["cases"]) > 300


def test_places_that_are_no_texts_are_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [tmp_path, str(tmp_path)])
    assert list(plugins._texts()) == []
