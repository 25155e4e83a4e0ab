"""Monkeypatched names: names of libraries, and the traced function itself."""

from __future__ import annotations

import builtins
import collections
import math
import string
import sys
import types
from unittest.mock import patch

import numpy as np

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


# --- names of libraries -----------------------------------------------------------------------


@program(traces=2)
def patched_function_of_math(trace: Trace) -> Steps:
    f = trace(lambda x: x * math.sqrt(4.0))
    yield f(x)
    with patch.object(math, "sqrt", lambda _: 7.0):
        yield f(x)
    yield f(x)


@program(traces=2)
def patched_constant_of_math(trace: Trace) -> Steps:
    f = trace(lambda x: x * math.pi)
    yield f(x)
    with patch.object(math, "pi", 3.0):
        yield f(x)


@program(traces=2)
def patched_function_of_eagerflow(trace: Trace) -> Steps:
    f = trace(lambda x: ef.exp(x))
    yield f(x)
    with patch.object(ef, "exp", lambda x: x * 7.0):
        yield f(x)


@program(traces=2)
def patched_function_of_a_part_of_numpy(trace: Trace) -> Steps:
    f = trace(lambda x: x * float(np.linalg.norm([3.0, 4.0])))
    yield f(x)
    with patch.object(np.linalg, "norm", lambda _: 7.0):
        yield f(x)


@program(traces=2)
def patched_builtin(trace: Trace) -> Steps:
    f = trace(lambda x: x * abs(-2.0))
    yield f(x)
    with patch.object(builtins, "abs", lambda _: 7.0):
        yield f(x)


@program(traces=2)
def patched_text_of_a_library(trace: Trace) -> Steps:
    f = trace(lambda x: x * len(string.digits))
    yield f(x)
    with patch.object(string, "digits", "01"):
        yield f(x)


@program(traces=2)
def patched_function_that_is_imported_inside(trace: Trace) -> Steps:
    @trace
    def f(x):
        from math import sqrt

        return x * sqrt(4.0)

    yield f(x)
    with patch.object(math, "sqrt", lambda _: 7.0):
        yield f(x)


@program(traces=2)
def patched_class_of_a_library(trace: Trace) -> Steps:
    f = trace(lambda x: x * len(collections.OrderedDict(a=1)))
    yield f(x)
    with patch.object(collections, "OrderedDict", lambda **_: [1, 2, 3]):
        yield f(x)


@program(traces=2)
def list_of_a_library(trace: Trace) -> Steps:
    f = trace(lambda x: x * len(sys.argv))
    yield f(x)
    with patch.object(sys, "argv", [*sys.argv, "more"]):
        yield f(x)


@program(traces=1)
def settings_of_a_library(trace: Trace) -> Steps:
    options = types.SimpleNamespace(rates={"a": [2.0]})
    with patch.object(string, "options", options, create=True):
        f = trace(lambda x: x * string.options.rates["a"][0])
        yield f(x)
        options.rates["a"][0] = 5.0
        yield f(x)


@program(traces=2)
def patched_constant_by_name(trace: Trace) -> Steps:
    f = trace(lambda x: x * getattr(math, "pi"))
    yield f(x)
    with patch.object(math, "pi", 3.0):
        yield f(x)


# --- the function itself ----------------------------------------------------------------------


@program(traces=2)
def own_defaults_replaced(trace: Trace) -> Steps:
    def plain(x, by=2.0, mode="a"):
        return x * by if mode == "a" else x

    f = trace(plain)
    yield f(x)
    plain.__defaults__ = (5.0, "b")
    yield f(x)


@program(traces=2)
def own_named_defaults_replaced(trace: Trace) -> Steps:
    def plain(x, *, by=2.0):
        return x * by

    f = trace(plain)
    yield f(x)
    plain.__kwdefaults__ = {"by": 5.0}
    yield f(x)


@program(traces=2)
def own_code_replaced(trace: Trace) -> Steps:
    def plain(x):
        return x * 2

    def other(x):
        return x * 3

    f = trace(plain)
    yield f(x)
    plain.__code__ = other.__code__  # as an automatic reload does
    yield f(x)
