"""NumPy's error settings during a call of generated code, and their restoration."""

from __future__ import annotations

import numpy as np
import pytest

from eagerflow.hardware.float_warnings import quietly, row_by_row


def _look() -> tuple[str, int]:
    return np.geterr()["divide"], np.getbufsize()


def test_settings_are_those_of_the_call_alone() -> None:
    before = _look()
    assert quietly(_look) == ("ignore", before[1])
    kind, size = row_by_row(_look)
    assert (kind, size < before[1]) == ("ignore", True)
    assert _look() == before


def test_they_are_put_back_after_an_error() -> None:
    before = _look()
    for call in (quietly, row_by_row):
        with pytest.raises(ZeroDivisionError):
            call(divmod, 1, 0)
        assert _look() == before


@pytest.mark.parametrize("columns", [3, 40, 600, 3000])
def test_parts_of_arrays_give_what_copies_of_them_do(columns: int) -> None:
    x = np.random.default_rng(0).normal(size=(30, columns)).astype("f4")
    a, b = x[1:-1, 1:-1], x[2:, :-2]
    out = np.zeros_like(x)
    row_by_row(np.add, a, b, out=out[1:-1, 1:-1])
    np.testing.assert_array_equal(out[1:-1, 1:-1], a.copy() + b.copy())
    assert np.count_nonzero(out) == np.count_nonzero(out[1:-1, 1:-1])
