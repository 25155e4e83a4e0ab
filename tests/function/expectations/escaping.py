"""Objects that get into code that a trace does not follow: what they hold is compared as a whole.

Python writes methods of dataclasses and namespaces, libraries those of their own classes.
"""

from __future__ import annotations

import configparser
import copy
import dataclasses
import enum
import functools
import json
import operator
import pickle
import threading
from collections import Counter, UserDict, UserList, defaultdict, deque
from dataclasses import dataclass, field
from queue import PriorityQueue, Queue
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"

x = ef.tensor([1.0, 2.0])


@dataclass(order=True)
class Config:
    name: str = "a"
    rate: float = field(default=2.0, compare=False)
    sizes: list[int] = field(default_factory=lambda: [1, 2])


# --- methods that Python wrote ----------------------------------------------------------------


@program(traces=3)
def dataclasses_compared(trace: Trace) -> Steps:
    a, b = Config(), Config()
    f = trace(lambda x: x * 2 if a == b else x * 3)
    yield f(x)
    a.sizes.append(5)
    yield f(x)
    b.sizes.append(5)
    yield f(x)


@program(traces=2)
def dataclasses_ordered_under_other_names(trace: Trace) -> Steps:
    a, b = Config("a"), Config("b")

    @trace
    def f(x):
        first, second = a, b
        return x * 2 if first < second else x * 3

    yield f(x)
    a.name = "c"
    yield f(x)


@program(traces=2)
def dataclasses_compared_by_a_helper(trace: Trace) -> Steps:
    a, b = Config(), Config()

    def same(one, other):
        return one == other

    f = trace(lambda x: x * 2 if same(a, b) else x * 3)
    yield f(x)
    a.name = "c"
    yield f(x)


@program(traces=2)
def dataclass_within_another(trace: Trace) -> Steps:
    @dataclass
    class Outer:
        inner: Config

    a, b = Outer(Config()), Outer(Config())
    f = trace(lambda x: x * 2 if a == b else x * 3)
    yield f(x)
    a.inner.name = "c"
    yield f(x)


@program(traces=2)
def dataclass_with_a_hash_as_a_key(trace: Trace) -> Steps:
    @dataclass(unsafe_hash=True)
    class Key:
        name: str

    key, table = Key("a"), {Key("a"): 2.0, Key("b"): 3.0}
    f = trace(lambda x: x * table.get(key, 9.0))
    yield f(x)
    key.name = "b"
    yield f(x)


@program(traces=2)
def dataclass_as_a_text(trace: Trace) -> Steps:
    config = Config()
    f = trace(lambda x: x * len(repr(config)))
    yield f(x)
    config.name = "long"
    yield f(x)


@program(traces=2)
def dataclass_in_a_format(trace: Trace) -> Steps:
    config, flag = Config(), True
    f = trace(lambda x: x * len(f"{config if flag else x}"))
    yield f(x)
    config.name = "long"
    yield f(x)


@program(traces=2)
def dataclass_in_an_old_format(trace: Trace) -> Steps:
    config = Config()
    f = trace(lambda x: x * len("%s" % config))  # noqa: UP031 - as older code is
    yield f(x)
    config.name = "long"
    yield f(x)


@program(traces=2)
def text_that_a_class_writes(trace: Trace) -> Steps:
    class Named:
        def __init__(self):
            self.name = "a"

        def __str__(self):
            return self.name

    named = Named()
    f = trace(lambda x: x * len(str(named)))
    yield f(x)
    named.name = "long"
    yield f(x)


@program(traces=2)
def dataclass_as_a_dict(trace: Trace) -> Steps:
    config = Config()
    f = trace(lambda x: x * sum(dataclasses.asdict(config)["sizes"]))
    yield f(x)
    config.sizes[0] = 7
    yield f(x)


@program(traces=2)
def dataclass_as_a_tuple(trace: Trace) -> Steps:
    config = Config()
    f = trace(lambda x: x * dataclasses.astuple(config)[1])
    yield f(x)
    config.rate = 7.0
    yield f(x)


@program(traces=3)
def dataclass_replaced(trace: Trace) -> Steps:
    config = Config()

    @trace
    def f(x):
        other = dataclasses.replace(config, name="b")
        return x * other.rate * len(other.sizes)

    yield f(x)
    config.rate = 7.0
    yield f(x)
    config.sizes.append(4)
    yield f(x)


@program(traces=2)
def dataclasses_in_lists(trace: Trace) -> Steps:
    configs, wanted = [Config("a"), Config("b")], Config("b")
    f = trace(lambda x: x * configs.index(wanted) if wanted in configs else x * 9)
    yield f(x)
    configs[0].name = "b"
    yield f(x)


@program(traces=2)
def dataclasses_sorted(trace: Trace) -> Steps:
    configs = [Config("a", 2.0), Config("b", 3.0)]
    f = trace(lambda x: x * sorted(configs)[0].rate + max(*configs).rate)
    yield f(x)
    configs[0].name = "c"
    yield f(x)


@program(traces=2)
def dataclasses_in_a_function_of_a_library(trace: Trace) -> Steps:
    a, b = Config(), Config()
    f = trace(lambda x: x * 2 if operator.eq(a, b) else x * 3)
    yield f(x)
    b.name = "c"
    yield f(x)


@program(traces=2)
def namespaces_compared(trace: Trace) -> Steps:
    a, b = SimpleNamespace(n=SimpleNamespace(v=1)), SimpleNamespace(n=SimpleNamespace(v=1))
    f = trace(lambda x: x * 2 if a == b else x * 3)
    yield f(x)
    a.n.v = 5
    yield f(x)


@program(traces=2)
def namespace_that_is_pickled(trace: Trace) -> Steps:
    a = SimpleNamespace(name="a")
    f = trace(lambda x: x * len(pickle.dumps(a)))
    yield f(x)
    a.name = "long"
    yield f(x)


@program(traces=3)
def namespace_that_is_copied(trace: Trace) -> Steps:
    a = SimpleNamespace(sizes=[1])
    f = trace(lambda x: x * len(copy.deepcopy(a).sizes))
    yield f(x)
    a.sizes.append(2)
    yield f(x)
    a.more = "b"
    yield f(x)


@program(traces=2)
def numbers_in_a_text_of_json(trace: Trace) -> Steps:
    config = {"n": 1}
    f = trace(lambda x: x * len(json.dumps(config)))
    yield f(x)
    config["n"] = 1000
    yield f(x)


@program(traces=2)
def named_tuple_with_a_list(trace: Trace) -> Steps:
    class Pair(NamedTuple):
        name: str
        sizes: list[int]

    pair = Pair("a", [1])
    f = trace(lambda x: x * len(pair._asdict()["sizes"]))
    yield f(x)
    pair.sizes.append(2)
    yield f(x)


@program(traces=1)
def member_of_an_enumeration_that_holds_an_object(trace: Trace) -> Steps:
    class Mode(enum.Enum):
        FAST = SimpleNamespace(rate=2.0)

    f = trace(lambda x: x * Mode.FAST.value.rate)
    yield f(x)
    Mode.FAST.value.rate = 5.0
    yield f(x)


@program(traces=1)
def attribute_of_a_member_of_an_enumeration(trace: Trace) -> Steps:
    class Mode(enum.Enum):
        FAST = "fast"

    Mode.FAST.rate = 2.0
    f = trace(lambda x: x * Mode.FAST.rate)
    yield f(x)
    Mode.FAST.rate = 5.0
    yield f(x)


@program(traces=1)
def attributes_by_name_stay_inputs(trace: Trace) -> Steps:
    config = Config()

    @trace
    def f(x):
        if config.name not in ("a", "b"):
            raise ValueError(f"no such name: {config.name}")
        return x * config.rate

    yield f(x)
    config.rate = 7.0
    yield f(x)
    config.sizes.append(4)
    yield f(x)


# --- methods that libraries wrote -------------------------------------------------------------


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
    found = defaultdict(list)

    @trace
    def f(x):
        found["a"].append(x)
        return "a" in found

    tensors = [x * k for k in range(3)]
    for k, tensor in enumerate(tensors):
        yield f(tensor), found["a"][k] is tensor


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
