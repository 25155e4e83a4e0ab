"""Stages that call a function for each element: map, in place, threads or processes; filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from eagerflow.data.base.elements import stack
from eagerflow.data.base.orders import Seed, generator
from eagerflow.data.base.stage import (
    AbstractCounter,
    AbstractCursor,
    AbstractDerived,
    AbstractRandomAccess,
    AbstractStep,
    Length,
    Rows,
    Threads,
)
from eagerflow.data.base.user_calls import AbstractMapped, OnError, UserCall, skips
from eagerflow.data.workers.open_stage import open_stage
from eagerflow.data.workers.parallel import ParallelMapCursor
from eagerflow.data.workers.processes import Pool


@final
@dataclass(eq=False, repr=False)
class MapStage(AbstractStep):
    """A function of each element.

    Attributes:
        call: the function.
        seed: of the generators that it takes as its second argument; None if it takes none.
        workers: the number of threads or processes; 0 for the thread that reads.
        processes: whether the workers are processes.
        ordered: whether the order of the elements stays.
        on_error: the policy for elements for which the function fails.
    """

    call: UserCall
    seed: Seed | None = None
    workers: int = 0
    processes: bool = False
    ordered: bool = True
    on_error: OnError = "raise"

    def __post_init__(self) -> None:
        self.threads = self.workers > 0

    @property
    def length(self) -> Length:
        length = self.of.length
        return length if self.on_error == "raise" or length == 0 else None

    def random_access(self, epoch: int) -> AbstractRandomAccess | None:
        if not self.ordered or self.on_error != "raise":
            return None  # the numbers of elements are not known
        elements = self.of.random_access(epoch)
        if elements is None:
            return None
        return _MapAccess(elements, self._mapped(epoch), self._workers)

    def cursor(self, epoch: int) -> AbstractCursor:
        source = open_stage(self.of, epoch)
        mapped, on_error = self._mapped(epoch), self.on_error
        if self._workers is None:
            return _MapCursor(source, mapped, on_error, str(self.call))
        return ParallelMapCursor(source, mapped, self._workers, self.ordered, on_error)

    @property
    def _workers(self) -> Threads | None:
        return Threads(str(self.call), self.workers) if self.workers else None

    def _mapped(self, epoch: int) -> AbstractMapped:
        seed = None if self.seed is None else generator(self.seed.value, epoch).state["seed"]
        if self.processes:
            return _InProcess(self.call, seed, self.workers)
        return _InThread(self.call, seed)

    def __str__(self) -> str:
        parts = [str(self.call)[:-1], *[f"workers={self.workers}"] * self.threads]
        parts += ["processes=True"] * self.processes + ["ordered=False"] * (not self.ordered)
        if self.on_error != "raise":
            parts.append(f"on_error={getattr(self.on_error, '__name__', repr(self.on_error))}")
        return f"{self.of}.{', '.join(parts)})"


@final
@dataclass(eq=False, repr=False)
class _InThread(AbstractMapped):
    """A function that is called in the calling thread."""

    _call: UserCall
    _seed: int | None

    def __call__(self, index: int, element: Any) -> Any:
        if self._seed is None:
            return self._call(index, element)
        return self._call(index, element, generator(self._seed, index))

    def rows(self, indices: Sequence[int], elements: list[Any]) -> Any:
        return stack([self(i, element) for i, element in zip(indices, elements, strict=True)])


@final
class _InProcess(AbstractMapped):
    """A function that is called in a pool of processes, on behalf of several threads."""

    def __init__(self, call: UserCall, seed: int | None, count: int) -> None:
        self._call = call
        self._seed = seed
        self._pool = Pool(call.of_element, str(call), call.source, count)

    def __call__(self, index: int, element: Any) -> Any:
        return self._ask([index], [element], False)

    def rows(self, indices: Sequence[int], elements: list[Any]) -> Any:
        return self._ask([int(i) for i in indices], elements, True)

    def _ask(self, indices: list[int], elements: list[Any], stacked: bool) -> Any:
        given = [self._call.given(element) for element in elements]
        value, failed = self._pool.run(indices, given, self._seed, stacked)
        if failed is None:
            return value
        index, error = failed
        del failed  # the traceback of the error will lead here
        try:
            if index >= 0:
                error = self._call.failed(indices[index], elements[index], error)
            raise error
        finally:
            del error

    def close(self) -> None:
        self._pool.close()


@final
@dataclass(eq=False, repr=False)
class _MapAccess(AbstractDerived):
    _mapped: AbstractMapped
    _workers: Threads | None

    @property
    def workers(self) -> Threads | None:
        below = self._source.workers
        if below is None or self._workers is None:
            return below or self._workers
        return Threads(self._workers.name, max(below.count, self._workers.count))

    def element(self, index: int) -> Any:
        return self._mapped(index, self._source.element(index))

    def rows(self, rows: Rows) -> Any:
        indices = [int(i) for i in rows]
        return self._mapped.rows(indices, [self._source.element(i) for i in indices])

    def close(self) -> None:
        self._mapped.close()
        super().close()


@final
@dataclass(eq=False, repr=False)
class _MapCursor(AbstractCounter):
    _mapped: AbstractMapped
    _on_error: OnError
    _name: str

    def next(self) -> Any:
        while True:
            element = self._source.next()
            self._index += 1
            try:
                return self._mapped(self._index - 1, element)
            except Exception as error:
                if not skips(self._on_error, error, self._name):
                    raise

    def close(self) -> None:
        self._mapped.close()
        super().close()


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
