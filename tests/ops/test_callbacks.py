"""`print` and `py_call`, eagerly and traced; the table has further cases of `py_call`."""

from __future__ import annotations

from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from tests.ops.tracing import traced


@pytest.fixture(params=[False, True], ids=["eager", "traced"])
def mode(request: pytest.FixtureRequest) -> Any:
    """What makes a function of one that is to be tested."""
    return traced if request.param else lambda function: function


def test_lines_come_in_the_order_of_the_program_in_each_run(
    mode: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def function(x: Any, n: Any) -> Any:
        ef.print("x is", x, n, sep="|", end="!\n")
        y = ef.py_call(lambda v: ef.print("inside") or v * 2, "f32[k]", x)
        ef.print({"y": y.shape[0]}, n + 1)
        return y

    function = mode(function)
    for size in (2, 3, 0, 1):
        assert function(ef.ones(size), size).tolist() == [2.0] * size
    want = [
        f"x is|[{' '.join(['1.'] * size)}]|{size}!\ninside\n{{'y': {size}}} {size + 1}\n"
        for size in (2, 3, 0, 1)
    ]
    assert capsys.readouterr().out == "".join(want)


def test_nothing_but_text_is_printed(mode: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def function() -> None:
        ef.print("only text")

    mode(function)()
    assert capsys.readouterr().out == "only text\n"


def test_the_result_has_the_structure_of_the_types(mode: Any) -> None:
    def function(x: Any) -> Any:
        def parts(x: Any) -> Any:
            return {"sum": x.sum(), "parts": (x, 3)}

        return ef.py_call(parts, {"sum": "f32[]", "parts": (x, "i64[]")}, x)

    got = mode(function)(ef.tensor([1.0, 2.0]))
    assert got["sum"].item() == 3
    assert [p.tolist() for p in got["parts"]] == [[1.0, 2.0], 3]


@pytest.mark.parametrize(
    ("types", "error"),
    [
        ("f64[2]", errors.DTypeError),
        ("f32[3]", errors.ShapeError),
        ("f32[]", errors.ShapeError),
        (["f32[2]"], errors.ShapeError),
        ("float", errors.DTypeError),
    ],
)
def test_what_does_not_fit_the_types_is_refused(mode: Any, types: Any, error: Any) -> None:
    function = mode(lambda x: ef.py_call(lambda v: v, types, x))
    with pytest.raises(error, match="py_call"):
        function(ef.ones(2))


def test_it_has_no_derivative(mode: Any) -> None:
    function = mode(lambda x: ef.py_call(lambda v: v, "f32[2]", x).sum())
    with pytest.raises(errors.GradientError, match="py_call"):
        ef.grad(function)(ef.ones(2))
