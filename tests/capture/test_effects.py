"""Side effects of a function are found, reported with their line, and undone."""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.capture.access_paths import GONE
from eagerflow.capture.changes import OutsideChange, Watch, substituted
from eagerflow.capture.guards.guard_choice import collect
from eagerflow.capture.guards.guards import Guards
from tests.capture import settings_module
from tests.capture.watching import watching
from tests.messages import says

# mypy: disable-error-code="no-untyped-def"

step = 0
mode = "a"
losses: list[Any] = [1.0]
state: dict[str, Any] = {"n": 1, "w": None, "inner": {"k": "v"}}
names = {"a"}
recent: collections.deque[Any] = collections.deque([1, 2], maxlen=2)
table = np.zeros(3)


class Model:
    count = 0
    total = 0.0

    def __init__(self) -> None:
        self.last: Any = None
        self.mode = "a"
        self.history: list[Any] = []


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self) -> None:
        self.a: Any = 1


def effects(
    function: Callable[..., Any], *args: Any
) -> tuple[list[OutsideChange], list[OutsideChange]]:
    """What one call sets and deletes, and what else it changes; all is put back."""
    with watching(collect(function)) as watch:
        function(*args)
        changes = list(watch.changes())
    sets = [c for c in changes if c.kind in ("set", "delete")]
    return sets, [c for c in changes if c not in sets]


def line(function: Callable[..., Any], number: int) -> int:
    return function.__code__.co_firstlineno + number


# --- finding effects -------------------------------------------------------------------------


def test_globals() -> None:
    def f(x):
        global step, mode
        step += 1
        mode = x

    (first, second), mutations = effects(f, "b")
    assert mutations == []
    assert {(c.path.text, c.old, c.new) for c in (first, second)} == {
        ("step", 0, 1),
        ("mode", "a", "b"),
    }
    by_name = {c.path.text: c for c in (first, second)}
    source = by_name["step"].source
    assert source is not None
    assert source.line == line(f, 2)
    assert str(by_name["mode"]).startswith("global mode is set at ")
    assert (step, mode) == (0, "a")


def test_changes_can_be_done_again() -> None:
    def f(x):
        global step
        step = x

    (change,), _ = effects(f, 7)
    assert step == 0
    change.path.set(8)
    assert step == 8
    change.path.set(change.old)
    assert step == 0


def test_cells() -> None:
    count, kept = 0, None

    def f(x):
        nonlocal count

        def inner():
            nonlocal kept
            kept = x

        count += 1
        inner()

    changes, _ = effects(f, 5)
    assert [(c.path.described, c.new) for c in changes] == [
        ("enclosing count", 1),
        ("enclosing kept", 5),
    ]
    assert (count, kept) == (0, None)


def test_deleted_names() -> None:
    namespace = {"a": 1}
    exec("def f():\n  global a\n  del a", namespace)
    (change,), _ = effects(namespace["f"])
    assert (change.old, change.new, change.text) == (1, GONE, "global a is deleted")
    assert namespace["a"] == 1


def test_attributes() -> None:
    model = Model()

    def f(x):
        model.last = x
        model.count += 1
        model.fresh = x

    changes, mutations = effects(f, 3)
    assert mutations == []
    assert [(c.path.text, c.old, c.new) for c in changes] == [
        ("model.last", None, 3),
        ("model.count", GONE, 1),
        ("model.fresh", GONE, 3),
    ]
    assert [c.source.line - line(f, 0) for c in changes if c.source] == [1, 2, 3]
    assert vars(model) == {"last": None, "mode": "a", "history": []}


def test_slots_classes_modules_and_functions() -> None:
    slotted = Slotted()

    def f(x):
        slotted.a = x
        slotted.b = x
        Model.total = x
        settings_module.rate = x
        f.calls = x

    f.calls = 0
    changes, _ = effects(f, 9.0)
    assert {c.path.text for c in changes} == {
        "slotted.a", "slotted.b", "Model.total", "settings_module.rate", "f.calls",
    }  # fmt: skip
    assert (slotted.a, Model.total, settings_module.rate) == (1, 0.0, 0.5)
    assert not hasattr(slotted, "b")
    assert f.calls == 0


def test_self() -> None:
    class Counter:
        def __init__(self) -> None:
            self.n = 0

        def tick(self) -> None:
            self.n += 1

    counter = Counter()
    (change,), _ = effects(counter.tick)
    assert (change.path.text, change.new) == ("self.n", 1)
    reads = collect(Counter.tick, [("me", counter)])
    with watching(reads) as watch:
        counter.tick()
        (change,) = watch.changes()
    assert (change.path.text, counter.n) == ("me.n", 0)
    change.path.set(5)
    assert counter.n == 5


def test_items_are_set() -> None:
    def f(x):
        state["n"] += 1
        state["new"] = x
        state["inner"]["k"] = x
        losses[0] = x

    changes, mutations = effects(f, 4)
    assert mutations == []
    assert {(c.path.text, c.new) for c in changes} == {
        ("state['n']", 2), ("state['new']", 4), ("state['inner']['k']", 4), ("losses[0]", 4),
    }  # fmt: skip
    assert state == {"n": 1, "w": None, "inner": {"k": "v"}}
    assert losses == [1.0]


MOVED = "items are added, removed or moved"
MUTATIONS: dict[str, tuple[Callable[[], Any], str, Any]] = {
    "append": (lambda: losses.append(1), "losses: items are appended", [1]),
    "extend": (lambda: losses.extend([1, 2]), "losses: items are appended", [1, 2]),
    "insert": (lambda: losses.insert(0, 5), f"losses: {MOVED}", [5, 1.0]),
    "pop": (lambda: losses.pop(), f"losses: {MOVED}", []),
    "pop of a dict": (lambda: state.pop("n"), "state['n'] is deleted", GONE),
    "add": (lambda: names.add("b"), f"names: {MOVED}", {"a", "b"}),
    "set difference": (lambda: names.discard("a"), f"names: {MOVED}", set()),
    "ring": (lambda: recent.append(3), f"recent: {MOVED}", [2, 3]),
    "array": (lambda: table.__setitem__(0, 1), "table: elements are changed", table),
    "nested": (lambda: state["inner"].clear(), "state['inner']['k'] is deleted", GONE),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutations(name: str) -> None:
    function, text, new = MUTATIONS[name]
    before = copy.deepcopy((losses, state, names, recent, table.tolist()))
    sets, others = effects(function)
    (change,) = sets + others
    assert change.text == text
    now = set(change.new) if isinstance(new, set) else change.new
    assert now is new or now == new
    assert change.source is not None
    assert change.source.line == line(function, 0)
    assert (losses, state, names, recent, table.tolist()) == before


def test_the_line_of_a_mutation() -> None:
    def f(x):
        state["n"] = x
        y = [x]
        y.append(x)
        losses.append(y)

    _, (mutation,) = effects(f, 1)
    assert mutation.source is not None
    assert mutation.source.line == line(f, 4)
    assert str(mutation).endswith(": losses.append(y)")


def test_sorted_lists_are_items_set() -> None:
    order = [3, 1, 2]
    changes, _ = effects(lambda: order.sort())
    assert [c.new for c in changes] == [1, 2, 3]
    assert order == [3, 1, 2]


def test_objects_of_the_user_with_own_ways() -> None:
    class Closed:
        def __setattr__(self, name: str, value: Any) -> None:
            raise RuntimeError("closed")

        def put(self, x: Any) -> None:
            object.__setattr__(self, "a", x)

    closed = Closed()
    (change,), _ = effects(lambda: closed.put(1))
    assert change.path.text == "closed.a"
    assert vars(closed) == {}


def test_nothing_changed() -> None:
    assert effects(lambda: [losses, state, names, table, Model]) == ([], [])


# --- undoing ---------------------------------------------------------------------------------


def test_undone_after_an_exception() -> None:
    model = Model()

    def f():
        global step
        step = 5
        model.history.append(1)
        model.last = 2
        raise ValueError("mine")

    with pytest.raises(ValueError, check=says("mine")), watching(collect(f)):
        f()
    assert step == 0
    assert model.history == []
    assert model.last is None


def test_undone_where_the_path_is_gone() -> None:
    holder = SimpleNamespace(model=Model())
    model = holder.model

    def f():
        holder.model.mode = "b"
        holder.model = None

    effects(f)
    assert holder.model is model
    assert model.mode == "a"


@given(
    st.lists(
        st.sampled_from(
            [
                "d['a'] = 5", "d['n'] = 1", "d.pop('b', 0)", "d.clear()", "d.update(z=1)",
                "l.append(1)", "l.reverse()", "l.clear()", "l[:] = [7]", "l += [1]",
                "s.add(9)", "s.clear()", "s ^= {1}", "q.append(1)", "q.rotate(1)", "q.clear()",
                "o.x = 1", "o.new = []", "o.__dict__.clear()", "o.inner.y = 2", "o.inner = None",
                "g = 5", "g = 'a'", "d['l'] = l", "l.append(l)",
            ]
        ),
        max_size=8,
    )
)  # fmt: skip
def test_any_effects_are_undone(statements: list[str]) -> None:
    namespace: dict[str, Any] = {
        "d": {"a": 1, "b": [2]}, "l": [3, 1, 2], "s": {1, 2}, "q": collections.deque([1, 2, 3]),
        "o": SimpleNamespace(x=0, inner=SimpleNamespace(y=1)), "g": 0,
    }  # fmt: skip
    body = "\n".join(f"  try: {s}\n  except Exception: pass" for s in statements)
    exec(f"def f():\n  global d, l, s, q, o, g\n{body}\n  return d, l, s, q, o, g", namespace)
    before = copy.deepcopy({k: namespace[k] for k in "dlsqog"})
    identities = {k: id(namespace[k]) for k in "dlsqo"}
    with watching(collect(namespace["f"])) as watch:
        namespace["f"]()
        changes = list(watch.changes())
        if {k: namespace[k] for k in "dlsqog"} != before:
            assert changes
    assert {k: namespace[k] for k in "dlsqog"} == before
    assert {k: id(namespace[k]) for k in "dlsqo"} == identities
    assert list(namespace["d"]) == list(before["d"])


# --- stores that nothing shows ---------------------------------------------------------------


def test_a_store_of_an_equal_value_is_guarded() -> None:
    namespace: dict[str, Any] = {"flag": False, "o": SimpleNamespace(mode="a")}
    exec("def f(x):\n  global flag\n  flag = False\n  o.mode = 'a'\n  return x", namespace)
    reads = collect(namespace["f"])
    guards = Guards(reads)
    with watching(reads) as watch:
        namespace["f"](1)
        assert list(watch.changes()) == []
        for read in watch.unproven([]):
            guards.add(read)
    assert guards.check()
    namespace["flag"] = True
    assert guards.explain() == ["global flag: was False, now True"]
    namespace["flag"] = False
    namespace["o"].mode = "b"
    assert guards.explain() == ["o.mode: was 'a', now 'b'"]


def test_an_equal_item_is_guarded() -> None:
    settings = {"on": False, "n": {"mode": "a"}, "free": "x"}

    def f():
        settings["on"] = False
        settings["n"]["mode"] = "a"

    reads = collect(f)
    with watching(reads) as watch:
        f()
        assert [r.path.text for r in watch.unproven([])] == [
            "settings['on']", "settings['n']['mode']",
        ]  # fmt: skip


def test_what_was_seen_to_change_is_not_guarded() -> None:
    def f():
        global step
        step += 1

    reads = collect(f)
    with watching(reads) as watch:
        f()
        assert watch.unproven([]) == []
    assert [r.path.text for r in Watch(reads).unproven([])] == ["step"]


# --- other objects at paths -----------------------------------------------------------------


def test_substituted() -> None:
    model = Model()
    rate = 0.5
    reads = collect(lambda: (rate, step, model.total, state["n"]))
    numbers = {r.path.text: r.path for r in reads.numbers}
    assert set(numbers) == {"rate", "step", "state['n']"}
    stand_ins = {name: object() for name in numbers}
    with substituted([(path, stand_ins[name]) for name, path in numbers.items()]):
        assert (rate, step, state["n"]) == tuple(
            stand_ins[k] for k in ("rate", "step", "state['n']")
        )
    assert (rate, step, state["n"]) == (0.5, 0, 1)


def test_what_the_function_put_there_stays() -> None:
    holder = SimpleNamespace(a=1, b=2)
    paths = [r.path for r in collect(lambda: (holder.a, holder.b)).numbers]
    with substituted([(p, object()) for p in paths]):
        holder.a = 7
    assert vars(holder) == {"a": 7, "b": 2}


def test_substituted_after_an_exception() -> None:
    holder = SimpleNamespace(a=1)
    (read,) = collect(lambda: holder.a).numbers
    with pytest.raises(RuntimeError, check=says("mine")), substituted([(read.path, object())]):
        raise RuntimeError("mine")
    assert holder.a == 1


def test_substituting_fails_half_way() -> None:
    holder, pair = SimpleNamespace(a=1), (1, 2)
    reads = collect(lambda: (holder.a, pair))
    (number,) = reads.numbers
    fixed = next(r.path for r in reads.reads if r.path.text == "pair[0]")
    with (
        pytest.raises(TypeError, match="cannot be set"),
        substituted([(number.path, object()), (fixed, object())]),
    ):
        pass
    assert holder.a == 1


def test_with_watching() -> None:
    """In either order: the number is back at the end, the change is seen, the stand-in is none."""
    holder = SimpleNamespace(n=1, m=2)

    def f():
        holder.n = holder.n + holder.m

    reads = collect(f)
    pairs = [(r.path, ef.tensor(float(r.value))) for r in reads.numbers]
    with substituted(pairs), watching(reads) as watch:
        f()
        (change,) = watch.changes()
        assert float(change.new) == 3.0
    assert vars(holder) == {"n": 1, "m": 2}
    with watching(reads), substituted(pairs):
        f()
    assert vars(holder) == {"n": 1, "m": 2}
