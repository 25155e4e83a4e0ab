"""Holders of an object are found near it, at a cost that does not grow with the program."""

from __future__ import annotations

import gc
import itertools
import queue
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.function.new_traces import referrers
from eagerflow.function.new_traces.referrers import Holders


class Thing:
    def __init__(self, value: Any) -> None:
        self.value = value


class Slotted:
    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.fixture
def calls() -> Iterator[Counter[str]]:
    """How often the collector of garbage is asked for something."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and getattr(function, "__module__", None) == "gc":
            counts[function.__name__] += 1

    gc.disable()  # automatic collections would not be repeatable
    before = sys.getprofile()
    sys.setprofile(count)
    yield counts
    sys.setprofile(before)
    gc.enable()


def hidden(x: Any) -> list[Any]:
    """A list with ``x`` in it that is too wide to be looked at."""
    return [*[None] * (referrers._WIDE + 1), x]


# --- the holders of an object -------------------------------------------------------------------


def _made(kind: str, x: Any) -> Any:
    return {
        "list": lambda: [x, x],
        "tuple": lambda: (1, x),
        "dict": lambda: {"x": x},
        "key": lambda: {x: 1},
        "set": lambda: {x},
        "frozenset": lambda: frozenset([x]),
        "deque": lambda: deque([x]),
        "ordered": lambda: OrderedDict(x=x),
        "instance": lambda: Thing(x),
        "slots": lambda: Slotted(x),
        "namespace": lambda: SimpleNamespace(x=x),
        "closure": lambda: (lambda: x).__closure__[0],
        "iterator": lambda: iter([x]).__reduce__()[1][0],
        "exception": lambda: ValueError(x).args,
        "default": lambda: (lambda y=x: y).__defaults__,
    }[kind]()


KINDS = (
    "list", "tuple", "dict", "key", "set", "frozenset", "deque", "ordered", "instance", "slots",
    "namespace", "closure", "iterator", "exception", "default",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_holder_near_is_found_without_a_search(kind: str, calls: Counter[str]) -> None:
    objects = [Thing(1)]
    kept = _made(kind, objects[0])
    root = {"a": [[kept], Thing(None)]}
    [holders] = Holders([root]).of(objects)
    assert calls["get_referrers"] == 0
    want = [x for x in gc.get_referrers(*objects) if x is not objects]
    assert list(map(id, holders)) == list(map(id, want))


@pytest.mark.parametrize("kind", KINDS)
def test_a_holder_elsewhere_is_found_by_a_search(kind: str, calls: Counter[str]) -> None:
    objects = [Thing(1)]
    near, far = [objects[0]], _made(kind, objects[0])
    assert Holders([near]).near(objects) is None
    assert calls["get_referrers"] == 0
    [holders] = Holders([near]).of(objects)
    assert calls["get_referrers"] == 1
    assert {id(x) for x in holders} - {id(near)} == {
        id(x) for x in gc.get_referrers(*objects) if x is not objects and x is not near
    }
    del far


def test_one_search_finds_the_holders_of_all(calls: Counter[str]) -> None:
    objects = [Thing(i) for i in range(50)]
    pairs = [[x, y] for x, y in itertools.pairwise(objects)]
    holders = Holders([]).of(objects, [pairs])
    assert calls["get_referrers"] == 1
    assert [[pairs.index(pair) for pair in lists] for lists in map(_sorted, holders)] == [
        [0], *[[i, i + 1] for i in range(48)], [48]
    ]  # fmt: skip


def _sorted(those: list[Any]) -> list[Any]:
    return sorted(those, key=lambda pair: pair[0].value)


def test_own_containers_do_not_count(calls: Counter[str]) -> None:
    objects = [Thing(1), Thing(2)]
    own, kept = [*objects, objects[0]], [objects[1]]
    assert Holders([kept]).of(objects, [own]) == [[], [kept]]
    assert calls["get_referrers"] == 0
    assert Holders([]).of(objects, [own]) == [[], [kept]]
    assert calls["get_referrers"] == 1


def test_a_local_variable_of_a_running_call_is_no_holder_near(calls: Counter[str]) -> None:
    x = Thing(1)
    objects = [x]
    assert Holders([]).near(objects) is None
    del x
    assert Holders([]).near(objects) == [[]]


def test_a_wide_container_is_not_looked_at(calls: Counter[str]) -> None:
    objects = [Thing(1)]
    wide = hidden(objects[0])
    assert Holders([wide, [wide]]).near(objects) is not None  # a wide root is looked at
    assert Holders([[wide]]).near(objects) is None
    assert Holders([[wide]]).of(objects) == [[wide]]


def test_names_of_the_module_that_a_function_reads_are_near(calls: Counter[str]) -> None:
    objects = [Thing(1)]
    REGISTRY["x"] = objects[0]
    try:
        assert Holders([_reads_the_registry]).near(objects) == [[REGISTRY]]
        assert Holders([_sorted]).near(objects) is None
    finally:
        REGISTRY.clear()


REGISTRY: dict[str, Any] = {}


def _reads_the_registry() -> int:
    return len(REGISTRY)


# --- cost of a trace ------------------------------------------------------------------------------


def _fails(count: int) -> Callable[[], Any]:
    """Calls a function that keeps numbers and tensors, and raises an exception."""
    state: dict[str, Any] = {"items": [], "last": None}
    x = ef.tensor([1.0, 2.0])

    @ef.trace
    def f(x: Any, k: int) -> None:
        for i in range(count):
            state["items"].append((x * i, [k + i]))
        state["last"] = Thing(x)
        raise ValueError("mine")

    def call() -> None:
        state["items"].clear()
        with pytest.raises(ValueError, match="mine"):
            f(x, 3)
        assert [(y.tolist(), numbers) for y, numbers in state["items"]] == [
            ([1.0 * i, 2.0 * i], [3 + i]) for i in range(count)
        ]
        assert state["last"].value.tolist() == [1.0, 2.0]

    return call


def _keeps(count: int, *, far: bool) -> Callable[[], Any]:
    """Calls a function that keeps tensors and numbers in objects that it makes."""
    kept: list[Any] = []
    keep: Any = hidden(queue.SimpleQueue()) if far else [kept]
    put = "put" if far else "append"
    x = ef.tensor([1.0, 2.0])

    @ef.trace
    def f(x: Any, k: int) -> Any:
        for i in range(count):
            getattr(keep[-1], put)(Thing((x * i, k + i)))
        return x

    def call() -> None:
        kept.clear()
        f.clear()
        f(x, 3)
        while far and not keep[-1].empty():
            kept.append(keep[-1].get())
        assert [(one.value[0].tolist(), one.value[1]) for one in kept] == [
            ([1.0 * i, 2.0 * i], 3 + i) for i in range(count)
        ]

    return call


def _cost(call: Callable[[], Any], calls: Counter[str]) -> Counter[str]:
    call()  # does the work that is done once per process
    calls.clear()
    call()
    return Counter(calls)


@pytest.mark.parametrize(
    "make",
    [lambda: _fails(3), lambda: _keeps(3, far=False)],
    ids=["fails", "keeps"],
)
@pytest.mark.filterwarnings("ignore::eagerflow.errors.RetraceWarning")
def test_a_trace_costs_the_same_in_a_large_program(
    make: Callable[[], Callable[[], Any]], calls: Counter[str]
) -> None:
    call = make()
    small = _cost(call, calls)
    heap = [[i] for i in range(100_000)]
    large = _cost(call, calls)
    for cost in small, large:
        assert cost["get_referrers"] == 0
        assert cost["collect"] <= 1  # of the young generation
        assert cost["get_referents"] < 2_000
    assert len(heap) == 100_000


@pytest.mark.filterwarnings("ignore::eagerflow.errors.TraceWarning")
def test_the_number_of_searches_does_not_depend_on_how_much_is_kept(calls: Counter[str]) -> None:
    few = _cost(_keeps(1, far=True), calls)
    many = _cost(_keeps(4, far=True), calls)
    assert 0 < many["get_referrers"] == few["get_referrers"] < 10
    assert many["collect"] == few["collect"] == 2
