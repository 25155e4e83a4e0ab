"""``import eagerflow`` is cheap and loads no heavy package."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: what must not be loaded by the import
HEAVY = ("zmq", "cupy", "llvmlite", "scipy", "IPython", "ipywidgets", "anywidget", "matplotlib",
         "sklearn", "pandas", "pyarrow", "PIL", "cloudpickle", "torch", "tqdm", "eagerflow.cli",
         "eagerflow.demo", "eagerflow_widgets")  # fmt: skip

PATHS = [p for p in sys.path if p]


def loaded(code: str) -> list[str]:
    """Which of `HEAVY` a fresh Python has loaded after running ``code``."""
    program = (
        f"import sys; sys.path[:0] = {PATHS!r}\n{code}\n"
        f"print(*[n for n in {HEAVY!r} if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_loads_nothing_heavy() -> None:
    assert loaded("import eagerflow") == []


def test_plain_use_loads_nothing_heavy() -> None:
    use = "import eagerflow as ef; x = ef.ones((3, 3)); repr((x @ x + 1).sum()); ef.devices()"
    assert loaded(use) == []


@pytest.mark.parametrize("name", ["scipy", "matplotlib", "IPython"])
def test_a_heavy_import_is_seen(name: str) -> None:
    assert name in loaded(f"import eagerflow, {name}")
