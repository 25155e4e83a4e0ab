"""Random statements of Python: plain Python, converted, eager and traced runs agree."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings

import eagerflow as ef
from eagerflow.autograph.conversion.convert import converted, why_not
from eagerflow.errors import TraceError
from tests.exploring import examples
from tests.programs.columns import COLUMNS
from tests.programs.statements import blocks, program


def _plain(result: Any) -> list[float]:
    return [float(x) for x in result]


#: what is refused since updates in place would depend on data
REFUSED = (
    "holds as well: a loop on tensors decides",
    "hold as well: a loop on tensors decides",
    "holds as well: a condition decides",
    "hold as well: a condition decides",
    "in place and gives the name to another one",
)
ARGUMENTS = [(1.0, 0.5, -2.0), (3.0, 2.0, 1.0), (-1.0, 0.0, 0.5)]
ROWS = [1.0, -1.5, 2.0]


def check(lines: list[str]) -> None:
    f = program(lines)
    assert why_not(f.__code__) is None
    columns = {name: (column, ef.trace(f)) for name, column in COLUMNS.items()}
    for args in ARGUMENTS:
        want = _plain(f(*args, ROWS))
        if any(abs(x) > 1e100 or x != x for x in want):
            continue  # kernels warn where Python's floats overflow
        assert _plain(converted(f)(*args, ROWS)) == want  # type: ignore[arg-type]  # a function
        eager = _results(f, args)
        in_place = any("= " in line and line.split()[1] in ("+=", "-=") for line in lines)
        assert in_place or eager[0] == want  # two names may be one tensor
        for name, (column, traced) in columns.items():
            try:
                with column():
                    got = _results(traced, args)
            except TraceError as error:
                if not any(words in str(error) for words in REFUSED):
                    raise
                return
            assert got == eager, name


def _results(f: Any, args: tuple[float, ...]) -> tuple[list[float], list[Any]]:
    """What a function gives, and its arguments then."""
    tensors = [ef.tensor(x, dtype="float64") for x in (*args, ROWS)]
    return _plain(f(*tensors)), [x.tolist() for x in tensors]


@settings(
    deadline=None, max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(blocks(2, False, ()))
def test_a_random_program(lines: list[str]) -> None:
    check(lines)
