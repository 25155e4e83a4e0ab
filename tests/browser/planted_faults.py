"""Faults to be planted in the training program, each at one of several places.

What the program does not offer itself is done to the devices: their kernels become slower.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from eagerflow.hardware.contract import KernelCall
from eagerflow.hardware.cpu import CpuBackend
from tests.browser.training import BLOCKS, HELPERS, STAGES, Options

#: the kinds, and how many places there are for each
PLACES: Final = {
    "slow op": 2 * BLOCKS, "starving queue": len(STAGES), "straggling device": BLOCKS,
    "retrace per call": len(HELPERS), "NaN": BLOCKS, "deadlocked runner": len(STAGES),
}  # fmt: skip
#: ops that each block has once, going forward
_OPS: Final = ("tanh", "rsqrt")
#: how many times as long a straggling device takes
_TIMES: Final = 6


class Fault(NamedTuple):
    """A fault at a place.

    Attributes:
        kind: of `PLACES`; empty for a run as it should be.
        place: a number below what `PLACES` says.
    """

    kind: str = ""
    place: int = 0

    @property
    def answer(self) -> str:
        """What a reader of the pictures should name."""
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
        """Slow down what is to be slow, and give what the program is to be told."""
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
        seed: of the generator that draws places and order.
        each: how many places of each kind.
        healthy: how many runs are as they should be.
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
    """Change the kernels of one op, or of all, on a device; before anything has run there."""
    before = CpuBackend.launcher

    def launcher(self: CpuBackend, call: KernelCall, where: int) -> Kernel:
        kernel = before(self, call, where)
        is_meant = where == index and (call.name == op or (not op and not call.on_host))
        return how(kernel) if is_meant else kernel

    CpuBackend.launcher = launcher  # type: ignore[method-assign]  # for the whole process
