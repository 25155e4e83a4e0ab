"""Hidden state, which no name in the code refers to: of libraries, of threads, in files."""

from __future__ import annotations

import ctypes
import decimal
import gc
import hashlib
import io
import locale
import logging
import sys
import tempfile
import threading
import types
import weakref
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

import numpy as np

import eagerflow as ef
from eagerflow.errors import TraceError
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


# --- computed attributes ----------------------------------------------------------------------


@program(traces=2)
def property_of_a_metaclass(trace: Trace) -> Steps:
    class Meta(type):
        @property
        def rate(cls):
            return cls.own_rate

    class Config(metaclass=Meta):
        own_rate = 2.0

    f = trace(lambda x: x * Config.rate)
    yield f(x)
    Config.own_rate = 5.0
    yield f(x)


@program(traces=2)
def methods_of_a_metaclass(trace: Trace) -> Steps:
    class Meta(type):
        def __contains__(cls, name):
            return name in cls.names

        def __len__(cls):
            return len(cls.names)

    class Registry(metaclass=Meta):
        names = ("a",)

    f = trace(lambda x: x * len(Registry) if "b" in Registry else x * 9)
    yield f(x)
    Registry.names = ("a", "b")
    yield f(x)


@program(traces=1)
def attributes_that_a_module_computes(trace: Trace) -> Steps:
    module = types.ModuleType("computing")
    exec("def __getattr__(name): return state['rate']", vars(module))
    module.state = {"rate": 2.0}
    f = trace(lambda x: x * module.rate)
    yield f(x)
    module.state["rate"] = 5.0
    yield f(x)


@program(traces=2)
def attribute_that_a_module_computed(trace: Trace) -> Steps:
    module = types.ModuleType("computing")
    exec("def __getattr__(name): return 2.0", vars(module))
    f = trace(lambda x: x * module.rate)
    yield f(x)
    module.rate = 5.0
    yield f(x)


@program(traces=1)
def state_of_a_thread(trace: Trace) -> Steps:
    local = threading.local()
    local.rate = 2.0

    @trace
    def f(x):
        local.rate += 1.0
        return x * local.rate

    yield f(x)
    local.rate = 5.0
    yield f(x), local.rate


# --- state of libraries -----------------------------------------------------------------------


@contextmanager
def settings():
    """Puts back what programs set for the whole process."""
    with ExitStack() as stack:
        stack.callback(sys.setswitchinterval, sys.getswitchinterval())
        stack.callback(sys.setrecursionlimit, sys.getrecursionlimit())
        stack.callback(locale.setlocale, locale.LC_ALL, locale.setlocale(locale.LC_ALL))
        stack.enter_context(decimal.localcontext())
        stack.enter_context(np.errstate())
        stack.enter_context(np.printoptions())
        yield


@program(traces=2)
def precision_of_decimals(trace: Trace) -> Steps:
    one = decimal.Decimal(1)
    f = trace(lambda x: x * float(one / 3))
    with settings():
        yield f(x)
        decimal.getcontext().prec = 3
        yield f(x)


@program(traces=2)
def rounding_of_decimals(trace: Trace) -> Steps:
    f = trace(lambda x: x * float(decimal.Decimal("2.5").to_integral_value()))
    with settings():
        yield f(x)
        decimal.getcontext().rounding = decimal.ROUND_UP
        yield f(x)


FROZEN = "gives the value it had while tracing"


@program(traces=1, reports=(FROZEN,), frozen=(1,))
def error_state_of_numpy(trace: Trace) -> Steps:
    f = trace(lambda x: x * 2 if np.geterr()["divide"] == "raise" else x)
    with settings():
        yield f(x)
        np.seterr(divide="raise")
        yield f(x)


@program(traces=1, reports=(FROZEN, FROZEN), frozen=(1,))
def options_of_libraries(trace: Trace) -> Steps:
    f = trace(lambda x: x * np.get_printoptions()["precision"] * sys.getrecursionlimit())
    with settings():
        yield f(x)
        np.set_printoptions(precision=3)
        yield f(x)


@program(traces=1, reports=(FROZEN,), frozen=(1,))
def interval_of_threads(trace: Trace) -> Steps:
    f = trace(lambda x: x * sys.getswitchinterval())
    with settings():
        yield f(x)
        sys.setswitchinterval(0.25)
        yield f(x)


@program(traces=1, reports=(FROZEN,), frozen=(1,))
def whether_garbage_is_collected(trace: Trace) -> Steps:
    f = trace(lambda x: x * 2 if gc.isenabled() else x)
    yield f(x)
    gc.disable()
    try:
        yield f(x)
    finally:
        gc.enable()


@program(traces=1, reports=("locale.setlocale gives the value it had while tracing",), frozen=(1,))
def locale_that_is_set(trace: Trace) -> Steps:
    f = trace(lambda x: x * len(locale.setlocale(locale.LC_ALL)))
    with settings():
        locale.setlocale(locale.LC_ALL, "C")
        yield f(x)
        locale.setlocale(locale.LC_ALL, "C.UTF-8")
        yield f(x)


@program(traces=1, reports=("threading.current_thread gives the value it had",))
def state_without_a_rule(trace: Trace) -> Steps:
    f = trace(lambda x: x * len(threading.current_thread().name))
    yield f(x)


# --- state that is reported -------------------------------------------------------------------


@program(traces=1, reports=("read_text gives the value it had while tracing",), frozen=(1,))
def file_that_is_read(trace: Trace) -> Steps:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rate"
        f = trace(lambda x: x * float((path.parent / "rate").read_text()))
        path.write_text("2")
        yield f(x)
        path.write_text("5")
        yield f(x)


@program(traces=1, reports=("exists gives the value it had while tracing",), frozen=(1,))
def file_that_appears(trace: Trace) -> Steps:
    with tempfile.TemporaryDirectory() as folder:
        name = f"{folder}/flag"
        f = trace(lambda x: x * 2 if Path(name).exists() else x)
        yield f(x)
        Path(name).write_text("")
        yield f(x)


@program(traces=1, reports=("np.load gives the value it had while tracing",), frozen=(1,))
def file_of_an_array(trace: Trace) -> Steps:
    with tempfile.TemporaryDirectory() as folder:
        name = f"{folder}/a.npy"
        f = trace(lambda x: x * ef.asarray(np.load(name)))
        np.save(name, np.float32(2))
        yield f(x)
        np.save(name, np.float32(5))
        yield f(x)


@program(traces=1)
def names_of_files(trace: Trace) -> Steps:
    path = Path("folder") / "name.txt"
    f = trace(lambda x: x * len(path.with_suffix(".a").name) * len(path.parts))
    yield f(x)


@program(traces=1, reports=("names: a WeakSet has a content",), frozen=(1,))
def weak_set(trace: Trace) -> Steps:
    class Name:
        pass

    kept = Name()
    names = weakref.WeakSet([kept])
    f = trace(lambda x: x * len(names))
    yield f(x)
    other = Name()
    names.add(other)
    yield f(x)


@program(traces=1, reports=("names: a WeakValueDictionary has a content",), frozen=(1,))
def weak_dict(trace: Trace) -> Steps:
    class Name:
        pass

    kept = Name()
    names = weakref.WeakValueDictionary(a=kept)
    f = trace(lambda x: x * len(names))
    yield f(x)
    names["b"] = kept
    yield f(x)


@program(traces=1, reports=("queue: a SimpleQueue has a state",), frozen=(1,))
def queue_of_c(trace: Trace) -> Steps:
    queue: SimpleQueue[int] = SimpleQueue()
    f = trace(lambda x: x * queue.qsize())
    yield f(x)
    queue.put(1)
    yield f(x)


@program(traces=1, reports=("digest: a HASH has a state",), frozen=(1,))
def object_of_c(trace: Trace) -> Steps:
    digest = hashlib.sha256()
    f = trace(lambda x: x * digest.digest()[0])
    yield f(x)
    digest.update(b"a")
    yield f(x)


@program(traces=1, reports=("library.abs gives the value it had while tracing",))
def function_of_c_that_nobody_knows(trace: Trace) -> Steps:
    library = ctypes.CDLL(None)
    f = trace(lambda x: x * library.abs(-2))
    yield f(x)


@program(
    traces=1,
    reports=tuple(f"{text} is taken only while tracing" for text in (
        "again: a RLock", "lock: a lock", "places: a Semaphore", "ready: a Condition")),
)  # fmt: skip
def locks_that_are_held(trace: Trace) -> Steps:
    lock, again, ready = threading.Lock(), threading.RLock(), threading.Condition()
    places, counts = threading.Semaphore(2), {"n": 0}

    @trace
    def f(x):
        with lock, again, ready, places:
            counts["n"] += 1
            return x * counts["n"]

    for _ in range(3):
        yield f(x), dict(counts)


@program(traces=1, reports=("log.isEnabledFor gives the value it had while tracing",), frozen=(1,))
def level_of_a_logger(trace: Trace) -> Steps:
    log = logging.getLogger("eagerflow.tests.level")
    log.setLevel(logging.WARNING)
    f = trace(lambda x: x * 2 if log.isEnabledFor(logging.DEBUG) else x)
    yield f(x)
    log.setLevel(logging.DEBUG)
    yield f(x)


@program(traces=1, reports=("text: a StringIO is a file",), frozen=(1,))
def text_in_memory(trace: Trace) -> Steps:
    text = io.StringIO("ab")
    f = trace(lambda x: x * len(text.getvalue()))
    yield f(x)
    text.write("abcd")
    yield f(x)


@program(traces=1)
def daily_functions_tell_nothing(trace: Trace) -> Steps:
    @contextmanager
    def number():
        yield 3.0

    @trace
    def f(x):
        with number() as n, np.errstate(divide="ignore"):
            items = dict(zip("ab", [1.0, n], strict=True))
            return x * sum(items.values()) * float(np.sqrt(4.0)) * isinstance(x, ef.Tensor)

    yield f(x)


@program(traces=1, reports=("draw: a list_iterator has a position",), frozen=(1,))
def next_of_an_iterator_by_another_name(trace: Trace) -> Steps:
    draw = iter([1.0, 2.0, 3.0]).__next__
    f = trace(lambda x: x * draw())
    yield f(x)
    yield f(x)


@program(traces=1, reports=("line: a StringIO is a file",), frozen=(1,))
def line_of_a_file_by_another_name(trace: Trace) -> Steps:
    line = io.StringIO("1\n2\n").readline
    f = trace(lambda x: x * float(line()))
    yield f(x)
    yield f(x)


@program(traces=2)
def length_of_a_list_by_another_name(trace: Trace) -> Steps:
    items = [1.0, 2.0]
    length = items.__len__
    f = trace(lambda x: x * length())
    yield f(x)
    items.append(3.0)
    yield f(x)


@program(traces=1, reports=("a ProxyType has a content",), frozen=(1,))
def weak_proxy(trace: Trace) -> Steps:
    box = types.ModuleType("box")
    box.rate = 2.0  # type: ignore[attr-defined]
    proxy = weakref.proxy(box)
    f = trace(lambda x: x * proxy.rate)
    yield f(x)
    box.rate = 3.0  # type: ignore[attr-defined]
    yield f(x)


@program(traces=1, reports=("np.seterr has an effect only while tracing",), frozen=(0, 1))
def error_state_of_numpy_that_is_set(trace: Trace) -> Steps:
    @trace
    def f(x):
        np.seterr(divide="raise")
        return x * 2

    before = np.geterr()
    try:
        for _ in range(2):
            yield f(x), np.geterr()["divide"]
            np.seterr(**before)
    finally:
        np.seterr(**before)


@program(traces=0, error=TraceError, words=("np.errstate or np.seterr", "b / (b - b)"))
def block_of_an_error_state_of_numpy(trace: Trace) -> Steps:
    @trace
    def f(b):
        with np.errstate(divide="raise", invalid="ignore"):
            return b / (b - b)

    with suppress(FloatingPointError):
        f(np.ones(2))
    yield 1


@program(traces=1, reports=(FROZEN,))
def references_that_are_counted(trace: Trace) -> Steps:
    thing = object()
    f = trace(lambda x: x * (sys.getrefcount(thing) > 0))
    yield f(x)
    yield f(x)


@program(traces=1, frozen=(0, 1), reports=("decimal.setcontext has an effect only while tracing",))
def context_of_decimals_that_is_set(trace: Trace) -> Steps:
    @trace
    def f(x):
        decimal.setcontext(decimal.Context(prec=3))
        return x * 2

    with decimal.localcontext():
        for _ in range(2):
            yield f(x), decimal.getcontext().prec
            decimal.setcontext(decimal.Context(prec=28))
