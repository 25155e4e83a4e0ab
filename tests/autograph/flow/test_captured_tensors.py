"""Loops over captured tensors become loops of the graph, like loops over arguments."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import itertools

import pytest

import eagerflow as ef
from tests.messages import points_at

xs = ef.tensor([1.0, 2.0, 3.0])
order = ef.tensor([0, 2, 1])
rows = ef.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
none = ef.zeros((0, 2))
names = ["a", "b", "c"]


class Model:
    data = rows

    def __init__(self) -> None:
        self.own = xs


model = Model()


def over_a_global(w):
    h = ef.zeros(2)
    for row in rows:
        h = ef.tanh(h * w + row)
    return h


def over_attributes(w):
    h = w
    for row, x in zip(model.data, model.own, strict=True):
        h = ef.tanh(h * x + row.sum())
    return h


def enumerated(w):
    kept = []
    for i, x in enumerate(reversed(xs)):
        kept.append(x * w + i)
    return ef.stack(kept)


def with_breaks(w):
    for x in xs:
        if x > 2.5:
            break
        w = w * x
    return w, x


def in_comprehensions(w):
    return ef.stack([x * w for x in xs if x > 1]), [x + w for x in xs][2]


def reduced(w):
    return max(x * w for x in xs), sum(x * w for x in xs)


def nested(w):
    for x in xs:
        for y in xs:
            w = w + x * y
        w += 1
    return w


def derivative(w):
    def loss(w):
        for x in xs:
            w = ef.tanh(w * x + x)
        return w

    return ef.grad(loss)(w), ef.grad(ef.grad(loss))(w), ef.jvp(loss, (w,), (w,))


@pytest.mark.parametrize(
    "function",
    [over_a_global, over_attributes, enumerated, with_breaks, in_comprehensions, reduced, nested,
     derivative],
)  # fmt: skip
def test_is_a_loop_of_the_graph(function) -> None:
    traced = ef.trace(function)
    for w in (ef.tensor(0.5), ef.tensor(2.0)):
        assert str(traced(w)) == str(function(w))
    assert "unrolled" not in str(traced.explain())
    assert any(node.op in ("scan", "while_loop") for node in traced.graph(ef.tensor(0.5)).nodes)


def by_python_index(w):
    for i, x in enumerate(xs):
        w = w + x * [1.0, 2.0, 3.0][i]
    return w


def with_a_dict(w):
    return {name: x * w for name, x in zip(names, xs, strict=True)}


def from_none_on(w):
    h = None
    for x in xs:
        h = x * w if h is None else h * x
    return h


def with_numbers_without_an_end(w):
    for x, n in zip(xs, itertools.count()):
        w = w + x * n
    return w


def with_few_items(w):
    for x, n in zip(xs, iter([1.0, 2.0])):
        w = w + x * n
    return w


def with_functions(w):
    kept = []
    for x in xs:
        kept.append(lambda y, x=x: y * x)
    return kept[1](w)


def of_no_rows(w):
    for row in none:
        w = w + row
    return w


def unpacked(w):
    a, b, c = xs
    return a + b * c + w


def by_an_iterator(w):
    items = iter(xs)
    w = w * next(items)
    for x in items:
        w = w * 10 + x
    return w


def strict(w):
    for x, n in zip(xs, [1, 2], strict=True):
        w = w + x * n
    return w


def of_constants(w):
    for i in ef.tensor([0, 2, 1]):
        w = w + [1.0, 2.0, 3.0][int(i)]
    return w


@pytest.mark.parametrize(
    "function",
    [by_python_index, with_a_dict, from_none_on, with_numbers_without_an_end, with_few_items,
     with_functions, of_no_rows, unpacked, by_an_iterator, strict, of_constants],
)  # fmt: skip
def test_what_can_be_no_loop_is_eager_code(function) -> None:
    traced = ef.trace(function)
    for w in (ef.tensor(0.5), ef.tensor(2.0)):
        assert _outcome(traced, w) == _outcome(function, w)


def _outcome(function, *args):
    try:
        return str(function(*args))
    except ValueError as error:
        return str(error).partition("\n")[0]


def test_a_python_list_by_a_tensor_is_an_error() -> None:
    @ef.trace
    def f():
        return [names[i] for i in order]  # the culprit

    with pytest.raises(ef.errors.TraceError, check=points_at("the culprit")):
        f()


def test_the_graph_is_as_long_as_that_of_an_argument() -> None:
    many = ef.ones((300, 3))

    def total(rows):
        h = ef.zeros(3)
        for row in rows:
            h = ef.tanh(h + row)
        return h

    inside, outside = ef.trace(total), ef.trace(lambda: total(many))
    assert len(outside.graph().nodes) == len(inside.graph(many).nodes)


# --- variables ---------------------------------------------------------------------------------


def summed(v):
    total = ef.zeros(2)
    for row in v:
        total = total * 2 + row
    return total


def changing(v):
    total = ef.zeros(2)
    for row in v:
        total = total + row
        v.assign_add(ef.ones((3, 2)))
    return total


def differentiated(v):
    def loss():
        h = ef.zeros(2)
        for i, row in enumerate(reversed(v)):
            h = ef.tanh(h * row + i)
        return h.sum()

    return ef.value_and_grad(loss, wrt=[v])()


def broken_off(v):
    def loss():
        h = ef.zeros(2)
        for row in v:
            if row.sum() > 8:
                break
            h = ef.tanh(h + row)
        return h.sum()

    return ef.value_and_grad(loss, wrt=[v])()


def greatest(v):
    return max(row.sum() for row in v), sum(v), [row * 2 for row in v][1]


@pytest.mark.parametrize("function", [summed, changing, differentiated, broken_off, greatest])
def test_rows_of_a_variable(function) -> None:
    one, other = ef.Variable(rows), ef.Variable(rows)
    traced = ef.trace(function)
    for _ in range(2):
        assert str(traced(one)) == str(function(other))
        assert one.numpy().tolist() == other.numpy().tolist()
    assert "unrolled" not in str(traced.explain())


def test_reductions_of_a_variable() -> None:
    def f(v):
        return max(v), min(v), any(v > 2), all(v)

    v = ef.Variable(xs)
    assert [float(x) for x in ef.trace(f)(v)] == [float(x) for x in f(v)]
