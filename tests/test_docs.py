"""The documentation: its blocks of Python run with the output shown, and names in it exist."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.each import check_each, in_groups, names_of
from tests.forked import Ended, run_modules
from tests.pages import FENCE, blocks
from tests.source_tree import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
WITH_CODE = [p for p in PAGES if "```python" in p.read_text()]


def test_there_are_pages() -> None:
    assert {"README.md", "tutorial.md"} <= {p.name for p in WITH_CODE}


@pytest.mark.parametrize("pages", in_groups(WITH_CODE), ids=names_of)
def test_blocks_run(pages: list[Path], tmp_path: Path) -> None:
    """Each page runs in a process of its own: pages define ops, and set seeds."""
    ended = run_modules([("tests.pages", str(page)) for page in pages], tmp_path)
    check_each(zip(pages, ended, strict=True), _is_right)


def _is_right(page: Path, ended: Ended) -> None:
    assert all(">>> " in block for _, block in blocks(page.read_text(), "python"))
    assert ended.status == 0, ended.stdout + ended.stderr
    counts = ended.stdout.splitlines()[-1]
    assert re.fullmatch(r"0 of [1-9]\d* failed", counts)


def test_a_wrong_output_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("words\n\n```python\n>>> x = 1\n```\n\n```python\n>>> x + 1\n3\n```\n")
    (ended,) = run_modules([("tests.pages", str(page))], tmp_path)
    assert ended.status == 1
    assert ended.stdout.splitlines()[-1] == "1 of 2 failed"
    assert "line 8" in ended.stdout


_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(#[^)]*)?\)")


def test_links_lead_somewhere() -> None:
    assert [
        f"{page.name}: {m[1]}"
        for page in PAGES
        for m in _LINK.finditer(page.read_text())
        if not (page.parent / m[1]).exists()
    ] == []


_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w./-]+\.(?:pyi?|md|ipynb|toml)|(?:[\w.-]+/)+(?:[\w-]+)?")
#: pages and docstrings name files of the main package without its folder, all others from the root
_BASES = (ROOT, ROOT / "eagerflow")
#: where import packages are
_PACKAGES = (ROOT, ROOT / "kernels", ROOT / "widgets")
#: by page, texts that look like files of this repository and are none
_NO_FILES = {
    "docs/decisions/0004-one-wheel-three-packages.md": {"eagerflow/kernels"},  # was not taken
    "docs/decisions/0027-folders.md": {  # former names, in its table
        "graph.passes/", "runtime/program.py", "runtime/executor.py",
    },
    "docs/decisions/0028-tests.md": {  # former tests, since replaced
        "tests/autograph/test_random_programs.py", "tests/control/test_random_programs.py",
        "tests/property/",
    },
    "docs/glossary.md": {"encoder/layer0"},  # a scope
}  # fmt: skip


def named_files(text: str) -> list[str]:
    """The files and folders that a page names in backticks, outside of its blocks of code."""
    spans = (match[1].partition(": ")[0] for match in _SPAN.finditer(FENCE.sub("", text)))
    return [span for span in spans if _PATH.fullmatch(span)]


def test_files_that_pages_name_exist() -> None:
    check_each(PAGES, _files_exist)


def _files_exist(page: Path) -> None:
    bases = (*_BASES, page.parent)
    missing = {n for n in named_files(page.read_text()) if not any((b / n).exists() for b in bases)}
    assert missing - _NO_FILES.get(str(page.relative_to(ROOT)), set()) == set()


_NAME = re.compile(r"([\w/]+\.py): (\w+)")


def missing_names(page: str) -> list[str]:
    """The names, as in ``core/op.py: define``, that no named file defines at its top level."""
    return [
        match[0]
        for match in _NAME.finditer(" ".join(_SPAN.findall(FENCE.sub("", page))))
        if not any(
            re.search(
                rf"^(?:def |class )?{match[2]}\b", (base / match[1]).read_text(), re.MULTILINE
            )
            for base in _BASES
            if (base / match[1]).exists()
        )
    ]


def test_names_that_pages_put_in_files_are_there() -> None:
    check_each(PAGES, _names_are_there)


def _names_are_there(page: Path) -> None:
    assert missing_names(page.read_text()) == []


def test_a_name_that_a_file_lacks_is_seen() -> None:
    page = "`core/op.py: define`, `core/op.py: gone`, `no/such.py: define` and `core/op.py`"
    assert missing_names(page) == ["core/op.py: gone", "no/such.py: define"]


def test_the_map_of_changes_is_not_empty() -> None:
    page = (ROOT / "docs/design.md").read_text()
    rows = page.partition("\n## Where to change what\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\| .*`.*\|$", rows, re.MULTILINE)) >= 20


SOURCES = sorted(
    p for folder in ("eagerflow", "kernels", "widgets", "tests")
    for p in (ROOT / folder).rglob("*.py")
)  # fmt: skip


def test_files_that_code_names_exist() -> None:
    check_each(SOURCES, _named_files_exist)


def _named_files_exist(source: Path) -> None:
    """Check names of Python files in strings and comments; folders are often mere examples."""
    bases = (*_BASES, source.parent)
    text = source.read_text() if source != Path(__file__) else ""
    named = {n for n in named_files(text) if n.endswith(".py")}
    assert {n for n in named if not any((b / n).exists() for b in bases)} == set()


def test_named_files_are_seen() -> None:
    page = (
        "`core/op.py: infer`, `no/such.py`, `docs/` and `a/b`\n```sh\n`x.py`\n```\n`1 / 2`, `n.py`"
    )
    assert named_files(page) == ["core/op.py", "no/such.py", "docs/", "a/b", "n.py"]


_MODULE = re.compile(r"(?:eagerflow|eagerflow_kernels|eagerflow_widgets|tests)(?:\.\w+)+")
#: groups of entry points, whose names have the form of module names
_GROUPS = {"eagerflow.ops", "eagerflow.kernels", "eagerflow.devices"}


def test_modules_that_pages_name_exist() -> None:
    check_each(PAGES, _modules_exist)


def _modules_exist(page: Path) -> None:
    """Check dotted names of modules: all parts, or all but the last, are a module's path."""
    text = FENCE.sub("", page.read_text())
    names = {m[1] for m in _SPAN.finditer(text) if _MODULE.fullmatch(m[1])} - _GROUPS
    assert {n for n in names if not _is_module(n) and not _is_module(n.rpartition(".")[0])} == set()


def _is_module(name: str) -> bool:
    path = Path(*name.split("."))
    return any((b / path).is_dir() or (b / f"{path}.py").exists() for b in _PACKAGES)


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    decisions = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert page.name == "index.md" or f"({page.name})" in index, page.name
    for page in sorted((ROOT / "docs" / "decisions").glob("0*.md")):
        assert f"({page.name})" in decisions, page.name


def test_adding_an_op_is_true(tmp_path: Path) -> None:
    """The diff in `adding_an_op.md` applies, and the tests of ops pass with the op it adds."""
    ((_, diff),) = blocks((ROOT / "docs" / "adding_an_op.md").read_text(), "diff")
    added = [x for x in diff.splitlines() if x[:1] == "+" and x[:4] != "+++ " and x != "+"]
    assert len(added) <= 25
    tree = tmp_path / "tree"
    keep = ("eagerflow", "kernels", "tests", "conftest.py", "pyproject.toml")
    for name in keep:
        source = ROOT / name
        if source.is_dir():
            # byte code is copied, too: it stays valid, since files keep their times
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("bench"))
        else:
            shutil.copy(source, tree / name)
    apply = ["git", "apply", "--verbose", "-"]
    done = subprocess.run(apply, cwd=tree, input=diff, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    tests = [f"tests/ops/test_{name}.py" for name in ("table", "registry", "facts")]
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "exp10", *tests]
    done = subprocess.run(run, cwd=tree, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout[-3000:]
