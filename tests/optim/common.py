"""Helpers of the tests of optimisers: constructors, variables, gradients, contents."""

from __future__ import annotations

from typing import Any

import eagerflow as ef

CLASSES = ["SGD", "Momentum", "Adagrad", "Adadelta", "RMSprop", "Adam", "AdamW"]


def make(name: str, variables: Any, **options: Any) -> Any:
    return getattr(ef.optim, name)(variables, **options)


def two() -> dict[str, ef.Variable]:
    return {"layer.weight": ef.Variable([[1.0, -2.0]]), "layer.bias": ef.Variable([0.5])}


def some(variables: dict[str, ef.Variable]) -> dict[str, ef.Tensor]:
    return {path: ef.full_like(v, 0.5) for path, v in variables.items()}


def content(variables: dict[str, ef.Variable], optimiser: Any) -> dict[str, bytes]:
    return {k: v.numpy().tobytes() for k, v in {**variables, **optimiser.state}.items()}
