"""`print` and `py_call`, eagerly and traced; the table has further cases of `py_call`."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.tree import leaves
from eagerflow.function.traced_function import TracedFunction
from tests.messages import says
from tests.ops.tracing import traced


@pytest.fixture(params=[False, True], ids=["eager", "traced"])
def mode(request: pytest.FixtureRequest) -> Any:
    """A decorator for the function under test: `traced`, or identity."""
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
    with pytest.raises(error, check=says("py_call")):
        function(ef.ones(2))


def test_it_has_no_derivative(mode: Any) -> None:
    function = mode(lambda x: ef.py_call(lambda v: v, "f32[2]", x).sum())
    with pytest.raises(errors.GradientError, check=says("py_call")):
        ef.grad(function)(ef.ones(2))


# --- arguments and results --------------------------------------------------------------------


def test_arguments_keep_their_structure_and_kinds(mode: Any) -> None:
    seen: list[Any] = []

    def look(tree: Any, text: str, *numbers: Any) -> None:
        seen.append((tree, text, numbers))

    def function(x: Any, k: Any, n: Any) -> None:
        tree = {"a": [x, x * 2], "b": (None, "s")}
        ef.py_call(look, None, tree, "text", k, n, k * 2, x.shape[0], 1j * k, True)

    mode(function)(ef.tensor([1.0, 2.0]), 1.5, 3)
    ((tree, text, numbers),) = seen
    assert [t.tolist() for t in tree["a"]] == [[1.0, 2.0], [2.0, 4.0]]
    assert tree["b"] == (None, "s")
    assert text == "text"
    assert [(type(x), x) for x in numbers] == [
        (float, 1.5), (int, 3), (float, 3.0), (int, 2), (complex, 1.5j), (bool, True),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "bfloat16", "float16", "complex128"])
def test_dtypes_come_as_they_are(mode: Any, dtype: str) -> None:
    x = ef.tensor([0, 1, 1]).astype(dtype)
    seen: list[str] = []

    def look(y: ef.Tensor) -> ef.Tensor:
        seen.append(y.dtype.name)
        return y

    y = mode(lambda x: ef.py_call(look, x, x))(x)
    assert seen == [dtype]
    assert y.type == x.type
    assert y.numpy().tobytes() == x.numpy().tobytes()


@pytest.mark.parametrize(
    ("types", "result"),
    [
        ("f32[2]", lambda x: x.numpy()),
        ("float32[2]", lambda x: x.tolist() and x),
        ("f32[ 2 ] @ cpu:0", lambda x: x),
        ("i64[]", lambda x: 3),
        ("f64[]", lambda x: 3),
        ("c64[]", lambda x: 1.5),
        (ef.ones(2), lambda x: x),
        (ef.ones(2).type, lambda x: x),
        (None, lambda x: 3),
        (("f32[n]", "f32[n]"), lambda x: (x, x)),
        ({"k": ["bool[2,m]"]}, lambda x: {"k": [ef.ones((2, 5), dtype=ef.bool)]}),
    ],
)
def test_forms_of_types(mode: Any, types: Any, result: Any) -> None:
    output = mode(lambda x: ef.py_call(result, types, x))(ef.tensor([1.0, 2.0]))
    if types is None:
        assert output is None
        return
    want = leaves(result(ef.tensor([1.0, 2.0])))
    kinds = leaves(types)
    for y, w, kind in zip(leaves(output), want, kinds, strict=True):
        assert y.tolist() == (w if isinstance(w, (int, float)) else w.tolist())
        name = kind.partition("[")[0] if isinstance(kind, str) else "f32"
        assert str(y.type).startswith(name.replace("float32", "f32").replace("bool", "bool"))


def test_sizes_that_the_function_decides(mode: Any) -> None:
    def function(x: Any) -> Any:
        y, z = ef.py_call(lambda x: (x[x > 0], x), ("f32[k]", "f32[n]"), x)
        return y * 2, y.shape[0] * 1.0, ef.concat([y, z])

    function = mode(function)
    for values in ([1.0, -1.0, 2.0], [-1.0], [3.0, 4.0, 5.0, 6.0], []):
        positive = [v for v in values if v > 0]
        y, size, both = function(ef.tensor(values, dtype=ef.float32))
        assert y.tolist() == [2 * v for v in positive]
        assert size == len(positive)
        assert both.tolist() == [*positive, *values]


def test_one_name_in_a_type_is_one_size(mode: Any) -> None:
    function = mode(lambda x: ef.py_call(lambda x: x[:, :2], "f32[n,n]", x) @ ef.ones(2))
    assert function(ef.ones((2, 5))).tolist() == [2.0, 2.0]
    with pytest.raises(errors.EagerflowError):
        function(ef.ones((3, 5)))


def test_variables_are_arguments_by_value(mode: Any) -> None:
    v = ef.Variable([1.0, 2.0])
    seen: list[Any] = []
    mode(lambda: ef.py_call(lambda x: seen.append(x), None, v))()
    v.assign([3.0, 4.0])
    assert type(seen[0]) is ef.Tensor
    assert seen[0].tolist() == [1.0, 2.0]


# --- errors -----------------------------------------------------------------------------------


class CustomError(Exception):
    pass


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyError, CustomError, StopIteration])
def test_errors_keep_their_class_and_the_line(mode: Any, error: type[Exception]) -> None:
    def fail(x: Any) -> None:
        raise error("what went wrong")

    function = mode(lambda x: ef.py_call(fail, None, x * 2))  # the user's line
    for _ in range(2):
        with pytest.raises(error, match="what went wrong") as caught:
            function(ef.ones(2))
        assert any(entry.name == "fail" for entry in caught.traceback)
        notes = "".join(getattr(caught.value, "__notes__", ()))
        assert ("# the user's line" in notes) == isinstance(function, TracedFunction)


def test_errors_of_results_name_the_line_of_the_call(mode: Any) -> None:
    def function(x: Any) -> Any:
        return ef.py_call(lambda x: x, "f32[3]", x)  # the user's line

    with pytest.raises(errors.ShapeError, match="gave another type than out_types") as caught:
        mode(function)(ef.ones(2))
    assert "# the user's line" in str(caught.value)


def test_a_name_is_one_size_in_all_results(mode: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        a, b = ef.py_call(lambda x, y: (x, y), ("f32[n]", "f32[n]"), x, y)
        return a + b

    assert mode(function)(ef.ones(2), ef.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(errors.ShapeError, match="gave another type than out_types") as caught:
        mode(function)(ef.ones(2), ef.ones(1))
    assert "with n=2" in str(caught.value)


def test_effects_before_an_error_have_happened(mode: Any) -> None:
    v = ef.Variable(0.0)

    def fail() -> None:
        raise CustomError

    def function(x: Any) -> Any:
        v.assign_add(x)
        ef.py_call(fail, None)
        v.assign_add(x)

    with pytest.raises(CustomError):
        mode(function)(ef.tensor(1.0))
    assert v.numpy() == 1.0


# --- nested callbacks -------------------------------------------------------------------------


def test_the_function_may_call_traced_functions(mode: Any) -> None:
    inner = traced(lambda x: ef.py_call(lambda y: y + 1, x, x) * 2)

    def around(x: Any) -> Any:
        return inner(x) + ef.grad(lambda z: (z * z).sum())(x)

    function = mode(lambda x: ef.py_call(around, x, x) - 1)
    for _ in range(1_000):
        assert function(ef.tensor([1.0, 2.0])).tolist() == [5.0, 9.0]
    assert len(inner.traces) == 1


def test_a_function_may_call_itself_through_python(mode: Any) -> None:
    def function(n: Any) -> Any:
        def again(n: Any) -> Any:
            return n if n == 0 else n + called(n - 1)

        return ef.py_call(again, "i64[]", n)

    called = mode(function)
    assert called(ef.tensor(20)).item() == 210


def test_what_it_computes_is_no_part_of_a_tape() -> None:
    w = ef.Variable(2.0)
    with ef.GradientTape() as tape:
        y = ef.py_call(lambda: w * 3, "f32[]") + w
    assert y.item() == 8.0
    assert tape.gradient(y, w).item() == 1.0


def test_printing_shows_numbers_and_trees(mode: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def function(x: Any, k: Any) -> None:
        ef.print(k, [x, {"k": k + 1}], None, "text", 1j, sep=", ")

    mode(function)(ef.tensor(1.0), 2)
    assert capsys.readouterr().out == "2, [Tensor(1., f32[]@cpu:0), {'k': 3}], None, text, 1j\n"


def test_printing_goes_to_a_file(mode: Any, capsys: pytest.CaptureFixture[str]) -> None:
    mode(lambda x: ef.print(x, file=sys.stderr))(ef.tensor(1.0))
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "1.\n")


def test_missing_types_name_the_form_for_a_function_without_a_result() -> None:
    def f(x: object) -> None: ...

    with pytest.raises(errors.TensorValueError, match=r"result: ef\.py_call\(f, None, x\)"):
        ef.py_call(f, ef.ones(2))
