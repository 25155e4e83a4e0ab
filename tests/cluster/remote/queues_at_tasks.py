"""Queues at the task `ps:0`, and what is in them."""

from __future__ import annotations

from typing import Any

import eagerflow as ef


def queue_of(*values: float, capacity: int = 3, **how: Any) -> ef.Queue:
    queue = ef.Queue(capacity, "f32[]", device="ps:0", **how)
    for value in values:
        queue.enqueue(value)
    return queue


def left(queue: ef.Queue) -> list[float]:
    return [queue.dequeue().item() for _ in range(int(queue.size()))]
