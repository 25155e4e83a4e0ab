"""The first error in a program lists its other lines that are written as in other frameworks."""

from __future__ import annotations

import json
import linecache
import re
from pathlib import Path
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.hints.rest_of_source import rest_of_source
from eagerflow.source import users_frame

_PROGRAMS = sorted((Path(__file__).parent / "pytorch_programs").glob("*.txt"))
_NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
_LINES = re.compile(r"^    line ([\d, ]+): ", re.MULTILINE)


def _error(source: str, file: str) -> Exception:
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        exec(compile(source, file, "exec"), {"__name__": "__main__"})
    except Exception as error:
        return error
    raise AssertionError(f"{file} ran")


def _rest(source: str, file: str = "<cell>") -> str | None:
    error = _error(source, file)
    return rest_of_source(error, users_frame(error))


@pytest.mark.parametrize("path", _PROGRAMS, ids=lambda p: p.stem)
def test_each_line_of_a_program_of_pytorch(path: Path, monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(path)])
    source = path.read_text()
    marked = {i for i, line in enumerate(source.splitlines(), 1) if line.endswith("# told")}
    error = _error(source, str(path))
    frame = users_frame(error)
    assert frame is not None
    rest = rest_of_source(error, frame) or ""
    told = {int(n) for lines in _LINES.findall(rest) for n in lines.split(",")}
    assert told | {frame.f_lineno} == marked


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("ef.cuda.synchronize()", "line 3: ef.cuda: ef.devices()"),
        ("x.pow(2)", "line 3: x.pow: x ** y"),
        ("ef.nn.utils.clip_grad_norm_(p, 1)", "line 3: ef.nn.utils.clip_grad_norm_: grads, norm ="),
        ("f(x).mean(dim=1)", "line 3: f(x).mean: use axis= instead of dim="),
        ("ef.ones(len(x), 3)", "line 3: ef.ones: the shape is one tuple"),
        ("ef.randn(2, requires_grad=True)", "line 3: ef.randn: leave it out: ef.grad(f)"),
        ("net = ef.nn.Linear(2, 3); net.to('cuda')", "line 3: net.to: make it where"),
        ("values, order = ef.sort(x, 1)", "line 3: values, order = ef.sort(x, 1): values and"),
        ("from eagerflow.optim import AveragedModel", "ef.optim.ExponentialMovingAverage"),
        ("ef.data.Dataset.from_list([])", "line 3: ef.data.Dataset.from_list: Dataset.from_iter"),
    ],
)
def test_a_line(line: str, hint: str) -> None:
    rest = _rest(f"import eagerflow as ef\nef.manual_seed(0)\n{line}\n")
    assert rest is not None
    assert hint in rest


@pytest.mark.parametrize(
    "line",
    [
        "x.exp",
        "m.exp(x)",
        "re.compile('a').sub('b', x)",
        "self.backward()",
        "ef.zeros(3, ef.float64)",
        "ef.full((2, 3), 1)",
        "values = ef.sort(x, 1)",
        "queue.size()",
        "ef.nn.Linear(2, 3)(ef.ones(2))",
        "net.modules()",
        "ef.sum(*args, **options)",
    ],
)
def test_what_is_right_or_of_others_is_not_told(line: str) -> None:
    before = "import eagerflow as ef\nimport re\ndef backward(self): ...\nef.manual_seed(0)\n"
    assert _rest(before + line) is None


@pytest.mark.parametrize("path", sorted(_NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_nothing_is_told_of_our_notebooks(path: Path) -> None:
    cells = [c["source"] for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    lines = "\n".join("".join(cell) for cell in cells).splitlines()
    source = "\n".join(line for line in lines if line[:1] not in ("%", "!"))
    assert _rest("import eagerflow as ef\nef.manual_seed(0)\n" + source) is None


def test_tensors_of_programs_with_pytorch_are_its_own() -> None:
    source = "import eagerflow as ef\nimport {}\nef.manual_seed(0)\nx.detach()\n"
    assert _rest(source.format("math")) is not None
    assert _rest(source.replace("import {}", "if 0: import torch")) is None


def test_without_a_source_nothing_is_told() -> None:
    error = _error("import eagerflow as ef\nef.manual_seed(0)\nx.detach()\n", "<gone>")
    del linecache.cache["<gone>"]
    assert rest_of_source(error, users_frame(error)) is None
    assert rest_of_source(error, None) is None


def test_long_lists_end() -> None:
    names = [n for n in dir(ef.nn.functional) if not n.startswith("_")]
    source = "".join(f"ef.nn.{n}\n" for n in names if not hasattr(ef.nn, n))
    rest = _rest("import eagerflow as ef\nef.manual_seed(0)\n" + source)
    assert rest is not None
    assert re.search(r"\n    and \d+ more$", rest)
