"""Diagnoses of running steps, in words: each names a cause, and not its consequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from eagerflow.formatting import seconds_text
from eagerflow.watching.diagnosing.between_steps import between_text
from eagerflow.watching.diagnosing.first_nan import takes_arguments
from eagerflow.watching.diagnosing.queue_causes import queue_causes, waiting_share
from eagerflow.watching.diagnosing.slowness import ENOUGH_STEPS, slow_node, straggler
from eagerflow.watching.naming import is_at_tasks, name_of, place_of, share_text
from eagerflow.watching.step_times import LATELY

if TYPE_CHECKING:
    from eagerflow.watching.observed_steps import Observed
    from eagerflow.watching.watcher import Watcher

#: recent traces of one function from which on it counts as retraced all the time
_OFTEN: Final = 4


class Diagnosis(NamedTuple):
    """A diagnosis of a problem.

    Attributes:
        kind: ``"lost"``, ``"suspect"``, ``"nan"``, ``"stuck"``, ``"starves"``, ``"between"``,
            ``"straggler"``, ``"slow"`` or ``"retraces"``.
        text: a sentence that names node, queue, device or function.
        executable: the number of the executable, 0 for none.
        node: the number of the node, -1 for none.
        queue: the name of the queue.
        device: the device; for ``"lost"`` and ``"suspect"`` the task.
        path: functions and queues alternately, from the cause to the waiter; the first is empty
            if no function is the cause. For retraces the function alone. Empty for a problem in
            the graph of the step itself.
    """

    kind: str
    text: str
    executable: int = 0
    node: int = -1
    queue: str = ""
    device: str = ""
    path: tuple[str, ...] = ()


def diagnoses(watcher: Watcher, now: float) -> list[Diagnosis]:
    """All diagnoses, the worst first; none if all is well.

    Args:
        watcher: the watcher.
        now: the time, in seconds of ``time.perf_counter``.
    """
    told = [*_tasks(watcher, now), *_nans(watcher, now)]
    for cause in queue_causes(watcher, now):
        kind = "stuck" if cause.is_stuck else "starves"
        told.append(
            Diagnosis(kind, cause.text, cause.executable, cause.node, cause.queue, "", cause.path)
        )
    retraces = _retraces(watcher, now)
    number, text = between_text(watcher, now)
    waits = any(one.kind in ("stuck", "starves") for one in told)
    if number and not waits and not retraces:  # waits and traces between steps have these causes
        told.append(Diagnosis("between", text, number))
    times = watcher.log.busiest(now)
    observed = None if times is None else watcher.observed(times.executable)
    if observed is not None:
        known = observed.costs.version, 1.0 - waiting_share(watcher, observed.executable, now)
        if observed.judged[0] != known:
            observed.judged = known, _slow(observed, known[1])
        told += observed.judged[1]
    return [*told, *retraces]


def _tasks(watcher: Watcher, now: float) -> list[Diagnosis]:
    """Diagnoses of tasks that are lost, or do not answer."""
    told = []
    for task, (health, since) in watcher.tasks.health.items():
        seconds = f"{max(now - since, 0.0):.0f} s"
        if health == "lost":
            text = (
                f"{task} was lost {seconds} ago: its values are gone, and steps that need them fail"
            )
            told.append(Diagnosis("lost", text, device=task))
        elif health == "suspect":
            text = f"{task} has not answered for {seconds}: its process is stopped, or cut off"
            told.append(Diagnosis("suspect", text, device=task))
    return sorted(told)


def undecided(watcher: Watcher, now: float) -> str:
    """Text about what cannot be judged yet; empty if everything can be.

    Nodes and devices are compared by observed steps, which are few at first: until there are
    enough, the absence of a diagnosis means nothing.

    Args:
        watcher: the watcher.
        now: the time, in seconds of ``time.perf_counter``.
    """
    times = watcher.log.busiest(now)
    if times is None:
        return ""
    if is_at_tasks(times.executable):
        name = name_of(times.executable)
        return f"nodes at tasks are not timed, so none of {name} is judged by its time"
    observed = watcher.observed(times.executable)
    steps = 0 if observed is None else observed.costs.steps
    if steps >= ENOUGH_STEPS:
        return ""
    return (
        f"too few observed steps to judge nodes and devices of {name_of(times.executable)}: "
        f"{steps} of {ENOUGH_STEPS}"
    )


def verdict(watcher: Watcher, now: float) -> list[str]:
    """The texts of all diagnoses; without any a text that says so, empty before the first step.

    Args:
        watcher: the watcher.
        now: the time, in seconds of ``time.perf_counter``.
    """
    told = [one.text for one in diagnoses(watcher, now)]
    if told or watcher.log.busiest(now) is None:
        return told
    open_question = undecided(watcher, now)
    return [f"No fault so far; {open_question}." if open_question else "Nothing stands out."]


def _nans(watcher: Watcher, now: float) -> list[Diagnosis]:
    """Diagnoses of nodes that make a NaN which reaches a result.

    A function whose arguments may hold the NaN is named only if no other function can be its
    origin.
    """
    made, given = list[Diagnosis](), list[Diagnosis]()
    for number, observed in watcher.observer.executables.items():
        times, first = watcher.log.executables.get(number), observed.first_nan
        if first is None or times is None or times.last < now - LATELY:
            continue
        node = observed.index.nodes[first]
        does = "makes NaN of finite values" if node.inputs else "holds NaN"
        if takes_arguments(node):
            does = "gives NaN"
        where = f"{place_of(node)} on {node.device}" if node.device else place_of(node)
        text = f"NaN: {where} {does}, and a result has them, too"
        diagnosis = Diagnosis("nan", text, number, first, "", str(node.device or ""))
        (given if takes_arguments(node) else made).append(diagnosis)
    return made or (given[:1] if _all_checked(watcher, now) else [])


def _all_checked(watcher: Watcher, now: float) -> bool:
    """Whether all recent executables were checked for NaN; one with a single node only moves."""
    return all(
        observed.checked or len(observed.index.nodes) == 1
        for number, observed in watcher.observer.executables.items()
        if (times := watcher.log.executables.get(number)) and times.last >= now - LATELY
    )


def _slow(observed: Observed, busy: float) -> list[Diagnosis]:
    """The diagnosis of a straggler, or else of a node that is too slow."""
    shares = {cost.number: cost.share for cost in observed.costs.table()}
    device = straggler(observed, busy)
    if device is not None:
        nodes = observed.index.nodes
        share = sum(s for i, s in shares.items() if str(nodes[i].device or "") == device.name)
        text = (
            f"{device.name} takes {device.factor:.0f} times as long as other devices for the same "
            f"ops: {share_text(share)} of a step"
        )
        return [Diagnosis("straggler", text, observed.executable, -1, "", device.name)]
    slow = slow_node(observed, busy)
    if slow is None:
        return []
    node = observed.index.nodes[slow.number]
    text = (
        f"{place_of(node)} on {node.device} takes {seconds_text(slow.seconds)}, "
        f"{share_text(shares[slow.number])} of a step: {_factor(slow.factor)} the time expected "
        "for its size"
    )
    return [
        Diagnosis("slow", text, observed.executable, slow.number, "", str(node.device or ""))
    ]  # fmt: skip


def _factor(factor: float) -> str:
    return "over 100 times" if factor > 100 else f"{factor:.0f} times"  # estimates are rough


def _retraces(watcher: Watcher, now: float) -> list[Diagnosis]:
    """Diagnoses of functions that are retraced again and again."""
    activity, since = watcher.activity, now - LATELY
    reasons = {event.name: event.reason for event in activity.traces if event.start >= since}
    return [
        Diagnosis("retraces", f"{name} is retraced again and again, {times:.0f} times in "
                  f"{LATELY:.0f} s, because of {reasons[name]}",
                  _latest(watcher, name), path=(name,))
        for name, lately in activity.traced_lately.items()
        if name in reasons and (times := lately.since(since)) >= _OFTEN
    ]  # fmt: skip


def _latest(watcher: Watcher, name: str) -> int:
    """The number of the newest executable of this name; 0 if none has run."""
    return max((n for n in watcher.log.executables if name_of(n) == name), default=0)
