"""Containers among the arguments: the stand-ins for numbers in them."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest

from eagerflow.capture.argument_containers import ask_in_keys
from eagerflow.dims import Dim, resolving

N = Dim("n")


@pytest.mark.parametrize("kind", [dict, Counter, OrderedDict])
def test_keys(kind: Any) -> None:
    @dataclass
    class Held:
        by_size: Any

    with resolving(lambda dim, what: dim.evaluate({"n": 7})):
        made = kind()
        made["first"], made[N], made[(N, 1)] = 1, 2, 3
        ask_in_keys([Held(made)])
    assert list(map(repr, made)) == ["'first'", "7", "(7, 1)"]
    assert list(map(type, made)) == [str, int, tuple]
    assert list(made.values()) == [1, 2, 3]
