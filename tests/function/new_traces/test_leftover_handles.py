"""First calls of functions with effects that no run of a graph can repeat."""

from __future__ import annotations

import itertools
import queue
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

import eagerflow as ef
from eagerflow.capture.access_paths import AccessPath
from eagerflow.errors import TraceError, TraceWarning


class Thing:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def _made() -> Any:
    return SimpleNamespace(n=1, rate=0.5, one=None, table={"a": 1.5}, w=ef.tensor([1.0, 2.0]))


def _is_untouched(made: Any, w: Any) -> bool:
    return repr(made) == repr(_made()) and made.w is w and list(vars(made)) == list(vars(_made()))


def test_all_is_undone_where_something_cannot_keep_a_number() -> None:
    made = _made()
    w, hidden = made.w, queue.SimpleQueue[Any]()

    @ef.trace
    def f(x: Any, k: int) -> Any:
        made.n += 1
        made.table["b"] = x * made.rate
        hidden.put(itertools.repeat(k, 2))
        made.w[0] = 5.0
        return x * k

    with pytest.raises(TraceError, match="a repeat keeps a number of the trace"):
        f(ef.tensor([1.0, 2.0]), 3)
    assert _is_untouched(made, w)


def test_what_is_kept_twice_is_refused_where_one_place_gives_nothing_back() -> None:
    made = _made()
    w, hidden = made.w, queue.SimpleQueue[Any]()

    @ef.trace
    def f(x: Any) -> Any:
        made.one = Thing(x=x)
        hidden.put(x * 2)
        return x

    with pytest.raises(TraceError, match="or take it back to let the function itself do the call"):
        f(ef.tensor([1.0, 2.0]))
    assert _is_untouched(made, w)


def test_what_the_function_did_until_it_raised_stays() -> None:
    made = _made()

    @ef.trace
    def f(x: Any, i: Any, items: list[Any]) -> Any:
        made.n += 1
        made.one = Thing(x=x * made.rate, items=items)
        made.table["b"] = made.one
        made.w += x
        items.append(made.one)
        return x[i]

    items: list[Any] = []
    with pytest.raises(IndexError):
        f(ef.tensor([1.0, 2.0]), ef.tensor(7), items)
    assert items == [made.one] == [made.table["b"]]
    assert made.n == 2
    assert made.one.x.tolist() == [0.5, 1.0]
    assert made.one.items is items
    assert made.w.tolist() == [2.0, 4.0]


def test_nothing_is_done_where_only_the_graph_is_asked_for() -> None:
    made = _made()
    w = made.w

    @ef.trace
    def f(x: Any) -> Any:
        made.one = Thing(x=x * made.rate)
        return x

    assert f.graph(ef.tensor([1.0, 2.0])).inputs
    assert _is_untouched(made, w)


@pytest.mark.filterwarnings("ignore::eagerflow.errors.RetraceWarning")
def test_a_loss_can_be_differentiated_by_what_is_kept() -> None:
    made = _made()

    @ef.trace
    def f(x: Any) -> Any:
        made.one = Thing(y=x * 2)
        return (made.one.y * x).sum()

    for k in (1.0, 2.0):
        x = ef.tensor([k, 2.0])
        with ef.GradientTape(persistent=True) as tape:
            tape.watch(x)
            loss = f(x)
        assert tape.gradient(loss, x).tolist() == [4 * k, 8.0]
        assert tape.gradient(loss, made.one.y).tolist() == [k, 2.0]


def test_what_an_object_of_c_keeps_of_an_argument_has_its_value() -> None:
    hidden: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @ef.trace
    def f(x: Any) -> Any:
        hidden.put(x)
        return x * 2

    x = ef.tensor([1.0, 2.0])
    with pytest.warns(TraceWarning, match="a SimpleQueue has a state"):
        f(x)
    assert hidden.get().tolist() == [1.0, 2.0]


# --- cost ---------------------------------------------------------------------------------------


def _reads(count: int) -> int:
    """How often something outside is read, where arguments and names of a tensor are so many."""
    held = [ef.tensor([1.0])] * count
    f = ef.trace(lambda *xs: [x + y for x, y in zip(xs, held, strict=True)])
    right, reads = AccessPath.get, itertools.count()

    def get(path: AccessPath, *start: Any) -> Any:
        next(reads)
        return right(path, *start)

    with patch.object(AccessPath, "get", get):
        f(*[ef.tensor([float(i)]) for i in range(count)])
    return next(reads)


def test_arguments_are_looked_for_outside_at_once() -> None:
    assert 0 < _reads(40) < 5 * _reads(10)
