"""Kinds of devices with fewer abilities than a CPU: few kernels, little memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import eagerflow as ef
from eagerflow.core import op as ops
from eagerflow.hardware import MemoryStats, register_backend, registry
from eagerflow.ops.rules.type_rules import FLOATING, elementwise
from eagerflow_kernels import table
from tests.hardware.fake_accelerator import FakeBackend

#: number of bytes that a device of kind small may hold
ROOM = 100


class SmallBackend(FakeBackend):
    """Devices with little memory, and without kernels that are registered for CPUs alone."""

    kind = "small"

    def memory(self, device: Any) -> MemoryStats:
        return MemoryStats(0, 0, ROOM, ROOM)


@contextmanager
def small_devices() -> Iterator[None]:
    """Two devices of kind small beside two CPUs."""
    register_backend(SmallBackend())
    try:
        with ef.config(cpu_devices=2):
            yield
    finally:
        registry._backends.pop("small")
        for name in ("small:0", "small:1"):
            registry._devices.pop(name, None)


@contextmanager
def op_of_cpus() -> Iterator[Any]:
    """A function that applies an op with a kernel for CPUs alone."""
    op = ops.define(
        "only_on_cpus", infer=elementwise(FLOATING), nondifferentiable=True, precision="exact"
    )
    table.special("only_on_cpus", "cpu")(lambda x: x)
    try:
        yield lambda x: ops.bind(op, x)
    finally:
        ops._ops.pop("only_on_cpus")
        table._special.pop(("only_on_cpus", "cpu", None), None)
