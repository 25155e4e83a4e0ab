"""Access paths: reading, setting and deleting the value at the end of a path."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict, deque
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagerflow.capture.access_paths import GONE, AccessPath, Root, instance_dict

scale = 2.0


def reads_scale() -> float:
    return scale


def _cell(value: Any) -> Any:
    def inner() -> Any:
        return value

    return inner


class Slotted:
    __slots__ = ("a",)

    def __init__(self) -> None:
        self.a = 1


@dataclass(frozen=True)
class Frozen:
    a: int


class Guarded:
    """Its own ways of attributes must not be taken."""

    def __init__(self) -> None:
        self.__dict__["a"] = 1

    def __getattribute__(self, name: str) -> Any:
        if name == "a":
            raise RuntimeError("asked")
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError("set")


PLACES = {
    "global": (reads_scale, "global", "scale", 2.0),
    "cell": (_cell(5), "cell", 0, 5),
    "attribute": (SimpleNamespace(a=1), "attribute", "a", 1),
    "slot": (Slotted(), "attribute", "a", 1),
    "frozen": (Frozen(1), "attribute", "a", 1),
    "dict": (Guarded(), "dict", "a", 1),
    "list": ([1, 2], "item", 1, 2),
    "mapping": ({"k": 3}, "item", "k", 3),
    "ordered": (OrderedDict(k=3), "item", "k", 3),
    "deque": (deque([1, 2]), "item", 0, 1),
    "class attribute": (type("C", (), {"a": 4}), "attribute", "a", 4),
}


@pytest.mark.parametrize("name", PLACES)
def test_get_and_set(name: str) -> None:
    owner, how, key, value = PLACES[name]
    path = AccessPath(Root(owner), how, key, "here")
    assert path.get() == value
    new = object()
    path.set(new)
    assert path.get() is new
    path.set(value)
    assert path.get() == value


@pytest.mark.parametrize("name", ["attribute", "slot", "frozen", "dict", "mapping", "cell"])
def test_take_away(name: str) -> None:
    owner, how, key, value = PLACES[name]
    path = AccessPath(Root(owner), how, key, "here")
    path.set(GONE)
    assert path.get() is GONE
    path.set(value)
    assert path.get() == value


def test_paths_follow_what_is_there_now() -> None:
    model = SimpleNamespace(layers=[SimpleNamespace(w=1)])
    root = Root(model, "model")
    layers = AccessPath(root, "attribute", "layers", "model.layers")
    w = AccessPath(
        AccessPath(layers, "item", 0, "model.layers[0]"), "attribute", "w", "model.layers[0].w"
    )
    assert w.get() == 1
    model.layers = [SimpleNamespace(w=2)]
    assert w.get() == 2
    model.layers = []
    assert w.get() is GONE
    assert str(w) == "model.layers[0].w"


def test_a_root_can_be_moved() -> None:
    first, second = _cell(1), _cell(2)
    root = Root(first)
    path = AccessPath(root, "cell", 0, "value")
    assert path.get() == 1
    root.point_to(second)
    assert path.get() == 2


def test_a_weak_root_keeps_nothing_alive() -> None:
    owner = Slotted.__new__(type("Weak", (), {"a": 3}))
    path = AccessPath(Root(owner, "owner", weak=True), "attribute", "a", "owner.a")
    assert path.get() == 3
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
    assert path.get() is GONE
    with pytest.raises(TypeError, match=r"owner\.a cannot be set"):
        path.set(1)


def test_what_cannot_be_weak_is_held() -> None:
    root = Root((1, 2), weak=True)
    assert not root.weak
    assert root.get() == (1, 2)


def test_fixed_places_cannot_be_set() -> None:
    with pytest.raises(TypeError, match="cannot be set"):
        AccessPath(Root((1, 2)), "item", 0, "pair[0]", True).set(5)
    with pytest.raises(TypeError, match="cannot be set"):
        AccessPath(Root(Slotted()), "class", None, "Slotted").set(5)


def test_descriptions() -> None:
    root = Root(reads_scale)
    assert AccessPath(root, "global", "scale", "scale").described == "global scale"
    assert AccessPath(root, "cell", 0, "value").described == "enclosing value"
    assert AccessPath(root, "attribute", "a", "self.a").described == "self.a"


def test_gone_is_the_end_of_any_path() -> None:
    nothing = AccessPath(Root({}), "item", "k", "d['k']")
    assert AccessPath(nothing, "class", None, "C").get() is GONE


def test_instance_dict() -> None:
    assert instance_dict(SimpleNamespace(a=1)) == {"a": 1}
    assert instance_dict(Slotted()) is None
    assert instance_dict(5) is None


@given(st.recursive(st.integers(), lambda x: st.lists(x, min_size=1), max_leaves=8), st.data())
def test_any_path_through_lists(tree: Any, data: st.DataObject) -> None:
    path: Any = Root(SimpleNamespace(tree=tree))
    path, value = AccessPath(path, "attribute", "tree", "tree"), tree
    while isinstance(value, list):
        index = data.draw(st.integers(0, len(value) - 1))
        path, value = AccessPath(path, "item", index, f"{path.text}[{index}]"), value[index]
    assert path.get() == value
    path.set(-7)
    assert path.get() == -7


def test_long_paths() -> None:
    path: Any = Root([1], "x")
    for _ in range(5000):
        path = AccessPath(path, "class", None, "C")
    assert path.get() is type


def test_a_name_of_a_base_class_is_set_on_the_class_that_holds_it() -> None:
    class Base:
        n = 1

    class Sub(Base):
        pass

    path = AccessPath(Root(Sub), "base", (1, "n"), "Sub.n")
    path.set(2)
    assert (Base.n, path.get(), "n" in vars(Sub)) == (2, 2, False)
    path.set(GONE)
    assert not hasattr(Base, "n")
    assert path.get() is GONE
