"""The ways to run a traced program: a later stage adds a way, not a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import eagerflow as ef
from eagerflow.function import tracing
from eagerflow.graph.ir import Graph
from eagerflow.graph.passes import DEFAULT, Pass, optimise
from eagerflow.runtime import executable

__all__ = ["COLUMNS", "PASSES", "Column"]


@contextmanager
def passes(chosen: Sequence[Pass]) -> Iterator[None]:
    """Traced functions run these passes only; each graph is verified."""

    def chosen_only(graph: Graph) -> Any:
        return optimise(graph, chosen)

    with patch.object(tracing, "optimise", chosen_only), ef.config(verify=True):
        yield


@contextmanager
def scheduled() -> Iterator[None]:
    """Traced functions are lowered, and run by the scheduler."""
    with patch.object(executable, "has_free_waits", lambda graph: True), passes(DEFAULT):
        yield


Column = Callable[[], AbstractContextManager[None]]
COLUMNS: dict[str, Column] = {"optimised": lambda: passes(DEFAULT), "scheduled": scheduled}
#: columns of one pass, or none
PASSES: dict[str, Column] = {
    "no pass": lambda: passes(()), **{p.__name__: lambda p=p: passes((p,)) for p in DEFAULT},
}  # fmt: skip
