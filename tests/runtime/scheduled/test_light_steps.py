"""Light steps: the bits of eager code over a bad network, errors at all ends, nothing left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.errors import CancelledError, EagerflowError, RendezvousError
from eagerflow.graph.lowering import lower
from eagerflow.placement.cut import Partition, cut
from eagerflow.runtime.rendezvous.keys import Key, Route
from eagerflow.runtime.scheduled.detached import Result
from eagerflow.runtime.scheduled.light_steps import LightProgram, LightStep, is_light, is_short
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier, waits_nowhere
from tests.fakes.transport import CALM, WORST, FakeNetwork, Weather


@pytest.fixture(autouse=True)
def _devices() -> Iterator[None]:
    with ef.config(cpu_devices=3):
        yield


class Step:
    """A step of a graph that was cut, its partitions as light steps on a network."""

    def __init__(
        self, function: Callable[..., Any], *inputs: Any, weather: Weather = WORST
    ) -> None:
        self._cut = cut(lower(ef.trace(function).graph(*inputs), waits_nowhere))
        self._inputs = [x._data for x in inputs]
        self.network = FakeNetwork(3, weather)
        self.told: dict[Partition, list[tuple[Any, ...] | Exception]] = {}
        self.steps: dict[str, LightStep] = {}
        routes = {
            edge: Route(*[str(node.device) for node in ends])
            for edge, ends in self._cut.pairs.items()
        }
        for partition in self._cut.partitions:
            station = self.network.station(str(partition.device))
            tier = ScheduledTier(partition.graph, routes=routes, transport=station)
            assert is_light(tier)
            self.told[partition] = []
            done = partial(self._done, self.told[partition])
            program = LightProgram(tier)
            self.steps[str(partition.device)] = LightStep(program, 12, station.at_once, done)

    def _done(self, told: list[tuple[Any, ...] | Exception], result: Result) -> None:
        try:
            told.append(result())
        except EagerflowError as error:
            told.append(error)

    def begin(self, *devices: str) -> None:
        for partition in self._cut.partitions:
            if not devices or str(partition.device) in devices:
                inputs = [self._inputs[i] for i in partition.inputs]
                self.steps[str(partition.device)].begin(inputs)
                self.network.used(str(partition.device))

    def results(self) -> list[Any]:
        """The results of the step, which must leave nothing behind."""
        self.network.run()
        assert not self.network.held
        given = {}
        for partition, (told,) in self.told.items():
            assert isinstance(told, tuple), told
            given[partition] = iter(told)
        return [next(given[partition]) for partition, _ in self._cut.outputs]

    def errors(self) -> list[EagerflowError]:
        """The errors of the partitions that failed; the step must leave nothing behind."""
        self.network.run()
        assert not self.network.held
        ends = [told for (told,) in self.told.values()]
        return [told for told in ends if isinstance(told, EagerflowError)]


def there_and_back(x: ef.Tensor) -> Sequence[ef.Tensor]:
    y, z = ef.exp(x.to("cpu:1")), ef.sin(x.to("cpu:2"))
    total = (y.to("cpu:2") + z) * 0.3
    return x * 2, total, (ef.cos(total).to("cpu:0") + y.to("cpu:0")).sum()


@pytest.mark.parametrize("weather", [CALM, WORST])
def test_the_bits_are_those_of_eager_code(weather: Weather) -> None:
    x = ef.tensor(np.linspace(-1, 1, 7, dtype=np.float32))
    step = Step(there_and_back, x, weather=weather)
    step.begin()
    for got, want in zip(step.results(), there_and_back(x), strict=True):
        assert got.tobytes() == want.numpy().tobytes()


def test_values_may_come_before_the_step_begins() -> None:
    x = ef.tensor([1.0, 2.0])
    step = Step(there_and_back, x)
    step.begin("cpu:0")
    step.network.run()
    step.begin("cpu:1", "cpu:2")
    assert step.results()[1].tobytes() == there_and_back(x)[1].numpy().tobytes()


def test_variables_are_read_and_written_in_order() -> None:
    w = ef.Variable([1.0, 2.0], device="cpu:1")

    def update(x: ef.Tensor) -> ef.Tensor:
        read = w.value.to("cpu:0") * x
        w.assign_sub(read.to("cpu:1") * 0.5)
        return (w.value.to("cpu:2") + read.to("cpu:2")).sum()

    step = Step(update, ef.tensor([1.0, 3.0]))
    step.begin()
    (total,) = step.results()
    assert w.numpy().tolist() == [0.5, -1.0]
    assert total == 0.5 - 1.0 + 1.0 + 6.0


def test_an_error_ends_the_step_at_all_ends_and_says_what_was_written() -> None:
    w = ef.Variable(1.0, name="w", device="cpu:1")

    def wrong(x: ef.Tensor) -> ef.Tensor:
        w.assign_add(x.to("cpu:1").sum() * 0.0 + 1.0)
        there = ef.take(x.to("cpu:1"), ef.tensor([7], device="cpu:1") + w.value.astype("i64"))
        return there.to("cpu:2") + 1.0

    step = Step(wrong, ef.tensor([1.0, 2.0]))
    step.begin()
    errors = step.errors()
    assert len(errors) == 2
    assert {type(error).__name__ for error in errors} == {"TensorIndexError"}
    assert any("had already written" in note for e in errors for note in e.__notes__)


def test_a_step_that_is_cancelled_says_what_it_waited_for() -> None:
    step = Step(there_and_back, ef.tensor([1.0]))
    step.begin("cpu:1", "cpu:2")
    step.network.run()
    step.steps["cpu:1"].cancel("nobody wants it")
    step.steps["cpu:0"].cancel("nobody wants it")  # not begun yet
    step.begin("cpu:0")
    errors = step.errors()
    assert len(errors) == 3
    assert {type(error) for error in errors} == {CancelledError}
    assert any("recv" in note for error in errors for note in getattr(error, "__notes__", ()))


def test_what_comes_for_a_step_that_was_cancelled_before_it_began_is_dropped() -> None:
    w = ef.Variable([1.0], device="cpu:1")

    def far(x: ef.Tensor) -> ef.Tensor:
        return ef.exp(w.value).to("cpu:0") + x

    for weather in (CALM, WORST):
        step = Step(far, ef.tensor([1.0]), weather=weather)
        step.begin("cpu:1")
        step.steps["cpu:0"].cancel("nobody wants it")
        assert CancelledError in {type(error) for error in step.errors()}


def test_what_it_does_not_receive_is_refused() -> None:
    step = Step(there_and_back, ef.tensor([1.0]))
    one = step.steps["cpu:1"]
    (key,) = one.wanted()
    for bad in (key._replace(edge="x -> cpu:7"), key._replace(path=(("while_loop", 1),))):
        with pytest.raises(RendezvousError, match="does not have"):
            one.put(bad, 1.0, False, None)
    step.begin()
    step.results()
    told: list[Exception | None] = []
    one.put(key, 1.0, False, told.append)  # the step has ended
    assert told == [None]


def test_a_value_that_is_sent_twice_is_refused() -> None:
    step = Step(there_and_back, ef.tensor([1.0]), weather=CALM)
    two = step.steps["cpu:2"]
    (first, _) = two.wanted()
    two.put(first, np.ones(1, np.float32), False, None)
    with pytest.raises(RendezvousError, match="sent twice"):
        two.put(first, np.ones(1, np.float32), False, None)
    assert first not in two.wanted()
    assert Key(12, first.edge) == first


def _tier(function: Callable[..., Any], *inputs: Any) -> ScheduledTier:
    return ScheduledTier(lower(ef.trace(function).graph(*inputs), waits_nowhere), routes={})


def test_what_may_take_long_is_not_light() -> None:
    x = ef.ones((400, 400))
    assert is_light(_tier(lambda x: x + 1, ef.ones(3)))
    assert not is_light(_tier(lambda x: x @ x @ x, x))
    one = x[0, 0]
    assert not is_light(_tier(lambda x: ef.while_loop(lambda x: x < 9, lambda x: x + 1, x), one))
    assert not is_light(_tier(lambda x: ef.cond(x > 0, lambda: x, lambda: -x), one))
    assert not is_light(_tier(lambda x: ef.py_call(np.sin, "f32[3]", x), ef.ones(3)))
    queue = ef.Queue(3, "f32[]")
    assert not is_light(_tier(lambda x: queue.enqueue(x), one))


def test_what_has_a_loop_is_not_short() -> None:
    """However light an iteration is, their number is unknown."""

    def short(function: Callable[..., Any]) -> bool:
        return is_short(ef.trace(function).graph(ef.tensor(1.0)))

    def endless(x: ef.Tensor) -> Any:
        return ef.while_loop(lambda x: x > 0, lambda x: x + 1, x)

    assert short(lambda x: x + 1)
    assert short(lambda x: ef.cond(x > 0, lambda: x, lambda: -x))
    assert not short(endless)
    assert not short(lambda x: ef.cond(x > 0, lambda: endless(x), lambda: x))


def test_sizes_of_which_only_the_name_is_known_may_be_large() -> None:
    def of_names(function: Callable[..., Any], *shapes: tuple[int, ...]) -> ScheduledTier:
        traced = ef.trace(function)
        for shape in shapes:
            traced(ef.ones(shape))
        return ScheduledTier(lower(traced.graph(ef.ones(shapes[-1])), waits_nowhere), routes={})

    assert is_light(of_names(lambda x: x + 1, (3,), (4,)))
    assert not is_light(of_names(lambda x: x @ x, (3, 3), (4, 4)))


@pytest.mark.parametrize("rows", [1_000, 64_000])
def test_rows_of_a_large_table_are_light(rows: int) -> None:
    """The rows read and written count, not the size of their table."""
    table = ef.Variable(ef.zeros((rows, 64)))

    def step(which: ef.Tensor) -> ef.Tensor:
        taken = ef.take(table, which, axis=0)
        table.scatter_add(which, taken)
        return taken

    graph = ef.trace(step).graph(ef.zeros(32, ef.int64))
    assert is_light(ScheduledTier(lower(graph, waits_nowhere)))
