"""Hints where a dict of variables or gradients is iterated over as if it were a list."""

from __future__ import annotations

import linecache
import re
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.hints import iterated_dicts
from eagerflow.hints.lookahead.rest_of_source import rest_of_source
from eagerflow.source import users_frame

_BEFORE = """\
import copy
import eagerflow as ef
net = ef.nn.Linear(2, 3)
ema = copy.deepcopy(net)
fit = ef.trace(ef.value_and_grad(lambda x: net(x).sum(), wrt=net.trainable))
rows = ef.value_and_grad(lambda x: net(x).sum(), wrt=[*net.trainable.values()])
"""
_CALLS = """\
def train(x):
    loss, g = fit(x)
    clipped, norm = ef.optim.clip_by_global_norm(g, 1.0)
    loss, listed = rows(x)
    direct = ef.grad(lambda: loss_fn(x), wrt=net.trainable)()
    acc = None
    acc = g if acc is None else [a + b for a, b in zip(acc, g)]
"""
_TEXT = "net.trainable and the gradients by it are dicts, and iterating gives their names: "


def _error(source: str) -> Exception:
    linecache.cache["<dicts>"] = (len(source), None, source.splitlines(keepends=True), "<dicts>")
    try:
        exec(compile(source, "<dicts>", "exec"), {"__name__": "__main__"})
    except Exception as error:
        return error
    raise AssertionError(source)


def _rest(line: str) -> str:
    body = "".join(f"    {each}\n" for each in line.splitlines())
    error = _error(_BEFORE + _CALLS.partition("    acc =")[0] + body + "ef.manual_seed(0)\n")
    return str(rest_of_source(error, users_frame(error)))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("s = [a + b for a, b in zip(clipped, g)]", "zip(clipped, g)"),
        ("s = [0.5 * a for a in g]", "g"),
        ("s = [-a for a in direct]", "direct"),
        ("s = sum(ef.sum(a) for a in g)", "g"),
        ("for p, d in zip(net.trainable, listed):\n    p.assign(p - d)", "zip(net.trainable, list"),
        ("for i, p in enumerate(net.trainable):\n    print(p.shape)", "enumerate(net.trainable)"),
        ("for e, p in zip(ema.trainable, net.trainable):\n    e.assign(p)", "zip(ema.trainable, "),
        ("for e, p in zip(ema.buffers, net.buffers):\n    e.assign(p)", "zip(ema.buffers, net.b"),
    ],
)
def test_a_line_of_the_source(line: str, shown: str) -> None:
    assert re.search(rf"line 12: {re.escape(shown)}.*: {re.escape(_TEXT)}", _rest(line))


@pytest.mark.parametrize(
    "line",
    [
        "s = {k: g[k] + clipped[k] for k in g}",
        "s = [0.5 * a for a in listed]",
        "s = [0.5 * a for a in g.values()]",
        "for name in net.trainable:\n    print('of ' + name, name.upper())",
        "for name, p in zip(net.trainable, listed):\n    print(name, p.shape)",
        "for name in g:\n    with ef.name_scope(name): pass",
    ],
)
def test_names_that_are_used_as_names(line: str) -> None:
    assert "iterating" not in _rest(line)


def test_a_name_that_is_assigned_again() -> None:
    error = _error(_BEFORE + _CALLS + "ef.manual_seed(0)\n")
    assert f"line 13: zip(acc, g): {_TEXT}" in str(rest_of_source(error, users_frame(error)))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("[0.5 * a for a in g]", "g"),
        ("[a - 0.5 * b for a, b in zip(net.trainable, g)]", "net.trainable"),
        ("[a + 0.5 for a in net.parameters]", "net.parameters"),
        ("[-a for a in g]", "g"),
        ("for p in net.trainable:\n    p.assign(0.0)", "net.trainable"),
        ("for e, p in zip(ema.trainable, net.trainable):\n    e.assign(p)", "ema.trainable"),
        ("def f():\n    for p in g:\n        0.5 - p\nf()", "g"),
    ],
)
def test_the_error_of_a_line(line: str, shown: str) -> None:
    error = _error(_BEFORE + "loss, g = fit(ef.ones((1, 2)))\n" + line + "\n")
    assert isinstance(error, (TypeError, AttributeError))
    assert str(iterated_dicts.remedy(error)).startswith(f"{shown}: {_TEXT}")


@pytest.mark.parametrize(
    "line",
    [
        "[0.5 * a for a in 'text']",
        "[0.5 * a for a in {'a': 1}]",
        "for p in {'a': 1}:\n    p.assign(0)",
        "for a in g:\n    print('a' - 'b')",
        "[g[a] + {}.x for a in g]",
        "0.5 * 'text'",
    ],
)
def test_errors_about_other_text(line: str) -> None:
    error: Any = _error(_BEFORE + "loss, g = fit(ef.ones((1, 2)))\n" + line + "\n")
    assert iterated_dicts.remedy(error) is None


def test_without_a_source_nothing_is_said() -> None:
    error: Any = _error(_BEFORE + "[0.5 * a for a in net.trainable]\n")
    del linecache.cache["<dicts>"]
    assert iterated_dicts.remedy(error) is None


def test_the_line_of_the_error_is_told_once() -> None:
    error: Any = _error(_BEFORE + "[0.5 * a for a in net.trainable]\n[-a for a in net.trainable]\n")
    error.add_note(f"  hint: {iterated_dicts.remedy(error)}")
    rest = str(rest_of_source(error, users_frame(error)))
    assert "line 8: net.trainable: " in rest
    assert "line 7" not in rest


def test_a_traced_function() -> None:
    net = ef.nn.Linear(2, 3)

    @ef.trace
    def step() -> Any:
        return [0.5 * a for a in net.trainable]  # type: ignore[operator]

    with pytest.raises(TypeError) as caught:
        step()
    assert any(_TEXT in note for note in caught.value.__notes__)
