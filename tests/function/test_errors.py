"""Errors of traced code: they name the line of the op, not of the call, and change no state."""

from __future__ import annotations

import queue
import time

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says


def _line_of(caught: pytest.ExceptionInfo[errors.EagerflowError]) -> str:
    assert caught.value.source is not None
    source = caught.value.source
    return source if isinstance(source, str) else source.text


# --- while tracing ------------------------------------------------------------------------------


def test_shapes_that_do_not_fit() -> None:
    @ef.trace
    def f(x, y):
        h = x * 2
        return h + y  # the culprit

    with pytest.raises(errors.ShapeError, match="add: shapes cannot be broadcast") as caught:
        f(ef.ones(2), ef.ones(3))
    assert _line_of(caught) == "return h + y  # the culprit"
    assert f(ef.ones(2), ef.ones(2)).tolist() == [3.0, 3.0]


def test_a_helper_is_named_not_its_caller() -> None:
    def helper(x):
        return x & 1.5  # the culprit

    @ef.trace
    def f(x):
        return helper(x)

    with pytest.raises(errors.DTypeError) as caught:
        f(ef.ones(2))
    assert _line_of(caught) == "return x & 1.5  # the culprit"


@pytest.mark.parametrize(
    ("ask", "words", "remedy"),
    [
        (lambda x: [*filter(None, [x.sum()])], "bool() of a tensor", "ef.where(condition, a, b)"),
        (lambda x: list(range(ef.argmax(x))), "index() of a tensor", "x.shape[i]"),
        (lambda x: int(x.sum()), "int() of a tensor", "use the tensor itself"),
        (lambda x: float(x.sum()), "float() of a tensor", "ef.py_call"),
        (lambda x: x.numpy(), "numpy() of a tensor", "outside of the traced function"),
        (lambda x: np.sin(x), "numpy.asarray() of a tensor", "eagerflow's function"),
        (lambda x: x.sum().item(), "item() of a tensor", "outside of the traced function"),
        (lambda x: x.tolist(), "tolist() of a tensor", "outside of the traced function"),
    ],
)
def test_python_that_asks_for_a_value(ask, words, remedy) -> None:
    @ef.trace
    def f(x):
        return ask(x)

    with pytest.raises(errors.TraceError) as caught:
        f(ef.ones(2))
    text = str(caught.value)
    assert words in text
    assert remedy in text
    assert "known only when the graph runs" in text
    assert "(lambda x:" in _line_of(caught)


def test_what_follows_from_constants_is_known() -> None:
    @ef.trace
    def f(x):
        table = ef.cumulative_sum(ef.arange(4))
        return x * int(table[3]) if float(ef.exp(ef.tensor(0.0))) == 1.0 else x

    assert f(ef.tensor(2.0)).item() == 12.0


# --- while running ------------------------------------------------------------------------------


def test_sizes_that_do_not_fit_after_all() -> None:
    @ef.trace
    def f(x, y):
        h = x * 2
        return h + y  # the culprit

    for n in (2, 3):
        f(ef.ones(n), ef.ones(n))
    with pytest.raises(errors.ShapeError, match="add: shapes cannot be broadcast") as caught:
        f(ef.ones(4), ef.ones(5))
    assert _line_of(caught) == "return h + y  # the culprit"
    assert "f32[4]" in str(caught.value)
    assert "f32[5]" in str(caught.value)
    assert any("add" in note for note in caught.value.__notes__)


def test_an_index_out_of_range() -> None:
    @ef.trace
    def f(x, i):
        return x[i] * 2  # the culprit

    with pytest.raises(errors.TensorIndexError, match="out of range") as caught:
        f(ef.ones(3), ef.tensor(7))
    assert _line_of(caught) == "return x[i] * 2  # the culprit"


def test_a_step_that_fails_lists_what_it_had_written() -> None:
    v = ef.Variable(1.0, name="weight")

    @ef.trace
    def f(x, i):
        v.assign_add(1.0)
        return x[i]

    with pytest.raises(errors.TensorIndexError) as caught:
        f(ef.ones(3), ef.tensor(7))
    assert v.value.item() == 2.0
    assert any("weight" in note for note in caught.value.__notes__)


def test_a_number_that_does_not_fit() -> None:
    @ef.trace
    def f(x, k):
        return x + k  # the culprit

    x = ef.tensor([1], dtype=ef.int8)
    assert f(x, 3).tolist() == [4]
    with pytest.raises(errors.TensorValueError, match="300 does not fit into int8") as caught:
        f(x, 300)
    assert _line_of(caught) == "return x + k  # the culprit"


# --- leaks --------------------------------------------------------------------------------------


def test_a_leaked_tensor_names_function_and_line() -> None:
    leaks = queue.SimpleQueue()

    @ef.trace
    def f(x):
        h = ef.exp(x)  # it is made here
        leaks.put(h)
        return float(h.sum())

    with pytest.raises(errors.TraceError, match="known only when the graph runs"):
        f(ef.ones(2))
    leaked = leaks.get()
    for use in (lambda: leaked + 1, leaked.numpy, lambda: float(leaked.sum()), lambda: leaked[0]):
        with pytest.raises(errors.LeakedTensorError, match="a trace which has ended") as caught:
            use()
        assert "the traced function f" in str(caught.value)
        assert "h = ef.exp(x)  # it is made here" in str(caught.value)
    assert repr(leaked) == "Tensor(f32[2]@cpu:0)"


def test_a_leaked_tensor_does_not_get_into_another_trace() -> None:
    leaks = queue.SimpleQueue()

    @ef.trace
    def f(x):
        leaks.put(x)
        return float(x.sum())

    with pytest.raises(errors.TraceError, match="known only when the graph runs"):
        f(ef.ones(2))
    leaked = leaks.get()

    with pytest.raises(errors.LeakedTensorError, match="an argument of the traced function f"):
        ef.trace(lambda x: x + leaked)(ef.ones(2))


# --- state after an error -----------------------------------------------------------------------


def test_an_error_leaves_all_as_it_was() -> None:
    class Model:
        def __init__(self) -> None:
            self.w = ef.tensor([1.0, 2.0])
            self.rate = 0.5
            self.count = 0

        @ef.trace
        def step(self, x):
            self.count += 1
            self.w[0] = 9.0
            history.append(self.w)
            return x * self.rate * int(x.sum())

    history: list[object] = []
    model, x = Model(), ef.tensor([1.0, 1.0])
    data = model.w._data
    with pytest.raises(errors.TraceError, match=r"int\(\)"):
        model.step(x)
    assert model.w._data is data
    assert model.w.tolist() == [1.0, 2.0]
    assert (type(model.rate), model.rate, model.count) == (float, 0.5, 0)
    assert history == []
    assert Model.step.traces == ()


def test_strict_refuses_what_would_be_frozen() -> None:
    @ef.trace(strict=True)
    def f(x):
        return x * time.time()  # the culprit

    with pytest.raises(errors.TraceError, match="strict=True") as caught:
        f(ef.tensor(1.0))
    assert "time.time" in str(caught.value)
    assert _line_of(caught) == "return x * time.time()  # the culprit"


def test_strict_refuses_a_change_that_cannot_be_repeated() -> None:
    made: list[object] = []

    @ef.trace(strict=True)
    def f(x):
        made.append(object())
        return x

    with pytest.raises(errors.TraceError, match="made: items are appended"):
        f(ef.tensor(1.0))
    assert made == []


# --- wrong use ----------------------------------------------------------------------------------


def test_what_cannot_be_traced() -> None:
    def numbers():
        yield 1

    async def later():
        return 1

    for wrong, words in [
        (ef.ones((2, 2)), r"ef\.linalg\.trace\(x\)"),
        (numbers, "a generator"),
        (later, "a coroutine"),
        (3, "captures functions"),
        (dict, "the class dict"),
        (classmethod(lambda cls: 1), "put @classmethod above @ef.trace"),
    ]:
        with pytest.raises(errors.TraceError, check=says(words)):
            ef.trace(wrong)
    with pytest.raises(errors.TraceError, match="static='k' is not a parameter"):
        ef.trace(static="k")(lambda x: x)
    with pytest.raises(errors.TraceError, match="compile='later'"):
        ef.trace(lambda x: x, compile="later")


def test_wrong_arguments_are_pythons_own_error() -> None:
    @ef.trace
    def f(x, y=1):
        return x

    with pytest.raises(TypeError, match=r"f\(\) missing 1 required positional argument: 'x'"):
        f()
    with pytest.raises(TypeError, match=r"f\(\) got an unexpected keyword argument 'z'"):
        f(ef.ones(1), z=2)


def test_an_iterator_would_be_used_up() -> None:
    f = ef.trace(lambda xs: sum(xs))
    with pytest.raises(errors.TraceError, match="the argument xs is an iterator"):
        f(iter([ef.ones(1)]))
    assert f([ef.ones(1), ef.ones(1)]).tolist() == [2.0]


def test_a_variable_made_inside_cannot_leave() -> None:
    f = ef.trace(lambda x: ef.Variable(x))
    with pytest.raises(errors.TraceError, match="returns a variable that it makes"):
        f(ef.ones(1))


def test_an_array_of_numpy_is_not_written_into() -> None:
    @ef.trace
    def f(x):
        x[0] = 5.0
        return x

    array = np.ones(2, dtype=np.float32)
    with pytest.raises(errors.TraceError, match=r"others may see[\s\S]*ef.asarray\(x\)"):
        f(array)
    assert array.tolist() == [1.0, 1.0]


def test_a_strict_trace_shows_what_the_function_raises() -> None:
    v = ef.Variable([0.0, 0.0])

    @ef.trace(strict=True)
    def f(x) -> None:
        v.assign_add(x)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        f(ef.tensor([1.0, 2.0]))
    assert v.tolist() == [1.0, 2.0]


def test_a_graph_that_raises_where_the_function_does_not_is_told_of() -> None:
    log = [0]

    @ef.trace
    def f(x):
        log[0] = log[0] + 1
        return x * 2

    f(ef.ones(2))

    def broken(*inputs):
        raise ValueError("a defect")

    (entry,) = f._lookup.cache.entries()
    entry.run_raw = broken
    with pytest.warns(errors.TraceWarning, match="its graph raised ValueError"):
        assert f(ef.ones(2)).tolist() == [2.0, 2.0]
    assert log == [2]
