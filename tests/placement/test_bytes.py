"""Partitions send each other the least possible, according to an independent count.

The count is based on a run of the graph that was not cut. A value is sent to each device that
needs it, once for each execution that is not dead; values that can be computed without data are
not sent: constants, Python numbers and results computed from these, shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow.dims import symbols
from eagerflow.errors import EagerflowError
from eagerflow.graph.ir import Graph, Node, Value
from eagerflow.graph.lowering.frame_paths import FramePath, FramePaths, is_pivot, loop_of
from eagerflow.graph.signatures import is_number
from eagerflow.graph.value_types import NumberType
from eagerflow.placement.demand import Demand
from eagerflow.placement.partition_check import verify_cut
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier, waits_nowhere
from eagerflow.runtime.strands import strands
from eagerflow.runtime.strands.edges import EdgeQueue, RouteCount
from eagerflow.types import LIST
from tests.exploring import examples
from tests.placement.scattered import by_scheduler, nothing_left, scattered
from tests.placement.test_cut import arguments, halving
from tests.programs.language import Program
from tests.programs.strategies import Call, calls, graph_of, programs

_STEERING = ("Switch", "Merge", "Enter", "Exit", "NextIteration")
Whole = Callable[[Node], bool]


class Needs:
    """The devices that need each value of a lowered graph, found from its ends backwards."""

    def __init__(self, graph: Graph) -> None:
        self.paths = FramePaths(graph)
        self.graph = graph
        self.back = {n.name: n.inputs for n in graph.nodes if n.op == "NextIteration"}
        leaving = [n.inputs[0].node for n in graph.nodes if n.op == "Exit"]
        self.predicates = {loop_of(self.paths.nodes[n])[-1][1]: n.inputs[1] for n in leaving if n}
        self.data = self._depends_on_data()
        self.chosen_there: set[tuple[Value, Any]] = set()  # there from outside
        while True:
            self.demands: set[tuple[Value, Any]] = set()
            self._find()
            chosen = {(v, d) for v, d in self.demands if self._is_around(v, d)}
            if chosen <= self.chosen_there:
                break
            self.chosen_there |= chosen

    def _depends_on_data(self) -> set[Value]:
        data = {v for v in self.graph.inputs if not isinstance(v.type, NumberType)}
        while True:
            new = {v for n in self.graph.nodes if self._takes_data(n, data) for v in n.outputs}
            if new <= data:
                return data
            data |= new

    def _takes_data(self, node: Node, data: set[Value]) -> bool:
        """Whether a node's results cannot be computed on any device from numbers alone."""
        if node.op == "constant":
            return False
        gates = all(is_pivot(n) or "back" in n.attrs for n in node.control_inputs)
        steers = node.op in ("Switch", "Enter") or "back" in node.attrs
        numbers = all(isinstance(v.type, NumberType) for v in node.outputs)
        if not (gates and (is_number(node.op) or (numbers and steers))):
            return True
        if node.op == "Enter":  # a number enters a loop once
            return False
        inputs = (*node.inputs[: 1 if node.op == "Switch" else None], *self._next(node))
        return any(v in data for v in inputs)

    def _next(self, node: Node) -> Sequence[Value]:
        return self.back[node.attrs["back"]] if "back" in node.attrs else ()

    def _is_around(self, value: Value, device: Any) -> bool:
        """Whether a device has the operand of a branch from outside of the branch."""
        if value.device == device:
            return False
        while value.node is not None and value.node.op == "Switch":
            value = _origin(value.node.inputs[0])
            there = value.device == device or (value, device) in self.demands
            if there or value not in self.data:
                return True
        return False

    def _find(self) -> None:
        for node in self.graph.nodes:
            if not (node.op in _STEERING or node.op == "transfer" or is_pivot(node)):
                device = _device_of(node)
                self._part(self.paths.nodes[node], device if self._is_real(node) else None)
                for value in node.inputs:
                    self._need(value, device)
        for value in self.graph.outputs:
            self._need(value, value.device)

    def _is_real(self, node: Node) -> bool:
        return not node.outputs or node.outputs[0] in self.data

    def _part(self, path: FramePath, device: Any) -> None:
        """Record that a device takes part in branches and in iterations of loops."""
        for what, which in path:
            self._need(self.predicates[which] if what == "frame" else what, device)

    def _need(self, value: Value, device: Any) -> None:
        value = _origin(value)
        if device is None or value not in self.data or (value, device) in self.demands:
            return
        self.demands.add((value, device))
        self._part(self.paths.values[value], device)
        node = value.node
        if node is None or node.op not in _STEERING or isinstance(value.type, NumberType):
            return
        if value.device != device and (value, device) not in self.chosen_there:
            self._need(value, value.device)
            return
        for taken in (*node.inputs, *self._next(node)):
            self._need(taken, device)

    def sent(self) -> Iterator[tuple[Value, Any]]:
        for value, device in self.demands - self.chosen_there:
            if value.device != device and not isinstance(value.type, NumberType):
                yield value, device


def _origin(value: Value) -> Value:
    """The value that a value is a copy of, perhaps from outside of a loop."""
    while value.node is not None and (
        value.node.op == "transfer" or value.node.attrs.get("invariant")
    ):
        value = value.node.inputs[0]
    return value


def _device_of(node: Node) -> Any:
    values = (*node.outputs, *node.inputs)
    return next((d for d in (node.device, *(v.device for v in values)) if d is not None), None)


def chosen(tier: ScheduledTier, inputs: Sequence[Any]) -> Counter[tuple[Value, int]]:
    """Run a graph that was not cut; count the decisions by predicate and port."""
    step = tier.step(log=True)
    step.run(inputs)
    frames, counts = {0: 0}, Counter[tuple[Value, int]]()
    counted: dict[Value, Node] = {}  # one node of those that a predicate steers
    for event, instructions in step.log or ():
        if event[0] == "chose":
            _, tag, number, port = event
            node = tier.frames[frames[tag]].actions[number].node
            if counted.setdefault(node.inputs[1], node) is node:
                counts[node.inputs[1], port] += 1
        frames.update((i[1], i[3]) for i in instructions if i[0] == "open")
    return counts


@dataclass
class Crossing:
    """The values that cross between devices in a step.

    Attributes:
        counts: the number of values by edge name.
        nbytes: the number of their bytes; None if it is unknown in advance.
    """

    counts: dict[str, int]
    nbytes: int | None


def least(graph: Graph, whole: Whole, inputs: Sequence[Any]) -> Crossing:
    """The least traffic possible, as a run of the graph that is not cut shows."""
    tier = ScheduledTier(graph, whole=whole)
    decided, needs = chosen(tier, inputs), Needs(tier.graph)

    def executions(path: FramePath) -> int:
        if not path:
            return 1
        what, which = path[-1]
        if what != "frame":
            return decided[what, which]
        return sum(n for (p, _), n in decided.items() if p is needs.predicates[which])

    transfers = {(v, d): executions(needs.paths.values[v]) for v, d in needs.sent()}
    sizes = [n * v.type.nbytes if _is_sized(v) else None for (v, _), n in transfers.items()]
    counts = {f"{v.name} -> {d}": n for (v, d), n in transfers.items() if n}
    return Crossing(counts, None if None in sizes else sum(filter(None, sizes)))


def _is_sized(value: Value) -> bool:
    return value.type.dtype is not LIST and not symbols(value.type.shape)


def sent(graph: Graph, whole: Whole, inputs: Sequence[Any], *, scheduled: bool) -> Crossing:
    """The actual traffic of partitions, as strands or by the scheduler; nothing may be left."""
    with by_scheduler() if scheduled else nullcontext():
        tier = ScheduledTier(graph, whole=whole, partitioned=True)
    assert tier.cut is not None
    verify_cut(tier.cut)
    tensors = {
        edge for edge, (end, _) in tier.cut.pairs.items()
        if end.inputs and not ("shape" in end.attrs or isinstance(end.inputs[0].type, NumberType))
    }  # fmt: skip
    counts, nbytes = Counter[str](), []

    def count(edge: str, value: Any) -> None:
        if edge in tensors:
            counts[edge] += 1
            nbytes.append(getattr(value, "nbytes", 0))  # lists have no size

    send = Rendezvous.send

    def counting(rendezvous: Rendezvous, key: Key, value: Any = None, **options: Any) -> None:
        count(key.edge, value)
        send(rendezvous, key, value, **options)

    names = iter(tier.cut.pairs)

    class Counted(EdgeQueue):
        def __init__(self, route: RouteCount) -> None:
            super().__init__(route)
            self.name = next(names)

        def send(self, value: Any) -> None:
            count(self.name, value)
            super().send(value)

    with (
        patch.object(Rendezvous, "send", counting), patch.object(strands, "EdgeQueue", Counted),
        nothing_left() as ended,
    ):  # fmt: skip
        tier.run(inputs)
    assert ended == ["done"]
    return Crossing(counts, sum(nbytes))


def check(graph: Graph, inputs: Sequence[Any], reset: Callable[[], object] = lambda: None) -> None:
    """Check that the traffic is the least, with all branches and loops cut, and with some."""
    raw = [x._data if isinstance(x, ef.Tensor) else x for x in inputs]
    for whole in (lambda node: False, waits_nowhere):
        reset()
        try:
            want = least(graph, whole, raw)
        except EagerflowError:  # an error of the program
            return
        for scheduled in (False, True):
            reset()
            got = sent(graph, whole, raw, scheduled=scheduled)
            assert got.counts == want.counts
            assert want.nbytes in (got.nbytes, None)


@given(programs(), calls(1, 2, 3, count=1), st.integers(0, 3))
@settings(max_examples=examples(15))
@example(
    program=Program(
        body=[
            ("add_in_place", 0, 0, 0),
            ("branch", 0, 1, 0, [("append", 0, 0, 0)], [("with_number", 0, 0, 0)]),
        ],
        python=True,
    ),
    made=[Call(1, 1, 0.0, 0, 0, 0.0)],
    salt=0,
)
def test_random_programs(program: Program, made: list[Call], salt: int) -> None:
    with ef.config(cpu_devices=4), np.errstate(all="ignore"):
        try:
            graph, inputs, state = graph_of(program, made[0])
        except EagerflowError:
            return
        check(scattered(graph.optimise(), salt=salt), inputs, state.reset)


def twice(x: Any, w: Any) -> Any:
    """Two branches with a common operand from outside; a device has a part of one of them."""
    y = ef.exp(x.to("cpu:1"))
    if x.sum() > 0.0:
        y = y * x.to("cpu:1") + w
    if x.sum() > 1.0:
        y = y + ef.sin(x).to("cpu:1") * w
    return y.to("cpu:0") + x


def nested(x: Any, w: Any) -> Any:
    """A loop in a loop over two devices, with a branch in it and an invariant of both."""
    total = x.sum()
    for _ in ef.arange(3):
        y = x
        while y.sum() < 30.0:
            y = (ef.exp(y.to("cpu:1") * 0.1) @ w).to("cpu:0") + y
            if y.sum() > 20.0:
                y = y + (y.to("cpu:1") @ w).to("cpu:0")
        total = total + y.sum()
    return total


def slopes(f: Any) -> Any:
    return lambda x, w: ef.grad(lambda x, w: f(x, w).sum(), argnums=(0, 1))(x, w)


@pytest.mark.parametrize("f", [halving, slopes(halving), twice, slopes(twice), nested])
def test_loops_and_branches(f: Any) -> None:
    with ef.config(cpu_devices=4):
        args = arguments("cpu:1")
        graph = ef.trace(f).graph(*args)
        given = dict(zip("xw", args, strict=True))
        graph = graph.optimise()
        inputs = [given[v.name] for v in graph.inputs]
        check(graph, inputs)
        check(scattered(graph), inputs)


def test_the_count_sees_what_is_sent_in_vain() -> None:
    """A value sent to a device that does not need it exceeds the least."""
    with ef.config(cpu_devices=2):
        x, w = arguments("cpu:1")
        graph = ef.trace(twice).graph(x, w).optimise()
        with patch.object(Demand, "_reaches", lambda *_: False), pytest.raises(AssertionError):
            check(graph, [x, w])
