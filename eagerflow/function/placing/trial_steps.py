"""Steps of a trial: each runs by one of the placements, and is watched or timed."""

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

#: timed steps of either placement, after one step that compiles and the watched ones
_TIMED_STEPS: Final = 9
_WATCHED: Final = 3

_Results = TypeVar("_Results", bound=Sequence[Any])
#: an array, with the device that it is on
_Placed = tuple[Device, Any]


@final
class TrialTimes:
    """Durations of steps by the placements of a trial.

    Args:
        count: of placements.

    Attributes:
        seconds: for each placement the durations of the steps that are compared.
    """

    def __init__(self, count: int) -> None:
        self.seconds: list[list[float]] = [[] for _ in range(count)]
        self._ended = [0] * count

    def next(self) -> tuple[int, int]:
        """The placement with fewer steps so far, and their number.

        Only steps that have ended count: a step that fails is tried again.
        """
        before = min(self._ended)
        return self._ended.index(before), before

    def add(self, which: int, seconds: float | None) -> None:
        """Count a step that has ended; ``seconds`` is None if it is not compared."""
        self._ended[which] += 1
        if seconds is not None:
            self.seconds[which].append(seconds)

    @property
    def enough(self) -> bool:
        """Whether enough steps were timed to compare the placements."""
        return min(map(len, self.seconds)) >= _TIMED_STEPS


@final
class TrialStep:
    """One step of a trial: one graph, or a forward graph and later a backward graph.

    Args:
        times: of the steps before.
        parts: number of graphs of the step.
        seen: store for the times of its ops and moves.
        ended: is called once the step has ended, with the placement, and with the seconds if they
            are to be compared.

    Attributes:
        which: the number of the placement by which it runs.
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
            given: the arrays that it takes, which are awaited first.
            made: returns the arrays among the results, which are awaited as part of the step.
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
    """Wait until arrays, each with its device, are computed.

    An asynchronous device has done nothing yet when its step has been issued. A failed array counts
    as computed: its reader gets the error.
    """
    for device, data in arrays:
        wait_for_data(data, device)


def arrays_of(graph: Graph, values: Sequence[Value], arrays: Sequence[Any]) -> list[_Placed]:
    """The arrays of values of a graph, and of the variables on asynchronous devices."""
    pairs = zip(values, arrays, strict=True)
    placed = [(as_device(value.device), data) for value, data in pairs if value.device]
    states = [s for s in graph.resources.values() if type(s) is VariableState]
    return placed + [(s.device, s.read()) for s in states if not s.device.is_ready_at_once]


def arrays_among(values: Sequence[Any]) -> list[_Placed]:
    """The arrays of the tensors among values."""
    return [(x._lane.device, x._data) for x in values if type(x) is Tensor]
