"""Warnings where a traced function takes a row of one tensor as if it were a pair."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import gc
import linecache
import warnings
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.function.new_traces import rows_of_results

x = ef.ones((3, 4))


@pytest.fixture(autouse=True)
def unsaid(monkeypatch):
    monkeypatch.setattr(rows_of_results, "_said", WeakKeyDictionary())


def straight(x):
    return x.max(-1)[0] * 2


def function(x):
    return ef.min(x, 1)[1]


def lines(x):
    return ef.max(
        x,
        -1,
    )[
        0
    ]  # fmt: skip


def branches(x):
    if x.sum() > 0:
        x = x + ef.sort(x, 1)[0]
    return x


@pytest.mark.parametrize(
    ("f", "op", "line"),
    [(straight, "max", 1), (function, "min", 1), (branches, "sort", 2), (lines, "max", 1)],
)
def test_a_row_of_a_result_along_an_axis(f, op, line):
    with pytest.warns(UserWarning, match=f"{op} gives one tensor, of which this") as caught:
        made = ef.trace(f)(x)
    assert (made == f(x)).all()
    (warning,) = caught
    assert f"two calls: ef.{op}(x, axis), ef.arg{op}(x, axis)" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, f.__code__.co_firstlineno + line)


def test_what_may_be_meant():
    table = np.ones((3, 4))

    @ef.trace
    def f(x):
        row = x.max(1)
        low = x.min(0)[0]  # of points
        return low + row[0] + x[0].sort(-1)[0] + x.sum(1)[0] + x.max(1)[2] + table.max(1)[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.max(axis=-1)[0],
        lambda x: ef.sort(x, axis=-1)[0],
        lambda x: x.max(1, keepdims=True)[0],
        lambda x: x.reshape(3, 2, 2).max(axis=(1, 2))[0],
        lambda x: x.reshape(3, 2, 2).max((1, 2))[0],
        lambda x: x.max((1,))[0],
        lambda x: ef.stack([x.max(-1)[i] for i in range(2)]),
        lambda x: x.max(-1).astype(ef.float64)[0],
        lambda x: ef.max(x)[...],
    ],
)
def test_what_is_written_as_for_numpy_may_be_meant(f):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ef.trace(f)(x)


def test_a_line_warns_once_as_long_as_its_code_is_there():
    text = "def f(x): return x.max(-1)[0]"
    linecache.cache["<cell>"] = (len(text), None, [text], "<cell>")
    names = {}
    exec(compile(text, "<cell>", "exec"), names)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        ef.trace(names["f"])(x)
        ef.trace(names["f"])(x)
    assert len(caught) == 1
    assert len(rows_of_results._said) == 1
    names.clear()
    gc.collect()
    assert len(rows_of_results._said) == 0
