"""The root cause of a wait for a queue: the beginning of a chain of waiters.

A consumer that waits for a queue waits for its producers; if they wait themselves, the cause is
further up, and so on. The diagnosis names the executable that does not wait, or the queue that
nothing fills or empties. Runners that wait with no waiter behind them are idle, which is fine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from eagerflow.formatting import seconds_text
from eagerflow.graph.edit import flat_items
from eagerflow.graph.ir import Node
from eagerflow.resources.meetings import AbstractMeeting
from eagerflow.watching.activity import TAKING
from eagerflow.watching.naming import name_of, share_text
from eagerflow.watching.step_times import LATELY

if TYPE_CHECKING:
    from eagerflow.watching.watcher import Watcher

#: fractions of the time spent waiting: from the first on a step starves, from the second on it
#: counts as doing nothing else
_MUCH: Final = 0.25
_MOST: Final = 0.5
#: seconds of one wait from which on it counts as stuck
_STUCK: Final = 1.0
#: seconds, and times of a mean wait, without a wait after which a waiter counts as ended
_OVER: Final = 3.0
_PAUSES: Final = 5.0


class _Waiting(NamedTuple):
    """Recent waits of one executable, or of eager code of one runner, in one operation.

    Attributes:
        executable: its number; 0 in eager code.
        runner: the name of the runner, empty without one.
        operation: the operation, such as ``"dequeue"``.
        queue: the name of the queue.
        node: the name of the node.
        share: the fraction of the time.
        longest: seconds of the longest wait in progress.
    """

    executable: int
    runner: str
    operation: str
    queue: str
    node: str
    share: float
    longest: float

    @property
    def takes(self) -> bool:
        """Whether it waits for an element, and not for room."""
        return self.operation in TAKING

    @property
    def who(self) -> str:
        """The name of the waiter."""
        return name_of(self.executable) if self.executable else self.runner or "eager code"


class QueueCause(NamedTuple):
    """The cause of a chain of waits.

    Attributes:
        text: a sentence about it.
        queue: the name of the queue.
        executable: the number of the executable that waits there, 0 in eager code.
        node: the number of the node that waits, -1 in eager code.
        is_stuck: whether nothing moves.
        path: functions and queues alternately, from the cause to the first waiter; the first is
            empty if no function is the cause.
    """

    text: str
    queue: str
    executable: int
    node: int
    is_stuck: bool
    path: tuple[str, ...]


def queue_causes(watcher: Watcher, now: float) -> list[QueueCause]:
    """The cause of the worst wait outside of runners; empty if no wait is long enough."""
    waits = _waits(watcher, now)
    most = max((w for w in waits if not w.runner), key=lambda w: w.share, default=None)
    if most is not None and (most.share >= _MUCH or most.longest >= _STUCK):
        return [_Chain(watcher, now, waits, _users(watcher)).cause(most)]
    return []


def waiting_share(watcher: Watcher, number: int, now: float) -> float:
    """The recent fraction of time that an executable's steps waited for queues and the like."""
    mine = [w.share for w in _waits(watcher, now) if w.executable == number and not w.runner]
    return min(sum(mine), 1.0)


def _waits(watcher: Watcher, now: float) -> list[_Waiting]:
    activity, since = watcher.activity, max(now - LATELY, watcher.opened)
    seconds: dict[tuple[int, str, str, str, str], float] = {}
    longest: dict[tuple[int, str, str, str, str], float] = {}
    for wait in activity.waits.values():
        pause = max(_OVER, _PAUSES * wait.seconds / max(wait.count, 1))
        if wait.lately.last < max(since, now - pause):
            continue
        key = wait.executable, wait.runner, wait.operation, wait.name, wait.node
        seconds[key] = seconds.get(key, 0.0) + wait.lately.since(since)
    for event in activity.waiting:
        key = event.executable, event.runner, event.operation, event.name, event.node
        seconds[key] = seconds.get(key, 0.0) + max(now - max(event.start, since), 0.0)
        longest[key] = max(longest.get(key, 0.0), now - event.start)
    passed = max(now - since, 1e-9)
    return [
        _Waiting(*key, min(took / passed, 1.0), longest.get(key, 0.0))
        for key, took in seconds.items()
    ]


def _users(watcher: Watcher) -> dict[tuple[str, bool], set[int]]:
    """By queue, the executables that take from it (True), and that put into it (False)."""
    users: dict[tuple[str, bool], set[int]] = {}
    for number in watcher.log.executables:
        known = watcher.observer.of(number)
        if known is None:
            continue
        if known.queues is None:
            known.queues = {use for node in known.index.nodes for use in _used(node)}
        for use in known.queues:
            users.setdefault(use, set()).add(number)
    return users


def _used(node: Node) -> Iterator[tuple[str, bool]]:
    """The queues that a node waits for, and whether it takes from them."""
    _, _, operation = node.op.partition("_")
    for item in flat_items(node.attrs.values()) if node.attrs else ():
        if isinstance(item, AbstractMeeting):
            yield item.label, operation in TAKING


class _Chain(NamedTuple):
    """Follows waits to their beginning."""

    watcher: Watcher
    now: float
    waits: list[_Waiting]
    users: dict[tuple[str, bool], set[int]]

    def cause(self, first: _Waiting) -> QueueCause:
        """The cause of the first wait of the chain."""
        wait, seen, who = first, {first[:4]}, 0
        path = [first.who, first.queue]
        while True:
            others = self._others(wait)
            held = {number: self._held(number) for number in others}
            free = [number for number, at in held.items() if at is None]
            if free:
                who = max(free, key=self._median)
                break
            after = [at for at in held.values() if at is not None and at[:4] not in seen]
            if not after:
                break
            wait = max(after, key=lambda w: w.share)
            seen.add(wait[:4])
            path += [wait.who, wait.queue]
        known = self.watcher.observer.of(wait.executable) if wait.executable else None
        node = None if known is None else known.index.named(wait.node)
        stuck = not who and wait.longest >= _STUCK
        text = self._text(first, wait, who, stuck)
        path.append(name_of(who) if who else "")
        return QueueCause(
            text, wait.queue, wait.executable, -1 if node is None else node, stuck,
            tuple(reversed(path)),
        )  # fmt: skip

    def _others(self, wait: _Waiting) -> set[int]:
        """The executables that could end a wait: those that do the opposite with the queue."""
        waiting = {w.executable for w in self.waits
                   if w.queue == wait.queue and w.takes != wait.takes and w.executable}  # fmt: skip
        return waiting | self.users.get((wait.queue, not wait.takes), set())

    def _held(self, number: int) -> _Waiting | None:
        """The wait of an executable that does little else; None if it does."""
        mine = [w for w in self.waits if w.executable == number]
        most = max(mine, key=lambda w: w.share, default=None)
        return None if most is None or most.share < _MOST else most

    def _median(self, number: int) -> float:
        times = self.watcher.log.executables.get(number)
        return 0.0 if times is None else times.median

    def _text(self, first: _Waiting, wait: _Waiting, who: int, stuck: bool) -> str:
        state = "runs empty" if wait.takes else "is full"
        verb = "fills" if wait.takes else "empties"
        late = f"{first.who} waits {share_text(first.share)} of the time"
        if stuck:
            moves = "puts anything in" if wait.takes else "takes anything out"
            more = "" if wait.who == first.who else f"; so {first.who} waits, too"
            return (
                f"{wait.who} is stuck: {wait.operation} of {wait.queue!r} has waited "
                f"{seconds_text(wait.longest)}, and nothing {moves}{more}"
            )
        if not who:
            return f"{wait.queue} {state}: the code that {verb} it is too slow; {late}"
        times = self.watcher.log.executables[who]
        idle = self.now - times.last
        if idle > max(LATELY / 2, 5 * times.median):
            return (
                f"{wait.queue} {state}: {name_of(who)}, which {verb} it, has not ended a step for "
                f"{seconds_text(idle)}; {late}"
            )
        return (
            f"{wait.queue} {state}: {name_of(who)}, which {verb} it, is too slow with "
            f"{seconds_text(times.median)} a step; {late}"
        )
