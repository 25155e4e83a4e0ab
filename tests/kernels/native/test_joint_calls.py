"""Joint calls: one kernel on several sets of arrays, and refusal of sets that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eagerflow_kernels.native.fusion import FusedNode, NativeRegion, fuse
from eagerflow_kernels.native.joint_calls import JointCall, JointOperand, is_possible
from eagerflow_kernels.native.loop_form import LoopArray
from tests.kernels.native.compiling import needs_compiler

pytestmark = [needs_compiler, pytest.mark.skipif(not is_possible(), reason="another Python")]

#: elements of each set, one of which is shared by threads
SIZES = (1, 5, 64, 1000, 2_000_000)


class Held:
    """Two sets of a kernel ``w - rate * g`` that writes each ``w`` in place."""

    def __init__(self) -> None:
        nodes = [FusedNode("multiply", (1, 2)), FusedNode("subtract", (0, 3))]
        loops = fuse("descend", [LoopArray("f32")] * 3, nodes, [4])
        self.region = NativeRegion.of(loops)
        sets = [
            [JointOperand(n, 2), JointOperand(n, 0), JointOperand(1, 0), JointOperand(n, 2)]
            for n in SIZES
        ]
        self.call = JointCall(self.region, sets)
        rng = np.random.default_rng(0)
        self.weights = [rng.normal(size=n).astype("f4") for n in SIZES]
        self.slopes = [rng.normal(size=n).astype("f4") for n in SIZES]
        self.rate = np.asarray(0.5, "f4")

    def run(self) -> int:
        w, g = self.weights, self.slopes
        return self.call.run(
            [x for i in range(len(w)) for x in (w[i], g[i], self.rate, w[i])]
        )  # fmt: skip


def test_it_runs_all_sets_in_place() -> None:
    held = Held()
    wanted = [w - np.float32(0.5) * g for w, g in zip(held.weights, held.slopes, strict=True)]
    where = [w.ctypes.data for w in held.weights]
    assert held.run() == 1
    assert [w.ctypes.data for w in held.weights] == where
    for weight, expected in zip(held.weights, wanted, strict=True):
        np.testing.assert_array_equal(weight, expected)


def _strided(held: Held) -> None:
    held.slopes[1] = np.zeros(10, "f4")[::2]


def _of_float64(held: Held) -> None:
    held.slopes[1] = held.slopes[1].astype("f8")


def _longer(held: Held) -> None:
    held.slopes[1] = np.zeros(6, "f4")


def _a_number(held: Held) -> None:
    held.rate = np.float32(0.5)  # type: ignore[assignment]  # ufuncs make arrays of it


def _a_subclass(held: Held) -> None:
    held.slopes[1] = held.slopes[1].view(np.recarray)


def _read_only(held: Held) -> None:
    held.weights[1].flags.writeable = False


def _a_view(held: Held) -> None:
    held.weights[1] = np.zeros(10, "f4")[:5]


def _swapped(held: Held) -> None:
    held.slopes[1] = held.slopes[1].astype(">f4")


def _unaligned(held: Held) -> None:
    held.slopes[1] = np.frombuffer(bytes(21), "f4", offset=1)


_OTHERWISE: list[Callable[[Held], None]] = [
    _strided, _of_float64, _longer, _a_number, _a_subclass, _read_only, _a_view, _swapped,
    _unaligned,
]  # fmt: skip


@pytest.mark.parametrize("change", _OTHERWISE, ids=lambda f: f.__name__.strip("_"))
def test_what_is_otherwise_is_left_alone(change: Callable[[Held], None]) -> None:
    held = Held()
    change(held)
    before = [w.copy() for w in held.weights]
    assert held.run() == 0
    for weight, expected in zip(held.weights, before, strict=True):
        np.testing.assert_array_equal(weight, expected)


def test_it_writes_into_nothing_that_others_have() -> None:
    held = Held()
    other: Any = held.weights[2]
    assert held.run() == 0
    view = other[...]
    del other
    assert held.run() == 0
    del view
    assert held.run() == 1
