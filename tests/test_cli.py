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
from eagerflow.hardware import kernel_library


def test_info_names_packages_and_devices(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["info"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"eagerflow {ef.__version__}, Python 3.")
    assert any(line.startswith("  base       numpy 2.") for line in lines)
    assert any(line.startswith("  cpu:0      in use ") for line in lines)


def test_info_says_what_was_run_on_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["info"])
    assert "GPUs       calls checked against CuPy" in capsys.readouterr().out


def test_info_names_the_kernel_library(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> str:
        raise ImportError("native kernels need a compiler")

    for there, said in ((lambda: "x86-64-v3", "native ones for x86-64-v3"), (missing, "compiler")):
        monkeypatch.setattr(kernel_library, "_target", there)
        cli.main(["info"])
        lines = capsys.readouterr().out.splitlines()
        (line,) = [line for line in lines if line.startswith("  kernels ")]
        assert line.split()[1] == f"{kernel_library.in_force()};"
        assert line.endswith(said)


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
    """Runs `make demo` with a tenth of its steps."""
    picture = tmp_path / "new" / "digits.png"
    cli.main(["demo", "--seed", "0", "--epochs", "3", "--picture", str(picture)])
    out = capsys.readouterr().out
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in out.splitlines()}
    assert rows["model", "run"] == ["parameters", "accuracy", "loss", "us/step"]
    for run in ("eager", "traced"):
        assert float(rows["MLP", run][1]) >= 0.85
        assert float(rows["CNN", run][1]) >= 0.85
    assert rows["MLP", "traced"][0] == "9,610"
    assert rows["CNN", "traced"][0] == "38,282"
    told = [line.split(",")[0] for line in out.splitlines() if ": traced " in line]
    same = "traced gives all 66 losses and all predictions bit for bit"
    assert told == [f"MLP: {same}", f"CNN: {same}"]
    step = picture.with_name("digits-step.svg")
    assert str(step) in out
    assert "conv1" in step.read_text()
    assert str(picture) in out
    assert imread(picture).shape[2] == 4
    shown = out.split("read next: ")[1].split(",")[0]
    assert Path(shown).samefile(str(importlib.util.find_spec("eagerflow.demo.digits").origin))


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_bars")
def test_mean_accuracy_of_five_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As `make demo SEEDS=5` runs it."""
    cli.main(["demo", "--seeds", "5", "--picture", str(tmp_path / "digits.png")])
    lines = capsys.readouterr().out.splitlines()
    (mean,) = (line.split()[1:] for line in lines if line.startswith("mean"))
    assert min(float(x) for x in mean[:2]) >= 0.97
    assert min(float(x) for x in mean[2:]) >= 0.985
    assert sum("and all predictions bit for bit" in line for line in lines) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("quiet_bars")
def test_demo_shows_a_row_per_seed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--seeds", "2", "--epochs", "1", "--picture", str(tmp_path / "digits.png")]
    cli.main(["demo", *arguments])
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if line.startswith(("accuracy", "seed", "mean"))]
    assert rows[0] == ["accuracy", "MLP", "eager", "MLP", "traced", "CNN", "eager", "CNN", "traced"]
    assert [row[:-4] for row in rows[1:]] == [["seed", "0"], ["seed", "1"], ["mean"]]
    first, second, mean = ([float(x) for x in row[-4:]] for row in rows[1:])
    assert mean == pytest.approx(
        [(a + b) / 2 for a, b in zip(first, second, strict=True)], abs=1e-4
    )
    assert first[0] == first[1] != second[0]
    assert any(line.startswith("MLP: traced gives all 44 losses") for line in lines)


@pytest.mark.parametrize("arguments", [["--seeds", "0"], ["--epochs", "-1"], ["--seeds", "x"]])
def test_demo_refuses_numbers(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["demo", *arguments])
    assert stop.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.usefixtures("quiet_bars")
def test_demo_is_repeatable() -> None:
    (_, first), (_, second) = (digits.run(seed=3, epochs=1) for _ in range(2))
    assert [r.losses for r in first] == [r.losses for r in second]


@pytest.mark.usefixtures("quiet_bars")
def test_the_linear_model_learns_too() -> None:
    assert digits.train("linear", digits.load(0), seed=0, traced=True).accuracy >= 0.94


def test_images_move_by_a_pixel_at_most() -> None:
    images = ef.zeros((200, 1, 8, 8))
    images[:, 0, 3, 3] = 1.0
    moved = digits.shifted(images, ef.random.Generator(0)).numpy()
    assert (moved.sum(axis=(1, 2, 3)) == 1).all()
    _, _, rows, columns = moved.nonzero()
    assert {*zip(rows.tolist(), columns.tolist(), strict=True)} == {
        (y, x) for y in (2, 3, 4) for x in (2, 3, 4)
    }
    assert 80 < ((rows == 3) & (columns == 3)).sum() < 140  # a half, and a ninth of the others


def _result(losses: list[float], predicted: int, traced: bool) -> digits.Result:
    model = ef.nn.Sequential()
    return digits.Result("m", traced, model, losses, [0.5], ef.one_hot(ef.tensor([predicted]), 10))


def test_demo_says_when_runs_differ() -> None:
    def compared(losses: list[float], predicted: int) -> str:
        eager = [_result([2.0, 1.0], 3, traced=False)] * 2
        traced = [eager[0], _result(losses, predicted, traced=True)]
        return report.comparison(eager, traced)

    same = "traced gives all 4 losses and all predictions bit for bit"
    assert compared([2.0, 1.0], 3) == f"{same}, 1.0 times as fast by the median step"
    different = compared([2.0, 1.5], 3)
    assert different.startswith("DIFFERENT: 1 losses differ, the first in step 1")
    assert "other predictions" in compared([2.0, 1.0], 4)


def test_serve_needs_a_folder_for_this_user_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "eagerflow", "serve", "--task", "ps:0", "--folder", str(tmp_path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert "is not for this user alone" in done.stderr
