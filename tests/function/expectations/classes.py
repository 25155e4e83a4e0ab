"""Classes with slots, classes of modules and enumerations, and subclasses of C classes."""

from __future__ import annotations

import copy
import enum
import functools
import json
import queue
import random
import types
from typing import Any

import eagerflow as ef
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def, attr-defined, misc"

x = ef.tensor([1.0, 2.0])


@program(traces=2)
def slot_that_is_filled_later(trace: Trace) -> Steps:
    class Slotted:
        __slots__ = ("rate", "shift")

        def __init__(self):
            self.rate = 1.0

    slotted = Slotted()

    @trace
    def f(x):
        slotted.rate = slotted.rate + 1
        return x * slotted.rate + (slotted.shift if hasattr(slotted, "shift") else 0)

    yield f(x), slotted.rate
    slotted.shift = 5
    yield f(x), slotted.rate
    del slotted.shift
    yield f(x), slotted.rate


@program(traces=3)
def slots_of_a_base(trace: Trace) -> Steps:
    class Base:
        __slots__ = ("a",)

    class Open(Base):
        __slots__ = ("__dict__", "b")

    held = Open()

    @trace
    def f(x):
        return x * getattr(held, "a", 1.0) + getattr(held, "b", 2.0)

    yield f(x)
    held.b = 5.0
    yield f(x)
    held.a = 11.0
    yield f(x)
    del held.a
    yield f(x)


@program(traces=3, reports=("lazy.weight is there now",))
def slot_that_is_made_when_it_is_needed(trace: Trace) -> Steps:
    class Lazy:
        __slots__ = ("calls", "weight")

        def __init__(self):
            self.calls = 0

        def __call__(self, x):
            try:
                weight = self.weight
            except AttributeError:
                weight = self.weight = ef.ones(2) * 3
            self.calls += 1
            return x * weight * self.calls

    lazy = Lazy()
    f = trace(lambda x: lazy(x))
    yield f(x), lazy.weight, lazy.calls
    yield f(x), lazy.weight, lazy.calls
    del lazy.weight
    yield f(x), lazy.weight, lazy.calls
    lazy.weight = ef.ones(2) * 7
    yield f(x), lazy.weight, lazy.calls


@program(traces=1, reports=("dice: a Dice has a state that a trace cannot follow",), frozen=(1,))
def generator_of_a_class_made_from_random(trace: Trace) -> Steps:
    class Dice(random.Random):
        sides = 6

        def roll(self):
            return self.random() * self.sides

    dice = Dice(3)
    f = trace(lambda x: x * dice.roll())
    yield f(x)
    yield f(x)


@program(traces=2, reports=("dice: a Dice has a state",))
def attribute_of_a_class_made_from_random(trace: Trace) -> Steps:
    class Dice(random.Random):
        sides = 6.0

        def most(self):
            return self.sides * 2

    dice: Any = Dice(3)
    f = trace(lambda x: x * dice.most() + (dice.shift if hasattr(dice, "shift") else 0))
    yield f(x)
    dice.sides = 20.0
    yield f(x)


@program(traces=1, reports=("jobs: a Jobs has a state that a trace cannot follow",), frozen=(1,))
def queue_of_a_class_made_from_one_in_c(trace: Trace) -> Steps:
    class Jobs(queue.SimpleQueue):
        pass

    jobs = Jobs()
    f = trace(lambda x: x * jobs.qsize())
    yield f(x)
    jobs.put(1)
    yield f(x)


@program(traces=1)
def property_of_a_class_of_modules(trace: Trace) -> Steps:
    class Settings(types.ModuleType):
        @property
        def rate(self):
            return self.base * 2

    settings = Settings("settings")
    settings.base = 1.0
    f = trace(lambda x: x * settings.rate)
    yield f(x)
    settings.base = 4.0
    yield f(x)


@program(traces=2)
def attribute_that_a_class_of_modules_makes(trace: Trace) -> Steps:
    class Settings(types.ModuleType):
        def __getattr__(self, name):
            return 7.0

    settings = Settings("settings")
    f = trace(lambda x: x * settings.rate)
    yield f(x)
    settings.rate = 1.0
    yield f(x)


@program(traces=1)
def attributes_of_members_of_an_enumeration(trace: Trace) -> Steps:
    class Weight(enum.Enum):
        LOW = 1.0
        HIGH = 2.0

        def __init__(self, value):
            self.scale = value * 2

    @trace
    def f(x):
        return x * sum(member.scale for member in Weight) + len(Weight)

    yield f(x)
    Weight.LOW.scale = 100.0
    yield f(x)


@program(traces=2)
def groups_of_exceptions(trace: Trace) -> Steps:
    state = {"bad": 1}

    @trace
    def f(x):
        try:
            if state["bad"]:
                raise ExceptionGroup("both", [ValueError("a"), KeyError("b")])
        except* ValueError as group:
            x = x * (1 + len(group.exceptions))
        except* KeyError:
            x = x + 5
        return x

    yield f(x)
    state["bad"] = 0
    yield f(x)


@program(traces=2)
def method_that_a_library_calls_of_a_class_made_from_its_own(trace: Trace) -> Steps:
    class Encoder(json.JSONEncoder):
        def default(self, o):
            return names[0]

    names = ["a"]
    thing = object()

    @trace
    def f(x):
        return x * len(json.dumps([thing], cls=Encoder))

    yield f(x)
    names[0] = "longer"
    yield f(x)


@program(traces=3)
def value_that_an_enumeration_lacks(trace: Trace) -> Steps:
    class Level(enum.Enum):
        LOW = 1
        HIGH = 2

        @classmethod
        def _missing_(cls, value):
            return others[0]

    others = [Level.LOW]

    @trace
    def f(x, value):
        return x * Level(value).value

    yield f(x, 9)
    others[0] = Level.HIGH
    yield f(x, 9)
    yield f(x, 1)


@program(traces=2)
def items_of_a_class_itself(trace: Trace) -> Steps:
    class Sizes:
        def __class_getitem__(cls, name):
            return table[name]

    table = {"a": "x"}
    f = trace(lambda x: x * len(Sizes["a"]))
    yield f(x)
    table["a"] = "xyz"
    yield f(x)


@program(traces=1)
def copies_that_a_class_makes_itself(trace: Trace) -> Steps:
    class Weight:
        def __init__(self, value):
            self.value = value

        def __deepcopy__(self, memo):
            return Weight(self.value * scale[0])

    scale = [2.0]
    weight = Weight(1.0)
    f = trace(lambda x: x * copy.deepcopy(weight).value)
    yield f(x)
    scale[0] = 5.0
    yield f(x)


@program(traces=2)
def attributes_that_a_class_writes_down(trace: Trace) -> Steps:
    class Logged:
        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)
            object.__setattr__(self, "log", (*getattr(self, "log", ()), name))

    kept = Logged()

    @trace
    def f(x, k):
        kept.k = k
        return x * kept.k * len(kept.log)

    for k in (1.0, 2.0):
        yield f(x, k), kept.k, kept.log


@program(traces=3, reports=("was traced 3 times",))
def functions_for_types_that_are_added(trace: Trace) -> Steps:
    @functools.singledispatch
    def scaled(k, x):
        return x

    @scaled.register
    def _of_int(k: int, x):
        return x * 2

    f = trace(lambda x, k: scaled(k, x))
    yield f(x, "a")
    yield f(x, 1)
    scaled.register(float, lambda k, x: x * 9)
    yield f(x, 1.0)
