"""Stages that call a function of the user: map and filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from eagerflow.data.elements import as_element, stack
from eagerflow.data.orders import Seed, generator
from eagerflow.data.stage import (
    AbstractCursor,
    AbstractStage,
    AbstractView,
    Length,
    Rows,
    open_stage,
    stack_next,
)
from eagerflow.source import Source

__all__ = ["FilterStage", "MapStage"]


@final
@dataclass(frozen=True, slots=True)
class _Call:
    """A function of the user, and the line that put it into the pipeline.

    Attributes:
        method: of `Dataset`.
        function: takes the element, and perhaps a generator.
        finish: what becomes of that which it gives.
        source: the line.
    """

    method: str
    function: Callable[..., Any]
    finish: Callable[[Any], Any]
    source: Source | None

    def __call__(self, index: int, *arguments: Any) -> Any:
        try:
            return self.finish(self.function(*arguments))
        except StopIteration as error:  # it would end the iteration without a word
            raise RuntimeError(f"{self} raised StopIteration in element {index}") from error
        except Exception as error:
            error.add_note(f"  in element {index} of {self}\n  at: {self.source}")
            raise

    def __str__(self) -> str:
        name = getattr(self.function, "__qualname__", None) or type(self.function).__name__
        return f"{self.method}({name.rpartition('<locals>.')[2]})"


@final
class MapStage(AbstractStage):
    """A function of each element."""

    __slots__ = ("call", "seed", "sources")

    def __init__(
        self,
        of: AbstractStage,
        function: Callable[..., Any],
        seed: Seed | None,
        source: Source | None,
    ) -> None:
        self.sources = (of,)
        self.seed = seed
        self.call = _Call("map", function, as_element, source)

    @property
    def length(self) -> Length:
        return self.sources[0].length

    def view(self, epoch: int) -> AbstractView | None:
        found = self.sources[0].view(epoch)
        return None if found is None else _MapView(found, _Mapped(self, epoch))

    def cursor(self, epoch: int) -> AbstractCursor:
        return _MapCursor(open_stage(self.sources[0], epoch), _Mapped(self, epoch))

    def __str__(self) -> str:
        return f"{self.sources[0]}.{self.call}"


@final
class _Mapped:
    """The function of a `MapStage` in one epoch."""

    __slots__ = ("_call", "_seed")

    def __init__(self, stage: MapStage, epoch: int) -> None:
        self._call = stage.call
        seed = stage.seed
        self._seed = None if seed is None else generator(seed.value, epoch).state["seed"]

    def __call__(self, index: int, element: Any) -> Any:
        if self._seed is None:
            return self._call(index, element)
        return self._call(index, element, generator(self._seed, index))


@final
class _MapView(AbstractView):
    __slots__ = ("_mapped", "_source")

    def __init__(self, source: AbstractView, mapped: _Mapped) -> None:
        self._source = source
        self._mapped = mapped

    @property
    def length(self) -> int:
        return self._source.length

    def element(self, index: int) -> Any:
        return self._mapped(index, self._source.element(index))

    def rows(self, rows: Rows) -> Any:
        return stack([self.element(int(i)) for i in rows])


@final
class _MapCursor(AbstractCursor):
    __slots__ = ("_index", "_mapped", "_source")

    def __init__(self, source: AbstractCursor, mapped: _Mapped) -> None:
        self._source = source
        self._mapped = mapped
        self._index = 0

    def next(self) -> Any:
        element = self._source.next()
        self._index += 1
        return self._mapped(self._index - 1, element)

    def chunk(self, count: int) -> tuple[Any, int]:
        return stack_next(self, count)

    @property
    def state(self) -> dict[str, Any]:
        return {"index": self._index, "source": self._source.state}

    def restore(self, state: dict[str, Any]) -> None:
        self._source.restore(state["source"])
        self._index = state["index"]


@final
class FilterStage(AbstractStage):
    """The elements for which a function is true."""

    __slots__ = ("call", "sources")
    seed = None

    def __init__(
        self, of: AbstractStage, function: Callable[..., Any], source: Source | None
    ) -> None:
        self.sources = (of,)
        self.call = _Call("filter", function, bool, source)

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
class _FilterCursor(AbstractCursor):
    __slots__ = ("_call", "_index", "_source")

    def __init__(self, source: AbstractCursor, call: _Call) -> None:
        self._source = source
        self._call = call
        self._index = 0

    def next(self) -> Any:
        while True:
            element = self._source.next()
            self._index += 1
            if self._call(self._index - 1, element):
                return element

    def chunk(self, count: int) -> tuple[Any, int]:
        return stack_next(self, count)

    @property
    def state(self) -> dict[str, Any]:
        return {"index": self._index, "source": self._source.state}

    def restore(self, state: dict[str, Any]) -> None:
        self._source.restore(state["source"])
        self._index = state["index"]
