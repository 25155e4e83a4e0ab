"""Acts of strands, as the executor describes them to the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from eagerflow.graph.ir import Node


class StrandAct(NamedTuple):
    """An act of a partition that runs as a strand.

    Attributes:
        what: it runs nodes together, sends, receives, or waits until a value is there.
        nodes: the nodes that run; the Send; the Recv; or the producer of the value.
    """

    what: Literal["run", "send", "receive", "wait"]
    nodes: Sequence[Node]
