"""Functions for pipelines in tests; worker processes import this module, so it imports little."""

from __future__ import annotations

import os
import signal
from typing import Any

import eagerflow as ef


def shifted(x: ef.Tensor, draws: ef.random.Generator) -> Any:
    return x + draws.randint((), 0, 1000)


def seven(x: ef.Tensor) -> ef.Tensor:
    if x == 7:
        raise KeyError("seven")
    return x


def broken(x: ef.Tensor) -> ef.Tensor:
    return x + ef.ones((int(x) + 1,)) + ef.ones(7)


def killed(x: ef.Tensor) -> ef.Tensor:
    if x == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return x
