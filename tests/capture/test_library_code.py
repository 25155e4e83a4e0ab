"""Functions of Python's library and of NumPy that may require exact Python numbers."""

from __future__ import annotations

import collections
import copy
import datetime
import decimal
import functools
import itertools
import json
import logging
import math
import random
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.capture.library_code import may_look_at_types

EXACT: list[Any] = [
    json, json.dumps, json.JSONEncoder().encode.__func__, decimal.Decimal, datetime.timedelta,
    datetime.datetime.fromtimestamp, decimal.Decimal(1).quantize, statistics.mean, random.Random,
    np, np.arange, np.random.default_rng, np.add, int.bit_length, float.hex, int.__add__,
]  # fmt: skip
FOR_ALL: list[Any] = [
    math, math.sqrt, len, print, dict, int, [].append, "a".join, str.upper, collections.Counter,
    itertools.accumulate, functools.reduce, copy.deepcopy, logging.info, ef.exp, ef.tensor(1.0),
    None, 3, collections.Counter().update.__func__,
]  # fmt: skip


def users(x: Any) -> Any:
    return x


def _name(value: object) -> str:
    return str(getattr(value, "__qualname__", value))


@pytest.mark.parametrize("value", EXACT, ids=_name)
def test_exact(value: Any) -> None:
    assert may_look_at_types(value)


@pytest.mark.parametrize("value", [*FOR_ALL, users, Callable, lambda: 0], ids=_name)
def test_what_takes_all(value: Any) -> None:
    assert not may_look_at_types(value)


def test_no_attribute_of_the_user_is_run() -> None:
    class Config(dict[str, Any]):
        __getattr__ = dict.__getitem__

    assert not may_look_at_types(Config(rate=0.5))
