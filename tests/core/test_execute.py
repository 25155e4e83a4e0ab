"""Execution of single ops, where several threads look at the same kernels."""

from __future__ import annotations

import eagerflow as ef
from eagerflow.core.op import get_op


def test_a_kernel_that_is_forgotten_while_an_operator_uses_it() -> None:
    """Another thread may register a kernel between the call of one and the look at its result."""
    x = ef.tensor(3.0)
    assert bool(x > 1.0)
    get_op("greater").resolved.clear()
    assert bool(x > 1.0)
    v = ef.ones(3)
    assert (v @ v).item() == 3.0
    get_op("matmul").resolved.clear()
    assert (v @ v).item() == 3.0
