"""Tests of many rows: the error names all failing rows."""

from __future__ import annotations

import pytest

from tests.each import check_each, in_groups, names_of


def _is_even(n: int) -> None:
    assert n % 2 == 0


def test_all_wrong_rows_are_told() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        check_each(range(4), _is_even)
    assert caught.value.message == "1; 3"
    assert [e.__notes__ for e in caught.value.exceptions] == [["row: 1"], ["row: 3"]]


def _is_refused(n: int) -> None:
    with pytest.raises(ZeroDivisionError):
        _ = 1 / n


def test_what_did_not_raise_is_told() -> None:
    with pytest.raises(BaseExceptionGroup, match="1; 2"):
        check_each(range(3), _is_refused)


def test_rows_that_are_right_say_nothing() -> None:
    check_each([0, 2], _is_even)


def test_what_is_no_error_of_the_row_ends_the_test() -> None:
    def interrupt(row: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        check_each([0], interrupt)


def test_groups_have_all_rows_and_the_names_of_each() -> None:
    groups = in_groups(range(5), 2)
    assert groups == [[0, 1], [2, 3], [4]]
    assert [names_of(group) for group in groups] == ["0 1", "2 3", "4"]
