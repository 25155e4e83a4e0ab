"""The stage that asks a function which elements to keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from eagerflow.data.base.calls import UserCall
from eagerflow.data.base.stage import AbstractCounter, AbstractCursor, AbstractStage, Length
from eagerflow.data.workers.opening import open_stage
from eagerflow.extending import Source

__all__ = ["FilterStage"]


@final
class FilterStage(AbstractStage):
    """The elements for which a function is true."""

    __slots__ = ("call", "sources")
    seed = None

    def __init__(
        self, of: AbstractStage, function: Callable[..., Any], source: Source | None
    ) -> None:
        self.sources = (of,)
        self.call = UserCall("filter", function, bool, source)

    @property
    def length(self) -> Length:
        return 0 if self.sources[0].length == 0 else None

    def view(self, epoch: int) -> None:
        return None

    def cursor(self, epoch: int) -> AbstractCursor:
        return _FilterCursor(open_stage(self.sources[0], epoch), self.call)

    def __str__(self) -> str:
        return f"{self.sources[0]}.{self.call}"


@final
class _FilterCursor(AbstractCounter):
    __slots__ = ("_call",)

    def __init__(self, source: AbstractCursor, call: UserCall) -> None:
        super().__init__(source)
        self._call = call

    def next(self) -> Any:
        while True:
            element = self._source.next()
            self._index += 1
            if self._call(self._index - 1, element):
                return element
