"""Assumptions of a trace about the outside as a whole, checked after the guards.

A walk over all that a model holds reads attributes by names made at run time. Guards for each of
them would be many, and would not see what is added. The walk notes an assumption instead, in the
trace that is being made, if any; each call checks again whether it holds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from eagerflow.capture.reads import Reads

__all__ = ["AbstractAssumption", "assumptions", "relying"]

#: those of the trace that is being made in this thread
_noted: Final[ContextVar[dict[Hashable, AbstractAssumption] | None]] = ContextVar(
    "assumptions", default=None
)


class AbstractAssumption(ABC):
    """A fact that must be as it was when a function was traced.

    It is made while the function runs, may hold the user's objects until it is settled, and holds
    them weakly from then on.
    """

    @abstractmethod
    def settle(self, reads: Reads) -> None:
        """Close it after the function has run and what it did outside is undone."""

    @abstractmethod
    def holds(self) -> bool:
        """Whether all is as it was. Never raises."""

    @abstractmethod
    def differences(self) -> list[str]:
        """What is not as it was, in words; empty if all is. Never raises."""


@contextmanager
def relying() -> Iterator[dict[Hashable, AbstractAssumption]]:
    """The assumptions that are noted in the block, by their keys."""
    noted: dict[Hashable, AbstractAssumption] = {}
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def assumptions() -> dict[Hashable, AbstractAssumption] | None:
    """Those of the trace that is being made in this thread, to add to; None if none is."""
    return _noted.get()
