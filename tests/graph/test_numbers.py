"""Python numbers in a trace."""

from __future__ import annotations

import pytest

import eagerflow as ef


@pytest.mark.parametrize(
    ("base", "exponent"),
    [(0.9, 1), (-0.5, 3), (2.0, -2), (1j, 2), (2, 1j)],
    ids=str,
)
def test_powers_whose_kind_is_known_stay_dynamic(base: complex, exponent: complex) -> None:
    @ef.trace
    def f(x: ef.Tensor, a: complex, b: complex) -> tuple[ef.Tensor, complex]:
        return x * a, a**b

    x = ef.ones(2, dtype=ef.complex64)
    for more in (0, 1, 2):
        assert f(x, base + more, exponent)[1] == (base + more) ** exponent
        assert f(x, base, exponent + more)[1] == base ** (exponent + more)
    assert len(f.traces) == 1


def test_a_literal_that_is_not_negative_takes_any_exponent() -> None:
    f = ef.trace(lambda b: (0.5**b, 2.0**-b))
    for exponent in (0.5, -1.5, 3.0):
        assert f(exponent) == (0.5**exponent, 2.0**-exponent)
    assert len(f.traces) == 1


@pytest.mark.parametrize(("base", "exponents"), [(2, (1, -1)), (-2.0, (2.0, 0.5))], ids=str)
def test_powers_of_unknown_kind_are_static(base: float, exponents: tuple[float, float]) -> None:
    f = ef.trace(lambda a, b: a**b)
    for exponent in exponents:
        found = f(base, exponent)
        assert type(found) is type(base**exponent)
        assert found == base**exponent
    assert len(f.traces) == 2
