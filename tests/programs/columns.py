"""Columns, the ways to run a program, and quantities of it: a later stage adds only a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple, final
from unittest.mock import patch
from zlib import crc32

import eagerflow as ef
from eagerflow.autograph.conversion.convert import converted
from eagerflow.core.interpreter import AbstractInterpreter
from eagerflow.core.monitors import monitored
from eagerflow.core.op import Op
from eagerflow.function import cache_entry, derivative
from eagerflow.graph.ir import Graph, Node
from eagerflow.graph.passes import DEFAULT, Pass, optimise
from eagerflow.graph.verify import verify
from eagerflow.placement.apply_rules import place
from eagerflow.runtime import executable
from eagerflow.runtime.rendezvous.rendezvous import Rendezvous
from eagerflow.runtime.scheduled import step_state
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from tests.fakes.transport import FakeNetwork, FakeTransport
from tests.placement.scattered import CPUS, by_scheduler, nothing_left, scattered

__all__ = [
    "COLUMNS",
    "MIXED",
    "QUANTITIES",
    "Column",
    "Quantity",
    "SeesAllOps",
    "partitioned",
    "renew",
]

Function = Callable[..., Any]
Context = Callable[[], AbstractContextManager[Any]]


class Column(NamedTuple):
    """A way to run a program; its results are compared with the eager run, bit for bit.

    Attributes:
        run: gives the function that runs in place of one; columns with the same `run` share that.
        within: a context that changes how it runs.
        around: a context of the eager run, too.
        inner: `run` is applied before the derivative is taken, not after; derivatives agree with
            eager ones up to rounding, as in all columns.
        skips: the class of errors of ops that only eager code runs, since graphs have no op whose
            result nothing needs: another op may be the first to fail, or none.
    """

    run: Callable[[Function], Function] = ef.trace
    within: Context = nullcontext
    around: Context = nullcontext
    inner: bool = False
    skips: type[Exception] | tuple[()] = ()


@contextmanager
def graphs(change: Callable[[Graph], Graph]) -> Iterator[None]:
    """A context in which traced functions run changed graphs, each of which is verified."""

    def changed(graph: Graph) -> Any:
        made = change(graph)
        verify(made)  # the setting `verify` looks at each op, so it would replay graphs
        return made, []

    with (
        patch.object(cache_entry, "optimise", changed),
        patch.object(derivative, "optimise", changed),
    ):
        yield


def renew(run: Function) -> None:
    """Replace the executables of a traced function by ones made in the current context."""
    if isinstance(run, ef.TracedFunction):
        for entry in run._lookup.cache.entries():
            rules = entry.rules
            entry.replace(rules, None if rules is None else place(entry.graph, rules))


def passes(*chosen: Pass) -> Context:
    return lambda: graphs(lambda graph: optimise(graph, chosen)[0])


def read_again(graph: Graph) -> Graph:
    again = Graph.parse(str(graph), graph.resources)
    assert str(again) == str(graph)
    return again


@contextmanager
def scheduled(whole: Any = None) -> Iterator[None]:
    """A context in which the scheduler runs graphs."""
    tier = ScheduledTier if whole is None else partial(ScheduledTier, whole=whole)
    with (
        patch.object(executable, "has_free_waits", lambda graph: True),
        patch.object(executable, "_is_chain", lambda graph: False),
        patch.object(executable, "ScheduledTier", tier), passes(*DEFAULT)(),
    ):  # fmt: skip
        yield


class Scattered(NamedTuple):
    """The observations of `partitioned`.

    Attributes:
        graphs: the graphs that were placed.
        ended: how the steps over several devices ended.
    """

    graphs: list[Graph]
    ended: list[str]


@contextmanager
def partitioned(
    devices: Sequence[str] = CPUS, *, scheduled: bool = False, by_network: bool = False,
    salt: int = 0,
) -> Iterator[Scattered]:  # fmt: skip
    """A context that cuts graphs for several devices; no step may leave a sent value behind."""
    with ExitStack() as stack:
        stack.enter_context(ef.config(cpu_devices=4))
        seen = Scattered([], stack.enter_context(nothing_left()))

        def change(graph: Graph) -> Graph:
            seen.graphs.append(scattered(optimise(graph, DEFAULT)[0], devices, salt))
            return seen.graphs[-1]

        stack.enter_context(graphs(change))
        if scheduled or by_network:
            stack.enter_context(by_scheduler())
        if by_network:
            network = FakeNetwork(seed=len(devices) + salt)
            made = partial(Rendezvous, transport=FakeTransport(network))
            stack.enter_context(patch.object(step_state, "Rendezvous", made))
            stack.enter_context(network.running())
        yield seen


#: two of these have memory of their own, and their work is done late and in pieces
MIXED = ("cpu:0", "async:0", "cpu:1", "async:1")


def by_name(node: Node) -> str:
    """One of several devices, by a hash of the name of the node."""
    return CPUS[crc32(node.name.encode()) % len(CPUS)]


@final
class SeesAllOps(AbstractInterpreter):
    """A monitor of each op, for which graphs are replayed."""

    def bind(self, op: Op, inputs: Sequence[Any], attrs: dict[str, Any]) -> Any:
        return self.below.bind(op, inputs, attrs)


def ruled(function: Function) -> Function:
    """A traced function with a rule of placement, which is applied before the passes."""
    return ef.trace(function).place(by_name)


@contextmanager
def on_several_devices() -> Iterator[None]:
    """A context with as many devices as the rule gives."""
    with ef.config(cpu_devices=len(CPUS)), passes(*DEFAULT)():
        yield


COLUMNS: dict[str, Column] = {
    "converted": Column(converted),
    "traced": Column(within=passes(*DEFAULT)),
    "traced inside": Column(inner=True),
    "not optimised": Column(within=passes()),
    **{p.__name__: Column(within=passes(p)) for p in DEFAULT},
    "read again from text": Column(within=lambda: graphs(read_again)),
    "scheduled": Column(within=scheduled),
    "scheduled node by node": Column(within=lambda: scheduled(lambda node: False)),
    "partitioned": Column(within=partitioned),
    "partitioned, by the scheduler": Column(within=lambda: partitioned(scheduled=True)),
    "partitioned, by the worst network": Column(within=lambda: partitioned(by_network=True)),
    "partitioned, late and in pieces": Column(within=lambda: partitioned(MIXED)),
    "placed by a rule": Column(ruled, within=on_several_devices),
    "placed by a rule inside": Column(ruled, within=on_several_devices, inner=True),
    "replayed": Column(around=lambda: monitored(SeesAllOps())),
    "checked for NaN": Column(
        around=lambda: ef.config(check_nan=True), skips=ef.errors.NonFiniteError
    ),
    "under a tape": Column(around=ef.GradientTape),  # a tape follows variables
}


class Quantity(NamedTuple):
    """A quantity computed of a scalar function of an array and of a variable.

    Attributes:
        of: takes the function and the variable, gives a function of the array.
        order: how often it is differentiated.
        same_as: the quantity that it equals up to rounding, computed in another way.
    """

    of: Callable[[Function, Any], Function]
    order: int
    same_as: str = ""


def _slope(f: Function) -> Function:
    return ef.grad(f)


def _push(f: Function) -> Function:
    """The derivative along a direction."""
    return lambda x: ef.jvp(f, (x,), (ef.cos(ef.stop_gradient(x)),))[1]


def _pull(f: Function) -> Function:
    """The derivative along a direction, from the gradient."""
    return lambda x: (ef.grad(f)(x) * ef.cos(ef.stop_gradient(x))).sum()


def _by_tape(f: Function) -> Function:
    def slope(x: Any) -> Any:
        with ef.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        gradient = tape.gradient(y, x)
        return ef.zeros_like(x) if gradient is None else gradient

    return slope


def _by_vjp(f: Function) -> Function:
    return lambda x: ef.vjp(f, x)[1](ef.tensor(1.0, dtype=x.dtype))[0]


def _hessian(f: Function) -> Function:
    return lambda x: (ef.hessian(f)(x) * ef.cos(x)).sum(axis=(-2, -1))


QUANTITIES: dict[str, Quantity] = {
    "slope": Quantity(lambda f, v: _slope(f), 1),
    "slope by a variable": Quantity(lambda f, v: ef.grad(f, wrt=v), 1),
    "slope by a tape": Quantity(lambda f, v: _by_tape(f), 1, "slope"),
    "slope by a pullback": Quantity(lambda f, v: _by_vjp(f), 1, "slope"),
    "along": Quantity(lambda f, v: _pull(f), 1),
    "along, forward": Quantity(lambda f, v: _push(f), 1, "along"),
    "curve": Quantity(lambda f, v: _slope(_pull(f)), 2),
    "curve, forward over reverse": Quantity(lambda f, v: _push(_slope(f)), 2, "curve"),
    "curve, reverse over forward": Quantity(lambda f, v: _slope(_push(f)), 2, "curve"),
    "curve by tapes": Quantity(lambda f, v: _by_tape(lambda x: (
        _by_tape(f)(x) * ef.cos(ef.stop_gradient(x))).sum()), 2, "curve"),
    "hessian": Quantity(lambda f, v: _hessian(f), 2, "curve"),
    "third": Quantity(lambda f, v: _slope(_pull(_pull(f))), 3),
    "third, forward inside": Quantity(lambda f, v: _slope(_push(_push(f))), 3, "third"),
    "third, forward outside": Quantity(lambda f, v: _push(_push(_slope(f))), 3, "third"),
    "third, in between": Quantity(lambda f, v: _slope(_pull(_push(f))), 3, "third"),
}  # fmt: skip
