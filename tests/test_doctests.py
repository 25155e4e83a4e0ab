"""Comparison of doctest output: floats with a tolerance, everything else exactly."""

from __future__ import annotations

import doctest

import pytest

from tests.doctests import close


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("Tensor([1., 2.7182817], f32[2]@cpu:0)", "Tensor([1.      , 2.718282], f32[2]@cpu:0)"),
        ("[ 2., -3.]", "[ 2.       , -2.9999998]"),
        ("1e-05", "1.0000001e-05"),
        ("[1., nan, inf]", "[1.0000001, nan, inf]"),
        ("[[1., 2.],\n [3., 4.]]", "[[1., 2.], [3., 4.]]"),
        ("[1.+2.j]", "[1.0000001+2.0000002j]"),
    ],
)
def test_close_is_equal(want: str, got: str) -> None:
    assert close(want, got)


@pytest.mark.parametrize(
    ("want", "got"),
    [
        ("2.5", "2.5001"),
        ("3", "4"),
        ("f32[2]", "f32[3]"),
        ("[1., 2.]", "[1., 2., 3.]"),
        ("[1., nan]", "[1., 2.]"),
        ("1.", "-1."),
        ("float32", "float64"),
        ("1.0", "1"),
    ],
)
def test_else_it_is_not(want: str, got: str) -> None:
    assert not close(want, got)


def test_it_is_installed() -> None:
    assert doctest.OutputChecker().check_output("0.3333333\n", "0.33333334\n", 0)
    assert not doctest.OutputChecker().check_output("0.3333\n", "0.33333334\n", 0)
