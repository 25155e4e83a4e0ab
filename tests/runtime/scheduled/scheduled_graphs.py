"""Graphs, ops and runs for tests of the executor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core import op as op_module
from eagerflow.core.op import define
from eagerflow.graph import Graph
from eagerflow.runtime import Executable
from eagerflow.runtime.scheduled import actions
from eagerflow.runtime.scheduled.scheduler import rerun
from eagerflow.runtime.scheduled.step import ScheduledStep
from eagerflow.types import TensorType
from eagerflow_kernels import table
from tests.runtime.graphs import Traced, scheduled


def open_up(node: Any) -> bool:
    """Returns False: every node with subgraphs is lowered."""
    return False


def heavy(node: Any) -> float:
    """Seconds by which each node is worth a thread."""
    return 1.0


def raw(values: Sequence[Any]) -> list[Any]:
    return [getattr(x, "_data", x) for x in values]


def same(values: Sequence[Any], want: Sequence[Any]) -> None:
    assert len(values) == len(want)
    for a, b in zip(values, want, strict=True):
        assert type(a) is type(b)
        if isinstance(a, np.ndarray):
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        elif isinstance(a, (int, float, complex)):
            assert repr(a) == repr(b)


def helped(runner: Executable, inputs: Sequence[Any], **how: Any) -> tuple[Any, ...]:
    """The results of a run with two threads of the pool, however many cores there are."""
    tier = scheduled(runner)
    step = ScheduledStep(tier, helpers=2, log=True, **how)
    results = step.run(inputs)
    assert rerun(tier.plan, step.log or []).outcome == "done"
    return results


CHAINS = """graph f(%x: f32[512,512]@cpu:0, %y: f32[512,512]@cpu:0) {
  %a = matmul(%x, %x) : f32[512,512]@cpu:0
  %b = matmul(%y, %y) : f32[512,512]@cpu:0
  %c = matmul(%a, %x) : f32[512,512]@cpu:0
  %d = matmul(%b, %y) : f32[512,512]@cpu:0
  %e = add(%c, %d) : f32[512,512]@cpu:0
  return %e }"""


class Ops:
    """Registers ops, which the fixture removes after the test."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def add(self, name: str, kernel: Callable[..., Any], effect: str = "pure") -> None:
        def infer(x: TensorType) -> TensorType:
            return x

        table.portable(name)(lambda xp, x: kernel(x))
        define(name, infer=infer, nondifferentiable=True, effect=effect, precision="exact")
        self.names.append(name)

    def wait(self, name: str, begin: Callable[..., Any]) -> None:
        self.add(name, lambda x: x, "blocks")
        actions.asynchronous[name] = begin

    def remove(self) -> None:
        for name in self.names:
            table.remove(name)
            del op_module._ops[name]
            actions.asynchronous.pop(name, None)


@pytest.fixture
def ops() -> Iterator[Ops]:
    registry = Ops()
    yield registry
    registry.remove()


def chain(*names: str) -> Graph:
    """A graph of ops in sequence."""
    lines = ["graph chain(%v0: f32[2]@cpu:0) {"]
    lines += [f"%v{i} = {op}(%v{i - 1}) : f32[2]@cpu:0" for i, op in enumerate(names, 1)]
    return Graph.parse("\n".join([*lines, f"return %v{len(names)} }}"]))


def fan(*names: str) -> Graph:
    """A graph of parallel ops, whose results are added."""
    lines = ["graph fan(%x: f32[2]@cpu:0) {"]
    lines += [f"%v{i} = {op}(%x) : f32[2]@cpu:0" for i, op in enumerate(names)]
    lines.append("%s0 = copy(%v0) : f32[2]@cpu:0")
    lines += [f"%s{i} = add(%s{i - 1}, %v{i}) : f32[2]@cpu:0" for i in range(1, len(names))]
    return Graph.parse("\n".join([*lines, f"return %s{len(names) - 1} }}"]))


X = np.asarray([1.0, 2.0], np.float32)


def loop_of(body: Callable[..., Any], iterations: int = 3, **how: Any) -> tuple[Graph, list[Any]]:
    """A loop over a vector, and its inputs."""

    def loop(x: Any) -> Any:
        return ef.while_loop(
            lambda x, i: i < iterations, lambda x, i: (body(x, i), i + 1), (x, 0), **how
        )[0]

    traced = Traced(loop, ("float32", (2,)))
    return traced.graph, raw(traced.inputs([ef.tensor(X)]))


def notes(error: BaseException) -> list[str]:
    return getattr(error, "__notes__", [])
