"""Lists of tensors against Python's lists: values, old versions, derivatives of order 1 and 2."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.core.op import bind, get_op
from eagerflow.errors import DTypeError, TensorIndexError
from eagerflow.ops.state.lists import (
    list_add,
    list_concat,
    list_new,
    list_pop,
    list_push,
    list_read,
    list_size,
    list_split,
    list_stack,
    list_unstack,
    list_write,
)
from eagerflow.types import LIST
from eagerflow_kernels.lists import ListData
from tests.ctrl_c import ctrl_c_raises, interrupted

LIKE = ef.tensor(0.0)


def _numbers(values: ef.Tensor) -> list[float]:
    return [float(x) for x in list_stack(values, LIKE).numpy()]


def _index(i: int) -> ef.Tensor:
    return ef.tensor(i)


def _erase(values: ef.Tensor, i: int) -> ef.Tensor:
    rest: ef.Tensor = bind(get_op("list_erase"), values, _index(i))
    return rest


def _cut(values: ef.Tensor, size: int) -> ef.Tensor:
    head: ef.Tensor = bind(get_op("list_cut"), values, _index(size))
    return head


def test_values() -> None:
    values = list_push(list_new(), ef.tensor(1.0), ef.tensor(2.0))
    assert values.dtype is LIST
    assert str(values.type) == "list[]@cpu:0"
    assert int(list_size(values)) == 2
    assert float(list_read(values, _index(1), LIKE)) == 2.0
    longer = list_write(values, _index(3), ef.tensor(5.0))
    assert _numbers(longer) == [1.0, 2.0, 0.0, 5.0]
    assert _numbers(_erase(longer, 0)) == [0.0, 2.0, 0.0, 5.0]
    assert _numbers(_cut(longer, 2)) == [1.0, 2.0]
    assert _numbers(_cut(longer, 9)) == [1.0, 2.0, 0.0, 5.0]
    assert _numbers(list_add(values, longer)) == [2.0, 4.0, 0.0, 5.0]
    assert _numbers(list_new(size=2)) == [0.0, 0.0]
    assert _numbers(list_unstack(ef.tensor([3.0, 4.0]))) == [3.0, 4.0]
    rest, x, y = list_pop(longer, [(), ()], [ef.float32, ef.float32])
    assert (float(x), float(y), _numbers(rest)) == (0.0, 5.0, [1.0, 2.0])


def test_rows_of_elements() -> None:
    parts = [ef.tensor([1.0, 2.0]), ef.zeros(0), ef.tensor([3.0])]
    values = list_push(list_new(), *parts)
    x = list_concat(values, parts[0].type)
    assert list(map(float, x)) == [1.0, 2.0, 3.0]
    again = list_split(x * 2, values)
    assert [
        list(map(float, list_read(again, _index(i), parts[i]))) for i in range(3)
    ] == [[2.0, 4.0], [], [6.0]]  # fmt: skip
    absent = list_concat(_erase(values, 0), parts[0].type, like=values)
    assert list(map(float, absent)) == [0.0, 0.0, 3.0]
    assert list_concat(list_new(), ef.ones((2, 3)).type).shape == (0, 3)


def test_elements_of_all_dtypes_and_shapes() -> None:
    for x in (ef.ones((2, 3), dtype=ef.bfloat16), ef.tensor(True), ef.zeros((0, 2), dtype="int8")):
        values = list_push(list_new(), x)
        y = list_read(values, _index(0), x)
        assert y.type == x.type
        assert y.numpy().tobytes() == x.numpy().tobytes()


def test_a_list_of_lists() -> None:
    inner = list_push(list_new(), ef.tensor(2.0))
    outer = list_push(list_new(), inner)
    twice = list_add(outer, outer)
    assert _numbers(list_read(twice, _index(0), inner)) == [4.0]
    assert _numbers(list_read(twice, _index(7), inner)) == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["push", "pop", "write", "erase", "cut"]), st.integers(0, 5))
    )
)
def test_all_versions_stay_as_they_were(steps: list[tuple[str, int]]) -> None:
    """A chain of changes, each to a version of any age, against dicts that are copied."""
    versions: list[tuple[ef.Tensor, dict[int, float], int]] = [(list_new(), {}, 0)]
    for number, (step, i) in enumerate(steps):
        values, items, size = versions[(number * 7 + i) % len(versions)]
        items, x = dict(items), float(number + 1)
        if step == "push":
            values, items[size], size = list_push(values, ef.tensor(x)), x, size + 1
        elif step == "pop" and size:
            values, y = list_pop(values, [()], [ef.float32])
            size -= 1
            assert float(y) == items.pop(size, 0.0)
        elif step == "write":
            values, items[i], size = (
                list_write(values, _index(i), ef.tensor(x)),
                x,
                max(size, i + 1),
            )
        elif step == "erase":
            values = _erase(values, i)
            items.pop(i, None)
        else:
            values, size = _cut(values, i), min(size, i)
            items = {k: v for k, v in items.items() if k < i}
        versions.append((values, items, size))
    for values, items, size in versions[::-1] + versions:
        assert int(list_size(values)) == size
        assert _numbers(values) == [items.get(k, 0.0) for k in range(size)]


def test_to_push_takes_the_same_time_however_long_it_is() -> None:
    """No step copies the list: a version that is no longer the newest has no dict of its own."""
    data = ListData()
    for i in range(100):
        before, data = data, data.pushed([i])
        assert before._items is None
        assert data._items is not None
    assert len(data) == 100


def test_two_lists_that_grow_from_one() -> None:
    """Neither list takes the dict from the other at each step, at a cost that would grow."""
    start = ListData()
    a, b = start.pushed([0]), start.pushed([1])
    moved = 0
    for i in range(50):
        a, b = a.pushed([i]), b.pushed([-i])
        moved += a._items is None  # b has taken the dict of a
    assert moved < 10
    assert [v for _, v in sorted(a.items())] == [0, *range(50)]
    assert [v for _, v in sorted(b.items())] == [1, *(-i for i in range(50))]
    assert len(start) == 0


def test_ctrl_c_anywhere_leaves_all_versions_as_they_were() -> None:
    """Ctrl-C comes at each place of a change in turn, also while an old version takes the dict."""

    def versions() -> list[ListData]:
        states = [ListData().pushed([0, 1, 2])]
        states.append(states[-1].pushed([3, 4]))
        states.append(states[-1].changed([1, 3, 7], [10, None, 70], 8))
        states.append(states[-1].popped(4)[0])
        return states

    def read(values: ListData) -> dict[int, int]:
        return dict(sorted(values.items()))

    want = [read(values) for values in versions()]
    calls = [
        lambda v: v.pushed([5]), lambda v: v.popped(2), lambda v: v.changed([0, 2], [None, 9], 9),
        lambda v: v.get(1), lambda v: v.items(),
    ]  # fmt: skip
    with ctrl_c_raises():
        for call in calls:
            for number in range(4):
                after, ended = 1, False
                while not ended:
                    states = versions()
                    with suppress(KeyboardInterrupt):
                        interrupted(lambda v=states[number], call=call: call(v), after)
                        ended = True
                    assert [read(v) for v in states] == want
                    assert [read(v) for v in reversed(states)] == want[::-1]
                    assert [len(v) for v in states] == [len(w) for w in want]
                    after += 1
                assert after > 4


def test_what_is_refused() -> None:
    one = list_push(list_new(), ef.tensor(1.0))
    with pytest.raises(TensorIndexError, match="pop from a list that is too short"):
        list_pop(one, [(), ()], [ef.float32, ef.float32])
    with pytest.raises(TensorIndexError, match="index 1 is out of range for a list of size 1"):
        list_read(one, _index(1), LIKE, strict=True)
    with pytest.raises(TensorIndexError, match="index 1 is out of range"):
        list_write(one, _index(1), LIKE, grow=False)
    with pytest.raises(TensorIndexError, match="index -1 is negative"):
        list_write(one, _index(-1), LIKE)
    with pytest.raises(DTypeError, match="the operand is not a list"):
        list_size(ef.tensor(1.0))
    with pytest.raises(DTypeError):
        one + one


def _ways(x: ef.Tensor) -> list[Any]:
    """Functions of a vector of three elements, each composed of other ops."""

    def pushed() -> ef.Tensor:
        values = list_push(list_unstack(x * x), x.sum(), x[0] * x[1])
        values, a, b = list_pop(values, [(), ()], [x.dtype, x.dtype])
        return list_stack(list_push(values, ef.sin(b), a * a), x[0])

    def written() -> ef.Tensor:
        values = list_write(list_unstack(x * x), _index(1), x[2] * x[0])
        values = list_write(values, _index(4), ef.exp(x[1]))
        return list_stack(_erase(values, 0), x[0]) * list_read(values, _index(2), x[0])

    def shortened() -> ef.Tensor:
        values = _cut(list_unstack(x * x), 2)
        return list_stack(list_add(values, list_unstack(ef.sin(x))), x[0], size=3)

    def joined() -> ef.Tensor:
        values = list_push(list_new(), x[:2] * x[1], x * x)
        values = list_split(ef.sin(list_concat(values, x.type)), values)
        return list_concat(values, x.type) * list_read(values, _index(0), x[:2]).sum()

    return [pushed, written, shortened, joined]


@pytest.mark.parametrize("way", range(4))
def test_derivatives(way: int) -> None:
    def f(x: ef.Tensor) -> Any:
        y = _ways(x)[way]()
        return (y * y).sum()

    def numeric(g: Any, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        eps = 1e-5
        rows = [
            (np.asarray(g(ef.tensor(x + e))) - np.asarray(g(ef.tensor(x - e)))) / (2 * eps)
            for e in np.eye(3) * eps
        ]
        return np.stack(rows)

    x = np.array([0.7, -1.2, 0.4])
    grad = ef.grad(f)
    np.testing.assert_allclose(grad(ef.tensor(x)).numpy(), numeric(f, x), rtol=1e-8)
    hessian = ef.hessian(f)
    np.testing.assert_allclose(
        hessian(ef.tensor(x)).numpy(), numeric(grad, x), rtol=1e-7, atol=1e-8
    )
    for same in (ef.trace(f), f):
        t = ef.tensor([1.0, 2.0, -1.0], dtype=ef.float64)
        _, along = ef.jvp(same, (ef.tensor(x),), (t,))
        assert abs(float(along) - float((grad(ef.tensor(x)) * t).sum())) < 1e-9
    traced = ef.trace(f)
    assert float(traced(ef.tensor(x))) == float(f(ef.tensor(x)))
    np.testing.assert_allclose(
        ef.hessian(traced)(ef.tensor(x)).numpy(), hessian(ef.tensor(x)).numpy()
    )


def test_in_a_graph() -> None:
    """Types with a list are printed, parsed, run and checked; lists are never constants of one."""

    @ef.trace
    def f(x: ef.Tensor) -> ef.Tensor:
        return list_stack(list_push(list_new(), x, x + 1.0), x)

    x = ef.ones(2)
    graph = f.graph(x)
    assert "list[]@cpu:0" in str(graph)
    assert str(ef.Graph.parse(str(graph))) == str(graph)
    assert "list_new" in [n.op for n in graph.optimise().nodes]
    for looking in (False, True):  # the checks replay the graph
        with ef.config(verify=looking, check_nan=looking):
            np.testing.assert_array_equal(f(x).numpy(), [[1, 1], [2, 2]])
