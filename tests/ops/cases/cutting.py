"""Case of `stop_gradient`; that it cuts gradients off is tested in tests/autodiff."""

from __future__ import annotations

from tests.ops.case import ALL, OpCase

CASES = [
    OpCase(
        "stop_gradient",
        lambda s: (s.array(),),
        lambda x: x,
        dtypes=ALL,
        exact=True,
        no_grad="nothing flows through it",
    )
]
