"""The status in one sentence: duration of steps, their costliest part, and waits for input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from eagerflow.formatting import seconds_text
from eagerflow.watching.naming import name_of
from eagerflow.watching.node_costs import NodeCost, layer_shares
from eagerflow.watching.step_times import LATELY, StepTimes

if TYPE_CHECKING:
    from eagerflow.events import WaitEvent
    from eagerflow.watching.activity import WaitActivity
    from eagerflow.watching.watcher import Watcher

#: a scope with a larger share is about the whole step: the scopes within are more informative
_ALL: Final = 0.8
_MUCH: Final = 0.2
#: part of a layer from which on it is named in place of the layer
_MOST: Final = 0.5
#: smaller shares are not mentioned
_LITTLE: Final = 0.05
#: smaller shares of waits for input would round to 0 %
_WORTH: Final = 0.005


def sentence(watcher: Watcher, now: float) -> str:
    """The status of the busiest executable and of the tasks, in one sentence.

    Args:
        watcher: the watcher.
        now: the time, in seconds of ``time.perf_counter``.
    """
    times = watcher.log.busiest(now)
    away = _away(watcher)
    if times is None:
        return "; ".join(["no step yet", *away])
    p50, p95 = times.recent.percentiles(50, 95)
    name = name_of(times.executable)
    parts = [f"step {times.count:,} of {name}, {seconds_text(p50)}, p95 {_beside(p95, p50)}"]
    observed = watcher.observed(times.executable)
    if observed is not None:
        costs = observed.costs.table()
        if observed.largest[0] is not costs:
            observed.largest = costs, largest_part(costs)
    if observed is not None and observed.largest[1] is not None:
        part, share = observed.largest[1]
        parts.append(f"{share:.0%} in {part}".replace("%", " %"))
    waited = input_share(watcher, times, now)
    if waited is not None:
        part = f"{waited:.0%}".replace("%", " %") if waited >= _WORTH else "under 1 %"
        parts.append(f"input waits {part}")
    return "; ".join([*parts, *away])


def _away(watcher: Watcher) -> list[str]:
    """Texts about the tasks that are lost or do not answer."""
    said = {"lost": ("is lost", "are lost"), "suspect": ("does not answer", "do not answer")}
    parts = []
    for health, (one, several) in said.items():
        tasks = sorted(t for t, known in watcher.tasks.health.items() if known.health == health)
        if tasks:
            parts.append(f"{', '.join(tasks)} {one if len(tasks) == 1 else several}")
    return parts


def _beside(seconds: float, other: float) -> str:
    """The text of a time beside another one, without its unit if that is the same."""
    text, unit = seconds_text(seconds), seconds_text(other).split()[1]
    return text.removesuffix(f" {unit}")


def largest_part(costs: Sequence[NodeCost]) -> tuple[str, float] | None:
    """The part that takes most of a step: the name of a layer or a node, and its share.

    A layer includes its derivatives and updates. A layer that takes most of a step is replaced by
    its parts, and one of which a part takes the most by that part.

    >>> from eagerflow.watching.node_costs import NodeCost
    >>> from eagerflow.watching.status_sentence import largest_part
    >>> rows = [("matmul", "net/one", 0.3), ("dot", "net/two", 0.4), ("exp", "net/two", 0.3)]
    >>> largest_part([NodeCost(0, n, scope, 0, 0, share, 1, 1, 0.0) for n, scope, share in rows])
    ('two', 0.7)
    >>> rows = [("matmul", "net/layers.0", 0.4), ("dot", "net/layers.2", 0.3), ("exp", "loss", 0.3)]
    >>> largest_part([NodeCost(0, n, scope, 0, 0, share, 1, 1, 0.0) for n, scope, share in rows])
    ('layers.0', 0.4)
    """
    if not costs:
        return None
    shares = layer_shares(costs)
    outer = ""
    scope = _largest_within(outer, shares)
    while scope and shares[scope] >= _ALL * shares[""]:
        outer, scope = scope, _largest_within(scope, shares)
    inside = [c for c in costs if c.layer == outer]
    node = max(inside, key=lambda c: c.share, default=None)
    inner = _largest_within(scope, shares) if scope else ""
    while inner and shares[inner] >= max(_MUCH, _MOST * shares[scope]):
        scope, inner = inner, _largest_within(inner, shares)
    dearest = (scope.rpartition("/")[2], shares[scope]) if scope else ("", 0.0)
    if node is not None and node.share > dearest[1]:
        dearest = node.node, node.share
    if outer and dearest[1] < _MUCH:  # many small parts: the layer around them says more
        dearest = outer.rpartition("/")[2], shares[outer]
    return dearest if dearest[1] >= _LITTLE else None


def _largest_within(outer: str, shares: Mapping[str, float]) -> str:
    """The layer with the largest share of those directly within another one; empty for none."""
    begin = f"{outer}/" if outer else ""
    within = [s for s in shares if s and s.startswith(begin) and "/" not in s[len(begin) :]]
    return max(within, key=shares.__getitem__, default="")


def input_share(watcher: Watcher, times: StepTimes, now: float) -> float | None:
    """The recent fraction of time that an executable's steps, or eager code, waited for input.

    None if there is no input to wait for.
    """
    activity, since = watcher.activity, max(now - LATELY, watcher.opened)
    mine = {0, times.executable}
    waits, going = _input_waits(watcher, mine)
    if not (waits or activity.taken or going or activity.queues):
        return None
    return min(seconds_for_input(watcher, mine, since, now) / max(now - since, 1e-9), 1.0)


def seconds_for_input(watcher: Watcher, executables: set[int], since: float, now: float) -> float:
    """The seconds that steps of some executables waited for input; 0 stands for eager code.

    Args:
        watcher: the watcher.
        executables: their numbers.
        since: the time from which on waits count.
        now: the time until which waits in progress count.
    """
    waits, going = _input_waits(watcher, executables)
    ended = sum(w.lately.since(since) for w in waits) + watcher.activity.taken_lately.since(since)
    return ended + sum(max(now - max(w.start, since), 0.0) for w in going)


def _input_waits(
    watcher: Watcher, executables: set[int]
) -> tuple[list[WaitActivity], list[WaitEvent]]:
    """The waits of some executables for input, as sums and in progress."""
    activity = watcher.activity
    waits = [w for w in activity.waits.values() if w.starves and not w.runner]
    going = [w for w in activity.waiting if w.executable in executables and not w.runner]
    return [w for w in waits if w.executable in executables], going
