"""The magics that ``%load_ext eagerflow`` adds: ``%ef_watch`` and ``%%ef_profile``."""

from __future__ import annotations

from typing import Any

from eagerflow.profiling import Profile, profile
from eagerflow.views.dashboard import Dashboard, dashboard
from eagerflow.views.show import show
from eagerflow.views.view import View


def load_ipython_extension(shell: Any) -> None:
    """Add magics to a notebook or a terminal of IPython; called by ``%load_ext eagerflow``.

    - ``%ef_watch`` is `eagerflow.dashboard`, ``%ef_watch x`` is `eagerflow.show` of ``x``.
    - ``%%ef_profile`` runs the cell within `eagerflow.profile`, and shows the profile.

    Args:
        shell: the ``InteractiveShell``.

    >>> class Shell:
    ...     def register_magic_function(self, function, kind, name):
    ...         print(kind, name)
    >>> ef.load_ipython_extension(Shell())
    line ef_watch
    cell ef_profile
    """

    def ef_watch(line: str) -> Dashboard | View:
        """Look at all that runs, or at one thing: ``%ef_watch``, ``%ef_watch train``."""
        return show(shell.ev(line)) if line.strip() else dashboard()

    def ef_profile(line: str, cell: str) -> Profile:
        """Run a cell, and show how long its ops took: ``%%ef_profile``."""
        with profile() as recorded:
            shell.run_cell(cell)
        return recorded

    shell.register_magic_function(ef_watch, "line", "ef_watch")
    shell.register_magic_function(ef_profile, "cell", "ef_profile")
