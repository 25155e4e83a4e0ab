"""Texts with values that only the graph knows: messages, printed lines."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import gc
import logging
import math
import os
import pathlib
import re
import sys
import weakref
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.autograph.failures.raising import RAISING, computed_for_the_message

X = [1.0, 2.0, 3.0]


def _what(error: BaseException | None) -> Any:
    """What the user sees of an exception, without where it was raised."""
    if error is None:
        return None
    own = [n for n in getattr(error, "__notes__", []) if not n.startswith("  ")]
    fields = {k: str(v) for k, v in vars(error).items() if k[0] != "_"}
    inside = [_what(e) for e in getattr(error, "exceptions", ())]
    more = [str(getattr(error, k, None)) for k in ("value", "errno", "filename")]
    links = _what(error.__cause__), _what(error.__context__), error.__suppress_context__
    return type(error), str(error), repr(error.args), own, fields, inside, more, links


def _raised(function, x) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - which one is compared
        function(ef.tensor(x))
    return caught.value


@pytest.mark.parametrize("function", RAISING, ids=lambda f: f.__name__)
def test_an_exception_says_what_it_says_eagerly(function) -> None:
    traced = ef.trace(function)
    for x in (X, X, [1.5, 2.5, 4.0]):  # the trace, a run of it, other values
        eager, error = _raised(function, x), _raised(traced, x)
        assert _what(error) == _what(eager)
    assert error is not _raised(traced, x)  # a new one each time


def chosen(x):
    def yes():
        raise ValueError(f"yes {x}")

    return ef.cond(x < 0, yes, lambda: x)


def chosen_of_several(x):
    def first(y):
        raise ValueError(f"first {y}")

    def other(y):
        if y > 3:
            raise KeyError(f"other {y}")
        return y

    return ef.switch((x + 1).astype("i64"), [first, lambda y: y, first, other, other], x)


def turned(x):
    def body(y, n):
        raise ValueError(f"{y} {n}")

    return ef.while_loop(lambda y, n: y > 0, body, (x, 0))


def turned_until(x):
    def body(y, n):
        if y > 2:
            raise ValueError(f"{y} {n}")
        return y + 1, n + 1

    return ef.while_loop(lambda y, n: y > 0, body, (x, 0))


def turned_by_python(x):
    while x > 0:
        raise ValueError(f"{x}")
    return x


def gone_over_by_python(x):
    for i, y in enumerate(ef.stack([x, x + 1])):
        raise ValueError(f"{i} {y}")


def gone_over_what_has_a_length_of_the_graph(x):
    (indices,) = ef.nonzero(ef.stack([x, x]) > 0)
    for i in indices:
        raise ValueError(f"{i}")
    return x


def scanned(x):
    def body(total, y):
        raise ValueError(f"{total} {y}")

    return ef.scan(body, 0.0, ef.stack([x, x + 1]), reverse=True)


def mapped(x):
    def body(y):
        raise ValueError(f"{y}")

    return ef.map(body, ef.stack([x, x + 1]))


def called(x):
    def body(y):
        raise ValueError(f"{y}")

    return ef.call(body, x)


TAKEN = [turned_until, gone_over_by_python, called]
REFUSED = [chosen, chosen_of_several, turned, turned_by_python,
           gone_over_what_has_a_length_of_the_graph, scanned, mapped]  # fmt: skip


@pytest.mark.parametrize("function", TAKEN, ids=lambda f: f.__name__)
def test_functions_that_raise_do_so_where_they_are_taken(function) -> None:
    for first in (-1.0, 1.0):
        traced = ef.trace(function)
        for x in (first, -3.0, -1.0, 0.0, 1.0, 2.0, 3.5, 9.0):
            eager, result = (_result(f, ef.tensor(x)) for f in (function, traced))
            assert result == eager


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_functions_that_raise_whatever_a_tensor_is_are_refused(function) -> None:
    """At the line of the `raise`; a raise under an `if` in them is a part of the graph."""
    with pytest.raises(TraceError, match="raises an exception") as caught:
        ef.trace(function)(ef.tensor(1.0))
    assert "raise ValueError" in str(caught.value)
    for known in (True, 0):
        with pytest.raises(ValueError, match="chosen by a bool"):
            ef.trace(_chosen_by_python)(ef.tensor(1.0), known)


def _chosen_by_python(x, known):
    def yes():
        raise ValueError("this was chosen by a bool or an int")

    if isinstance(known, bool):
        return ef.cond(known, yes, lambda: x)
    return ef.switch(known, [yes, lambda: x])


def _result(function, x) -> Any:
    try:
        return str(function(x))
    except Exception as error:
        return _what(error)


def test_what_a_branch_does_before_it_raises_happens_where_it_is_taken() -> None:
    v, seen = ef.Variable(0.0), []

    @ef.trace
    def f(x):
        if x > 0:
            seen.append(x)
            v.assign_add(x)
            raise ValueError(f"{v}")
        return x

    assert f(ef.tensor(-1.0)).item() == -1
    assert v.item() == 0
    with pytest.raises(ValueError, match=r"^3\."):
        f(ef.tensor(3.0))
    assert v.item() == 3
    assert not seen


def error_of_the_trace(x):
    if x < 0:
        return ef.zeros(2) + ef.zeros(3)
    return x


def error_of_the_trace_once_more(x):
    if x < 0:
        try:
            return ef.zeros(2) + ef.zeros(3)
        except ef.errors.ShapeError:
            raise
    return x


layer = ef.nn.Linear(2, 3)


def error_of_a_layer(x):
    if x < 0:
        return layer(ef.zeros((5, 4)))[0, 0]
    return x


@pytest.mark.parametrize(
    "function", [error_of_the_trace, error_of_the_trace_once_more, error_of_a_layer],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_eagerflow_refuses_in_a_branch_is_refused_while_tracing(function) -> None:
    with pytest.raises(ef.errors.ShapeError):
        ef.trace(function)(ef.tensor(1.0))


def test_what_a_message_shows_is_computed_where_it_is_raised() -> None:
    graph = ef.trace(computed_for_the_message).graph(ef.tensor(X))
    (node,) = [n for n in graph.nodes if n.op == "cond"]
    raising, other = node.attrs["branches"]
    assert {"sum", "max"} <= {n.op for n in raising.nodes}
    assert not other.nodes
    assert not {"sum", "max"} & {n.op for n in graph.nodes}


def test_what_is_raised_says_the_line_of_the_raise() -> None:
    error = _raised(ef.trace(computed_for_the_message), X)
    assert "raise ValueError" in "".join(error.__notes__)


def test_effects_before_an_exception_happen(capsys) -> None:
    v = ef.Variable(1.0)

    def f(x):
        v.assign(5.0)
        if x > 0:
            v.assign_add(1.0)
            print("x is", x)
            raise ValueError(f"{v} {v:.2f}")
        return x

    for function in (f, ef.trace(f)):
        v.assign(1.0)
        with pytest.raises(ValueError, match=r"^6\. 6\.00"):
            function(ef.tensor(2.0))
        assert v.item() == 6
        assert capsys.readouterr().out == "x is 2.\n"


def printed_in_branches_and_iterations(x):
    for i, v in enumerate(x):
        if v > 1:
            print("v is", v, f"and {v:.1f} at {i}", end=";\n", flush=True)


def printed_at_once(x):
    print(f"x is {x}", [x, 1], {"k": x[0]}, sep=f" {x[0]} ", flush=True)
    print(str(x), repr(x), "%d%% of %.1f" % (5, x[0]), f"{[x]}")


def printed_objects(x):
    class Shown:
        def __str__(self):
            return f"Shown({x[0]})"

    print(Shown())
    ef.print(f"{x}", [f"{x[0]:.2f}"])


@pytest.mark.parametrize(
    "function", [printed_in_branches_and_iterations, printed_at_once, printed_objects],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_what_is_printed(function, capsys) -> None:
    traced = ef.trace(function)
    for x in (X, [0.5, 1.5, 2.5]):
        function(ef.tensor(x))
        want = capsys.readouterr().out
        traced(ef.tensor(x))
        assert capsys.readouterr().out == want


def test_python_is_called_with_texts() -> None:
    seen: list[Any] = []

    @ef.trace
    def f(x):
        ef.py_call(lambda *args: seen.append(args), None, f"{x}", {"k": [f"{x:.2f}"]})
        return x

    f(ef.tensor(1.0))
    f(ef.tensor(2.5))
    assert seen == [("1.", {"k": ["1.00"]}), ("2.5", {"k": ["2.50"]})]


class Holder:
    """An object outside."""

    text = ""


holder = Holder()
names: list[str] = []


def returns(x):
    return f"{x}"


def returns_within(x):
    return {"a": (x, [f"{x}"])}


def stores(x):
    holder.text = f"{x}"


def appends(x):
    names.append(f"{x}")


REFUSED = [
    (returns, "a traced function returns a text that shows a value"),
    (returns_within, "result['a'][1][0]"),
    (stores, "a traced function keeps a text that shows a value"),
    (appends, "a traced function keeps a text that shows a value"),
    (lambda x: 1 if f"{x}" == "1." else 2, "only the graph knows the value"),
    (lambda x: "nan" in f"x is {x}", "only the graph knows the value"),
    (lambda x: {f"x is {x}": x}, "only the graph knows the value"),
    (lambda x: print(f"{x}"[:3]), "only the graph knows the value"),
    (lambda x: print(("a" + str(x)).upper()), "only the graph knows the value"),
    (lambda x: print("".join(["a", str(x), "b"])[:6]), "was cut or changed"),
    (lambda x: print("{}".format(x)[4:] + "!"), "only the graph knows the value"),
    (lambda x: print("".join(["a", str(x)]).upper()), "was cut or changed"),
    (lambda x: print("".join(["a", str(x)])[-6:]), "was cut or changed"),
    (lambda x: float(f"{x}"), "float() of"),
    (lambda x: int("".join(["1", f"{x}"])), "int() of"),
    (lambda x: bool(f"{x}"), "only the graph knows the value"),
    (lambda x: open(f"{x}.txt", "w").close(), "a path shows a value"),
    (lambda x: os.path.join("a", f"{x}"), "a path shows a value"),
    (lambda x: os.mkdir(f"{x}"), "a path shows a value"),
    (lambda x: os.makedirs(f"{x}", exist_ok=True), "a path shows a value"),
    (lambda x: pathlib.Path("a", f"{x}"), "a path shows a value"),
    (lambda x: pathlib.Path("a").joinpath(f"{x}"), "a path shows a value"),
    (lambda x: pathlib.Path("a") / f"{x}", "only the graph knows the value"),
]


@pytest.mark.parametrize(("function", "words"), REFUSED)
@pytest.mark.filterwarnings("ignore::eagerflow.errors.TraceWarning")
def test_what_needs_the_text_while_tracing(function, words, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TraceError) as caught:
        ef.trace(function)(ef.tensor(1.0))
    assert words in str(caught.value)
    assert "hint" in str(caught.value)
    assert not list(tmp_path.iterdir())


def logs(x):
    logging.info(f"{x}")


logger = logging.getLogger(__name__)


def logs_itself(x):
    logger.info(f"{x}")


@pytest.mark.parametrize(
    ("function", "call"), [(logs, "logging.info"), (logs_itself, "logger.info")]
)
def test_what_is_written_while_tracing_has_no_values(function, call) -> None:
    with pytest.warns(ef.errors.TraceWarning, match="would show no values") as caught:
        ef.trace(function)(ef.tensor(1.0))
    assert f"ef.py_call({call}, None, ...)" in str(caught[0].message)


def test_paths_that_are_known_are_those_of_python(tmp_path) -> None:
    @ef.trace
    def f(x, n):
        if x > 0:
            x = x + 1
        text = f"{n:03d}"
        names = os.path.join("a", text), pathlib.Path("a") / text, "{}!".format(text)
        return x, float(text), int("7"), list(map(str, names))

    assert f(ef.tensor(1.0), 5)[1:] == (5.0, 7, [os.path.join("a", "005")] * 2 + ["005!"])


def test_a_text_of_a_number_that_python_knows_stays_one() -> None:
    @ef.trace
    def f(x, n):
        return {f"layer{n}": x * n}, f"{x.shape} {n:.1f}"

    assert list(f(ef.ones(2), 3)[0]) == ["layer3"]
    assert f(ef.ones(2), 2)[1] == "(2,) 2.0"
    assert f(ef.ones(4), 2)[1] == "(4,) 2.0"


def test_a_text_says_what_it_stands_for(capsys) -> None:
    @ef.trace
    def f(x):
        sys.stdout.write(f"x is {x}")  # no print(), so it is written now
        return x

    f(ef.ones(3))
    assert re.fullmatch(r"«#(\d+) x is f32\[3\]@cpu:0 #\1»", capsys.readouterr().out)


def test_nothing_is_left_of_a_trace() -> None:
    class Big:
        pass

    def make():
        big = Big()

        def f(x):
            big
            if x > 0:
                raise ValueError(f"{x} {x:.2f}")
            return x

        with pytest.raises(ValueError, match=r"1\. 1\.00"):
            ef.trace(f)(ef.tensor(1.0))
        return weakref.ref(big)

    gone = make()
    gc.collect()
    assert gone() is None


def test_an_assertion_whose_message_needs_python_says_why_it_is_not_there() -> None:
    def positive(x):
        assert x > 0, math.floor(x.item())
        return x

    f = ef.trace(positive)
    assert float(f(ef.tensor(2.0))) == 2.0
    with pytest.raises(AssertionError, match=r"whose message the graph cannot make: item\(\)"):
        f(ef.tensor(-2.5))
