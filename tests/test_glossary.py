"""The glossary: each term is defined once, and words to avoid occur in neither code nor pages."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bench.measures.checkout import Checkout
from tests.bench.measures.wording import wording
from tests.source_tree import ROOT

KINDS: Final = ("identifiers", "comments and strings", "docs")
_ROW: Final = re.compile(r"^\| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


@cache
def _measured() -> dict[str, Any]:
    return wording(Checkout(ROOT))


def _section() -> str:
    return (ROOT / "docs" / "glossary.md").read_text().partition("\n## Words not used\n")[2]


def _table() -> dict[str, str]:
    """The replacement of each word to avoid; the rows below the head of the table."""
    return dict(_ROW.findall(_section())[1:])


def _checkout(folder: Path, code: str, page: str, glossary: str = "") -> Checkout:
    """A checkout of one module and two pages."""
    files = {"eagerflow/module.py": code, "docs/page.md": page, "docs/glossary.md": glossary}
    for path, text in files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    return Checkout(folder)


def test_no_term_is_defined_twice() -> None:
    assert _measured()["twice"] == {}


def test_a_second_definition_is_seen(tmp_path: Path) -> None:
    twice = "**node** · one thing.\n\n**graph** · **Nodes**, and more.\n"
    assert set(wording(_checkout(tmp_path, "", "", twice))["twice"]) == {"node"}


def test_the_table_names_what_is_counted() -> None:
    rows = {f"{word} ({kind})" for word in _table() for kind in KINDS}
    counts = {
        name for name in _measured()["counts"] if name.endswith(tuple(f"({k})" for k in KINDS))
    }
    assert rows == counts
    assert all(_table().values())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", _table())
def test_words_are_not_used(word: str, kind: str) -> None:
    name = f"{word} ({kind})"
    places = _measured()["counts"][name]
    assert not places, places


def test_words_are_seen(tmp_path: Path) -> None:
    code = (
        "def _go_round(aTurn):\n"
        '    """What goes\n    round, by a chooser."""\n'
        "    _choosers = 1  # in each turn\n"
    )
    page = "Of turns, choosers, and what goes round; in turn, or turns into something."
    counts = wording(_checkout(tmp_path, code, page))["counts"]
    for word in _table():
        for kind in KINDS:
            assert sum(counts[f"{word} ({kind})"].values()) == 1, (word, kind)


def test_words_in_tests_are_seen(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path, "", "")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_sharing.py").write_text("def test_many_turns(): ...\n")
    measured = wording(checkout)
    assert measured["counts"]["turn, turns (identifiers)"] == {"tests/test_sharing.py": 1}
    assert measured["files"] == ["tests/test_sharing.py"]


def test_files_are_named_by_what_is_in_them() -> None:
    assert _measured()["files"] == []


def test_the_glossary_lists_the_names_that_say_nothing(tmp_path: Path) -> None:
    names = re.findall(r"`(\w+)`", _section().rpartition("No file is called")[2])
    assert len(names) == 10
    checkout = _checkout(tmp_path, "", "")
    for name in names:
        (tmp_path / "eagerflow" / f"{name}.py").touch()
    assert len(wording(checkout)["files"]) == len(names)
