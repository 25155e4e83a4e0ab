"""Calls that Python refuses because of their arguments: the error gets a note with the remedy."""

from __future__ import annotations

import inspect
import math
import re
import subprocess
import sys
from functools import reduce
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import wrong_calls
from eagerflow.error_messages import frames_hidden
from eagerflow.hints import refused_calls
from eagerflow.hints.parameter_names import CALLED, CALLED_MODULES, NAMES, NOT_HERE
from eagerflow.wrong_calls import add_remedy
from tests.each import check_each
from tests.test_public_api import lookup, public


def _note(error: BaseException) -> str:
    add_remedy(error)
    notes: list[str] = getattr(error, "__notes__", [])
    assert notes, error
    # after it, other lines with the same mistake
    assert all(note.startswith("  in the same source:") for note in notes[1:])
    assert notes[0].startswith("  hint: ")
    return notes[0].removeprefix("  hint: ")


def _takes_any(function: Any) -> bool:
    return any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())


def _refused(called: Any) -> TypeError:
    """What Python raises; in a function that is as short as users' lines."""
    try:
        called(surely_unknown=1)
    except TypeError as error:
        return error
    raise AssertionError(called)


def _refuses_with_a_remedy(name: str) -> None:
    called = lookup(name)
    assert callable(called)
    error = _refused(called)
    assert "(" in _note(error)


def test_each_public_function_and_class() -> None:
    ours = {
        name: value
        for name, value in public().items()
        if getattr(value, "__module__", "").startswith("eagerflow")
        and not (inspect.isclass(value) and issubclass(value, BaseException))
        and not getattr(value, "__abstractmethods__", None)
        and not _takes_any(value)
    }
    assert len(ours) > 500
    check_each(ours, _refuses_with_a_remedy)


def _method_refuses(name: str) -> None:
    method = getattr(ef.ones(2), name)
    with pytest.raises(TypeError) as caught:
        method(surely_unknown=1)
    with pytest.raises(TypeError) as without_a_name:
        [getattr(ef.ones(2), name)][0](surely_unknown=1)
    assert _note(caught.value) == _note(without_a_name.value)


def test_each_method_of_tensors() -> None:
    names = [n for n, v in inspect.getmembers(ef.Tensor, inspect.isfunction) if n[0] != "_"]
    assert len(names) > 30
    check_each(names, _method_refuses)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        ("ef.sum(x, dim=0)", "use axis= instead of dim="),
        ("x.sum(dim=0)", "use axis= instead of dim="),
        ("ef.exp(x).mean(0, keepdim=True)", "use keepdims= instead of keepdim="),
        ("(x + x).mean(0, keepdim=True)", "use keepdims= instead of keepdim="),
        ("ef.random.normal(size=(2,))", "use shape= instead of size="),
        ("ef.tensor(1.0, requires_grad=True)", "ef.grad(f)"),
        ("ef.nn.functional.relu(x, inplace=True)", "tensors are values"),
        ("ef.clip(x, a_min=0)", "use min= instead of a_min="),
        ("ef.matmul(x, other=x)", "x2 is given by position"),
        ("ef.stack(arrays=[x])", "arrays is given by position"),
        ("ef.optim.Adam([v], learning_rate=1)", "use lr= instead of learning_rate="),
        ("ef.nn.Linear(2, units=3)", "use out_features= instead of units="),
        ("ef.nn.Linear(2, 3, biass=True)", "did you mean bias="),
        (
            "ef.random.bits(3, 4)",
            "such as (2, 3), and later arguments have names: bits(shape=()",
        ),
        ("ef.broadcast_to(x)", "the call is broadcast_to(x, /, shape"),
        ("x.size(0)", "x.shape[i]"),
        ("v.size(0)", "x.shape[i]"),
        ("ef.ones(4).size()", "x.size is how many elements"),
        ("x.sum().size(0)", "x.size is how many elements"),
        ("f'{schedule:.3f}'", "optimiser.current_lr is the rate of the next update"),
        ("float(schedule)", "optimiser.current_lr is the rate of the next update"),
        ("round(schedule, 3)", "optimiser.current_lr is the rate of the next update"),
        ("math.log(schedule)", "optimiser.current_lr is the rate of the next update"),
        ("f'{optimiser.lr:.3f}'", "optimiser.current_lr is the rate of the next update"),
        ("float(optimiser.lr)", "optimiser.current_lr is the rate of the next update"),
        ("0.5 * schedule", "optimiser.current_lr is the rate of the next update"),
        ("schedule < 0.1", "optimiser.current_lr is the rate of the next update"),
        ("ef.checkpoint.load('path', map_location='cpu')", "with ef.device('cpu:0')"),
        ("v.value()", "without a call"),
        ("ef.checkpoint(len)", "ef.remat(f)"),
        ("x.to(dtype=ef.float64)", "x.astype(dtype)"),
        ("ef.max(x, initial=0)", "ef.maximum(x.max(), initial)"),
        ("ef.nn.Conv2d(3, strides=2, **{'padding': 1})", "use stride= instead of strides="),
        ("ef.Accumulator(x).add(x)", "a value of an earlier step is dropped"),
    ],
)
def test_the_remedy(call: str, remedy: str) -> None:
    schedule = ef.optim.StepSchedule(0.1, step_size=30)
    optimiser = ef.optim.SGD([ef.Variable(1.0)], lr=lambda n: 0.1)
    names = {"ef": ef, "math": math, "x": ef.ones(3), "v": ef.Variable(1.0), "schedule": schedule}
    names["optimiser"] = optimiser
    with pytest.raises(TypeError) as caught:
        eval(call, names)
    assert remedy in _note(caught.value)


@pytest.mark.parametrize(
    ("call", "remedies"),
    [
        (
            "ef.sum(x, dim=0, keepdim=True)",
            ["use axis= instead of dim=", "use keepdims= instead of keepdim=: sum(x, /, axis=None"],
        ),
        (
            "ef.nn.Conv2d(3, filters=4, kernel=3, use_bias=False)",
            [
                "use out_channels= instead of filters=",
                "use kernel_size= instead of kernel=",
                "use bias= instead of use_bias=: Conv2d(in_channels, out_channels",
            ],
        ),
        (
            "ef.nn.Linear(2, 3)(x, foo=1, inplace=True, bar=2)",
            [
                "tensors are values",
                "x[...] = f(x)",
                "there is no foo=",
                "there is no bar=: layer(x",
            ],
        ),
        (
            "ef.random.uniform((2,), minval=0, seed=1)",
            ["use low= instead of minval=", "use generator= instead of seed=: uniform(shape=()"],
        ),
        (
            "ef.nn.Linear(2, 3, biass=True, units=4)",
            ["did you mean bias=?", "use out_features= instead of units=: Linear("],
        ),
        ("ef.exp(x, surely=1, unknown=2)", ["there is no surely=", "there is no unknown=: exp(x"]),
    ],
)
def test_all_keywords_that_a_call_lacks_are_told_at_once(call: str, remedies: list[str]) -> None:
    with pytest.raises(TypeError) as caught:
        eval(call, {"ef": ef, "x": ef.ones(3)})
    note = _note(caught.value)
    places = [note.find(remedy) for remedy in remedies]
    assert -1 not in places
    assert places == sorted(places)
    assert note.count("(in_channels") <= 1  # the form is told once


def test_it_is_there_when_the_error_has_passed_eagerflow() -> None:
    def wrong(x: Any) -> Any:
        return ef.sum(x, dim=0)

    class Net(ef.nn.Module):
        def forward(self, x: Any) -> Any:
            return wrong(x)

    for run in (ef.trace(wrong), ef.grad(wrong), ef.vmap(wrong), Net(), ef.trace(Net())):
        with pytest.raises(TypeError) as caught:
            run(ef.ones((2, 3)))
        assert [n.partition(":")[2] for n in caught.value.__notes__] == [
            " use axis= instead of dim=: sum(x, /, axis=None, dtype=None, *, keepdims=False)"
        ]


def test_nothing_is_said_of_what_others_wrote() -> None:
    def sum(x: Any) -> Any:  # the name of a function of eagerflow
        return x

    class Net(ef.nn.Module):
        def __init__(self, width: int) -> None:
            self.width = width

    def inner(x: Any) -> Any:
        return sum(x, dim=0)

    wrong: list[Any] = [
        lambda: sum(1, dim=0),
        lambda: Net(widht=3),
        lambda: int(kind=3),
        lambda: ef.trace(inner)(ef.ones(2)),
        lambda: len(3),
        lambda size=3: size(0),
    ]
    for call in wrong:
        with pytest.raises(TypeError) as caught:
            call()
        add_remedy(caught.value)
        assert not hasattr(caught.value, "__notes__")
    refused = ValueError("sum() got an unexpected keyword argument 'dim'")
    add_remedy(refused)
    assert not hasattr(refused, "__notes__")


def test_a_search_that_fails_leaves_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(error: TypeError) -> str:
        raise KeyError(error)

    monkeypatch.setattr(wrong_calls, "_find", search)
    with pytest.raises(TypeError) as caught:
        ef.trace(lambda x: ef.sum(x, dim=0))(ef.ones(2))
    assert not hasattr(caught.value, "__notes__")


def test_python_shows_it_and_other_hooks_stay() -> None:
    program = "import eagerflow as ef\nx = ef.ones(3)\nef.sum(x, dim=0)\n"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "use axis= instead of dim=" in shown.stderr
    other = (
        "import sys\nsys.excepthook = hook = lambda *error: None\n"
        "import eagerflow\nassert sys.excepthook is hook\n"
    )
    subprocess.run([sys.executable, "-c", other], check=True)


class _Shell:
    """What IPython offers to those that show errors."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self.custom_exceptions = kinds
        self.shown: list[BaseException] = []

    def set_custom_exc(self, kinds: tuple[type[BaseException], ...], handler: Any) -> None:
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, error: tuple[Any, BaseException, Any], tb_offset: Any) -> None:
        self.shown.append(error[1])


def test_ipython_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class IPython:
        get_ipython = staticmethod(lambda: shell)

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    shell = _Shell(KeyError)
    wrong_calls.add_remedies_where_shown(frames_hidden)
    assert shell.custom_exceptions == (KeyError,)
    shell = _Shell()
    wrong_calls.add_remedies_where_shown(frames_hidden)
    assert shell.custom_exceptions[:2] == (TypeError, AttributeError)
    with pytest.raises(TypeError) as caught:
        ef.sum(ef.ones(3), dim=0)
    shell.handler(shell, TypeError, caught.value, caught.tb)
    assert shell.shown == [caught.value]
    assert _note(caught.value).startswith("use axis=")


def test_what_is_named_is_there() -> None:
    for text in (*NOT_HERE.values(), *CALLED.values(), *CALLED_MODULES.values()):
        for path in re.findall(r"\bef\.([a-zA-Z_.]+[a-zA-Z_])", text):
            reduce(getattr, path.split("."), ef)
    functions = [*map(lookup, public()), ef.Tensor.flatten, *vars(ef.data.Dataset).values()]
    functions += [f.forward for f in functions if hasattr(f, "forward")]
    taken = {p for f in functions if callable(f) for p in inspect.signature(f).parameters}
    assert {p for ours in NAMES.values() for p in ours} <= taken
    assert refused_calls.of_argument(ef.sum, "dim", "sum") == (
        "use axis= instead of dim=: sum(x, /, axis=None, dtype=None, *, keepdims=False)"
    )


def test_a_value_that_is_called() -> None:
    profile = ef.profile()
    with pytest.raises(TypeError) as caught:
        profile.events()  # type: ignore[operator]  # as elsewhere
    assert _note(caught.value) == "profile.events is a value, without a call"


def _table(profile: Any) -> Any:
    return profile.table(limit=5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ef.cond(True, abs, abs, operands=(1,)), "operands is given by position: cond("),
        (lambda: ef.vmap(abs, chunk_size=3), "leave chunk_size= out: all rows run at once"),
        (lambda: ef.check_grads(abs, (), raise_exception=False), "leave raise_exception= out"),
        (lambda: ef.trace(abs, static_argnums=1), "use static= instead of static_argnums=: "),
        (lambda: ef.trace(abs, mode="default"), "use compile= instead of mode=: compile='now'"),
        (lambda: ef.trace(abs, ef.ones(2)), "it takes the function alone"),
        (lambda: ef.profile("name"), "it takes no arguments"),
        (lambda: _table(ef.profile()), "the call is Profile.table(), such as profile.tab"),
        (lambda: ef.diagonal(ef.ones((2, 2)), dim1=0, dim2=1), "use axis1= instead of dim1="),
    ],
)
def test_arguments_of_transforms_and_profiles(call: Any, words: str) -> None:
    with pytest.raises(TypeError) as caught:
        call()
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    note = text.partition("hint: ")[2] or _note(caught.value)
    assert note.startswith(words)
