"""`finally`, `with` and `suppress`: blocks that a failing run of the graph omits are reported."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import contextlib
import threading
import warnings
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.errors import TraceError, TraceWarning
from tests.autograph.checks import check_error

total = ef.Variable(0.0)
x = ef.tensor(1.0)
xs = ef.tensor([1.0, 2.0])


class Counting:
    """Counts the blocks that have ended."""

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        total.assign_add(1.0)  # the end


@contextlib.contextmanager
def counting() -> Any:
    try:
        yield
    finally:
        total.assign_add(1.0)  # the end


def in_finally(x):
    try:
        if x > 2:
            raise ValueError("large")  # the culprit
        return x
    finally:
        total.assign_add(1.0)  # the end


def in_finally_after_handlers(xs):
    try:
        y = xs[xs[0].astype("int64")]  # the culprit
    except KeyError:
        y = xs[0]
    finally:
        if y > 0:
            total.assign_add(1.0)  # the end
    return y


def printed(x):
    try:
        assert x < 2, "large"  # the culprit
    finally:
        print("done", x)  # the end
    return x


def in_exit(x):
    with Counting() as c, contextlib.nullcontext():
        assert isinstance(c, Counting)
        if x > 2:
            raise ValueError("large")  # the culprit
    return x


def in_a_generator(x):
    with counting():
        assert x < 2  # the culprit
    return x


def in_a_stack(x):
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: total.assign_add(1.0))  # the end
        assert x < 2  # the culprit
    return x


def in_a_loop(xs):
    for x in xs:
        with counting():
            assert x < 9  # the culprit
    return xs


def in_a_branch(x):
    if x > 0:
        with counting():
            assert x < 9  # the culprit
    return x


@pytest.mark.parametrize(
    ("function", "given"),
    [(in_finally, x), (in_finally_after_handlers, xs), (printed, x), (in_exit, x),
     (in_a_generator, x), (in_a_stack, x), (in_a_loop, xs), (in_a_branch, x)],
    ids=lambda p: getattr(p, "__name__", ""),
)  # fmt: skip
def test_what_a_run_that_fails_leaves_out_is_told_once(function, given, capsys) -> None:
    with pytest.warns(TraceWarning) as caught:
        ef.trace(function)(given)
    (text,) = [str(w.message) for w in caught]
    for words in ("code after a block does not run", "# the culprit", "# the end"):
        assert words in text


def test_strict_traces_refuse_it() -> None:
    with pytest.raises(TraceError, match="# the culprit"):
        ef.trace(in_finally, strict=True)(x)


def without_effects(x):
    try:
        assert x < 9
        y = x + 1
    finally:
        z = x * 2
    return y + z


def that_cannot_fail(x):
    try:
        y = x + 1
    finally:
        total.assign_add(1.0)
    with counting():
        return y * 2


def around_no_effects(x):
    steps = []
    with threading.Lock(), ef.name_scope("part"), contextlib.closing(Closed(steps)):
        assert x < 9
        with ef.device("cpu"), contextlib.nullcontext(x) as y:
            if y > 8:
                raise ValueError
    with contextlib.suppress(KeyError):
        steps = {}["missing"]
    return x * len(steps)


def within_a_mutex(x):
    with mutex:
        assert x < 9
        total.assign_add(x)
    return x


def of_python(x, path):
    with contextlib.suppress(TypeError, ValueError), open(path, encoding="utf-8") as file:
        return x * float(file.read())
    return -x


class Closed:
    def __init__(self, steps: list[str]) -> None:
        self.steps = steps

    def close(self) -> None:
        self.steps.append("closed")


mutex = ef.Mutex()


@pytest.mark.parametrize(
    "function",
    [without_effects, that_cannot_fail, around_no_effects, within_a_mutex],
    ids=lambda p: p.__name__,
)
def test_what_is_harmless_is_not_told(function) -> None:
    traced = ef.trace(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert str(traced(x)) == str(function(x))


@pytest.mark.parametrize("text", ["2.5", "no number"])
def test_what_python_raises_is_suppressed(text, tmp_path) -> None:
    path = tmp_path / "number"
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # files are read while tracing
        assert str(ef.trace(of_python)(x, path)) == str(of_python(x, path))


def suppressed(x):
    with contextlib.suppress(OSError, ValueError):  # the handler
        if x > 2:
            raise ValueError("large")  # the culprit
        x = x + 1
    return x


def suppressed_assertion(x):
    with counting(), contextlib.suppress(Exception):  # the handler
        assert x < 2  # the culprit
    return x


def suppressed_in_a_helper(xs):
    with contextlib.suppress(IndexError):  # the handler
        return _taken(xs, xs[0].astype("int64"))
    return xs[0]


def _taken(xs, i):
    return xs[i]  # the culprit


@pytest.mark.parametrize(
    ("function", "given"),
    [(suppressed, x), (suppressed_assertion, x), (suppressed_in_a_helper, xs)],
    ids=lambda p: getattr(p, "__name__", ""),
)
def test_what_only_the_graph_raises_is_not_left_to_suppress(function, given) -> None:
    check_error(function, (given,), ["# the culprit", "# the handler"])


def factor(a):
    try:
        return ef.linalg.cholesky(a)  # the culprit
    except ValueError:  # the handler
        return ef.linalg.cholesky(a + ef.eye(2))


def test_a_matrix_that_is_not_positive_definite_is_not_left_to_a_handler() -> None:
    check_error(factor, (ef.eye(2),), ["TensorValueError", "# the culprit", "# the handler"])


def test_errors_of_context_managers_are_those_of_python() -> None:
    def f(x):
        with x:
            return x + 1

    with pytest.raises(TypeError) as eager:
        f(x)
    with pytest.raises(TypeError) as traced:
        ef.trace(f)(x)
    assert str(traced.value) == str(eager.value)


def test_threads_do_not_meet_in_each_others_blocks() -> None:
    inside, left = threading.Event(), threading.Event()
    threads: list[Any] = []

    def maker(x: Any) -> Any:
        def later() -> None:
            with contextlib.nullcontext():
                inside.set()
                left.wait(10)

        threads.append(threading.Thread(target=later))
        return x if x > 0 else -x

    def begin() -> Any:
        threads[0].start()
        inside.wait(10)
        return contextlib.nullcontext()

    def end() -> Any:
        left.set()
        threads[0].join()
        return contextlib.nullcontext()

    def first(xs: Any) -> Any:
        with begin(), contextlib.suppress(IndexError), end():
            xs = ef.take(xs, ef.tensor([7]))
        return xs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TraceWarning)  # of threads in traced functions
        ef.trace(maker)(x)
        with pytest.raises(TraceError, match="is raised when the graph runs"):
            ef.trace(first)(xs)
