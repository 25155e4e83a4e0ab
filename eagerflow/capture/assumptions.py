"""Reliances: what a trace relied on outside that is no single place, checked after the guards.

A walk over all that a model holds reads attributes by names made at run time. Guards for each of
them would be many, and would not see what is added. Whoever walks notes a reliance instead, in the
trace that is being made, if any; it is asked again at each call whether it holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from eagerflow.capture.reads import Reads

__all__ = ["AbstractReliance", "reliances", "relying"]

#: those of the trace that is being made in this thread
_noted: Final[ContextVar[dict[Hashable, AbstractReliance] | None]] = ContextVar(
    "reliances", default=None
)


class AbstractReliance(ABC):
    """Something that must be as it was when a function was traced.

    It is made while the function runs, may hold the user's objects until it is settled, and holds
    them weakly from then on.
    """

    @abstractmethod
    def settle(self, reads: Reads) -> None:
        """Hear that the function has run, and that what it did outside is undone."""

    @abstractmethod
    def holds(self) -> bool:
        """Whether all is as it was. Never raises."""

    @abstractmethod
    def differences(self) -> list[str]:
        """What is not as it was, for people; empty if all is. Never raises."""


@contextmanager
def relying() -> Iterator[dict[Hashable, AbstractReliance]]:
    """The reliances that are noted in the block, by their keys."""
    noted: dict[Hashable, AbstractReliance] = {}
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def reliances() -> dict[Hashable, AbstractReliance] | None:
    """Those of the trace that is being made in this thread, to add to; None if none is."""
    return _noted.get()
