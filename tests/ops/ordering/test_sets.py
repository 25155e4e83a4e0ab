"""Sets of values, beyond the table of cases."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import eagerflow as ef
from eagerflow import errors
from tests.ops.ordering.test_sort import floats


@given(floats)
def test_unique_parts_fit_together(array) -> None:
    x = ef.asarray(array)
    values, indices, inverse, counts = ef.unique_all(x)
    flat = array.ravel()
    np.testing.assert_array_equal(flat[indices.numpy()], values.numpy())
    np.testing.assert_array_equal(values.numpy()[inverse.numpy()], array)
    assert counts.numpy().sum() == array.size
    assert all(c == 1 for v, c in zip(values.tolist(), counts.tolist(), strict=True) if v != v)
    assert values.size == len({v for v in flat.tolist() if v == v}) + np.isnan(flat).sum()
    np.testing.assert_array_equal(ef.unique_values(x).numpy(), values.numpy())
    for got, want in zip(ef.unique_counts(x), (values, counts), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())
    for got, want in zip(ef.unique_inverse(x), (values, inverse), strict=True):
        np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_results_have_the_names_of_the_standard() -> None:
    x = ef.tensor([2.0, 1.0, 2.0])
    assert ef.unique_all(x)._fields == ("values", "indices", "inverse_indices", "counts")
    assert ef.unique_counts(x)._fields == ("values", "counts")
    assert ef.unique_inverse(x)._fields == ("values", "inverse_indices")


def test_the_gradient_goes_to_the_first_occurrence() -> None:
    x = ef.tensor([1.0, 1.0, 0.0])
    assert ef.grad(lambda t: ef.unique_values(t).sum())(x).tolist() == [1.0, 0.0, 1.0]
    assert ef.grad(lambda t: ef.unique_counts(t).values[0])(x).tolist() == [0.0, 0.0, 1.0]


def test_nan_is_in_nothing() -> None:
    x = ef.tensor([1.0, float("nan")])
    assert ef.isin(x, x).tolist() == [True, False]
    assert ef.isin(x, [2, 1]).tolist() == [True, False]


def test_the_hint_says_what_to_do_without_data() -> None:
    with pytest.raises(errors.DataDependentError, match="call it in eager mode"):
        ef.unique_values(ef.zeros(3, device="null:0"))
