"""The updates of all parameters as one joint call of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.hardware.kernel_library import in_force
from eagerflow_kernels.native.joint_calls import is_possible
from tests.kernels.native.compiling import needs_compiler

pytestmark = [
    needs_compiler,
    pytest.mark.skipif(in_force() != "native", reason="portable"),
    pytest.mark.skipif(not is_possible(), reason="another Python"),
]

Compile: TypeAlias = Literal["now", "off"]

SHAPES = [(3, 4), (4,), (), (1,), (4, 30), (30,)] * 2


class Trained:
    """Parameters updated by Adam in traced steps."""

    def __init__(
        self, compile: Compile, shapes: list[Any] = SHAPES, dtype: str = "float32"
    ) -> None:
        rng = np.random.default_rng(0)
        values = [ef.asarray(rng.normal(size=shape)).astype(dtype) for shape in shapes]
        self.weights = [ef.Variable(value) for value in values]
        self.gradients = [value * 0.5 for value in values]
        self.adam = ef.optim.Adam(self.weights, lr=0.1)
        self.step = ef.trace(lambda *g: self.adam.update([*g]), compile=compile)

    def run(self, times: int = 4) -> list[Any]:
        for _ in range(times):
            self.step(*self.gradients)
        return [w.numpy() for w in self.weights]


def _same(results: list[Any], expected: list[Any]) -> None:
    for x, y in zip(results, expected, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_bits_are_those_of_single_updates(dtype: str) -> None:
    joint, alone = Trained("now", dtype=dtype), Trained("off", dtype=dtype)
    _same(joint.run(), alone.run())
    text = joint.step.ir("python")
    assert text.count("def updates") == 1


def test_one_call_updates_all() -> None:
    trained = Trained("now")
    trained.run(1)
    (name, *others), used = _spied(trained)
    assert not others
    trained.run(4)
    assert used == [name] * 4


def _spied(trained: Trained) -> tuple[list[str], list[str]]:
    """The names of the joint calls of a step, and a list that records their runs from now on."""
    region = trained.step.latest().executable.tier.region  # type: ignore[attr-defined]  # generated
    region.trial = None
    code = region.plain()
    space = code.run.__globals__
    names = [name for name, value in space.items() if getattr(value, "__name__", "") == "run"]
    names = [name for name in names if name.startswith("run_")]
    used: list[str] = []

    def spy(name: str, run: Callable[[list[Any]], int]) -> Callable[[list[Any]], int]:
        def called(arrays: list[Any]) -> int:
            made = run(arrays)
            used.extend([name] * made)
            return made

        return called

    for name in names:
        space[name] = spy(name, space[name])
    return names, used


def test_variables_that_others_hold_are_updated_one_by_one() -> None:
    joint, alone = Trained("now"), Trained("off")
    joint.run(1)
    alone.run(1)
    held = joint.weights[1].numpy(), joint.weights[3].value
    before = [np.array(x) for x in held]
    _same(joint.run(2), alone.run(2))
    _same([*map(np.array, held)], before)


def test_any_number_of_locks_is_held() -> None:
    shapes = [(2,)] * 40
    _same(Trained("now", shapes).run(2), Trained("off", shapes).run(2))


def test_what_reads_an_updated_variable_comes_after_it() -> None:
    def results(compile: Compile) -> list[Any]:
        first, second = (ef.Variable(np.ones(n, np.float32)) for n in (3, 4))

        @ef.trace(compile=compile)
        def step(x: ef.Tensor) -> ef.Tensor:
            a = first.assign_sub(x * 0.5)
            return second.assign_sub(ef.sum(a) * x[0] * 0.5)

        return [step(ef.ones(3) * k).numpy() for k in (1.0, 2.0, -3.0)]

    _same(results("now"), results("off"))
