"""Build of the kernels without NumPy, which builds of wheels do not install."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.kernels.native.compiling import needs_compiler
from tests.source_tree import ROOT

_WITHOUT_NUMPY = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "ml_dtypes", "scipy"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refused())
import eagerflow_kernels.native.llvm.build
"""


@needs_compiler
def test_the_build_needs_no_numpy() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "kernels")}
    command = [sys.executable, "-c", _WITHOUT_NUMPY]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
