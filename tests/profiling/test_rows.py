"""The texts of rows of statistics, and of lists of them."""

from __future__ import annotations

import pytest

import eagerflow as ef
from eagerflow.profiling import LineStatistics, OpStatistics, QueueStatistics, RowTable

OP = OpStatistics(
    "matmul", "cpu:0", 2, 0.0047212345, 0.0023606172, 0.0023606172, 0.58237109, 2000, 1500
)


def test_the_text_of_a_row_has_units() -> None:
    assert repr(OP) == (
        "OpStatistics(name='matmul', device='cpu:0', calls=2, total=4.72 ms, mean=2.36 ms, "
        "median=2.36 ms, share=58.2%, nbytes=2.00 kB, largest=1.50 kB)"
    )
    queue = QueueStatistics("q", "fifo", 1.3333333, 4, "enqueue", "MainThread", 3, 1, 0.25, 0.5)
    assert ", mean_depth=1.33, capacity=4" in repr(queue)
    assert "mean_depth=None" in repr(
        QueueStatistics("q", "", None, 4, "join", "t", 3, 1, 0.25, 0.5)
    )


@pytest.mark.parametrize(
    ("depth", "text"),
    [(0.0, "0"), (0.955, "0.955"), (17.24, "17.2"), (695.4, "695"), (1883.2, "1883")],
)
def test_a_mean_depth_is_written_without_powers_of_ten(depth: float, text: str) -> None:
    row = QueueStatistics("q", "fifo", depth, 4000, "enqueue", "MainThread", 3, 1, 0.25, 0.5)
    assert f", mean_depth={text}, " in repr(row)
    headings, cells = str(RowTable([row])).splitlines()
    assert cells.split()[headings.split().index("mean_depth")] == text


def test_a_list_of_rows_is_a_table() -> None:
    rows = RowTable([LineStatistics("/folder/train.py", 12, f"y = x{' + 1' * 20}", 3, 0.5, 0.25)])
    assert str(rows).splitlines() == [
        "file      line  text                                        calls   total  share",
        "train.py  12    y = x + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 +...      3  500 ms  25.0%",
    ]
    assert "500 ms</td>" in rows._repr_html_()
    assert rows[0].total == 0.5
    assert rows == [rows[0]]


def test_a_part_of_a_table_is_one() -> None:
    rows = RowTable([OP] * 3)
    assert isinstance(rows[:2], RowTable)
    assert str(rows[:2]) == str(RowTable([OP] * 2))
    assert isinstance(rows[5:], RowTable)
    assert rows[-1] is OP


def test_a_long_list_is_cut() -> None:
    rows = RowTable([OP] * 50)
    assert str(rows).splitlines()[-1] == "and 10 more"
    assert "and 10 more" in rows._repr_html_()


def test_an_empty_list_is_one() -> None:
    assert (repr(RowTable[OpStatistics]()), RowTable[OpStatistics]()._repr_html_()) == ("[]", "[]")


def test_rows_of_profiles_are_tables() -> None:
    with ef.profile() as p:
        list(ef.data.Dataset.from_tensors(ef.ones(3)).map(lambda x: x))
    assert str(p.table()).startswith("name ")
    assert str(p.lines()).startswith("file ")
    assert str(p.threads()).startswith("name ")
    assert "test_rows.py:" in str(p.outside())
    assert repr(p.queues()) == "[]"


def test_statistics_of_nodes_are_a_table() -> None:
    f = ef.trace(lambda x: ef.exp(x))
    stats = f.stats()
    assert "with f.stats() as stats:" in str(stats)
    assert "with f.stats() as stats:" in stats._repr_html_()
    with stats:
        f(ef.zeros(3))
        f(ef.zeros(3))
    first, headings, row = str(stats).splitlines()
    assert first.startswith("1 node run 2 times in ")
    assert headings.split()[:4] == ["node", "op", "scope", "device"]
    assert row.split()[:4] == ["exp", "exp", "cpu:0", "2"]
    assert repr(stats) == str(stats)
    assert "exp</td>" in stats._repr_html_()
