"""Progress bars in terminals, notebooks and logs."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from tqdm import tqdm

from eagerflow.progress import progress_bar
from tests.source_tree import ROOT


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def no_monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal without notebook, and without the thread that tqdm keeps for the process."""
    monkeypatch.setattr(tqdm, "monitor_interval", 0)
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)


def count(**options: object) -> None:
    with progress_bar("counting", 30, "step", **options) as advance:
        for i in range(30):
            advance(1, f"loss={i}")


def test_a_terminal_is_clean_again(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = _Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(tqdm, "__init__", _eager(tqdm.__init__))
    count()
    shown = screen.getvalue()
    assert "30/30" in shown
    assert "loss=29" in shown
    assert "\n" not in shown
    assert shown.rsplit("\r", 2)[1].strip() == ""


def _eager(init: object) -> object:
    """The constructor of bars that are drawn at each update, however fast updates come."""
    return lambda bar, *a, **k: init(bar, *a, mininterval=0, miniters=1, **k)


def test_a_notebook_keeps_the_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    count()
    shown = capsys.readouterr().out
    assert "30/30" in shown.rsplit("\r", 1)[1]
    assert shown.endswith("\n")


def test_a_log_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    count()
    assert capsys.readouterr().err == "counting: 30 steps in 0.0 s, loss=29\n"


def test_bytes_are_told_in_megabytes(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("saving", 1_234_567_890, "B"):
        pass
    assert capsys.readouterr().err == "saving: 1,234.6 MB in 0.0 s\n"


def test_what_failed_has_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), progress_bar("saving", 1, "B"):
        raise KeyError
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("options", [{"delay": 100.0}, {"show": False}])
def test_nothing_is_shown(options: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    count(**options)
    assert capsys.readouterr().err == ""


def test_a_program_without_a_console() -> None:
    """`pythonw` has no `sys.stderr` at all."""
    program = (
        f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'kernels')]!r}; sys.stderr = None\n"
        "from eagerflow.progress import progress_bar\n"
        "with progress_bar('a', 1, 'B') as advance: advance(1)\n"
        "print('tqdm' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.stdout == "False\n", done.stderr
