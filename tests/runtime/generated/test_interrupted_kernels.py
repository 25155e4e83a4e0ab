"""Ctrl-C, deadlines and views while a native kernel runs, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

from tests.fresh_process import output_of
from tests.kernels.native.compiling import needs_compiler

pytestmark = needs_compiler

_BEGIN = """
import random, signal, sys, time
import numpy as np
import eagerflow as ef
from eagerflow.events import step_of
ef.config(kernels="native")

def long(x):
    y = x
    for _ in range(12):
        y = ef.tanh(ef.exp(y * 0.5))
    return y

def native(f, *arguments):
    f(*arguments)
    region = f.latest().executable.tier.region
    assert region.native is not None, f.explain()
    region.trial = None  # kernels stay, whether they are faster or not
    return region

x = ef.tensor(np.linspace(0, 1, 2_000_000, dtype="f4"))
"""


_INTERRUPTED = """
first, last = (ef.Variable(np.zeros(1000, "f4")) for _ in range(2))
large = ef.Variable(np.zeros(1_000_000, "f4"))

@ef.trace(compile="now")
def step(x):
    first.assign_add(1.0)
    large.assign_add(ef.tanh(ef.exp(large)) * 0 + 1)
    total = ef.sum(long(x))
    last.assign_add(1 + 0 * ef.astype(total < 0, "float32"))
    return total

def interrupt(*_):
    raise KeyboardInterrupt

native(step, x)
signal.signal(signal.SIGALRM, interrupt)
start = time.perf_counter()
step(x)
seconds = time.perf_counter() - start
rng, interrupts = random.Random(0), 0
for _ in range(40):
    signal.setitimer(signal.ITIMER_REAL, seconds * rng.uniform(0.01, 0.9))
    try:
        step(x)
    except KeyboardInterrupt:
        interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    held = [v.numpy() for v in (first, large, last)]
    assert all(np.all(a == a[0]) for a in held), "torn"
    counts = [int(a[0]) for a in held]
    assert counts[0] >= counts[1] >= counts[2] >= counts[0] - 1, counts
    last.assign(first.numpy())
    large.assign(np.full(1_000_000, first.numpy()[0], "f4"))
print(interrupts > 10)
"""


def test_each_variable_holds_a_prefix_of_its_updates(tmp_path: Path) -> None:
    assert output_of(_BEGIN + _INTERRUPTED, tmp_path) == "True\n"


_STOPPED = """
x = ef.tensor(np.linspace(0, 1, 20_000_000, dtype="f4"))
seen = []
@ef.trace(compile="now")
def f(x):
    return long(x)

region = native(f, x)
(kernel,) = region.plain().kernels.values()
whole = kernel.weight * x.size

def stopped():
    seen.append(kernel.control.done)
    return len(seen) > 1

f(x)
assert kernel.control.done == whole
step_of.stopped = stopped
f.latest().executable._direct = None
try:
    f(x)
except ef.errors.CancelledError as error:
    print(str(error).splitlines()[0], "|", *error.__notes__)
step_of.stopped = None
assert seen and kernel.control.done < whole, (seen, whole)
"""


def test_who_ends_a_step_is_asked_while_a_kernel_runs(tmp_path: Path) -> None:
    shown = output_of(_BEGIN + _STOPPED, tmp_path)
    assert shown.startswith("the step was cancelled |   node: %")


_LATE = """
@ef.trace(compile="now")
def f(x):
    return long(x)

region = native(f, x)
(kernel,) = region.plain().kernels.values()
try:
    with ef.deadline(0.01):
        for _ in range(1000):
            f(x)
except ef.errors.DeadlineError as error:
    print(str(error).splitlines()[0])
"""


def test_a_deadline_ends_a_kernel(tmp_path: Path) -> None:
    assert "deadline" in output_of(_BEGIN + _LATE, tmp_path)


_WATCHED = """
from eagerflow.running_node import nodes_of_threads
places = []
@ef.trace(compile="now")
def f(x):
    return long(x)

region = native(f, x)
(kernel,) = region.plain().kernels.values()

def stopped():
    places.extend(place for place in nodes_of_threads().values() if place.node)
    return False

step_of.stopped = stopped
f.latest().executable._direct = None
for _ in range(3):
    f(x)
step_of.stopped = None
inside = [place for place in places if 0 < place.progress < 1]
assert inside, places
print(inside[0].node.startswith("multiply"), all(0 <= p.progress <= 1 for p in places))
"""


def test_places_say_how_much_of_a_kernel_has_run(tmp_path: Path) -> None:
    assert output_of(_BEGIN + _WATCHED, tmp_path) == "True True\n"
