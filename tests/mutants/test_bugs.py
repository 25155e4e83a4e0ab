"""The bugs for mutation testing can be put into the source."""

from __future__ import annotations

from tests.each import check_each
from tests.mutants.bugs import BUGS, Bug
from tests.source_tree import ROOT


def _can_be_put_in(bug: Bug) -> None:
    source = (ROOT / bug.file).read_text()
    assert source.count(bug.right) == 1
    compile(source.replace(bug.right, bug.wrong), bug.file, "exec")
    for tests in bug.tests:
        assert (ROOT / "tests" / tests.split()[0]).exists(), tests


def test_each_bug_can_be_put_in() -> None:
    assert len(BUGS) >= 20
    check_each(BUGS, _can_be_put_in)
