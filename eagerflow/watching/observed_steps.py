"""Which step is observed next, and what observed steps have told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from eagerflow.runtime.executable import find_executable
from eagerflow.runtime.observed_step import Observation
from eagerflow.watching.diagnosing.first_nan import NanCheck
from eagerflow.watching.diagnosing.slowness import Expectations
from eagerflow.watching.graph_columns import NodeIndex
from eagerflow.watching.limits import OBSERVED_EXECUTABLES
from eagerflow.watching.node_costs import Duty, NodeCosts
from eagerflow.watching.step_times import StepLog, StepTimes
from eagerflow.watching.value_statistics import ValueStatistics, value_statistics

#: what it takes to write the code for the first observation, per node; a guess that is corrected
_WRITING: Final = 2e-4
#: what observing costs after that, per look at the clock
_LOOK: Final = 1.5e-6
#: what a look may cost at most, and to write the code of a node or look at its value
_DEAREST: Final = 1e-5
_SLOWEST: Final = 5e-3
#: observed steps that are not counted: code that is new runs slower
_COLD: Final = 2
#: seconds between two observed steps of one executable
_PAUSE: Final = 0.5
#: observed steps that times stand on before values are looked at for NaN, seconds between two such
#: looks, and what one costs a node, as a first guess
_TIMED: Final = 3
_CHECKED: Final = 5.0
_CHECK: Final = 3e-5
#: seconds of its own steps that looking at one may be ahead of: a small graph has its first figures
#: at once, although what a large one cost is not yet earned
_AHEAD: Final = 2.0


@final
@dataclass(slots=True, eq=False)
class Observed:
    """What is known of the nodes of one executable.

    Attributes:
        executable: its number.
        index: its nodes.
        costs: how long they take.
        values: statistics of the values that were asked for, by the number of the node, and when
            they were taken.
        count: how many steps were observed.
        wanted: the numbers of nodes whose value is to be looked at in the next step.
        asked: the observation that waits for a step.
        next: when the next step may be observed.
        expected: seconds that observing one is expected to cost.
        duty: what looking at this one may cost, where that at all of them has cost too much.
        worked: seconds that its steps took, as far as they count for its duty.
        checked: how many steps were looked at for NaN.
        check: when the next one may be, and what that is expected to cost, in seconds.
        checking: what looks at a step for NaN; else None.
        first_nan: the number of the node that made the NaN in the last of them, if there was one.
        expectations: what its nodes should take.
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
    duty: Duty = field(default_factory=lambda: Duty(ahead=_AHEAD))
    worked: float = 0.0
    checked: int = 0
    check: tuple[float, float] = (0.0, 0.0)
    checking: NanCheck | None = None
    first_nan: int | None = None
    expectations: Expectations = field(init=False)

    def __post_init__(self) -> None:
        self.expectations = Expectations(self.index)


@final
class StepObserver:
    """Has single steps observed, so seldom that it costs little.

    `step` is called by one thread, some times a second.

    Args:
        log: the steps that run.
        duty: what looking may cost.
    """

    def __init__(self, log: StepLog, duty: Duty | None = None) -> None:
        self._log = log
        self.duty = duty or Duty()
        self.executables: dict[int, Observed] = {}
        self._done: list[tuple[Observation, dict[int, ValueStatistics]]] = []
        self._changed: list[Observed] = []
        self._worked = 0.0

    def of(self, number: int) -> Observed | None:
        """What is known of an executable; None if it is gone, or there are too many."""
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
        """Take statistics of a node's first output in the next step; whether there is one."""
        known = self.of(number)
        if known is None or not 0 <= node < len(known.index.nodes):
            return False
        known.wanted.add(node)
        return True

    def step(self, now: float) -> list[Observed]:
        """Take in what was observed, and ask for more; gives what is known anew."""
        self.collect()
        changed, self._changed = self._changed, []
        seconds = sum(s.seconds for s in self._log.executables.values())
        self.duty.worked(max(seconds - self._worked, 0.0))
        self._worked = seconds
        for times in list(self._log.executables.values()):
            if now - times.last < 1.0 and times.median:
                self._ask(times, now)
        return changed

    def _ask(self, times: StepTimes, now: float) -> None:
        known = self.of(times.executable)
        if known is None or known.asked is not None or now < known.next:
            return
        executable = find_executable(times.executable)
        if executable is None:
            return
        known.duty.worked(times.seconds - known.worked)
        known.worked = times.seconds
        due, cost = known.check
        checks = known.costs.steps >= _TIMED and now >= due and not known.wanted
        if checks and self._allows(known, cost):
            known.checking, known.check = NanCheck(known.index), (now + _CHECKED, cost)
            known.asked = Observation(
                times.executable, lambda seen: self._done.append((seen, {})),
                known.checking.looks(),
            )  # fmt: skip
            executable.observe(known.asked)
        elif self._allows(known, known.expected):
            statistics: dict[int, ValueStatistics] = {}
            looks = {known.index.nodes[n].name: _look(statistics, n) for n in known.wanted}
            known.wanted.clear()
            known.asked = Observation(
                times.executable, lambda seen: self._done.append((seen, statistics)), looks
            )
            executable.observe(known.asked)

    def _allows(self, known: Observed, seconds: float) -> bool:
        """Whether a look may cost this: out of what all have earned, or what this one has."""
        return self.duty.allows(seconds) or known.duty.allows(seconds)

    def collect(self) -> None:
        """Take in what was observed."""
        done = self._done[:]
        del self._done[: len(done)]
        for observation, statistics in done:
            known = self.executables.get(observation.executable)
            if known is None or known.asked is not observation:
                continue
            self._take(known, observation, statistics)
            self._changed.append(known)

    def _take(
        self, known: Observed, observation: Observation, statistics: dict[int, ValueStatistics]
    ) -> None:  # fmt: skip
        assert observation.start is not None
        assert observation.stop is not None
        times = self._log.of(known.executable)
        times.saw(observation.start, observation.stop)
        pause = _PAUSE if known.count >= _COLD else 0.0
        known.asked, known.next = None, observation.stop + pause
        took = observation.stop - observation.start
        looks = sum(sum(region.runs) for region in observation.regions.values())
        # a step that waited longer than others did not cost that
        most = _DEAREST * looks if known.count and looks else _SLOWEST * len(known.index.nodes)
        extra = min(max(took - times.median, 0.0), most)
        self.duty.looked(extra)
        known.duty.looked(extra)
        known.count += 1
        if known.checking is not None:
            self._checked(known, extra)
            return
        known.expected = _LOOK * looks if looks else extra
        if observation.values:
            known.values |= {n: (seen, observation.stop) for n, seen in statistics.items()}
        elif known.count > _COLD:
            regions = {n: r.percentiles(50)[0] for n, r in times.regions.items()}
            known.costs.add(observation, times.median, regions)

    def _checked(self, known: Observed, extra: float) -> None:
        """All values of a step were looked at."""
        assert known.checking is not None
        known.first_nan = known.checking.first()
        known.checking = None
        # the first had to write the code, which later ones need not
        known.check = known.check[0], extra if known.checked else _CHECK * len(known.index.nodes)
        known.checked += 1

    def stop(self) -> None:
        """Let no step be observed any more."""
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
        except Exception:  # whatever it is, the step that shows it must go on
            statistics.pop(node, None)

    return look
