"""Warm-up of a cluster: opens connections and threads before a test looks for leaks."""

from __future__ import annotations

import numpy as np

import eagerflow as ef


def warm(cluster: ef.cluster.Cluster) -> None:
    """Send values from this process to each task, and back."""
    for task in cluster.tasks:

        @ef.trace
        def there_and_back(x: ef.Tensor, task: str = task) -> ef.Tensor:
            with ef.device(task):
                return ef.py_call(lambda v: v, "f32[2]", x + 1) + 1

        there_and_back(ef.ones(2))
        ef.tensor(np.ones(1 << 15, np.float32), device=task).numpy()  # large: by a slab
