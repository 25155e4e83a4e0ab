"""Symbolic sizes against the integers they stand for."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.dims import (
    Dim,
    Size,
    broadcast,
    evaluate,
    exact_quotient,
    maximum,
    minimum,
    parse_dim,
    resolving,
    same,
    substitute,
    symbols,
)
from eagerflow.errors import DimError, ShapeError, UnhashableError
from eagerflow.types import TensorType, broadcast_shapes
from tests.messages import says

NAMES = ("n", "m", "k")
N, M, K = (Dim(name) for name in NAMES)

#: an expression as a function of the three sizes, which takes dims and integers alike
Expression = Callable[..., Any]
_OPERATORS = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod]


def _apply(op: Callable[[Any, Any], Any], a: Expression, b: Expression) -> Expression:
    return lambda *sizes: op(a(*sizes), b(*sizes))


def _leaf(value: int) -> Expression:
    return lambda *sizes: value


_LEAVES = st.one_of(
    st.sampled_from([lambda n, m, k: n, lambda n, m, k: m, lambda n, m, k: k]),
    st.integers(-6, 6).map(_leaf),
)
EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.builds(_apply, st.sampled_from([*_OPERATORS, maximum, minimum]), inner, inner),
    max_leaves=8,
)
SIZES = st.tuples(*[st.integers(0, 12)] * 3)


def _dim(expression: Expression) -> Size | None:
    try:
        return expression(N, M, K)
    except ZeroDivisionError:  # a divisor is zero for all sizes
        return None


def _value(expression: Expression, sizes: tuple[int, ...]) -> int | None:
    try:
        return int(expression(*sizes))
    except ZeroDivisionError:
        return None


@given(EXPRESSIONS, SIZES)
def test_arithmetic_is_that_of_the_integers(expression: Expression, sizes: tuple[int, ...]) -> None:
    dim, value = _dim(expression), _value(expression, sizes)
    if dim is not None and value is not None:
        assert evaluate(dim, dict(zip(NAMES, sizes, strict=True))) == value


@given(EXPRESSIONS)
def test_text_reads_back(expression: Expression) -> None:
    dim = _dim(expression)
    if isinstance(dim, Dim):
        parsed = parse_dim(str(dim))
        assert isinstance(parsed, Dim)
        assert str(parsed) == str(dim)
        assert parsed.terms == dim.terms
        assert dim.symbols <= set(NAMES)


_COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


class _AskedError(Exception):
    pass


def _ask(dim: Dim, why: str) -> int:
    raise _AskedError(why)


@given(EXPRESSIONS, EXPRESSIONS, st.sampled_from(_COMPARISONS), st.lists(SIZES, min_size=5))
def test_what_is_decided_holds_for_all_sizes(
    left: Expression,
    right: Expression,
    compare: Callable[[Any, Any], bool],
    points: list[tuple[int, ...]],
) -> None:
    a, b = _dim(left), _dim(right)
    if a is None or b is None:
        return
    try:
        with resolving(_ask):
            decided = compare(a, b)
    except _AskedError:
        return
    for sizes in points:
        x, y = _value(left, sizes), _value(right, sizes)
        if x is not None and y is not None:
            assert compare(x, y) is decided, (a, b, sizes)


@given(EXPRESSIONS, EXPRESSIONS, SIZES)
def test_substitution_then_value_is_value_of_value(
    expression: Expression, inner: Expression, sizes: tuple[int, ...]
) -> None:
    dim, part = _dim(expression), _dim(inner)
    x = _value(inner, sizes)
    if dim is None or part is None or x is None:
        return
    value = _value(expression, (x, *sizes[1:]))
    if value is not None and x >= 0:  # a name stands for no negative size
        try:
            composite = substitute(dim, {"n": part})
        except ZeroDivisionError:
            return
        assert evaluate(composite, dict(zip(NAMES, sizes, strict=True))) == value


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (N + N, 2 * N),
        (2 * (N + 1) - N, N + 2),
        ((N + M) * (N - M), N * N - M * M),
        ((4 * N + 6) // 2, 2 * N + 3),
        ((N + 7) // 2, (N + 1) // 2 + 3),
        (N // 2 // 3, N // 6),
        (-(-N // 2), N - N // 2),
        (3 * N % 3, 0),
        ((5 * N + 7) % 3, (2 * N + 1) % 3),
        (N - N % 4 + N % 4, N),
        (4 * (N // 4) + N % 4, N),
        ((N % 4) // 4, 0),
        (((N + 1) * M) // (N + 1), M),
        (maximum(N, N + 1), N + 1),
        (maximum(N, 0), N),
        (minimum(N + 3, 2), 2),
        (maximum(maximum(N, M), N), maximum(M, N)),
        (broadcast(broadcast(N, M), N), broadcast(M, N)),
        (broadcast(N, M + 2), M + 2),
        (N**2, N * N),
        (divmod(N, 2)[0], N // 2),
        (divmod(7, 2 * N + 1)[1], 7 % (2 * N + 1)),
        (abs(N + 1), N + 1),
        (round(N), N),
        (+N, N),
    ],
)
def test_canonical_form(left: Any, right: Any) -> None:
    assert same(left, right)
    assert (left == right) is True


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        (2 * N + 1, "2*n+1"),
        (1 - N, "-n+1"),
        (N // 2, "n//2"),
        ((N + 1) // 2 * M, "(n+1)//2*m"),
        (N * (M // 2), "(m//2)*n"),
        (3 * (N % M), "3*(n%m)"),
        (N // (2 * M), "n//(2*m)"),
        (maximum(N - 2, 0), "max(n-2,0)"),
        (minimum(5, N), "min(n,5)"),
        (broadcast(M, N), "broadcast(m,n)"),
        (N * M * N, "m*n*n"),
        (-N * M + K, "-m*n+k"),
        (Dim("größe") + 1, "größe+1"),
    ],
)
def test_text(dim: Any, text: str) -> None:
    shown = str(dim)
    assert same(parse_dim(shown), dim)
    assert shown == text or same(parse_dim(text), dim)


def test_exact_texts() -> None:
    assert str(2 * N + 1) == "2*n+1"
    assert repr(N // 2) == "n//2"
    assert f"{maximum(N - 2, 0)} {minimum(5, N)} {broadcast(M, N)}" == (
        "max(n-2,0) min(n,5) broadcast(m,n)"
    )
    assert str(TensorType(ef.float32, (N, 128, (N + 1) // 2))) == "f32[n,128,(n+1)//2]"


# --- comparisons -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "true",
    [
        lambda: N == N,
        lambda: N != N + 1,
        lambda: 2 * N != 3,
        lambda: N >= 0,
        lambda: N + 1 > 0,
        lambda: N > -1,
        lambda: operator.lt(-1, N),
        lambda: N <= N + M,
        lambda: bool(N + 1),
        lambda: N % 4 < 4,
        lambda: N // 2 <= N // 2 + 1,
        lambda: N != "n",
        lambda: N is not None and N != None,
        lambda: minimum(N, 3) < 4,
        lambda: broadcast(N, M) >= 0,
    ],
)
def test_decided(true: Callable[[], bool]) -> None:
    with resolving(_ask):
        assert true() is True


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda: N == M, "n == m"),
        (lambda: N == 4, "n == 4"),
        (lambda: N > 0, "n > 0"),
        (lambda: N < 2.5, "n < 2.5"),
        (lambda: bool(N), r"bool\(n\)"),
        (lambda: int(N), r"int\(n\)"),
        (lambda: float(N + 1), r"float\(n\+1\)"),
        (lambda: complex(N), r"complex\(n\)"),
        (lambda: range(N), r"n as an index, or in range\(\)"),
        (lambda: N / 2, "n as a number"),
        (lambda: 0.5 * N, "n as a number"),
        (lambda: 2**N, "n as a number"),
        (lambda: round(N, -1), "rounded"),
        (lambda: [1, 2, 3][N], "n as an index"),
        (lambda: np.zeros(N), "n as an index"),
    ],
)
def test_who_traces_is_asked(ask: Callable[[], object], why: str) -> None:
    with pytest.raises(DimError, check=says(f"(?s)the size .* is not known here.*got: .*{why}")):
        ask()
    with resolving(_ask), pytest.raises(_AskedError, check=says(why)):
        ask()


def test_answers_are_used() -> None:
    with resolving(lambda dim, why: dim.evaluate({"n": 4, "m": 6})):
        assert [N == 4, N != M, M > N, N <= 4.0, N == M] == [True] * 4 + [False]
        assert {4: "four"}[N] == "four"
        assert [N in {4, 5}, M in {4, 5}] == [True, False]
        assert [*range(N)] == [0, 1, 2, 3]
        assert [N / 8, 8 / N, N * 0.25, 2**N, N / M] == [0.5, 2.0, 1.0, 16, 4 / 6]
        assert np.zeros((N, M)).shape == (4, 6)


def test_numbers_of_a_trace_take_part_in_arithmetic_with_floats() -> None:
    with resolving(_ask, number=lambda dim: f"<{dim}>"):
        assert N * 2 == 2 * N
        assert N.__mul__(M).terms == (N * M).terms
    with resolving(_ask, number=lambda dim: dim.evaluate({"n": 10})):
        assert N / 4 == 2.5
        assert 0.5 * N == 5.0
        assert 1.5 - N == -8.5


def test_hash() -> None:
    """The hash is that of the size, from the resolver; without a resolver there is none."""
    with pytest.raises(UnhashableError, match="n is not known here"):
        hash(N)
    with resolving(_ask), pytest.raises(_AskedError, match=r"hash\(n\)"):
        hash(N)
    with resolving(lambda dim, why: 4):
        assert hash(N) == hash(4)


def test_answers_end_with_the_block() -> None:
    with resolving(lambda dim, why: 3):
        assert int(N) == 3
    with pytest.raises(DimError):
        int(N)


def test_nothing_asks_in_infrastructure() -> None:
    with resolving(_ask):
        assert [same(N + 1, 1 + N), same(N, M), same(N, 4)] == [True, False, False]
        assert symbols((N + 1, 4, M // K)) == {"n", "m", "k"}
        assert broadcast_shapes((N, 1, 3), (M, 1)) == (N, broadcast_shapes((M,), (1,))[0], 3)
        assert copy.deepcopy(N) is N
        assert copy.copy(N) is N


# --- NumPy's integers, other objects ------------------------------------------------------------


@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.floordiv])
def test_integers_of_numpy(op: Callable[[Any, Any], Any]) -> None:
    for a, b in itertools.permutations((N + 1, np.int64(3))):
        plain = [3 if isinstance(x, np.integer) else x for x in (a, b)]
        assert same(op(a, b), op(*plain))


def test_foreign_operands_are_left_to_their_own_methods() -> None:
    class Foreign:
        def __radd__(self, other: object) -> str:
            return f"{other} in foreign hands"

    assert N + Foreign() == "n in foreign hands"
    with pytest.raises(TypeError):
        N + "1"


# --- broadcasting ---------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([0, 1, 1, 3]), min_size=1, max_size=4))
def test_broadcast_is_that_of_arrays(values: list[int]) -> None:
    names = [Dim(f"d{i}") for i in range(len(values))]
    sizes = {f"d{i}": v for i, v in enumerate(values)}
    dim: Size = 1
    for name in names:
        dim = broadcast(dim, name)
    try:
        (expected,) = np.broadcast_shapes(*((v,) for v in values))
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            evaluate(dim, sizes)
    else:
        assert evaluate(dim, sizes) == expected


def test_broadcast_of_types() -> None:
    assert str(broadcast_shapes((N, 1), (4,))) == "(n, 4)"
    assert str(broadcast_shapes((N, 3), (M, 1))) == "(broadcast(m,n), 3)"
    assert str(broadcast_shapes((N,), (7,))) == "(7,)"
    assert str(broadcast_shapes((N,), (0,))) == "(0,)"
    with pytest.raises(ShapeError, match="do not broadcast"):
        broadcast_shapes((N + 2,), (N + 3,))


def test_exact_quotient() -> None:
    assert exact_quotient(784 * N, N) == 784
    assert exact_quotient(12, 4) == 3
    assert same(exact_quotient(N * M + N, N), M + 1)
    assert str(exact_quotient(N, 2)) == "n//2"
    assert str(784 * N // N) == "784*n//n"  # eagerly, n == 0 raises


# --- names and texts ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "1n", "n m", "f32", "None", "max", "c64", "bf16", "n-1"])
def test_names(name: str) -> None:
    with pytest.raises(DimError, match="cannot be the name of a size"):
        Dim(name)


@pytest.mark.parametrize(
    "text",
    ["", "n+", "n**2", "n/2", "2.5", "True", "f(n)", "max()", "n if n else m", "n.x", "(" * 400,
     "n" * 3000, "1//0", "n@m", "'n'", "max(n, key=m)"],
)  # fmt: skip
def test_texts_that_are_no_size(text: str) -> None:
    with pytest.raises(DimError):
        parse_dim(text)


def test_products_are_limited() -> None:
    text = "*".join(f"(a{i}+b{i})" for i in range(40))
    with pytest.raises(DimError, match="more than 1000 terms"):
        parse_dim(text)


def test_owners_tell_names_apart() -> None:
    mine, other = Dim("n", 1), Dim("n", 2)
    assert not same(mine, other)
    assert str(mine) == str(other) == "n"
    assert (mine + other).owners == {1, 2}
    assert parse_dim("n", 2).terms == other.terms


def test_pickle() -> None:
    dim = pickle.loads(pickle.dumps(N // 2 + M))
    assert same(dim, N // 2 + M)


def test_missing_size() -> None:
    with pytest.raises(DimError, match="the size n is not known"):
        (N + 1).evaluate({"m": 1})
    with pytest.raises(ZeroDivisionError):
        (N // M).evaluate({"n": 1, "m": 0})
