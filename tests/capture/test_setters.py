"""Changes of attributes are found where the code may set them; stores of other threads stay."""

from __future__ import annotations

import functools
import operator
from types import SimpleNamespace
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.capture.guards.guard_choice import collect
from tests.capture import settings_module
from tests.capture.watching import watching

# mypy: disable-error-code="no-untyped-def"


class Model:
    def __init__(self) -> None:
        self.last: Any = None
        self.mode = "a"


@pytest.mark.parametrize(
    ("f", "seen"),
    [
        (lambda m: m.mode, False),
        (lambda m: setattr(m, "last", m.mode), False),
        (lambda m: object.__setattr__(m, "last", m.mode), False),
        (lambda m: setattr(m, m.mode, 1), True),
        (lambda m: object.__setattr__(m, m.mode, "b"), True),
        (lambda m: vars(m)["mode"], True),
        (lambda m: setattr(m, "mode", "b"), True),
    ],
)
def test_attributes_are_changed_by_code_that_may_set_them(f: Any, seen: bool) -> None:
    model = Model()
    with watching(collect(lambda: f(model))) as watch:
        model.mode = "other"
        changes = list(watch.changes())
    assert [c.path.key for c in changes] == ["mode"] * seen
    assert model.mode == ("a" if seen else "other")


def test_attributes_that_descriptors_of_libraries_set_are_changes() -> None:
    class Lazy:
        @functools.cached_property
        def size(self) -> int:
            return 3

    lazy = Lazy()
    with watching(collect(lambda: lazy.size)) as watch:
        assert lazy.size == 3
        changes = list(watch.changes())
    assert [c.path.text for c in changes] == ["lazy.size"]


@pytest.mark.filterwarnings("ignore::eagerflow.errors.TraceWarning")
def test_class_attributes_that_count() -> None:
    class Base:
        n = 0

    class Sub(Base):
        pass

    @ef.trace
    def own(x):
        Base.n += 1
        return x * Base.n

    @ef.trace
    def inherited(x):
        Sub.n += 1
        return x * Sub.n

    assert [own(ef.ones(1)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert (Base.n, "n" in vars(Sub)) == (3, False)
    assert [inherited(ef.ones(1)).item() for _ in range(3)] == [4.0, 5.0, 6.0]
    assert (Base.n, vars(Sub)["n"]) == (3, 6)


def test_names_that_getters_read_and_that_classes_and_modules_get_later() -> None:
    class Kind:
        pass

    config = SimpleNamespace(lr=2.0)
    rate = operator.attrgetter("lr")

    @ef.trace
    def f(x):
        return x * rate(config) + hasattr(Kind, "extra") + hasattr(settings_module, "extra")

    assert f(ef.ones(1)).item() == 2.0
    config.lr = 3.0
    assert f(ef.ones(1)).item() == 3.0
    Kind.extra = 1
    assert f(ef.ones(1)).item() == 4.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings_module, "extra", 1, raising=False)
        assert f(ef.ones(1)).item() == 5.0
