"""Checks common to the networks: learning, traced as eagerly, and resuming after a restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

import eagerflow as ef


@final
@dataclass
class Run:
    """A training run.

    Attributes:
        kept: the objects in a checkpoint: models, optimisers, the position in the data.
        step: does one step, and gives the losses by name.
        functions: the training functions of a step, whose traces are counted if they are traced.
    """

    kept: dict[str, Any]
    step: Callable[[], Mapping[str, ef.Tensor]]
    functions: list[Callable[..., Any]] = field(default_factory=list)

    def train(self, steps: int) -> list[dict[str, float]]:
        """The losses of the next steps, which are run."""
        return [{name: loss.item() for name, loss in self.step().items()} for _ in range(steps)]

    @property
    def traces(self) -> list[int]:
        """Number of traces of each training function."""
        return [len(f.traces) for f in self.functions if isinstance(f, ef.TracedFunction)]

    def values(self) -> dict[str, bytes]:
        """The bytes of each variable of models and optimisers."""
        stateful = {k: v.state for k, v in self.kept.items() if not isinstance(v, _ITERATOR)}
        return {
            f"{name}.{path}": variable.numpy().tobytes()
            for name, state in stateful.items()
            for path, variable in state.items()
        }


_ITERATOR = ef.data.DatasetIterator

#: makes a run, traced or not, whose initial values and random draws come from the given seed
Make = Callable[..., Run]


def the_same_traced(make: Make, steps: int) -> tuple[Run, list[dict[str, float]]]:
    """Train eagerly and traced, and compare losses and state; gives the traced run."""
    eager = make(traced=False)  # also seeds the generator of dropout
    expected = eager.train(steps)
    traced = make(traced=True)
    losses = traced.train(steps)
    assert losses == expected  # floats that are equal: bit for bit
    assert eager.values() == traced.values()
    assert eager.traces == []
    assert traced.traces == [1] * len(traced.functions)
    return traced, losses


def goes_on(make: Make, folder: Path, traced: bool) -> None:
    """Check that a run, interrupted and continued in another process, equals the whole run."""
    run = make(traced=traced, seed=1)
    run.train(6)
    ef.checkpoint.Manager(folder).save(6, run.kept)
    expected, after = run.train(5), run.values()

    other = make(traced=traced, seed=2)
    other.train(2)  # has traces, moments and a position of its own
    restored = ef.checkpoint.Manager(folder).restore(like=other.kept)
    assert restored is not None
    assert restored.step == 6
    assert other.train(5) == expected
    assert other.values() == after
    assert other.traces == [1] * len(other.traces)


def dense(gradient: ef.Tensor | ef.IndexedSlices) -> ef.Tensor:
    """A gradient as a dense tensor."""
    return gradient.to_dense() if isinstance(gradient, ef.IndexedSlices) else gradient


def reached(gradients: Mapping[str, Any]) -> set[str]:
    """The paths whose gradient exists, is finite, and is not zero everywhere."""
    paths = set()
    for path, gradient in gradients.items():
        if gradient is None:
            continue
        whole = dense(gradient)
        if bool(ef.isfinite(whole).all()) and float(abs(whole).max()) > 1e-7:
            paths.add(path)
    return paths
