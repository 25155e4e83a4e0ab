"""Objects of classes of libraries: what their methods read of them is guarded."""

from __future__ import annotations

import configparser
import functools
import threading
from collections import Counter, UserDict, UserList, defaultdict, deque
from dataclasses import dataclass
from queue import PriorityQueue, Queue
from types import MappingProxyType, SimpleNamespace
from typing import Any

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])

# --- methods of library classes ---------------------------------------------------------------


@program(traces=2)
def flag_of_an_event(trace: Trace) -> Steps:
    event = threading.Event()
    f = trace(lambda x: x * 2 if event.is_set() else x)
    yield f(x)
    event.set()
    yield f(x)
    event.clear()
    yield f(x)


@program(traces=2)
def length_of_a_queue(trace: Trace) -> Steps:
    queue: Queue[int] = Queue()
    f = trace(lambda x: x * queue.qsize() if not queue.empty() else x)
    yield f(x)
    queue.put(1)
    yield f(x)


@program(traces=2)
def items_of_a_priority_queue(trace: Trace) -> Steps:
    queue: PriorityQueue[float] = PriorityQueue()
    queue.put(3.0)
    f = trace(lambda x: x * queue.queue[0])
    yield f(x)
    queue.put(2.0)
    yield f(x)


@program(traces=2)
def state_of_a_barrier(trace: Trace) -> Steps:
    barrier = threading.Barrier(2)
    f = trace(lambda x: x * 2 if barrier.broken else x)
    yield f(x)
    barrier.abort()
    yield f(x)


@program(traces=2)
def option_of_a_parser(trace: Trace) -> Steps:
    parser = configparser.ConfigParser()
    parser.read_string("[a]\nrate=2\n")
    f = trace(lambda x: x * parser.getfloat("a", "rate"))
    yield f(x)
    parser.set("a", "rate", "5")
    yield f(x)


@program(traces=2)
def subclass_of_user_dict(trace: Trace) -> Steps:
    class Settings(UserDict):
        pass

    settings = Settings(rate=2.0)
    f = trace(lambda x: x * settings["rate"] + len(settings))
    yield f(x)
    settings["rate"] = 5.0
    yield f(x)
    settings["more"] = 1.0
    yield f(x)


@program(traces=2)
def subclass_of_user_list_with_a_method(trace: Trace) -> Steps:
    class Rates(UserList):
        def total(self):
            return sum(self)

    rates = Rates([2.0, 3.0])
    f = trace(lambda x: x * rates.total())
    yield f(x)
    rates.append(4.0)
    yield f(x)


@program(traces=1)
def counter_of_words(trace: Trace) -> Steps:
    counts = Counter("aab")
    f = trace(lambda x: x * counts["a"] * counts.most_common(1)[0][1])
    yield f(x)
    counts.update("aa")
    yield f(x)


@program(traces=1)
def deque_of_numbers(trace: Trace) -> Steps:
    rates = deque([2.0, 3.0])
    f = trace(lambda x: x * rates[0])
    yield f(x)
    rates[0] = 5.0
    yield f(x)


@program(traces=2)
def function_with_a_cache_of_an_object(trace: Trace) -> Steps:
    @dataclass(unsafe_hash=True)
    class Key:
        name: str

    key = Key("a")
    length = functools.lru_cache(lambda key: len(key.name))
    f = trace(lambda x: x * length(key))
    yield f(x)
    key.name = "long"
    yield f(x)


# --- attributes as a dict ---------------------------------------------------------------------


@program(traces=2)
def attributes_of_an_object_that_are_kept(trace: Trace) -> Steps:
    config, log = SimpleNamespace(rate=0.5), SimpleNamespace(options=None)

    @trace
    def f(x):
        log.options = vars(config)
        return x * config.rate

    yield f(x), log.options is vars(config)
    config.rate = 5.0
    yield f(x), log.options


@program(traces=1)
def attributes_of_an_object_that_are_returned(trace: Trace) -> Steps:
    class Config:
        pass

    config: Any = Config()
    config.rate, config.w = 0.5, x
    f = trace(lambda u: (u * config.rate, config.__dict__))
    for rate in (0.5, 1.0):
        config.rate = rate
        result = f(x)
        yield result, result[1] is vars(config)


@program(traces=2)
def default_dict_that_is_looked_at(trace: Trace) -> Steps:
    groups = defaultdict(list)

    @trace
    def f(x):
        groups["a"].append(x)
        return "a" in groups

    tensors = [x * k for k in range(3)]
    for k, tensor in enumerate(tensors):
        yield f(tensor), groups["a"][k] is tensor


@program(traces=2)
def counter_that_is_looked_at(trace: Trace) -> Steps:
    seen: Any = Counter()

    @trace
    def f(x, k):
        seen["calls"] += k
        return x * len(seen), seen["calls"]

    for k in range(4):
        yield f(x, k), seen


@program(traces=1)
def mapping_that_cannot_be_changed(trace: Trace) -> Steps:
    options = MappingProxyType({"rate": 0.5, "name": "a"})
    f = trace(lambda x: x * options["rate"] if options.get("name") == "a" else x)
    yield f(x), f(x * 2)


@program(traces=2)
def mapping_whose_content_changes(trace: Trace) -> Steps:
    known = {"rate": 0.5}
    options = MappingProxyType(known)
    f = trace(lambda x: x * options["rate"])
    yield f(x)
    known["rate"] = 2.0
    yield f(x)


@program(traces=2)
def set_of_shapes(trace: Trace) -> Steps:
    shapes = {(2,), (3,)}
    f = trace(lambda x: x * 2 if x.shape in shapes else x)
    yield f(x)
    shapes.discard((2,))
    yield f(x)


@program(traces=2)
def cached_property_that_is_forgotten(trace: Trace) -> Steps:
    class Model:
        def __init__(self):
            self.w = x * 1

        @functools.cached_property
        def first(self):
            return self.w * 1

    model: Any = Model()

    @trace
    def f(u):
        model.w = model.w + u
        return model.first, model.w

    yield f(x), f(x)
    del model.first
    yield f(x), f(x), model.w
