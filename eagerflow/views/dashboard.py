"""`dashboard`: an overview of all running steps."""

from __future__ import annotations

import weakref
from time import perf_counter
from typing import Any, Final, final

from eagerflow.formatting import seconds_text
from eagerflow.pictures.svg import to_svg
from eagerflow.runtime.executable import find_executable
from eagerflow.views.live import LiveView
from eagerflow.views.show import cost_lines
from eagerflow.views.view import bars, bars_svg, preformatted
from eagerflow.watching import Watcher, shared
from eagerflow.watching.diagnosing.diagnosis import diagnoses, verdict
from eagerflow.watching.naming import name_of
from eagerflow.watching.status_sentence import sentence

#: seconds of watching before its cost is shown: opening alone takes some milliseconds
_SETTLED: Final = 5.0


@final
class Dashboard:
    """An overview of running steps at the time of display; made by `eagerflow.dashboard`.

    It watches until it is closed, or until nothing refers to it any more.
    """

    __slots__ = ("__weakref__", "_close", "_live", "_watcher")

    def __init__(self, watcher: Watcher = shared) -> None:
        self._watcher = watcher
        self._live = LiveView("dashboard")
        watcher.open()
        self._close = weakref.finalize(self, watcher.close)

    def __enter__(self) -> Dashboard:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop watching; gathered data can still be shown."""
        if self._close.alive:
            self._watcher.collect()
            self._close()
            self._live.close()

    @property
    def sentence(self) -> str:
        """The status in one sentence: duration of steps, costliest part, and waits for input."""
        with self._watcher.held():
            self._watcher.collect()
            return sentence(self._watcher, perf_counter())

    @property
    def diagnoses(self) -> list[str]:
        """The current problems, each in a sentence that names node, queue, device or function."""
        with self._watcher.held():
            self._watcher.collect()
            return [one.text for one in diagnoses(self._watcher, perf_counter())]

    def __repr__(self) -> str:
        watcher = self._watcher
        with watcher.held():
            now = perf_counter()
            lines = [self.sentence, *verdict(watcher, now)]
            times = watcher.log.busiest(now)
            if times is not None:
                means = [bucket.mean for bucket in times.series.buckets(1.0)]
                largest = seconds_text(max(b.largest for b in times.series.buckets(3600.0)))
                lines.append(f"{name_of(times.executable)} {bars(means)} longest {largest}")
                observed = watcher.observed(times.executable)
                lines += cost_lines([] if observed is None else observed.costs.table())
            return "\n".join([*lines, *self._queues(), *self._retraces(), *self._cost(now)])

    def _queues(self) -> list[str]:
        levels = [(name, queue.level) for name, queue in self._watcher.activity.queues.items()]
        waits = sorted(self._watcher.activity.waits.values(), key=lambda w: -w.seconds)
        return [
            f"queue {name}: {level.depth}{f' of {level.capacity}' * bool(level.capacity)}"
            f"{', closed' * level.closed}"
            for name, level in levels
        ] + [
            f"{wait.operation} of {wait.name} waited {wait.count:,} times, "
            f"{seconds_text(wait.seconds)} in all"
            for wait in waits[:3]
        ]

    def _retraces(self) -> list[str]:
        activity = self._watcher.activity
        last = {event.name: event.reason for event in activity.traces}
        return [
            f"{name} was traced {count} times, last because of {last[name]}"
            for name, count in activity.traced.items() if count > 1 and name in last
        ]  # fmt: skip

    def _cost(self, now: float) -> list[str]:
        watcher = self._watcher
        if not watcher.is_open:
            return [f"looking took {watcher.cost(now):.1%} of the time; it has ended"]
        if now - watcher.opened < _SETTLED:
            return []
        return [f"looking takes {watcher.cost(now):.1%} of the time"]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle: dict[str, Any] = dict(self._still())
        return {**bundle, **self._live.mimebundle()} if self._close.alive else bundle

    def _still(self) -> dict[str, str]:
        """The MIME bundle without a live view."""
        text, watcher = repr(self), self._watcher
        bundle = {"text/plain": text, "text/html": preformatted(text)}
        with watcher.held():
            times = watcher.log.busiest(perf_counter())
            means = [] if times is None else [b.mean for b in times.series.buckets(1.0)]
        if times is None:
            return bundle
        curve = bars_svg(means, "mean time of a step in each second")
        executable = find_executable(times.executable)
        graph = "" if executable is None else str(to_svg(executable.graph, limit=40))
        bundle["text/html"] += f"<div>{curve}</div><div>{graph}</div>"
        bundle["image/svg+xml"] = graph or curve
        return bundle


def dashboard() -> Dashboard:
    """Watch all steps of this process, from now on.

    The result shows, whenever it is printed or displayed, one sentence (which function runs, how
    long its steps take, where the time goes, what they wait for), the time of steps over the last
    two minutes, the slowest nodes, queues, and retraces. Watching costs one or two hundredths of
    the time of a step, and more if steps shorter than a few milliseconds use queues.

    >>> f = ef.trace(lambda x: ef.exp(x) + 1, name="fit")
    >>> with ef.dashboard() as look:
    ...     for _ in range(412):
    ...         y = f(ef.ones(3))
    ...     print(look.sentence.split(",")[0])
    step 412 of fit
    """
    return Dashboard()
