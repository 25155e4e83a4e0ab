"""Operations that no trace can do: errors that name the line and the remedy, and reports."""

from __future__ import annotations

import contextlib
import logging
import queue
import random
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import eagerflow as ef
from eagerflow.errors import LeakedTensorError, TraceError
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])
m = ef.tensor([[1.0, -2.0], [0.0, 4.0]])


@program()
def if_tensor(trace: Trace) -> Steps:
    @trace
    def f(x):
        if x.sum() > 0:
            return x * 2
        return x

    yield f(x)


@program()
def while_tensor(trace: Trace) -> Steps:
    @trace
    def f(x):
        while x.sum() < 100:
            x = x * 2
        return x

    yield f(x)


@program()
def range_of_a_tensor(trace: Trace) -> Steps:
    @trace
    def f(x, n):
        for _ in range(n):
            x = x * 2
        return x

    yield f(x, ef.tensor(3))


@program(
    traces=0, error=TraceError,
    words=("bool()", "ef.where", "errors.py", "return x * next(filter(None, [x.sum(), 1.0]))"),
)  # fmt: skip
def filtered_by_a_tensor(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * next(filter(None, [x.sum(), 1.0]))

    yield f(x)


@program(traces=0, error=TraceError, words=("int()", "return x * int(n)"))
def int_of_a_tensor(trace: Trace) -> Steps:
    @trace
    def f(x, n):
        return x * int(n)

    yield f(x, ef.tensor(3))


@program(traces=0, error=TraceError, words=("float()", "ef.py_call"))
def float_of_a_result(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x / float(x.sum())

    yield f(x)


@program(traces=0, error=TraceError, words=("numpy",))
def numpy_of_a_tensor(trace: Trace) -> Steps:
    @trace
    def f(x):
        return ef.asarray(np.asarray(x) * 2)

    yield f(x)


@program(traces=0, error=TraceError, words=("numpy",))
def numpy_function_of_a_tensor(trace: Trace) -> Steps:
    @trace
    def f(x):
        return ef.asarray(np.linalg.norm(x))

    yield f(x)


@program(traces=0, error=TraceError, words=("tolist",))
def tolist_of_a_tensor(trace: Trace) -> Steps:
    @trace
    def f(x):
        return [v * 2 for v in x.tolist()]

    yield f(x)


@program(traces=1)
def float_of_a_constant_tensor(trace: Trace) -> Steps:
    @trace
    def f(x):
        scale = float(ef.tensor(2.0) * 3)
        return x * scale if ef.tensor(1) > 0 else x

    yield f(x)
    yield f(x * 2)


@program(traces=2)
def float_of_a_captured_tensor(trace: Trace) -> Steps:
    scale = ef.tensor(2.0)

    @trace
    def f(x):
        return x * float(scale)

    yield f(x)
    scale[...] = 5.0
    yield f(x)


@program(traces=1, reports=("hidden: a SimpleQueue has a state", "no trace can follow it"))
def held_by_a_hidden_object(trace: Trace) -> Steps:
    hidden = queue.SimpleQueue()

    def leaks(x):
        hidden.put(x + 1)
        return x * 2

    f = trace(leaks)
    for k in range(3):
        yield f(x * k)
        yield hidden.get() * 1


@program(traces=1)
def leaked_by_an_attribute(trace: Trace) -> Steps:
    class Model:
        @trace
        def __call__(self, x):
            self.hidden = x * 3
            return x

    model = Model()
    yield model(x)
    yield model.hidden + 1


@program(traces=1)
def leaked_by_a_closure(trace: Trace) -> Steps:
    kept = None

    @trace
    def f(x):
        nonlocal kept
        kept = x * 3
        return x

    yield f(x)
    yield kept + 1
    yield f(x * 5), kept


@program(traces=1, reports=("print runs only while tracing (use ef.print)",))
def printing(trace: Trace) -> Steps:
    @trace
    def f(x):
        print("in f")
        return x * 2

    yield f(x)
    yield f(x * 3)


@program(traces=1)
def ef_print_and_py_call(trace: Trace) -> Steps:
    seen = []

    @trace
    def f(x):
        ef.print("x:", x)
        return ef.py_call(lambda a: (seen.append(a.tolist()), a * 2)[1], "f32[2]", x)

    yield f(x), seen
    yield f(x * 3), seen


@program(
    traces=1, reports=("has a state that a trace cannot follow (use ef.random",), frozen=(1,),
)  # fmt: skip
def numpy_random_generator(trace: Trace) -> Steps:
    rng = np.random.default_rng(0)

    @trace
    def f(x):
        return x * rng.normal()

    yield f(x)
    yield f(x)


@program(traces=1, reports=("np.random.rand",), frozen=(1,))
def numpy_random(trace: Trace) -> Steps:
    np.random.seed(0)

    @trace
    def f(x):
        return x * float(np.random.rand())

    yield f(x)
    yield f(x)


@program(traces=1, reports=("random.random gives the value it had while tracing",), frozen=(1,))
def python_random(trace: Trace) -> Steps:
    random.seed(0)

    @trace
    def f(x):
        return x * random.random()

    yield f(x)
    yield f(x)


@program(traces=1, reports=("time.perf_counter gives the value it had",), frozen=(0, 1))
def reading_the_time(trace: Trace) -> Steps:
    @trace
    def f(x):
        return x * time.perf_counter()

    yield f(x)
    yield f(x)


@program(traces=1, reports=("runs only while tracing",))
def logging_inside(trace: Trace) -> Steps:
    log = logging.getLogger("tests.expectations")

    @trace
    def f(x):
        log.debug("in f")
        return x * 2

    yield f(x)
    yield f(x)


@program(traces=1, reports=("warnings.warn runs only while tracing",))
def warnings_inside(trace: Trace) -> Steps:
    @trace
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("careful", stacklevel=1)
        return x * 2

    yield f(x)
    yield f(x)


@program(traces=0, error=TraceError, words=("print", "strict=True", "ef.print"))
def strict_printing(trace: Trace) -> Steps:
    @trace(strict=True)
    def f(x):
        print("in f")
        return x

    yield f(x)


@program(traces=1, reports=("position that a trace cannot follow",), frozen=(1,))
def captured_iterator(trace: Trace) -> Steps:
    scales = iter([2.0, 3.0, 4.0])

    @trace
    def f(x):
        return x * next(scales)

    yield f(x)
    yield f(x)


@program(traces=2)
def list_inserted_into(trace: Trace) -> Steps:
    words = ["first"]

    @trace
    def f(x):
        words.insert(0, "call")
        return x

    yield f(x), words
    yield f(x), words


@program(traces=1)
def mask_with_a_size_from_data(trace: Trace) -> Steps:
    @trace
    def f(x):
        positive = x[x > 0]
        return positive * 2, positive.sum(), ef.nonzero(x), x[ef.nonzero(x > 1)[0]]

    yield f(m)
    yield f(-m)
    yield f(m * 0)


@program(traces=1)
def size_from_data_is_used(trace: Trace) -> Steps:
    @trace
    def f(x):
        positives = x[x > 0]
        return positives / positives.shape[0], ef.ones_like(positives), positives.reshape((1, -1))

    yield f(m)
    yield f(m + 10)


@program(traces=1)
def where_and_masks(trace: Trace) -> Steps:
    @trace
    def f(x, limit):
        x = x * 1
        x[x > limit] = 0.0
        return ef.where(x > 0, x, -1.0), x

    yield f(m, 2.0)
    yield f(m, 0.5)


@program(traces=1, error=ZeroDivisionError, eagerly=True)
def python_errors_as_they_are(trace: Trace) -> Steps:
    @trace
    def f(x, a):
        return x * (1 / a)

    yield f(x, 1.0)
    yield f(x, 0.0)


@program(traces=2)
def division_by_zero_that_a_handler_is_for(trace: Trace) -> Steps:
    state = {"count": 2, "total": 6.0}

    @trace
    def f(x):
        try:
            mean = state["total"] / state["count"] % 4
        except ZeroDivisionError:
            mean = -1.0
        state["count"] -= 1
        return x * mean

    for _ in range(5):
        yield f(x), state


@program(traces=2)
def division_by_zero_by_other_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, a, b):
        try:
            ratio = a / b
        except ZeroDivisionError as error:
            return x, str(error)
        return x * ratio, ""

    for a, b in ((1.0, 2.0), (3.0, 4.0), (1.0, 0.0), (5.0, 0.0), (6.0, -0.0), (2.0, 1.0)):
        yield f(x, a, b)


@program(traces=2)
def divmod_by_zero_by_other_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, a, b):
        try:
            ratio = a // b + a % b
        except ZeroDivisionError as error:
            return x, str(error)
        return x * ratio, ""

    for a, b in ((1, 2), (3, 4), (1, 0), (5, 0), (2, 1)):
        yield f(x, a, b)


@program(traces=2, reports=("and the function itself did not",))
def division_by_a_size_that_a_handler_is_for(trace: Trace) -> Steps:
    @trace
    def f(x):
        try:
            return x.sum() + 10 // len(x)
        except ZeroDivisionError:
            return x.sum() - 1

    for size in (2, 3, 0, 4):
        yield f(ef.ones(size))


@program(traces=0, error=LeakedTensorError, words=("a thread works on a tensor", "x * 2"))
def thread_that_works_on_tensors(trace: Trace) -> Steps:
    @trace
    def f(x):
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: x * 2).result()

    yield f(x)


@program(
    traces=0, error=LeakedTensorError, words=("a thread works on a tensor", "out.append(x * 2)")
)
def thread_whose_error_nobody_gets(trace: Trace) -> Steps:
    @trace
    def f(x):
        out = []

        def work():
            with contextlib.suppress(Exception):
                out.append(x * 2)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return out[0] if out else x

    yield f(x)


@program(traces=0, error=LeakedTensorError, words=("a thread works on a tensor", "x * 2"))
def thread_for_whose_error_the_function_fails(trace: Trace) -> Steps:
    @trace
    def f(x):
        out = {}

        def work():
            with contextlib.suppress(Exception):
                out["y"] = x * 2

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return out["y"]

    yield f(x)


@program(traces=0, error=TraceError, words=("returns a generator that it makes", "return"))
def generator_that_is_returned(trace: Trace) -> Steps:
    f = trace(lambda x: (row * 2 for row in x))
    yield list(f(x))


@program(traces=0, error=TraceError, words=("returns a list whose length only the graph knows",))
def list_filled_under_a_condition_that_is_returned(trace: Trace) -> Steps:
    @trace
    def f(x):
        kept = []
        if ef.sum(x) > 0:
            kept.append(x)
        return kept

    yield f(x)
