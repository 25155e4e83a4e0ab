"""The choice of steps to observe, and the results of observed steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from time import thread_time
from typing import Any, Final, final

from eagerflow.runtime.executable import find_executable
from eagerflow.runtime.observed_step import Observation
from eagerflow.watching.diagnosing.first_nan import NanCheck
from eagerflow.watching.diagnosing.slowness import Expectations
from eagerflow.watching.graph_columns import NodeIndex
from eagerflow.watching.limits import OBSERVED_EXECUTABLES, OBSERVED_STEPS
from eagerflow.watching.node_costs import Duty, NodeCost, NodeCosts
from eagerflow.watching.step_times import StepLog, StepTimes
from eagerflow.watching.value_statistics import ValueStatistics, value_statistics

#: seconds per node to write the code for the first observation; a guess that is corrected
_WRITING: Final = 2e-4
#: seconds of observing after that, per look at the clock
_LOOK: Final = 1.5e-6
#: seconds at most of a look, and of writing the code of a node or a look at its value
_DEAREST: Final = 1e-5
_SLOWEST: Final = 5e-3
#: observed steps that are not counted, as new code runs slower
_COLD: Final = 2
#: seconds between two observed steps of one executable: at first, and where steps have become
#: slower or faster; and otherwise, when five of nine show a change of nodes after ten seconds
_PAUSE: Final = 0.5
_SELDOM: Final = 2.0
#: observed steps with times before values are checked for NaN, mean seconds between two such
#: checks, the same for checks of so few seconds, and seconds per node of a check, as a first guess
_TIMED: Final = 3
_CHECKED: Final = 5.0
_CHECKED_OFTEN: Final = 1.0
_CHEAP: Final = 1e-3
_CHECK: Final = 3e-5
#: observed steps with times from one check to the next: where the budget is small, further ones
#: wait, or a check, which costs more, would never be allowed
_BETWEEN: Final = 3
#: number of steps, and their seconds at most, among which the checked one is drawn: where each n-th
#: batch has a NaN, each n-th step has
_DRAWN: Final = 64
_DRAWN_SECONDS: Final = 0.5
#: number of checks without NaN after which the last one with NaN no longer counts
_FORGOTTEN: Final = 3
#: parts of an interval, for draws
_PARTS: Final = 1000
#: an executable's own share of the time of its steps for observing these, and the seconds of steps
#: by which it may be ahead of that: a small graph has its first figures at once, although a large
#: one, or looks, have used up the common duty
_OWN: Final = 0.002
_AHEAD: Final = 5.0


@final
@dataclass(slots=True, eq=False)
class Observed:
    """Observations of the nodes of one executable.

    Attributes:
        executable: its number.
        index: its nodes.
        costs: the times of the nodes.
        values: statistics of requested values, by the number of the node, each with its time.
        count: number of observed steps.
        wanted: the numbers of nodes whose values to look at in the next step.
        asked: the observation that waits for a step.
        next: when the next step may be observed.
        expected: expected seconds of observing a step.
        duty: the executable's own budget, for when the common duty is used up.
        worked: seconds that its steps took, as far as they count for its duty.
        timed: number of observed steps with times since the last check for NaN.
        checked: number of steps checked for NaN.
        check: when the next check may be, and its expected cost in seconds.
        checking: the check for NaN in progress; else None.
        first_nan: the number of the node that made the NaN in one of the last checks, if any had.
        clean: number of checks without NaN since then.
        expectations: the expected times of its nodes.
        queues: the queues that its nodes use, and whether they take from them; None before these
            were looked up.
        judged: the diagnosis of its nodes and devices, and the number of observed steps and the
            share of waits for which it was made.
        largest: a table of the times of its nodes, and the part that takes most of these.
    """

    executable: int
    index: NodeIndex
    costs: NodeCosts
    values: dict[int, tuple[ValueStatistics, float]] = field(default_factory=dict)
    count: int = 0
    wanted: set[int] = field(default_factory=set)
    asked: Observation | None = None
    next: float = 0.0
    expected: float = 0.0
    duty: Duty = field(default_factory=lambda: Duty(_OWN, _AHEAD))
    worked: float = 0.0
    timed: int = 0
    checked: int = 0
    check: tuple[float, float] = (0.0, 0.0)
    checking: NanCheck | None = None
    first_nan: int | None = None
    clean: int = 0
    expectations: Expectations = field(init=False)
    queues: set[tuple[str, bool]] | None = None
    judged: tuple[tuple[int, float], Sequence[Any]] = ((-1, 0.0), ())
    largest: tuple[Sequence[NodeCost], tuple[str, float] | None] = ((), None)

    def __post_init__(self) -> None:
        self.expectations = Expectations(self.index)

    @property
    def check_is_next(self) -> bool:
        """Whether a check for NaN, once due, comes before further steps with times.

        There have been some since the last check; before the first, enough to judge nodes by.
        """
        return self.timed >= (_BETWEEN if self.checked else OBSERVED_STEPS)


@final
class StepObserver:
    """Has single steps observed, so seldom that it costs little.

    One thread calls `step`, some times a second.

    Args:
        log: the steps that run.
        duty: the account of all that looking costs.

    Attributes:
        draw: draws a whole number below its argument.
    """

    def __init__(self, log: StepLog, duty: Duty | None = None) -> None:
        self._log = log
        self.draw: Callable[[int], int] = Random(0).randrange
        self.duty = duty or Duty()
        self.executables: dict[int, Observed] = {}
        self._done: list[tuple[Observation, dict[int, ValueStatistics]]] = []
        self._changed: list[Observed] = []
        self._worked = self._now = 0.0

    def of(self, number: int) -> Observed | None:
        """The observations of an executable; None if it is gone, or there are too many."""
        known = self.executables.get(number)
        if known is None:
            executable = find_executable(number)
            if executable is None or len(self.executables) >= OBSERVED_EXECUTABLES:
                return None
            index = NodeIndex(executable.graph)
            known = Observed(number, index, NodeCosts(index))
            known.expected = _WRITING * (len(index.nodes) + 1)
            known.check = 0.0, known.expected
            self.executables[number] = known
        return known

    def look_at(self, number: int, node: int) -> bool:
        """Request statistics of a node's first output in the next step.

        Returns:
            Whether the node exists.
        """
        known = self.of(number)
        if known is None or not 0 <= node < len(known.index.nodes):
            return False
        known.wanted.add(node)
        return True

    def step(self, now: float) -> list[Observed]:
        """Take in finished observations, and request more; returns those that changed."""
        self.collect()
        changed, self._changed = self._changed, []
        seconds = sum([s.seconds for s in self._log.executables.values()])
        # several threads may run steps, or wait in them: time passes only once
        self.duty.worked(max(min(seconds - self._worked, now - self._now), 0.0))
        self._worked, self._now = seconds, now
        for times in list(self._log.executables.values()):
            if now - times.last < 1.0 and times.median:
                self._ask(times, now)
        return changed

    def _ask(self, times: StepTimes, now: float) -> None:
        known = self.of(times.executable)
        if known is None or known.asked is not None or (now < known.next and not known.wanted):
            return
        executable = find_executable(times.executable)
        if executable is None:
            return
        known.duty.worked(times.seconds - known.worked)
        known.worked = times.seconds
        due, cost = known.check
        checks = known.costs.steps >= _TIMED and now >= due and not known.wanted
        if checks and self._allows(known, cost):
            seconds = _CHECKED_OFTEN if cost < _CHEAP else _CHECKED
            due = now + seconds * (0.5 + self.draw(_PARTS) / _PARTS)
            known.checking, known.check, known.timed = NanCheck(known.index), (due, cost), 0
            known.asked = Observation(
                times.executable, lambda seen: self._done.append((seen, {})),
                known.checking.looks(),
                after=self.draw(1 + min(int(_DRAWN_SECONDS / times.median), _DRAWN)),
            )  # fmt: skip
            executable.observe(known.asked)
        elif self._allows(known, known.expected) and not (checks and known.check_is_next):
            known.timed += not known.wanted
            statistics: dict[int, ValueStatistics] = {}
            looks = {known.index.nodes[n].name: _look(statistics, n) for n in known.wanted}
            known.wanted.clear()
            known.asked = Observation(
                times.executable, lambda seen: self._done.append((seen, statistics)), looks
            )
            executable.observe(known.asked)

    def _allows(self, known: Observed, seconds: float) -> bool:
        """Whether an observation may cost so much: by the common duty, or by the executable's."""
        return self.duty.allows(seconds) or known.duty.allows(seconds)

    def collect(self) -> None:
        """Take in finished observations."""
        done = self._done[:]
        del self._done[: len(done)]
        for observation, statistics in done:
            known = self.executables.get(observation.executable)
            if known is None or known.asked is not observation:
                continue
            start = thread_time()
            self._take(known, observation, statistics)
            known.duty.looked(thread_time() - start)
            self._changed.append(known)

    def _take(
        self, known: Observed, observation: Observation, statistics: dict[int, ValueStatistics]
    ) -> None:  # fmt: skip
        assert observation.start is not None
        assert observation.stop is not None
        times = self._log.of(known.executable)
        times.saw(observation.start, observation.stop)
        settled = known.costs.is_settled(times.median)
        pause = _SELDOM if settled else _PAUSE if known.count >= _COLD else 0.0
        known.asked = None
        if known.checking is not None or not observation.values:
            known.next = observation.stop + pause
        took = observation.stop - observation.start
        looks = sum(sum(region.runs) for region in observation.regions.values())
        # capped, as a step may just have waited longer than others
        most = _DEAREST * looks if known.count and looks else _SLOWEST * len(known.index.nodes)
        extra = min(max(took - times.median, 0.0), most)
        self.duty.looked(extra)
        known.duty.looked(extra)
        known.count += 1
        if known.checking is not None:
            self._checked(known, extra)
            return
        # the first look at values had to write the code, which later ones reuse
        known.expected = _LOOK * looks if looks else min(extra, _CHECK * len(known.index.nodes))
        if observation.values:
            known.values |= {n: (seen, observation.stop) for n, seen in statistics.items()}
        elif known.count > _COLD:
            regions = {n: r.percentiles(50)[0] for n, r in times.regions.items()}
            known.costs.add(observation, times.median, regions)

    def _checked(self, known: Observed, extra: float) -> None:
        """Take in a finished check for NaN."""
        assert known.checking is not None
        first = known.checking.first()
        known.clean = known.clean + 1 if first is None else 0
        if first is not None or known.clean >= _FORGOTTEN:
            known.first_nan = first
        known.checking = None
        # the first check had to write the code, which later ones reuse
        known.check = known.check[0], extra if known.checked else _CHECK * len(known.index.nodes)
        known.checked += 1

    def stop(self) -> None:
        """Cancel all pending observations."""
        for known in self.executables.values():
            executable = find_executable(known.executable)
            if known.asked is not None and executable is not None:
                executable.observe(None)
            known.asked = known.checking = None


def _look(
    statistics: dict[int, ValueStatistics], node: int
) -> Callable[[Sequence[Any]], object]:  # fmt: skip
    def look(outputs: Sequence[Any]) -> None:
        try:
            statistics[node] = value_statistics(outputs[0])
        except Exception:  # whatever the value is, the step must go on
            statistics.pop(node, None)

    return look
