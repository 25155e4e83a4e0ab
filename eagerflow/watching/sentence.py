"""What runs, in one sentence: how long steps take, where the time goes, what they wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from eagerflow.runtime.executable import find_executable
from eagerflow.watching.activity import TAKING
from eagerflow.watching.node_costs import NodeCost, scope_shares
from eagerflow.watching.step_times import LATELY, StepTimes

if TYPE_CHECKING:
    from eagerflow.watching.watcher import Watcher

#: a scope with more is the step itself, about: those within say more
_ALL: Final = 0.95
_MUCH: Final = 0.2
#: the part of its time from which on what waits starves
_STARVES: Final = 0.25
#: shares below are not worth a word
_LITTLE: Final = 0.05


def seconds_text(seconds: float) -> str:
    """A time with its unit, to two or three places.

    >>> from eagerflow.watching.sentence import seconds_text
    >>> seconds_text(0.00472), seconds_text(0.0000123), seconds_text(2.5), seconds_text(0.25)
    ('4.7 ms', '12 us', '2.5 s', '250 ms')
    """
    for scale, unit in ((1e-6, "us"), (1e-3, "ms")):
        if seconds < 999.5 * scale:
            return f"{_places(seconds / scale)} {unit}"
    return f"{_places(seconds)} s"


def _places(number: float) -> str:
    return f"{number:.1f}" if number < 9.95 else f"{number:.0f}"


def sentence(watcher: Watcher, now: float) -> str:
    """What runs, in one sentence.

    Args:
        watcher: what has looked.
        now: the time, in seconds of ``time.perf_counter``.
    """
    times = watcher.log.busiest(now)
    if times is None:
        return "; ".join(["no step yet", *stuck(watcher, now)])
    p50, p95 = times.recent.percentiles(50, 95)
    parts = [f"step {times.count:,}, {seconds_text(p50)}, p95 {_beside(p95, p50)}"]
    observed = watcher.observed(times.executable)
    costs = [] if observed is None else observed.costs.table()
    largest = largest_part(costs)
    if largest is not None:
        part, share = largest
        parts.append(f"{share:.0%} in {part}".replace("%", " %"))
    waited = input_share(watcher, times, now)
    if waited is not None:
        parts.append(f"input waits {waited:.0%}".replace("%", " %"))
    return "; ".join([*parts, *starving(watcher, now), *stuck(watcher, now)])


def _beside(seconds: float, other: float) -> str:
    """A time beside another one: its unit is left out where it is the same."""
    text, unit = seconds_text(seconds), seconds_text(other).split()[1]
    return text.removesuffix(f" {unit}")


def largest_part(costs: list[NodeCost]) -> tuple[str, float] | None:
    """Where most of a step goes: the name of a scope or a node, and its share.

    Scopes that hold about all of it are opened.

    >>> from eagerflow.watching.node_costs import NodeCost
    >>> from eagerflow.watching.sentence import largest_part
    >>> rows = [("matmul", "net/one", 0.3), ("dot", "net/two", 0.4), ("exp", "net/two", 0.3)]
    >>> largest_part([NodeCost(0, n, scope, 0.0, share, 1, 1, 0.0) for n, scope, share in rows])
    ('two', 0.7)
    """
    if not costs:
        return None
    shares = scope_shares(costs)
    outer, whole = "", shares[""]
    while True:
        depth = outer.count("/") + 1 if outer else 0
        begin = f"{outer}/" if outer else ""
        within = {s: v for s, v in shares.items()
                  if s and s.startswith(begin) and s.count("/") == depth}  # fmt: skip
        scope = max(within, key=within.__getitem__, default="")
        if not scope or within[scope] < _ALL * whole:
            break
        outer = scope
    inside = [c for c in costs if c.scope == outer]
    node = max(inside, key=lambda c: c.share, default=None)
    dearest = (scope.rpartition("/")[2], within[scope]) if scope else ("", 0.0)
    if node is not None and node.share > dearest[1]:
        dearest = node.node, node.share
    if outer and dearest[1] < _MUCH:  # many small parts: what holds them says more
        dearest = outer.rpartition("/")[2], shares[outer]
    return dearest if dearest[1] >= _LITTLE else None


def input_share(watcher: Watcher, times: StepTimes, now: float) -> float | None:
    """The part of the time that steps of an executable, or what feeds them, waited for input.

    None if there is nothing that they could wait for.
    """
    activity = watcher.activity
    waits = [w for w in activity.waits.values() if w.starves and not w.runner]
    mine = [w for w in waits if w.executable in (0, times.executable)]
    taken = sum(waited for _, waited in activity.taken.values())
    going = [w for w in activity.waiting if w.executable in (0, times.executable) and not w.runner]
    if not (mine or activity.taken or going or activity.queues):
        return None
    seconds = sum(w.seconds for w in mine) + taken + sum(now - w.start for w in going)
    return min(seconds / max(now - watcher.opened, 1e-9), 1.0)


def starving(watcher: Watcher, now: float) -> list[str]:
    """The operation that waited most for something to come lately, if its steps do little else."""
    since = max(now - LATELY, watcher.opened)
    seconds: dict[tuple[str, str, int], float] = {}
    activity = watcher.activity
    for wait in (*activity.waited, *activity.waiting):
        if wait.operation in TAKING and not wait.runner:
            key = wait.operation, wait.name, wait.executable
            stop = now if wait.stop is None else wait.stop
            seconds[key] = seconds.get(key, 0.0) + max(stop - max(wait.start, since), 0.0)
    most = max(seconds, key=seconds.__getitem__, default=None)
    if most is None or seconds[most] < _LITTLE * (now - since):
        return []
    operation, name, number = most
    times = watcher.log.executables.get(number)
    share = seconds[most] / max(now - since if times is None else times.seconds_since(since), 1e-9)
    if share < _STARVES:
        return []
    return [f"{operation} of {name!r} waits {min(share, 1.0):.0%}".replace("%", " %")]


def stuck(watcher: Watcher, now: float) -> list[str]:
    """The waits that have gone on for a second or more."""
    return [
        f"{w.operation} of {w.name!r} has waited {seconds_text(now - w.start)}"
        for w in watcher.activity.waiting if now - w.start >= 1.0
    ][:3]  # fmt: skip


def name_of(number: int) -> str:
    """The name of the graph that an executable runs."""
    executable = find_executable(number)
    return "a graph that is gone" if executable is None else executable.graph.name or "graph"
