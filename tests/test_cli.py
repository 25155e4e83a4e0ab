"""The command line and the demo."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread
from tqdm import tqdm

import eagerflow as ef
from eagerflow import cli
from eagerflow.demo import digits, report


def test_info_names_packages_and_devices(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["info"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"eagerflow {ef.__version__}, Python 3.")
    assert any(line.startswith("  base       numpy 2.") for line in lines)
    assert any(line.startswith("  cpu:0      in use ") for line in lines)


def test_info_names_missing_extras(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(cli._PACKAGES, "gpu", ("surely-not-installed",))
    cli.main(["info"])
    assert "none: pip install 'eagerflow[gpu]'" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"eagerflow {ef.__version__}\n"


@pytest.fixture
def quiet_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress bars without the thread that tqdm keeps for the rest of the process."""
    monkeypatch.setattr(tqdm, "monitor_interval", 0)


@pytest.mark.parametrize("arguments", [[], ["dance"]])
def test_wrong_command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(arguments)
    assert stop.value.code == 2
    assert "usage: eagerflow" in capsys.readouterr().err


def test_module_can_be_run() -> None:
    path = f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}; "
    run = path + "sys.argv[1:] = ['--version']; import runpy; runpy.run_module('eagerflow', "
    run += "run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True)
    assert done.stdout == f"eagerflow {ef.__version__}\n", done.stderr


def test_demo_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.startswith("eagerflow.demo")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr("eagerflow.demo")
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(SystemExit, match=r"the demo needs .*eagerflow\[notebook\]"):
        cli.main(["demo"])


@pytest.mark.usefixtures("quiet_bars")
def test_demo_trains_prints_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole thing, as `make demo` runs it."""
    picture = tmp_path / "new" / "digits.png"
    cli.main(["demo", "--seed", "0", "--picture", str(picture)])
    out = capsys.readouterr().out
    rows = {line[:27].rstrip(): line[27:].split() for line in out.splitlines()}
    for run in ("eager ", "traced"):
        assert float(rows[f"MLP 64-128-10        {run}".rstrip()][1]) >= 0.97
        assert float(rows[f"softmax regression   {run}".rstrip()][1]) >= 0.94
    assert rows["MLP 64-128-10        traced"][0] == "9,610"
    assert out.count("traced gives all 1,320 losses and all predictions bit for bit") == 2
    step = picture.with_name("digits-step.svg")
    assert str(step) in out
    assert "layer1.weight" in step.read_text()
    assert str(picture) in out
    assert imread(picture).shape[2] == 4
    shown = out.split("read next: ")[1].split(",")[0]
    assert Path(shown).samefile(str(importlib.util.find_spec("eagerflow.demo.digits").origin))


@pytest.mark.usefixtures("quiet_bars")
def test_demo_is_repeatable() -> None:
    (_, first), (_, second) = (digits.run(seed=3, epochs=1) for _ in range(2))
    assert [r.losses for r in first] == [r.losses for r in second]


def _result(losses: list[float], predicted: int, traced: bool) -> digits.Result:
    return digits.Result("m", traced, 1, losses, [0.5], ef.tensor([predicted]))


def test_demo_says_when_runs_differ() -> None:
    eager = _result([2.0, 1.0], 3, traced=False)
    same = report.comparison(eager, _result([2.0, 1.0], 3, traced=True))
    assert (
        same
        == "traced gives all 2 losses and all predictions bit for bit, 1.0 times as fast as eager"
    )
    losses = report.comparison(eager, _result([2.0, 1.5], 3, traced=True))
    assert losses.startswith("DIFFERENT: 1 losses differ, the first in step 1")
    assert "other predictions" in report.comparison(eager, _result([2.0, 1.0], 4, traced=True))


def test_confusion_counts_pairs() -> None:
    counts = report.confusion(ef.tensor([0, 1, 1, 2]), ef.tensor([0, 1, 2, 2])).numpy()
    assert counts[0, 0] == counts[1, 1] == counts[1, 2] == counts[2, 2] == 1
    assert counts.sum() == 4
