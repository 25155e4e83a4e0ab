"""The magics, in a shell of IPython."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import eagerflow as ef
from eagerflow.views import Dashboard, View


@pytest.fixture
def shell(tmp_path, monkeypatch) -> InteractiveShell:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    made = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    made.run_line_magic("load_ext", "eagerflow")
    return made


def test_watch_is_a_dashboard_or_what_one_thing_looks_like(shell) -> None:
    look = shell.run_line_magic("ef_watch", "")
    assert isinstance(look, Dashboard)
    look.close()
    shell.user_ns["x"] = ef.ones(3)
    view = shell.run_line_magic("ef_watch", "x")
    assert isinstance(view, View)
    assert view.text.startswith("f32[3]@cpu:0")


def test_profile_runs_the_cell(shell) -> None:
    shell.user_ns["ef"] = ef
    recorded = shell.run_cell_magic("ef_profile", "", "y = ef.exp(ef.zeros(3))")
    assert [row.calls for row in recorded.table() if row.name == "exp"] == [1]
    assert shell.user_ns["y"].shape == (3,)
