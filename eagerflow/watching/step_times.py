"""Durations of steps and regions, from their brief events."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Final, TypeVar, final

from eagerflow.events import BriefRegion, BriefStep
from eagerflow.runtime.executable import find_executable
from eagerflow.watching.limits import EXECUTABLES, TIMELINE_STEPS
from eagerflow.watching.series import Recent, Series

#: seconds over which a rate is taken
_RATE: Final = 2.0
#: seconds that count as recent, where activities are compared
LATELY: Final = 10.0
#: steps between two looks of which each is reported; of more, about so many, as a timeline shows no
#: more. To report a step and to take it in takes one or two microseconds, with cold caches
_EACH: Final = 50
#: number of steps that a reported one stands for at most
_MOST_TOGETHER: Final = 512
_first: Final = itemgetter(0)
_Brief = TypeVar("_Brief", BriefStep, BriefRegion)


@final
class StepTimes:
    """Statistics of the steps of one executable.

    Attributes:
        executable: its number.
        ahead: number of steps to come that the last reported one stands for.
        seconds: their total duration.
        first: when the first of them began.
        last: when the last of them ended.
        detached: whether no caller waited for any of them, as for steps of runners.
        recent: the last durations.
        series: all durations over time.
        lately: number of steps reported between the last two looks.
        regions: for each region the last durations.
    """

    def __init__(self, executable: int) -> None:
        self.executable = executable
        self.ahead = 0
        self._counted = 0
        self.seconds = 0.0
        self.first = 0.0
        self.last = 0.0
        self.detached = True
        self.recent = Recent()
        self.series = Series()
        self.lately = 0
        self.regions: dict[int, Recent] = {}

    def add(self, starts: Sequence[float], stops: Sequence[float], counts: Sequence[int]) -> None:
        """Add steps that have ended.

        Args:
            starts: when they began; at least one.
            stops: when they ended.
            counts: number of steps that each stands for.
        """
        seconds = [stop - start for start, stop in zip(starts, stops, strict=True)]
        self.first = self.first or starts[0]
        self.last = max(self.last, max(stops))
        self._counted += sum(counts)
        self.seconds += sum(
            [took * count for took, count in zip(seconds, counts, strict=True)]
        )  # fmt: skip
        self.recent.add(seconds)
        self.series.add(stops, seconds, counts)
        self.lately = len(seconds)

    def saw(self, start: float, stop: float) -> None:
        """Add an observed step: it is counted, but its duration is not representative."""
        self.first = self.first or start
        self.last = max(self.last, stop)
        self._counted += 1

    @property
    def count(self) -> int:
        """The number of steps that have ended, as of the last look."""
        return self._counted - self.ahead

    @property
    def median(self) -> float:
        """The median of the last durations; 0 if there are none."""
        return self.recent.percentiles(50)[0]

    def seconds_since(self, since: float) -> float:
        """The seconds of steps since a time, accurate to a second."""
        return sum([bucket.total for bucket in self.series.latest(since)])

    def rate(self, now: float) -> float:
        """The recent number of steps per second."""
        buckets = self.series.latest(now - _RATE)
        if not buckets:
            return 0.0
        begin = max(buckets[0].start, self.first)
        return sum(b.count for b in buckets) / max(now - begin, 1e-9)


@final
class StepLog:
    """All steps and regions, from their brief events, with statistics.

    Threads that run steps only append to a list. One thread calls `collect`, some times a second.

    Attributes:
        note_step: takes a step; any thread may call it.
        note_region: takes a region; likewise.
        executables: the steps of each executable, by its number.
    """

    def __init__(self) -> None:
        self._steps: list[BriefStep] = []
        self._regions: list[BriefRegion] = []
        self.note_step: Callable[[BriefStep], object] = self._steps.append
        self.note_region: Callable[[BriefRegion], object] = self._regions.append
        self.executables: dict[int, StepTimes] = {}
        #: the last steps, in order of arrival
        self._timeline: deque[BriefStep] = deque(maxlen=TIMELINE_STEPS)
        self._told = 0
        self._regions_line: deque[BriefRegion] = deque(maxlen=TIMELINE_STEPS)
        self._regions_told = 0

    def collect(self) -> int:
        """Take in new steps and regions; returns the number of steps."""
        for times in self.executables.values():
            times.lately = 0
        steps = _taken(self._steps) if self._steps else ()
        if steps:
            numbers = set(map(_first, steps))
            for number in numbers:
                mine = [s for s in steps if s[0] == number] if len(numbers) > 1 else steps
                _, starts, stops, threads, counts = zip(*mine, strict=True)
                times = self.of(number)
                times.add(starts, stops, counts)
                times.detached = times.detached and not any(threads)
            self._timeline.extend(steps[-TIMELINE_STEPS:])
            self._told += len(steps)
        for number, times in self.executables.items():
            executable = find_executable(number)
            times.ahead = 0 if executable is None else executable.untold
        if self._regions:
            regions = _taken(self._regions)
            for key in {(r[0], r[1]) for r in regions}:
                recent = self.of(key[0]).regions.setdefault(key[1], Recent(64))
                recent.add([r[3] - r[2] for r in regions if r[0] == key[0] and r[1] == key[1]])
            self._regions_line.extend(regions[-TIMELINE_STEPS:])
            self._regions_told += len(regions)
        return len(steps)

    def of(self, number: int) -> StepTimes:
        """The steps of an executable; if the table is full, the least recent one is evicted."""
        known = self.executables.get(number)
        if known is None:
            if len(self.executables) >= EXECUTABLES:
                oldest = min(self.executables.values(), key=lambda s: s.last)
                del self.executables[oldest.executable]
            known = self.executables[number] = StepTimes(number)
        return known

    @property
    def told(self) -> int:
        """Number of steps reported in all."""
        return self._told

    def timeline(self, since: int, most: int) -> list[BriefStep]:
        """The last steps, the oldest first.

        Args:
            since: the value of `told` at the previous call.
            most: number of steps at most.
        """
        return _last(self._timeline, self._told - since, most)

    @property
    def newest(self) -> BriefStep | None:
        """The step reported last; None before the first."""
        return self._timeline[-1] if self._timeline else None

    @property
    def regions_told(self) -> int:
        """Number of regions reported in all."""
        return self._regions_told

    def region_line(self, since: int, most: int) -> list[BriefRegion]:
        """The last regions; like `timeline`."""
        return _last(self._regions_line, self._regions_told - since, most)

    def busiest(self, now: float) -> StepTimes | None:
        """The executable whose steps take most of the time now, or else took most of it.

        Steps with a caller that waits come before steps of runners, which idle while they wait.
        """
        known = self.executables.values()
        called = [s for s in known if not s.detached]
        running = [s for s in called or known if s.last >= now - LATELY]
        if len(running) > 1:
            return max(running, key=lambda s: s.seconds_since(now - LATELY))
        return max(running or called or known, key=lambda s: s.seconds, default=None)


def thin_out(log: StepLog) -> None:
    """Let one reported step stand for several where there are many, so that watching stays cheap.

    Args:
        log: the steps since the last look.
    """
    for number, times in log.executables.items():
        executable = find_executable(number)
        if executable is not None:
            together = times.lately * executable.told_every // _EACH
            executable.told_every = min(max(together, 1), _MOST_TOGETHER)


def _taken(log: list[_Brief]) -> list[_Brief]:
    """Remove and return the items of a list. Threads append meanwhile: each line is atomic."""
    taken = log[:]
    del log[: len(taken)]
    return taken


def _last(lines: deque[_Brief], count: int, most: int) -> list[_Brief]:
    """The last ``count`` lines, but at most ``most``, and no more than there are."""
    count = min(count, most, len(lines))
    return list(islice(lines, len(lines) - count, None))
