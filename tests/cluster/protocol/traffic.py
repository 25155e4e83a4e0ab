"""Typical messages of every kind: the seeds of fuzzing."""

from __future__ import annotations

from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.cluster.protocol import codec
from eagerflow.cluster.protocol.eager_actions import DropResource, FreeHandles, IssueOp, PutValue
from eagerflow.cluster.protocol.failures import write_error
from eagerflow.cluster.protocol.message_heads import ArrayHead, HandleHead, TypeHead, step_number
from eagerflow.cluster.protocol.messages import (
    PROTOCOL,
    Abort,
    AnyMessage,
    Done,
    Eager,
    Failed,
    Fetch,
    Goodbye,
    Hello,
    Look,
    MakeResource,
    MakeVariable,
    Peers,
    Printed,
    Release,
    Renew,
    RunStep,
    SlabMessage,
    TaskLoad,
    Versions,
    Welcome,
)
from eagerflow.cluster.protocol.packets import write_packet
from eagerflow.cluster.protocol.partitions import write_op, write_partition
from eagerflow.cluster.protocol.values import encode_value
from eagerflow.graph import Graph
from eagerflow.graph.lowering import lower
from eagerflow.placement.cut import cut
from eagerflow.resources.containers import DEFAULT
from eagerflow.runtime.rendezvous.keys import Key
from eagerflow.runtime.rendezvous.packets import Message, Packet
from eagerflow_kernels.lists import ListData

VERSIONS = Versions(PROTOCOL, 2, "little", "0.1", "portable", "3.11.7", "2.4.6")
ERROR = write_error(ef.errors.ShapeError("shapes do not broadcast", given="f32[2]"), "ps:0")
Frames = list[Any]


def find(container: str, name: str) -> Any:
    return DEFAULT.find(name) if container == "default" else None


class Training:
    """A step with state, a queue and a loop, on two devices; keeps its variables alive."""

    def __init__(self) -> None:
        with ef.config(cpu_devices=2):
            self.w = ef.Variable(ef.ones((20, 3)), name="w", device="cpu:1")
            self.losses = ef.Queue(4, "f32[]")
            table = ef.tensor(np.arange(60.0, dtype=np.float32).reshape(3, 20))

            @ef.trace
            def step(x: ef.Tensor) -> ef.Tensor:
                with ef.device("cpu:1"):
                    y = ef.exp(x @ table) @ self.w
                    while y.sum() > 10:
                        y = y * 0.5
                    self.w.assign_sub(self.w * 0.1)
                with ef.device("cpu:0"):
                    loss = (y * 2).sum()
                self.losses.enqueue(loss)
                return loss

            self.cut = cut(lower(step.graph(ef.ones((4, 3)))))
        self.graphs = [partition.graph for partition in self.cut.partitions]


def registrations(graphs: list[Graph]) -> list[Frames]:
    routes = {"y -> cpu:1": ("worker:0/cpu:0", "ps:0/cpu:0")}
    made = [write_partition([graph], 2, i, routes) for i, graph in enumerate(graphs)]
    return [codec.write(*one) for one in made]


def eager() -> tuple[Eager, Frames]:
    """An eager message with an action of each kind."""
    defined, frames = write_op("sum", {"axis": (0,), "keepdims": False}, 1)
    put = PutValue(1, encode_value(np.arange(6.0).reshape(2, 3), frames), "cpu:0")
    op = IssueOp(1, 1, (1,), 16385)
    return Eager(3, (defined, put, op, FreeHandles((1, 16385)), DropResource("w", (1,)))), frames


def messages() -> list[Frames]:
    """A message of each other kind."""
    frames: Frames = []
    values = [
        np.arange(6.0).reshape(2, 3).T, True, -5, 2**70, 1.5, 2j, None,
        ListData({1: np.ones(3, np.int8)}, 4), np.array([b"ab", b""], object),
    ]  # fmt: skip
    heads = tuple([encode_value(value, frames) for value in values])
    simple: list[tuple[AnyMessage, Frames]] = [
        (Hello(1, VERSIONS, 77, 1, "a notebook"), []),
        (SlabMessage(0, "0f" * 16, 7, 4096, ((0, 0, 4096),)), []),
        (Peers(2, {"ps:1": ("ipc:///tmp/ps-1", 12, "")}), []),
        (
            MakeVariable(2, "", "w", ArrayHead("float64", (3,)), "cpu:0", True),
            [np.ones(3).tobytes()],
        ),
        (MakeVariable(2, "", "w", HandleHead(5), "cpu:0", True), []),
        (
            MakeResource(
                2, "", "q", "shuffle", (TypeHead("float32", ("n", 3)),), "cpu:0", 10, 2, 7
            ),
            [],
        ),
        (Fetch(2, 5, 1), []),
        eager(),
        (RunStep(4, step_number(77, 1), 1, (HandleHead(3),), (0, 16385), 2), []),
        (Welcome(1, VERSIONS, "ps:0", 12, ("cpu:0", "cpu:1"), 30.0), []),
        (Release(3, 1), []),
        (RunStep(4, step_number(77, 1), 1, heads), frames),
        (Abort(5, step_number(77, 1), ERROR), []),
        (Renew(6), []),
        (TaskLoad(6), []),
        (Look(6, True), []),
        (Goodbye(7), []),
        (Done(8, 4, heads), frames),
        (Failed(9, 4, ERROR), []),
        (Printed(10, ("said", ""), 3), []),
    ]
    key = Key(step_number(77, 1), "y -> cpu:1", (("while_loop", 3),))
    carried = [
        Message("value", key.step, key, np.ones((2, 2), np.float32)),
        Message("value", key.step, key, None, True),
        Message("error", key.step, None, ef.errors.TraceError("no")),
        Message("wanted", 0, None, (key, key)),
        None,
    ]
    kinds = ("value", "value", "urgent", "urgent", "ack")
    packets = [
        Packet(kind, 5, one, 16, 3, (4, 6), 64, 1000, 2)
        for kind, one in zip(kinds, carried, strict=True)
    ]
    simple += [write_packet(packet, "worker:0", 12, 13) for packet in packets]
    return [codec.write(message, rest) for message, rest in simple]
