"""The stage that asks a function which elements to keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from eagerflow.data.base.calls import UserCall
from eagerflow.data.base.stage import AbstractCounter, AbstractCursor, AbstractStep, Length
from eagerflow.data.workers.opening import open_stage


@final
@dataclass(eq=False, repr=False)
class FilterStage(AbstractStep):
    """The elements for which a function is true."""

    call: UserCall

    @property
    def length(self) -> Length:
        return 0 if self.of.length == 0 else None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _FilterCursor(open_stage(self.of, epoch), self.call)

    def __str__(self) -> str:
        return f"{self.of}.{self.call}"


@final
@dataclass(eq=False, repr=False)
class _FilterCursor(AbstractCounter):
    _call: UserCall

    def next(self) -> Any:
        while True:
            element = self._source.next()
            self._index += 1
            if self._call(self._index - 1, element):
                return element
