"""Guards of traced functions that read all that modules hold: the changes that they notice."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import nn
from eagerflow.capture.modules.walk_assumptions import _Structure
from tests.exploring import examples

ZERO = ef.zeros(())


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Config:
    rate: float
    head: Any


class Unseen:
    """An object that is neither traversed nor weakly referenced."""

    __slots__ = ("_it",)


class Net(nn.Module):
    def __init__(self) -> None:
        self.layers = [layer(), layer()]
        self.heads = {"a": layer(), "b": layer()}
        self.pair = Pair(layer(), [])
        self.config = Config(0.1, None)
        self.tables: dict[Any, Any] = {}
        self.count = 0
        self.last: Any = None

    def forward(self, x: Any) -> Any:
        return x


def layer(size: int = 2) -> nn.Linear:
    return nn.Linear(size, 2, bias=False)


def names(net: Any, what: str) -> Any:
    """A function of the names, traced once for each structure."""
    return {
        "state": lambda: ",".join(net.state),
        "parameters": lambda: ",".join(net.parameters),
        "buffers": lambda: ",".join(net.buffers),
        "trainable": lambda: ",".join(net.trainable),
        "modules": lambda: ",".join(
            f"{path}:{module.training}:{module.frozen}" for path, module in net.named_modules()
        ),
    }[what]


def _append(net: Any) -> None:
    net.layers.append(layer())


def _append_to_empty(net: Any) -> None:
    net.pair.right.append(layer())


def _set_variable(net: Any) -> None:
    net.extra = ef.Variable([1.0])


def _set_buffer(net: Any) -> None:
    net.seen = ef.Variable(0, trainable=False)


def _set_in_dataclass(net: Any) -> None:
    net.config.head = layer()


def _delete(net: Any) -> None:
    del net.layers[0].weight


def _pop(net: Any) -> None:
    net.layers.pop()


def _rename(net: Any) -> None:
    net.heads = {("c" if key == "a" else key): value for key, value in net.heads.items()}


def _rename_in_place(net: Any) -> None:
    net.heads["c"] = net.heads.pop("b")


def _reorder(net: Any) -> None:
    net.heads["a"] = net.heads.pop("a")


def _move(net: Any) -> None:
    net.layers[1].more = net.layers[0].__dict__.pop("weight")


def _other_key(net: Any) -> None:
    net.tables[1] = layer()


def _for_a_count(net: Any) -> None:
    net.count = layer()


def _for_none(net: Any) -> None:
    net.last = [layer()]


def _freeze(net: Any) -> None:
    net.layers[0].freeze()


def _freeze_by_hand(net: Any) -> None:
    net.heads["a"].frozen = True


def _eval(net: Any) -> None:
    net.layers[1].eval()


CHANGES: dict[Callable[[Any], None], str] = {
    _append: "net.layers.2 is new",
    _append_to_empty: "net.pair.right.0 is new",
    _set_variable: "net.extra is new",
    _set_buffer: "net.seen is new",
    _set_in_dataclass: "net.config.head is new",
    _delete: "net.layers.0.weight is gone",
    _pop: "net.layers.1 is gone",
    _rename: "net.heads.c is new; net.heads.a is gone",
    _rename_in_place: "net.heads.c is new; net.heads.b is gone",
    _reorder: "net: its parts have another order",
    _move: "net.layers.1.more is new; net.layers.0.weight is gone",
    _other_key: "net.tables.1 is new",
    _for_a_count: "net.count is new",
    _for_none: "net.last.0 is new",
    _freeze: "net.layers.0 is frozen now",
    _freeze_by_hand: "net.heads.a is frozen now",
    _eval: "net.layers.1 is in evaluation mode now",
}
_OF_TRAINABLE = {_freeze, _freeze_by_hand}


@pytest.mark.parametrize("what", ["state", "parameters", "buffers", "trainable", "modules"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_each_change_is_seen(change: Callable[[Any], None], what: str) -> None:
    net = Net()
    ask = names(net, what)

    @ef.trace
    def f(x: Any) -> Any:
        return x, ask()

    for _ in range(3):
        assert f(ZERO)[1] == ask()
    assert len(f.traces) == 1
    change(net)
    for _ in range(3):
        assert f(ZERO)[1] == ask()
    counts = what == "modules" or change is not _eval
    if change in _OF_TRAINABLE:
        counts = what in ("trainable", "modules")
    assert len(f.traces) == 1 + counts
    if counts:
        assert f.traces[1].reason == CHANGES[change]
        assert CHANGES[change] in str(f.explain())


@pytest.mark.parametrize("strict", [False, True])
def test_the_sum_of_all_parameters(strict: bool) -> None:
    net = Net()

    @ef.trace(strict=strict)
    def total(x: Any) -> Any:
        return x + sum(ef.sum(v * 0 + 1) for v in net.parameters.values())

    assert total(ZERO).item() == 20.0
    net.layers.append(layer(3))
    assert total(ZERO).item() == 26.0
    net.layers[0].weight = ef.Variable([1.0])
    assert total(ZERO).item() == 23.0
    assert total.traces[-1].reason == "net.layers.0.weight is another object"


@pytest.mark.filterwarnings("ignore:.*was traced 3 times:eagerflow.errors.TraceWarning")
def test_what_died_is_not_taken_for_what_came_to_its_place() -> None:
    """The new object is likely to get the ``id`` of the old one."""
    net = Net()

    @ef.trace
    def total(x: Any) -> Any:
        return x + sum(ef.sum(v) for v in net.parameters.values())

    for value in range(1, 13):
        net.last = None
        net.last = ef.Variable([float(value)])
        want = sum(float(ef.sum(v)) for v in net.parameters.values())
        # The sum may cancel to nearly nothing, so the bound is that of its terms.
        assert total(ZERO).item() == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize(
    "make", [Unseen, object, lambda: Config, lambda: {1, 2}, lambda: ef.ones(2)]
)
def test_an_object_for_which_a_module_comes(make: Callable[[], Any]) -> None:
    net = Net()
    net.last = make()

    @ef.trace
    def count(x: Any) -> Any:
        return len(net.modules.__self__.state), x

    before = count(ZERO)[0]
    for _ in range(5):
        net.last = None
        net.last = make()
        assert count(ZERO)[0] == before
    assert len(count.traces) == 1
    net.last = None
    net.last = layer()
    assert count(ZERO)[0] == before + 1


def test_what_is_no_module_or_variable_is_of_no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()

    @ef.trace
    def f(x: Any) -> Any:
        return x, len(net.trainable)

    for _ in range(2):
        f(ZERO)
    walks = []
    same = _Structure._same_parts
    monkeypatch.setattr(_Structure, "_same_parts", lambda self: walks.append(1) or same(self))
    for i in range(20):
        net.count += 1
        net.last = ef.ones(2) if i % 2 else Unseen()
        net.train(bool(i % 3))
        f(ZERO)
    assert len(f.traces) == 1
    assert not walks  # the fast check was enough
    net.tables["a"] = 1.0
    f(ZERO)
    assert len(walks) == 1
    assert len(f.traces) == 1


def test_nothing_is_looked_at_where_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimiser = ef.optim.SGD(net.trainable, 0.1)
    gradient = ef.value_and_grad(lambda x: ef.sum(net(x)), wrt=net.trainable)

    @ef.trace
    def step(x: Any) -> Any:
        loss, gradients = gradient(x)
        optimiser.update(gradients)
        return loss

    step(ef.ones((1, 2)))
    monkeypatch.setattr(_Structure, "_holds_exactly", lambda _: pytest.fail("it looks"))
    step(ef.ones((1, 2)))
    assert len(step.traces) == 1


def test_gradients_by_what_is_trainable_within_a_step() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))

    def step(x: Any) -> Any:
        return ef.grad(lambda x: ef.sum(net(x)), wrt=net.trainable)(x)

    traced = ef.trace(step)
    x = ef.ones((1, 2))
    for change in (
        lambda: None, net.freeze, net.unfreeze, net[0].freeze, net.unfreeze,
        lambda: net.layers.append(nn.Linear(1, 1)),
    ):  # fmt: skip
        change()
        gradients, want = traced(x), step(x)
        assert list(gradients) == list(want)
        assert all((gradients[k].numpy() == want[k].numpy()).all() for k in want)
    assert len(traced.traces) == 4  # earlier structures have traces


def test_parts_that_are_frozen_within_a_step() -> None:
    """As with two networks that are trained in alternation."""
    net = Net()

    @ef.trace
    def step(x: Any) -> Any:
        net.layers[0].freeze()
        names = ",".join(net.trainable)
        net.layers[0].unfreeze()
        return x, names

    want = step.fn(ZERO)[1]
    for _ in range(4):
        assert step(ZERO)[1] == want
        assert not net.layers[0].frozen
    assert len(step.traces) == 1
    net.layers[1].freeze()
    assert step(ZERO)[1] == step.fn(ZERO)[1] != want


@pytest.mark.filterwarnings("ignore:.*was traced 3 times:eagerflow.errors.TraceWarning")
def test_a_function_that_changes_what_it_asks_for() -> None:
    def make() -> tuple[Any, Any]:
        net, more = Net(), [layer() for _ in range(9)]

        def f(x: Any) -> Any:
            net.layers.append(more[len(net.layers)])
            return x, len(net.state)

        return net, f

    (_, eager), (_, f) = make(), make()
    traced = ef.trace(f)
    assert [traced(ZERO)[1] for _ in range(4)] == [eager(ZERO)[1] for _ in range(4)]


def test_a_model_that_is_made_within_is_no_reason() -> None:
    @ef.trace
    def f(x: Any) -> Any:
        net = nn.Sequential(nn.Identity())
        return x, len(list(net.modules()))

    for _ in range(3):
        assert f(ZERO)[1] == 2
        gc.collect()
    assert len(f.traces) == 1


@pytest.mark.filterwarnings("ignore:.*was traced 3 times:eagerflow.errors.TraceWarning")
@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(CHANGES)), st.booleans()), max_size=8))
def test_changes_one_after_the_other(changes: list[tuple[Callable[[Any], None], bool]]) -> None:
    net = Net()

    def all_of_it(x: Any) -> Any:
        held = {path: id(value) for path, value in net.state.items()}
        flags = [(path, m.frozen, m.training) for path, m in net.named_modules()]
        return x, str((held, list(net.trainable), flags))

    traced = ef.trace(all_of_it)
    for number, (change, call) in enumerate(changes):
        net.number = number
        try:
            change(net)
        except (AttributeError, IndexError, KeyError):  # it was removed before
            continue
        if call:
            assert traced(ZERO)[1] == all_of_it(ZERO)[1]
    assert traced(ZERO)[1] == all_of_it(ZERO)[1]


class Factor(nn.Module):
    def __init__(self, factor: float) -> None:
        self.factor = factor
        self.unread = 0


def test_plain_attributes_of_modules_that_are_given_out() -> None:
    net = Net()
    net.layers.append(Factor(2.0))

    @ef.trace
    def f(x: Any) -> Any:
        for module in net.modules():
            if isinstance(module, Factor):
                x = x + module.factor
        return x

    assert f(ZERO).item() == 2.0
    net.layers[-1].unread += 1
    assert f(ZERO).item() == 2.0
    assert len(f.traces) == 1
    net.layers[-1].factor = 3.0
    assert f(ZERO).item() == 3.0
    assert f.traces[-1].reason == "net.layers.2 has another factor: was 2.0, now 3.0"


def test_the_module_as_an_argument() -> None:
    @ef.trace
    def count(net: Any, x: Any) -> Any:
        return x, len(net.state)

    net = Net()
    before = count(net, ZERO)[1]
    net.layers.append(layer())
    assert count(net, ZERO)[1] == before + 1
    assert count.traces[-1].reason == "net.layers.2 is new"


def test_a_method_that_asks_its_own_module() -> None:
    class Asking(nn.Module):
        def __init__(self) -> None:
            self.layers = [layer()]

        @ef.trace
        def penalty(self, x: Any) -> Any:
            return x + sum(ef.sum(v * 0 + 1) for v in self.trainable.values())

    net = Asking()
    assert net.penalty(ZERO).item() == 4.0
    net.layers.append(layer())
    assert net.penalty(ZERO).item() == 8.0


def test_nothing_is_kept_alive() -> None:
    net = Net()
    net.last = net  # a cycle
    net.tables["object"] = holder = Config(0.1, ef.ones(2))
    box = {"net": net}

    @ef.trace
    def f(x: Any) -> Any:
        return x, len(box["net"].trainable), len(list(box["net"].modules()))

    for _ in range(3):
        f(ZERO)
    watched = [weakref.ref(v) for v in (net, net.layers[0], net.layers[0].weight, holder.head)]
    box["net"] = Net()
    del net, holder
    gc.collect()
    assert [r() for r in watched] == [None] * 4
    assert f(ZERO)[1:] == (5, 6)


def test_a_failed_trace_keeps_nothing() -> None:
    box = [Net()]

    @ef.trace
    def f(x: Any) -> Any:
        return int(x) + len(box[0].state)

    with pytest.raises(ef.errors.TraceError):
        f(ZERO)
    seen = weakref.ref(box.pop())
    gc.collect()
    assert seen() is None
