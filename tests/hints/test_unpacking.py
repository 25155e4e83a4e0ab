"""Results unpacked as in other frameworks: one tensor would be divided along its first axis."""

from __future__ import annotations

import warnings
from sys import getrefcount
from types import SimpleNamespace
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import EagerflowError, GradientError, GradientWarning, TensorValueError
from eagerflow.hints import unpacking

MHA = ef.nn.MultiHeadAttention(8, 2)


def loss_of(w: Any, b: Any) -> Any:
    return (w * w).sum() + b.sum()


STEP = ef.value_and_grad(loss_of)


@pytest.fixture(autouse=True)
def unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "_said", {})


def line_of(error: BaseException) -> str:
    assert isinstance(error, EagerflowError)
    assert error.source is not None
    return error.source.text


class Net(ef.nn.Module):
    def __init__(self) -> None:
        self.attention = MHA

    def forward(self, x: Any) -> Any:
        out, _weights = self.attention(x, x, x)
        return out


@pytest.mark.parametrize("batch", [2, 3])
@pytest.mark.parametrize("call", [Net(), ef.trace(Net())], ids=["eager", "traced"])
def test_the_output_of_an_attention(call: Any, batch: int) -> None:
    with pytest.raises(TensorValueError, match="gives one tensor, which is unpacked") as caught:
        call(ef.ones((batch, 5, 8)))
    assert line_of(caught.value) == "out, _weights = self.attention(x, x, x)"
    assert "out = attention(x), of x [batch, length, embed_dim]" in str(caught.value.hint)


def test_a_tensor_may_be_unpacked() -> None:
    out = MHA(ef.ones((2, 5, 8)))
    first, second = out
    assert (first.shape, second.shape) == ((5, 8), (5, 8))
    low, high = ef.ones((2, 4)).max(axis=1)
    (a, b), c = ef.ones((2, 2)) * 2, 3
    assert float(low + high + a.sum() + b.sum()) + c == 13
    (x, y), _ = divmod(ef.tensor([5, 7]), 2)
    assert (int(x), int(y)) == (2, 3)


def _nested(w: Any, b: Any) -> Any:
    _, (dw, db) = STEP(w, b)
    return dw, db


def _in_place(w: Any, b: Any) -> Any:
    dw, db = ef.grad(loss_of)(w, b)
    return dw, db


def _traced(w: Any, b: Any) -> Any:
    step = ef.trace(STEP)
    (
        _,
        (dw, db),
    ) = step(w, b)
    return dw, db


@pytest.mark.parametrize("program", [_nested, _in_place, _traced, ef.trace(_nested)])
@pytest.mark.parametrize("shape", [(), (3,), (1, 4)])
def test_a_gradient_by_one_argument_that_is_not_as_long(program: Any, shape: Any) -> None:
    with pytest.raises(GradientError, match="by one argument is unpacked into 2") as caught:
        program(ef.ones(shape), ef.tensor(0.0))
    assert "argnums=(0, 1)" in str(caught.value.hint)


def test_a_gradient_whose_rows_are_unpacked_warns() -> None:
    with pytest.warns(GradientWarning, match=r"argnums=\(0, 1\)") as caught:
        _nested(ef.ones((2, 4)), ef.tensor(0.0))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a, b = _nested(ef.ones(2), ef.tensor(0.0))  # the numbers of a vector
        assert float(a + b) == 4
        _, (dw, db) = ef.value_and_grad(loss_of, argnums=(0, 1))(ef.ones((2, 4)), ef.ones(3))
        assert (dw.shape, db.shape) == ((2, 4), (3,))


def _beside(w: Any, b: Any) -> Any:
    (_, (more, rest)), _ = ef.value_and_grad(
        lambda w, b: (loss_of(w, b), w * 2), has_aux=True
    )(w, b)  # fmt: skip
    return more, rest


def _of_a_part(w: Any, b: Any) -> Any:
    _, (dv, (first, second)) = ef.value_and_grad(lambda p, b: loss_of(p[1], b) + p[0])((b, w), b)
    return dv + first, second


def _of_samples(w: Any, b: Any) -> Any:
    each = ef.vmap(ef.grad(loss_of), in_axes=(0, None))
    first, second = each(w, b)
    return first, second


@pytest.mark.parametrize("program", [_beside, _of_a_part, _of_samples])
def test_what_is_no_gradient_by_one_argument(program: Any) -> None:
    for call in (program, ef.trace(program)):
        assert [x.shape for x in call(ef.ones((2, 4)), ef.tensor(0.0))] == [(4,), (4,)]


def test_a_gradient_beside_other_results() -> None:
    def f(w: Any, b: Any) -> Any:
        return loss_of(w, b), w * 2

    w, b = ef.ones(3), ef.tensor(0.0)
    with pytest.raises(GradientError, match="by one argument is unpacked into 2"):
        (_, _), (_dw, _db) = ef.value_and_grad(f, has_aux=True)(w, b)
    with pytest.raises(GradientError, match="by one argument is unpacked into 2"):
        (_dw, _db), _ = ef.grad(f, has_aux=True)(w, b)


def test_variables_of_who_unpacks_are_not_kept_alive() -> None:
    def first(x: Any, _y: Any) -> Any:
        return x

    held = ef.ones(3)
    before = getrefcount(held)
    for x in (ef.ones(2), ef.ones((2, 3)), ef.ones((2, 3, 4))):
        _a, _b = first(x, held)
    assert getrefcount(held) == before


class Peculiar:
    """A callable whose class has ideas of its own about attributes and comparisons."""

    __module__ = None  # type: ignore[assignment]  # as of classes that are made at run time
    __hash__ = None  # type: ignore[assignment]  # as where == compares elements

    def __call__(self, x: Any) -> Any:
        return x if isinstance(x, ef.Tensor) else self

    def __getattr__(self, name: str) -> Any:
        raise KeyError(name)

    def __eq__(self, other: object) -> Any:
        raise ValueError("elements cannot be compared")


def test_nothing_is_asked_of_what_is_called() -> None:
    call = Peculiar()
    held = SimpleNamespace(call=call)
    first, second = held.call(ef.ones((2, 3)))
    third, fourth = call(loss_of)(ef.ones((2, 3)))
    assert [x.shape for x in (first, second, third, fourth)] == [(3,)] * 4


def test_numbers_of_a_vector_are_unpacked_without_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by `dx, dv = slope(x, v)` in each step of a solver."""
    asked: list[Any] = []
    monkeypatch.setattr(unpacking, "value_at", lambda *given: asked.append(given))
    x, y = ef.grad(loss_of)(ef.ones(2), ef.tensor(0.0))
    assert float(x + y) == 4
    assert not asked


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace], ids=["eager", "traced"])
def test_values_and_indices_of_two_rows(wrap: Any) -> None:
    @wrap
    def of_two_rows(x: Any) -> Any:
        values, _order = ef.sort(x, 1)
        low, high = x.max(1)  # numbers, such as bounds of points
        return values.sum() + low + high

    with pytest.warns(UserWarning, match="sort gives one tensor") as caught:
        of_two_rows(ef.ones((2, 3)))
    (warning,) = caught
    assert warning.filename == __file__
    assert "ef.argsort(x, axis)" in str(warning.message)


def test_values_and_indices() -> None:
    x = ef.ones((3, 4))
    with pytest.raises(TensorValueError, match="max gives one tensor, which is unpacked") as caught:
        _values, _indices = (x * 2).max(1)
    assert "ef.argmax(x, axis)" in str(caught.value.hint)
    with pytest.raises(TensorValueError, match="median gives one tensor"):
        _values, _indices = ef.median(x, 1)
    with pytest.raises(ValueError, match="too many values to unpack"):
        _a, _b = ef.exp(x)
