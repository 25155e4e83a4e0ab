"""Steps of a trial: each runs as the one or the other placement, some watched, the others timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from time import perf_counter
from typing import Any, Final, TypeVar, final

from eagerflow.core.tensor import Tensor
from eagerflow.function.placing.watched_steps import Seen, StepWatcher
from eagerflow.graph.ir import Graph, Value
from eagerflow.hardware import Device, as_device, wait_for_data
from eagerflow.resources.variable import VariableState
from eagerflow.runtime.executable import Executable

#: steps of either placement that are timed; before them are one that compiles, and watched ones
_TIMED_STEPS: Final = 9
_WATCHED: Final = 3

_Results = TypeVar("_Results", bound=Sequence[Any])
#: an array, with the device that it is on
_Placed = tuple[Device, Any]


@final
class TrialTimes:
    """How long steps of the placements of a trial took.

    Args:
        count: of placements.

    Attributes:
        seconds: of each placement those of the steps that are compared.
    """

    def __init__(self, count: int) -> None:
        self.seconds: list[list[float]] = [[] for _ in range(count)]
        self._ended = [0] * count

    def next(self) -> tuple[int, int]:
        """Which placement has had fewer steps, and how many.

        Only steps that have ended count: one that fails is tried again.
        """
        before = min(self._ended)
        return self._ended.index(before), before

    def add(self, which: int, seconds: float | None) -> None:
        """Count a step that has ended; None of one that is not compared."""
        self._ended[which] += 1
        if seconds is not None:
            self.seconds[which].append(seconds)

    @property
    def enough(self) -> bool:
        """Whether so many were timed that the placements can be compared."""
        return min(map(len, self.seconds)) >= _TIMED_STEPS


@final
class TrialStep:
    """One step of a trial: one graph, or a forward graph and later a backward graph.

    Args:
        times: of the steps before.
        parts: how many graphs it has.
        seen: where what is seen of it is kept.
        ended: is called once it has ended, with the placement and the seconds, if they are to be
            compared.

    Attributes:
        which: the number of the placement that it runs as.
    """

    def __init__(
        self, times: TrialTimes, parts: int, seen: Seen,
        ended: Callable[[TrialTimes, int, float | None], None],
    ) -> None:  # fmt: skip
        self.which, self._before = times.next()
        self._times, self._parts, self._seen, self._ended = times, parts, seen, ended
        self._seconds: list[float] = []

    def part(
        self, executable: Executable, run: Callable[[], _Results], given: Iterable[_Placed],
        made: Callable[[_Results], Iterable[_Placed]],
    ) -> _Results:  # fmt: skip
        """Run one of the graphs.

        Args:
            executable: of the graph.
            run: runs it.
            given: the arrays that it takes, for which is waited before.
            made: those among the results, which count as there only when they are.
        """
        _wait_for(given)
        watched = 0 < self._before <= _WATCHED
        with StepWatcher(executable, self._seen) if watched else nullcontext():
            start = perf_counter()
            results = run()
            _wait_for(made(results))
            self._seconds.append(perf_counter() - start)
        if len(self._seconds) == self._parts:  # a second backward pass is not timed
            compared = self._before > _WATCHED
            self._ended(self._times, self.which, sum(self._seconds) if compared else None)
        return results


# --- waiting ----------------------------------------------------------------------------------


def _wait_for(arrays: Iterable[_Placed]) -> None:
    """Wait until arrays are there, each with its device.

    A device that works later has done nothing yet when its step has been issued. What has failed
    is there, too: whoever reads it gets the error.
    """
    for device, data in arrays:
        wait_for_data(data, device)


def arrays_of(graph: Graph, values: Sequence[Value], arrays: Sequence[Any]) -> list[_Placed]:
    """What values of a graph are, and its variables."""
    pairs = zip(values, arrays, strict=True)
    placed = [(as_device(value.device), data) for value, data in pairs if value.device]
    states = [s for s in graph.resources.values() if type(s) is VariableState]
    return placed + [(s.device, s.read()) for s in states if not s.device.is_ready_at_once]


def arrays_among(values: Sequence[Any]) -> list[_Placed]:
    """The arrays of the tensors among values."""
    return [(x._lane.device, x._data) for x in values if type(x) is Tensor]
