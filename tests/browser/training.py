"""A realistic training program: a data pipeline in stages, a network over four devices.

Three runners make batches (`read`, `augment`, `collate`), with a queue after each. The step takes
a batch, and has a block of the network on each of ``cpu:0`` to ``cpu:3``. A runner writes down the
losses. Between steps the loop gets a learning rate, evaluates, and smooths the loss. The program
knows nothing of the faults planted in it (`tests.browser.planted_faults`), except for options that
are off by default.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

import eagerflow as ef

WIDTH: Final = 96
BATCH: Final = 128
BLOCKS: Final = 4
STAGES: Final = ("read", "augment", "collate")
#: functions that the loop calls between steps
HELPERS: Final = ("rate", "evaluate", "smooth")


@dataclass
class Options:
    """Options of a run of the program.

    Attributes:
        slow_stage: the stage that takes longer than a step.
        audited_stage: the stage that records all its elements in a queue without a consumer.
        labelled: the helper that gets a new text in each call.
        offsets: the offset under the square root in each block.
    """

    slow_stage: str = ""
    audited_stage: str = ""
    labelled: str = ""
    offsets: list[float] = field(default_factory=lambda: [1e-3] * BLOCKS)


class Block(ef.nn.Module):
    """Two linear layers behind a norm, with a residual connection."""

    def __init__(self, draw: ef.random.Generator, offset: float) -> None:
        self.rise = ef.nn.Linear(WIDTH, 2 * WIDTH, generator=draw)
        self.fall = ef.nn.Linear(2 * WIDTH, WIDTH, generator=draw)
        self.offset = ef.Variable(ef.full((), offset), trainable=False, name="offset")

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        with ef.name_scope("norm"):
            scale = ef.rsqrt((x * x).mean(axis=-1, keepdims=True) + self.offset)
            scaled = x * scale
        return x + self.fall(ef.tanh(self.rise(scaled)))


class Network(ef.nn.Module):
    """Blocks, one on each device."""

    def __init__(self, options: Options) -> None:
        draw = ef.random.Generator(0)
        self.blocks = [Block(draw, offset) for offset in options.offsets]
        for i, block in enumerate(self.blocks):
            ef.move(block, f"cpu:{i}")

    def forward(self, x: ef.Tensor) -> ef.Tensor:
        for block in self.blocks:
            with ef.colocate(block.rise.weight):
                x = block(x)
        return x


class Training:
    """The training program; `run` runs it.

    Args:
        options: its options.
    """

    def __init__(self, options: Options) -> None:
        ef.config(cpu_devices=BLOCKS)
        self.options = options
        self.network = Network(options)
        shape = f"f32[{BATCH},{WIDTH}]"
        self.samples = ef.Queue(6, shape, name="samples")
        self.augmented = ef.Queue(6, shape, name="augmented")
        self.batches = ef.Queue(6, shape, name="batches")
        self.losses = ef.Queue(64, "f32[]", name="losses")
        self.audits = {stage: ef.Queue(24, "f32[]", name=f"{stage}_audit") for stage in STAGES}
        self.makers = [self._stage(*parts) for parts in (
            ("read", None, self.samples), ("augment", self.samples, self.augmented),
            ("collate", self.augmented, self.batches),
        )]  # fmt: skip
        self.train = self._step()
        self.helpers = [self._helper(name) for name in HELPERS]

    def _stage(self, name: str, source: ef.Queue | None, target: ef.Queue) -> Callable[[], None]:
        is_slow, is_audited = name == self.options.slow_stage, name == self.options.audited_stage
        audit = self.audits[name]

        def stage() -> None:
            x = ef.random.normal((BATCH, WIDTH)) if source is None else source.dequeue()
            if is_slow:
                ef.py_call(lambda: time.sleep(0.12), None)
            y = ef.clip(x * 0.9 + ef.sin(x) * 0.1, -3.0, 3.0)
            if is_audited:
                audit.enqueue(y.mean())
            target.enqueue(y)

        stage.__name__ = stage.__qualname__ = name
        return ef.trace(stage)

    def _step(self) -> Callable[[], ef.Tensor]:
        network = self.network

        def error(x: ef.Tensor) -> ef.Tensor:
            with ef.name_scope("loss"):
                return ((network(x).to("cpu:0") - ef.sin(x)) ** 2).mean()

        fit = ef.value_and_grad(error, wrt=network.trainable)

        @ef.trace
        def train() -> ef.Tensor:
            loss, gradients = fit(self.batches.dequeue())
            with ef.name_scope("update"):
                for name, variable in network.trainable.items():
                    # as is common in low precision: no update where the gradient is not finite
                    wanted = ef.where(ef.isfinite(gradients[name]), gradients[name], 0.0)
                    variable.assign_sub(0.01 * wanted)
            self.losses.enqueue(loss)
            return loss

        return train

    def _helper(self, name: str) -> Callable[[int, ef.Tensor], ef.Tensor]:
        def helper(loss: ef.Tensor, label: str) -> ef.Tensor:
            return {"rate": ef.exp, "evaluate": ef.tanh, "smooth": ef.sqrt}[name](ef.abs(loss))

        helper.__name__ = helper.__qualname__ = name
        traced = ef.trace(helper)
        is_labelled = name == self.options.labelled
        return lambda step, loss: traced(loss, f"step {step}" if is_labelled else name)

    def run(self, seconds: float) -> int:
        """Train for some seconds, until all queues are closed; gives the number of steps."""

        @ef.trace
        def note() -> ef.Tensor:
            return self.losses.dequeue()

        steps, end = 0, threading.Timer(seconds, self._close)
        with ExitStack() as running:
            for function in (*self.makers, note):
                running.enter_context(ef.spawn(function))
            end.start()
            with suppress(ef.errors.QueueClosedError):
                while True:
                    loss = self.train()
                    for helper in self.helpers:
                        helper(steps, loss)
                    steps += 1
        return steps

    def _close(self) -> None:
        for queue in (self.samples, self.augmented, self.batches, *self.audits.values()):
            queue.close(cancel_pending=True)
