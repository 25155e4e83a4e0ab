"""Python numbers in a trace."""

from __future__ import annotations

import copy
import enum
import math
import numbers
import operator
import pickle
import threading
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.errors import TraceWarning
from eagerflow.runtime import Executable
from eagerflow.tracing.numbers import TracedNumber
from eagerflow.tracing.tracer import Tracer
from tests.ops.tracing import traced


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


@pytest.mark.parametrize(
    "power",
    [
        lambda n: n**0.5, lambda n: n**-0.5, lambda n: n**-1, lambda n: (2 * n + 1) ** 1.5,
        lambda n: n**2.0, lambda n: 2**n, lambda n: (n // 2) ** 0.5, lambda n: (0.5 * n) ** -2,
    ],
)  # fmt: skip
def test_powers_of_sizes_stay_dynamic(power: Callable[[Any], Any]) -> None:
    f = ef.trace(lambda x: (x * power(x.shape[0]), power(x.shape[0])))
    for n in range(3, 9):
        x = ef.ones(n)
        product, number = f(x)
        assert (number, type(number)) == (power(n), type(power(n)))
        assert product.tolist() == (x * power(n)).tolist()
    assert len(f.traces) == 2  # of the first size, and of all others


def test_a_size_of_zero_has_no_negative_power() -> None:
    f = ef.trace(lambda x: x.sum() * x.shape[0] ** -0.5)
    for n in (3, 4, 5):
        f(ef.ones(n))
    with pytest.raises(ZeroDivisionError, match="negative power"):
        f(ef.ones(0))
    assert len(f.traces) == 2


def test_a_whole_exponent_takes_any_base() -> None:
    f = ef.trace(lambda k: (k**-1, k**2.0))
    for k in (1, 2, -4):
        assert f(k) == (k**-1, k**2.0)
    assert len(f.traces) == 1


@pytest.mark.filterwarnings("ignore::eagerflow.errors.RetraceWarning")
@pytest.mark.parametrize(
    "power", [lambda n: (n - 3) ** 0.5, lambda n: (0.5 * n - 2) ** 0.5, lambda n: 2 ** (3 - n)]
)
def test_powers_of_sizes_that_may_be_negative_are_static(power: Callable[[Any], Any]) -> None:
    f = ef.trace(lambda x: power(x.shape[0]))
    for n in (1, 5, 9):
        assert f(ef.ones(n)) == power(n)
    assert len(f.traces) == 3


@pytest.mark.parametrize(("base", "exponents"), [(2, (1, -1)), (-2.0, (2.0, 0.5))], ids=str)
def test_powers_of_unknown_kind_are_static(base: float, exponents: tuple[float, float]) -> None:
    f = ef.trace(lambda a, b: a**b)
    for exponent in exponents:
        power = f(base, exponent)
        assert type(power) is type(base**exponent)
        assert power == base**exponent
    assert len(f.traces) == 2


# --- every operator ---------------------------------------------------------------------------

ARITHMETIC = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "divmod": divmod,
}  # fmt: skip
ASKING = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift,
}  # fmt: skip
SAMPLES: list[Any] = [3, -2, 0, 2.5, -0.5, 0.0, math.inf, 1 + 2j, 0j, True, False, 10**30, 1e308]


def outcome(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """What a call gives, bit for bit, or how it fails."""
    try:
        result = function(*args)
    except Exception as error:
        # Python asks the right operand first where the left is of another class
        return type(error), "" if "between instances" in str(error) else str(error)
    return (
        "value",
        *[(type(x), repr(x)) for x in (result if type(result) is tuple else (result,))],
    )


def during_trace(function: Callable[..., Any], *args: Any) -> tuple[tuple[Any, ...], Tracer]:
    """The outcome of a function of numbers within a trace, and the trace."""
    tracer = Tracer()
    numbers = [tracer.add_number(x, f"k{i}") for i, x in enumerate(args)]

    def call() -> Any:
        result = function(*numbers)
        return tuple([number(x) for x in result]) if type(result) is tuple else number(result)

    with tracer:
        return outcome(call), tracer


def number(x: Any) -> Any:
    return x.number if type(x) is TracedNumber else x


def static(tracer: Tracer) -> list[str | None]:
    """Why each number of a trace is static."""
    return [root.why for root in tracer.numbers]


@pytest.mark.parametrize("sign", [*ARITHMETIC, *ASKING])
def test_an_operator_is_pythons_own(sign: str) -> None:
    function = {**ARITHMETIC, **ASKING}[sign]
    for a in SAMPLES:
        for b in SAMPLES:
            if (sign == "**" and max(abs(a), abs(b)) > 1e9) or (sign == "<<" and abs(b) > 1e9):
                continue
            want = outcome(function, a, b)
            if type(a) is not bool:
                assert during_trace(lambda x, b=b: function(x, b), a)[0] == want
            if type(b) is not bool:
                assert during_trace(lambda x, a=a: function(a, x), b)[0] == want
            if bool not in (type(a), type(b)):
                assert during_trace(function, a, b)[0] == want


@pytest.mark.parametrize("function", [operator.neg, operator.pos, abs, operator.invert])
def test_an_operator_of_one_number_is_pythons_own(function: Callable[[Any], Any]) -> None:
    for a in SAMPLES:
        if type(a) is not bool:
            assert during_trace(function, a)[0] == outcome(function, a)


@pytest.mark.parametrize("sign", list(ARITHMETIC))
def test_arithmetic_makes_nothing_static(sign: str) -> None:
    function = ARITHMETIC[sign]
    for other in (2, 2.5):
        _, tracer = during_trace(lambda a, other=other: function(a, other), 3.5)
        assert static(tracer) == [None if sign != "**" or other == 2 else "** 2.5"]
    _, tracer = during_trace(function, 7.0, 2)
    assert static(tracer) == [None, None]


@pytest.mark.parametrize(
    ("ask", "why"),
    [
        (lambda a: a > 2, "> 2"),
        (lambda a: a < 2, "< 2"),
        (lambda a: a == 5, "== 5"),
        (bool, "bool()"),
        (hash, "hash()"),
        (int, "int()"),
        (float, "float()"),
        (complex, "complex()"),
        (round, "round()"),
        (lambda a: range(a), "its use as an index or a size"),
        (lambda a: "abcdef"[a], "its use as an index or a size"),
        (lambda a: f"{a:03d}", "formatting"),
        (str, "str()"),
        (repr, "repr()"),
        (math.sqrt, "float()"),
        (math.floor, "floor()"),
        (lambda a: a.real, ".real"),
        (lambda a: a.bit_length(), ".bit_length"),
        (lambda a: a & 3, "& 3"),
        (lambda a: ~a, "~"),
        (lambda a: pow(a, 2, 7), "pow()"),
        (lambda a: 2**a, "** operator"),
        (lambda a: {5: 1}[a], "hash()"),
        (lambda a: a in (4, 5), "== 4"),
        (lambda a: pickle.loads(pickle.dumps(a)), "pickling"),
        (np.sin, "NumPy"),
        (lambda a: np.arange(3.0) * a, "NumPy"),
        (lambda a: a + np.float64(2), "+"),
        (lambda a: a * Fraction(1, 3), "*"),
        (lambda a: a * Decimal("0.1"), "*"),
    ],
)
def test_what_asks_for_the_number_makes_it_static(ask: Callable[[Any], Any], why: str) -> None:
    result, tracer = during_trace(ask, 5)
    assert result == outcome(ask, 5)
    (reason,) = static(tracer)
    assert reason == why or (why == "** operator" and reason is not None and "**" in reason)


def test_all_that_a_number_was_computed_from_becomes_static() -> None:
    _, tracer = during_trace(lambda a, b, c: (a * b + 1 > 0, c + 1), 2.0, 3.0, 4.0)
    assert static(tracer) == ["> 0", "> 0", None]


def test_it_is_an_instance_of_its_kind() -> None:
    kinds = (int, float, complex, numbers.Real, numbers.Integral, str)
    for value in (1, 2.5, 3j):
        result, tracer = during_trace(lambda a: tuple(isinstance(a, k) for k in kinds), value)
        assert result == outcome(lambda a: tuple(isinstance(a, k) for k in kinds), value)
        assert static(tracer) == [None]


def test_copies_are_the_same_number() -> None:
    tracer = Tracer()
    a = tracer.add_number(1.5, "a")
    with tracer:
        assert copy.copy(a) is a
        assert copy.deepcopy([a])[0] is a
    assert static(tracer) == [None]


class Small(enum.IntEnum):
    TWO = 2


@pytest.mark.parametrize(
    "other", [Small.TWO, Fraction(1, 3), np.float64(0.1), np.float32(0.1), np.int8(3), "x", None]
)
@pytest.mark.parametrize("sign", ["+", "*", "/", "divmod", "==", "<", "**"])
def test_next_to_other_classes_it_is_the_number(sign: str, other: Any) -> None:
    function = {**ARITHMETIC, **ASKING}[sign]
    for a in (3, 2.5):
        for call in (lambda x, o: function(x, o), lambda x, o: function(o, x)):
            want = outcome(call, a, other)
            got, _ = during_trace(lambda x, call=call: call(x, other), a)
            if want[0] is TypeError:
                assert got[0] is TypeError
            else:
                assert got == want


def test_a_decimal_is_compared_as_eagerly() -> None:
    for function in (operator.eq, operator.lt, operator.sub):
        for call in (function, lambda x, o, f=function: f(o, x)):
            want = outcome(call, 2, Decimal(2))
            assert during_trace(lambda x, call=call: call(x, Decimal(2)), 2)[0] == want


def test_a_class_of_the_user_may_decide() -> None:
    class Metres:
        def __radd__(self, other: Any) -> str:
            return f"{type(other).__name__} metres"

        def __lt__(self, other: Any) -> bool:
            return True

        __gt__ = __lt__
        __rmul__ = None

    tracer = Tracer()
    a = tracer.add_number(2.0, "a")
    with tracer:
        assert a + Metres() == "TracedNumber metres"
        assert a < Metres()
        with pytest.raises(TypeError):
            a * Metres()
    assert static(tracer) == [None]


def test_sizes_and_numbers_do_arithmetic() -> None:
    @ef.trace
    def f(x: Any, k: Any) -> Any:
        n = x.shape[0]
        return n * k, k / n, n - k, k // n, n % k, *divmod(n, k), *divmod(k, n), x / n * k

    for size, k in ((2, 1.5), (3, 2.5), (5, 0.5), (7, 4.0)):
        n, x = size, ef.ones(size)
        *got, last = f(x, k)
        *want, eager = n * k, k / n, n - k, k // n, n % k, *divmod(n, k), *divmod(k, n), x / n * k
        assert list(map(repr, got)) == list(map(repr, want))
        assert last.tolist() == eager.tolist()
    assert len(f.traces) == 2


def test_powers_with_a_modulus() -> None:
    assert during_trace(lambda a: pow(a, 3, 7), 5)[0] == outcome(pow, 5, 3, 7)


# --- random expressions -----------------------------------------------------------------------

_BINARY = [s for s in ARITHMETIC if s != "divmod"]
CONSTANTS = st.one_of(
    st.integers(-9, 9), st.sampled_from([0.5, -1.5, 0.0, 3.0, math.inf, 2j, 1 - 1j, True])
)
EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from(["a", "b", "c"]), CONSTANTS),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(_BINARY), inner, inner),
        st.tuples(st.sampled_from(["neg", "abs"]), inner),
    ),
    max_leaves=8,
)
_UNARY = {"neg": operator.neg, "abs": abs}


def evaluate(expression: Any, names: dict[str, Any]) -> Any:
    if type(expression) is str:
        return names[expression]
    if type(expression) is not tuple:
        return expression
    sign, *operands = expression
    values = [evaluate(x, names) for x in operands]
    if sign == "**" and any(abs(number(x)) > 99 for x in values):
        return values[0]
    return {**ARITHMETIC, **_UNARY}[sign](*values)


def _has_power(expression: Any) -> bool:
    return type(expression) is tuple and (
        expression[0] == "**" or any(map(_has_power, expression[1:]))
    )


NUMBERS = st.tuples(st.integers(-50, 50), st.floats(-50, 50), st.complex_numbers(max_magnitude=50))


@given(EXPRESSIONS, NUMBERS, st.lists(NUMBERS, min_size=1, max_size=4))
def test_programs_of_numbers_give_what_python_gives(
    expression: Any, first: tuple[Any, ...], others: list[tuple[Any, ...]]
) -> None:
    assume(not _has_power(expression))
    tracer = Tracer()
    names = {x: tracer.add_number(k, x) for x, k in zip("abc", first, strict=True)}
    results: list[Any] = []
    with tracer:
        got = outcome(lambda: number(results.append(evaluate(expression, names)) or results[0]))
    assert got == outcome(evaluate, expression, dict(zip("abc", first, strict=True)))
    assume(results and type(results[0]) is TracedNumber)
    (result,) = results
    assert static(tracer) == [None] * 3
    tracer.graph.outputs = [result.value]
    program = Executable(tracer.graph)
    for values in (first, *others):
        want = outcome(evaluate, expression, dict(zip("abc", values, strict=True)))
        got = outcome(lambda values=values: program(*values)[0])
        if want[0] == "value":
            assert got == want
        else:
            assert issubclass(got[0], want[0])


@given(EXPRESSIONS, st.lists(NUMBERS, min_size=2, max_size=4))
def test_traced_functions_of_numbers_give_what_python_gives(
    expression: Any, calls: list[tuple[Any, ...]]
) -> None:
    def plain(a: Any, b: Any, c: Any) -> Any:
        return evaluate(expression, {"a": a, "b": b, "c": c})

    f = traced(plain)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # a power may need a trace per number
        for args in calls:
            want, got = outcome(plain, *args), outcome(f, *args)
            if want[0] == "value":
                assert got == want
            else:
                assert issubclass(got[0], want[0])


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        (lambda a, b: a / b, [(1, 2), (1, 0), (1.0, 0.0), (0j, 0)]),
        (lambda a, b: a // b, [(1, 2), (1, 0), (1.0, 0.0)]),
        (lambda a, b: a % b, [(1, 2), (1, 0), (1.0, 0.0)]),
        (lambda a, b: a**b, [(2.0, 3), (0.0, -1), (1e200, 2), (0, -1)]),
        (lambda a, b: a * b, [(2, 0.5), (10**400, 0.5)]),
    ],
)
def test_errors_are_pythons_own_in_later_calls_too(
    function: Callable[..., Any], calls: list[tuple[Any, Any]]
) -> None:
    f = traced(function)
    for args in calls:
        want, got = outcome(function, *args), outcome(f, *args)
        if want[0] == "value":
            assert got == want
        else:
            assert issubclass(got[0], want[0])
            assert want[1] in got[1]


# --- other threads ----------------------------------------------------------------------------


def in_thread(function: Callable[[], Any]) -> Any:
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(outcome(function)))
    thread.start()
    thread.join()
    return outcomes[0]


@pytest.mark.parametrize("sign", [*ARITHMETIC, *ASKING])
def test_to_another_thread_it_is_the_number(sign: str) -> None:
    function = {**ARITHMETIC, **ASKING}[sign]
    tracer = Tracer()
    for value in (3, 2.5, 1j):
        a = tracer.add_number(value, "a", captured=True)
        with tracer:
            nodes = len(tracer.graph.nodes)
            assert in_thread(lambda a=a: function(a, 2)) == outcome(function, value, 2)
            assert in_thread(lambda a=a: function(2, a)) == outcome(function, 2, value)
            assert in_thread(lambda a=a: function(a, a)) == outcome(function, value, value)
            assert len(tracer.graph.nodes) == nodes
    assert static(tracer) == [None] * 3  # the work of that thread is no part of the trace


def test_another_thread_uses_it_with_tensors_and_in_calls() -> None:
    x = ef.tensor([1.0, 2.0])
    f = traced(lambda x, k: x * k)
    f(x, 1.0)
    tracer = Tracer()
    a = tracer.add_number(2.5, "a", captured=True)

    def uses(a: Any) -> tuple[Any, ...]:
        return (
            (x * a).tolist(), (a - x).tolist(), ef.full((2,), a).tolist(), ef.tensor([a]).tolist(),
            f(x, a).tolist(), -a, abs(a), f"{a:.1f}", math.sin(a), int(a), round(a), hash(a),
            (x > a).tolist(), ef.where(x > 1, a, x).tolist(), np.float32(a), ef.tensor(a).tolist(),
        )  # fmt: skip

    want = outcome(uses, 2.5)
    with tracer:
        assert in_thread(lambda: uses(a)) == want
    assert in_thread(lambda: uses(a)) == want  # the trace has ended meanwhile
    assert static(tracer) == [None]
    assert not tracer.graph.nodes
    assert len(f.traces) == 1


def test_a_number_that_the_function_hands_to_a_thread_becomes_static() -> None:
    tracer = Tracer()
    given, captured = tracer.add_number(2.0, "a"), tracer.add_number(3.0, "b", captured=True)
    with tracer:
        made = captured * 2
        assert in_thread(lambda: given + 1) == ("value", (float, "3.0"))
        assert static(tracer) == ["its use in another thread", None]
        assert in_thread(lambda: -made) == ("value", (float, "-6.0"))
    assert static(tracer) == ["its use in another thread"] * 2
