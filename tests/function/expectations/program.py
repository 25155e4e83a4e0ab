"""The rows of the table of expectations, and their runs, eager and traced.

A row is a generator function: it makes fresh state, traces functions with the `trace` that it is
given, calls them with changes in between, and yields whatever a user could look at. It runs once
with a `trace` that does nothing and once with `ef.trace`; what it yields must be the same, bit for
bit, or the row says by which error or report the user learns that it is not.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.core.tensor import Tensor
from eagerflow.errors import TraceWarning
from eagerflow.ops.names.random import default_generator
from eagerflow.types import DType

Trace = Callable[..., Any]
Steps = Iterator[Any]
Body = Callable[[Trace], Steps]

_BY_REPR = (bool, int, float, complex, str, bytes, type(None), type(...), range, slice, type, Enum)


@dataclass(frozen=True)
class Program:
    """A row of the table.

    Attributes:
        body: the program.
        traces: how many traces all of its functions make together.
        reports: words of the warnings of type `TraceWarning`, in order; no others may appear.
        frozen: the steps which, as a report says, are not those of the eager run.
        error: the class of the error that ends the traced program.
        words: texts that its message contains.
        eagerly: whether the eager program ends with the very same error.
    """

    body: Body
    traces: int
    reports: tuple[str, ...] = ()
    frozen: frozenset[int] = frozenset()
    error: type[Exception] | None = None
    words: tuple[str, ...] = ()
    eagerly: bool = False

    @property
    def name(self) -> str:
        return self.body.__name__


PROGRAMS: list[Program] = []


def program(
    traces: int = 1, *, reports: tuple[str, ...] = (), frozen: tuple[int, ...] = (),
    error: type[Exception] | None = None, words: tuple[str, ...] = (), eagerly: bool = False,
) -> Callable[[Body], Body]:  # fmt: skip
    """Enter a program into the table."""

    def enter(body: Body) -> Body:
        PROGRAMS.append(
            Program(body, traces, reports, frozenset(frozen), error, words, eagerly)
        )  # fmt: skip
        return body

    return enter


@dataclass(frozen=True)
class Run:
    """The outcome of a program.

    Attributes:
        steps: the values that it yielded, as `picture` shows them.
        error: the exception that ended it, if any.
        warnings: texts of all warnings but those of type `TraceWarning`, which are `reports`.
        traces: number of traces of all its functions.
    """

    steps: list[Any]
    error: Exception | None
    warnings: list[str]
    reports: list[str]
    traces: int


def run(body: Body, trace: Trace) -> Run:
    """Run a program and look at all that it yields."""
    made: list[Any] = []

    def tracing(fn: Any = None, **options: Any) -> Any:
        if fn is None:
            return lambda fn: tracing(fn, **options)
        traced = trace(fn, **options)
        made.append(traced)
        return traced

    ef.random.seed(0)
    steps: list[Any] = []
    error = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for step in body(tracing):
                steps.append((picture(step), default_generator().state))
        except Exception as e:
            error = e
    # NumPy warns eagerly only: generated code ignores floating-point errors for the whole run
    caught = [w for w in caught if w.category is not RuntimeWarning]
    messages = [(issubclass(w.category, TraceWarning), str(w.message)) for w in caught]
    return Run(
        steps,
        error,
        [text for report, text in messages if not report],
        [text for report, text in messages if report],
        sum(len(getattr(f, "traces", ())) for f in made),
    )


def eagerly(fn: Any, **options: Any) -> Any:
    """A stand-in for `ef.trace` that returns the function itself."""
    return fn


def attempt(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a call, or its error as the user sees it."""
    try:
        return fn(*args, **kwargs)
    except Exception as e:
        return type(e).__name__, str(e)


def picture(x: Any) -> Any:
    """The observable state of an object, comparable with ``==``."""
    if isinstance(x, (Tensor, ef.Variable)):
        return type(x).__name__, str(x.type), x.numpy().tobytes()
    if isinstance(x, ef.IndexedSlices):
        return "slices", x.shape, picture(x.values), picture(x.indices)
    if isinstance(x, (np.ndarray, np.generic)):
        return type(x).__name__, x.dtype.str, x.shape, x.tobytes()
    if isinstance(x, dict):
        return type(x).__name__, [(picture(k), picture(v)) for k, v in x.items()]
    if isinstance(x, (set, frozenset)):
        return type(x).__name__, sorted(map(repr, x))
    if isinstance(x, (list, tuple)):
        return type(x).__name__, [picture(i) for i in x]
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return type(x).__name__, picture(vars(x))
    # the type itself, since a number in a trace claims to be an int
    assert issubclass(type(x), _BY_REPR) or isinstance(x, DType), f"{type(x)} in a step"
    return type(x).__name__, repr(x)
