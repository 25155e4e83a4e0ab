"""Faults planted in the training program, each at one of several places.

Faults that the program has no option for are planted in the devices, as slower kernels.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from eagerflow.hardware.contract import KernelCall
from eagerflow.hardware.cpu import CpuBackend
from tests.browser.training import BLOCKS, HELPERS, STAGES, Options

#: kinds of faults, with the number of places for each
PLACES: Final = {
    "slow op": 2 * BLOCKS, "starving queue": len(STAGES), "straggling device": BLOCKS,
    "retrace per call": len(HELPERS), "NaN": BLOCKS, "deadlocked runner": len(STAGES),
}  # fmt: skip
#: ops that each block has once in its forward pass
_OPS: Final = ("tanh", "rsqrt")
#: slowdown of a straggling device
_TIMES: Final = 6


class Fault(NamedTuple):
    """A kind of fault, and its place.

    Attributes:
        kind: a kind in `PLACES`; empty for a healthy run.
        place: a number below the one in `PLACES`.
    """

    kind: str = ""
    place: int = 0

    @property
    def answer(self) -> str:
        """The cause that a reader of the pictures should name."""
        i = self.place
        return {
            "": "nothing",
            "slow op": f"node {_OPS[i % 2]} of blocks.{i // 2} (cpu:{i // 2})",
            "starving queue": f"queue {['samples', 'augmented', 'batches'][i % 3]}, "
            f"which {STAGES[i % 3]} fills too slowly",
            "straggling device": f"device cpu:{i}",
            "retrace per call": f"function {HELPERS[i % 3]}",
            "NaN": f"node rsqrt in the norm of blocks.{i} (cpu:{i})",
            "deadlocked runner": f"queue {STAGES[i % 3]}_audit, or the runner {STAGES[i % 3]}",
        }[self.kind]

    def plant(self) -> Options:
        """Slow down kernels as the fault requires; gives the options of the program."""
        options, i = Options(), self.place
        if self.kind == "slow op":
            _slow_down(i // 2, _OPS[i % 2], lambda kernel: _late(kernel, 0.05))
        elif self.kind == "straggling device":
            _slow_down(i, "", _repeated)
        elif self.kind == "starving queue":
            options.slow_stage = STAGES[i]
        elif self.kind == "retrace per call":
            options.labelled = HELPERS[i]
        elif self.kind == "NaN":
            options.offsets[i] = -1e3
        elif self.kind == "deadlocked runner":
            options.audited_stage = STAGES[i]
        return options


def drawn(seed: int, each: int, healthy: int) -> list[Fault]:
    """Faults in a random order.

    Args:
        seed: seed of the places and of the order.
        each: number of places drawn for each kind.
        healthy: number of healthy runs.
    """
    draws = random.Random(seed)
    faults = [Fault(k, i) for k, n in PLACES.items() for i in draws.sample(range(n), each)]
    faults += [Fault()] * healthy
    draws.shuffle(faults)
    return faults


Kernel = Callable[..., Any]


def _late(kernel: Kernel, seconds: float) -> Kernel:
    def late(*arrays: Any, **attributes: Any) -> Any:
        time.sleep(seconds)
        return kernel(*arrays, **attributes)

    return late


def _repeated(kernel: Kernel) -> Kernel:
    def repeated(*arrays: Any, **attributes: Any) -> Any:
        for _ in range(_TIMES - 1):
            kernel(*arrays, **attributes)
        return kernel(*arrays, **attributes)

    return repeated


def _slow_down(index: int, op: str, how: Callable[[Kernel], Kernel]) -> None:
    """Change the kernels of one op, or of all, on a device; only before the first op runs there."""
    before = CpuBackend.launcher

    def launcher(self: CpuBackend, call: KernelCall, where: int) -> Kernel:
        kernel = before(self, call, where)
        is_meant = where == index and (call.name == op or (not op and not call.on_host))
        return how(kernel) if is_meant else kernel

    CpuBackend.launcher = launcher  # type: ignore[method-assign]  # for the whole process
