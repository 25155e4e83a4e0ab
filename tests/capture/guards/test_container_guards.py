"""Guards of the items of containers that a function reads, and of its NumPy arrays."""

from __future__ import annotations

import collections
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.capture.findings import is_operand
from eagerflow.capture.guards.guard_choice import collect
from eagerflow.capture.reads import Reads

# mypy: disable-error-code="no-untyped-def"

weight = ef.tensor([1.0, 2.0])
config: dict[str, Any] = {"lr": 0.1, "opt": {"momentum": 0.9, "name": "sgd"}, "log": []}
sizes = [3, 4]
pair = (1, 2.0)
table = np.ones(3)
mask = np.ones(3)
long = list(range(5000))


def kinds(reads: Reads) -> dict[str, str]:
    return {r.path.text: r.kind for r in reads.reads if r.kind != "lacking"}


def kinds_of(function: Callable[..., Any]) -> dict[str, str]:
    return kinds(collect(function))


def has(function: Callable[..., Any], **expected: str) -> None:
    got = kinds_of(function)
    for name, kind in expected.items():
        assert got.get(name) == kind, got


def helper(x):
    return x


def test_constant_subscripts() -> None:
    got = kinds_of(lambda x: x * config["opt"]["momentum"] * sizes[0])
    assert got["config"] == got["config['opt']"] == "type"
    assert got["config['opt']['momentum']"] == "number"
    assert not {"config['lr']", "config['log']", "config['opt']['name']", "sizes[1]"} & got.keys()


def test_used_as_a_whole() -> None:
    got = kinds_of(lambda: [config, sizes])
    assert got["config"] == "keys"
    assert got["config['lr']"] == "number"
    assert got["sizes"] == "length"
    assert got["sizes[1]"] == "number"


def test_subscripts_elsewhere_and_whole_here() -> None:
    def f(x):
        c = config["opt"]
        return x * config["lr"] + sum(c.values())

    got = kinds_of(f)
    assert got["config"] == "type"
    assert got["config['opt']"] == "keys"
    assert got["config['opt']['name']"] == "value"


def test_only_appended() -> None:
    got = kinds_of(lambda x: config["log"].append(x))
    assert got["config"] == "type"
    losses: list[Any] = [1.0]
    assert kinds_of(lambda x: losses.append(x))["losses"] == "type"


def test_set_and_appended() -> None:
    """It is filled again with all that it held, so each item has to be as it was."""
    losses: list[Any] = [1.0, 2.0]

    def f(x):
        losses[0] = x
        losses.append(x)

    got = kinds_of(f)
    assert (got["losses"], got["losses[1]"]) == ("length", "number")


def test_list_of_layers() -> None:
    layers = [SimpleNamespace(w=weight), SimpleNamespace(w=ef.tensor(1.0))]

    def f(x):
        for layer in layers:
            x = layer.w * x
        return x

    got = kinds_of(f)
    assert got["layers"] == "length"
    assert got["layers[0].w"] == got["layers[1].w"] == "tensor"


def test_other_containers() -> None:
    names, queue = {"a", "b"}, collections.deque([weight, 2])
    data = collections.UserDict(k=0.5)
    got = kinds_of(lambda x: ("a" in names, queue[0], data["k"]))
    assert got["names"] == "items"
    assert got["queue[0]"] == "tensor"
    assert got["data.data['k']"] == "number"


def test_long_containers() -> None:
    reads = collect(lambda i: long[i])
    assert kinds(reads)["long"] == "length"
    assert [f.kind for f in reads.findings] == ["unwatched"]
    assert "long: a list of 5,000 items is too long" in str(reads.findings[0])
    assert collect(lambda: long[7]).findings == []
    plain = list(range(500))
    assert kinds_of(lambda: sum(plain))["plain"] == "items"


def test_tuples_hold_what_is_fixed() -> None:
    got = kinds_of(lambda: pair)
    assert got["pair[0]"] == got["pair[1]"] == "value"


# --- arrays of NumPy -------------------------------------------------------------------------


def _is_operand(f: Any) -> bool:
    reads = collect(f)
    has(f, table="content")
    return all(is_operand(r.path, reads) for r in reads.of_kind("content"))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ef.matmul(x, table),
        lambda: ef.asarray(table),
        lambda x: ef.add(x, ef.asarray(table)),
        lambda x: x + table * 2,
    ],
)
def test_arrays_of_which_it_is_seen_who_looks_into_them(f: Any) -> None:
    assert _is_operand(f)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * table.sum(),
        lambda x: x * table[0],
        lambda x: x + np.sin(table),
        lambda x: [row + 1 for row in table],
        lambda x: helper(table),
        lambda x: (ef.asarray(table), table.mean()),
        lambda x: ef.asarray(table if x else mask),
    ],
)
def test_arrays_that_numpy_looks_into(f: Any) -> None:
    assert not _is_operand(f)


def test_a_second_name_of_a_container() -> None:
    other = config

    def f(x):
        return x * config["lr"] * other["opt"]["momentum"]

    got = {name[name.index("[") :] for name in kinds_of(f) if "[" in name}
    assert got == {"['lr']", "['opt']", "['opt']['momentum']"}
    late = SimpleNamespace(c=config)

    def g(x):
        return config["opt"]["momentum"], late.c["opt"]["name"], late.c["lr"]

    got = {name[name.index("[") :] for name in kinds_of(g) if "[" in name}
    assert got == {"['lr']", "['opt']", "['opt']['momentum']", "['opt']['name']"}
