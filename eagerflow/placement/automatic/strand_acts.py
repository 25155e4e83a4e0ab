"""What a strand does, one thing after the other, as the executor tells the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from eagerflow.graph.ir import Node


class StrandAct(NamedTuple):
    """One thing that a partition does which is run as a strand.

    Attributes:
        what: it runs nodes together, sends, receives, or waits until a value is there.
        nodes: those that run; the Send; the Recv; or what makes the value.
    """

    what: Literal["run", "send", "receive", "wait"]
    nodes: Sequence[Node]
