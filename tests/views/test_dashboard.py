from __future__ import annotations

import threading
from math import inf
from time import perf_counter

import eagerflow as ef
from eagerflow import events
from eagerflow.views.dashboard import Dashboard
from eagerflow.watching import Watcher
from eagerflow.watching.diagnosing.diagnosis import diagnoses
from eagerflow.watching.node_costs import Duty
from eagerflow.watching.status_sentence import input_share, sentence


def quiet() -> Watcher:
    """A watcher without a thread: tests call its steps."""
    watcher = Watcher()
    watcher._run = lambda: None
    watcher.observer.duty = Duty(share=1.0)
    watcher.observer.draw = lambda below: 0  # the next step
    return watcher


def step(watcher: Watcher, seconds: list[float], executable: int = 1) -> None:
    end = perf_counter()
    for took in seconds:
        watcher.log.note_step((executable, end - took, end, 1, 1))
    watcher.collect()


def test_before_the_first_step() -> None:
    with Dashboard(quiet()) as look:
        assert look.sentence == "no step yet"
        assert set(look._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_the_cost_is_shown_when_opening_takes_no_large_part_of_it() -> None:
    watcher = quiet()
    with Dashboard(watcher) as look:
        assert "looking takes" not in repr(look)
        watcher.opened -= 10.0
        assert "looking takes" in repr(look)


def test_the_sentence() -> None:
    watcher = quiet()
    fit = ef.trace(lambda x: x + 1, name="fit")
    fit(ef.ones(2))
    number = fit.latest().executable.number
    with Dashboard(watcher) as look:
        step(watcher, [0.0047] * 400 + [0.0051] * 12, number)
        assert look.sentence == "step 412 of fit, 4.7 ms, p95 4.7"
        step(watcher, [0.0051] * 10, number)
        assert look.sentence == "step 422 of fit, 4.7 ms, p95 5.1"


def test_waits_for_input_are_told_where_there_is_input() -> None:
    watcher = quiet()
    with Dashboard(watcher):
        step(watcher, [0.1])
        now = watcher.opened + 10.0
        assert "input" not in sentence(watcher, now)
        for seconds, told in ((0.04, "input waits under 1 %"), (0.06, "input waits 1 %")):
            waited = watcher.opened, watcher.opened + seconds
            watcher.brief_wait(("a", "dequeue", 0, "", "", 1, *waited, 1))
            watcher.collect()
            assert sentence(watcher, now).partition("; ")[2] == told


def test_where_the_time_goes() -> None:
    watcher = quiet()

    @ef.trace
    def f(x):
        with ef.name_scope("light"):
            y = ef.exp(x[:1])
        with ef.name_scope("heavy"):
            for _ in range(20):
                x = x @ x
        return x, y

    x = ef.zeros((128, 128))
    f(x)
    with Dashboard(watcher) as look:
        for _ in range(12):
            f(x)
            watcher.collect()
            for known in watcher.observer.executables.values():
                known.next = 0.0
            watcher.observer.step(perf_counter())
        text = look.sentence
        assert "% in heavy" in text.replace(" %", "%")
        assert "matmul" in repr(look)
        assert "<svg" in look._repr_mimebundle_()["image/svg+xml"]
    assert "of the time; it has ended" in repr(look)


def test_that_nothing_stands_out_is_said() -> None:
    watcher = quiet()
    f = ef.trace(lambda x: ef.exp(x @ x).sum(), name="f")
    x = ef.zeros((64, 64))
    f(x)
    with Dashboard(watcher) as look:
        f(x)
        assert repr(look).splitlines()[1] == (
            "No fault so far; too few observed steps to judge nodes and devices of f: 0 of 9."
        )
        for _ in range(20):
            f(x)
            watcher.collect()
            for known in watcher.observer.executables.values():
                known.next, known.check = 0.0, (inf, 0.0)
            watcher.observer.step(perf_counter())
        assert repr(look).splitlines()[1] == "Nothing stands out."


def test_what_waits_is_named() -> None:
    watcher = quiet()
    queue = ef.Queue(2, ef.tensor(0), name="letters")
    with Dashboard(watcher):
        thread = threading.Thread(target=queue.dequeue)
        thread.start()
        while not events.open_waits():
            pass
        later = perf_counter() + 5
        (diagnosis,) = diagnoses(watcher, later)
        assert (diagnosis.kind, diagnosis.queue) == ("stuck", "letters")
        assert "dequeue of 'letters' has waited " in diagnosis.text
        queue.enqueue(1)
        thread.join()
        watcher.collect()
        assert diagnoses(watcher, perf_counter() + 5) == []


def test_the_share_of_input_waits() -> None:
    watcher = quiet()
    with Dashboard(watcher):
        step(watcher, [0.1])
        (times,) = watcher.log.executables.values()
        now = watcher.opened + 10.0
        assert input_share(watcher, times, now) is None
        for name, operation in (("a", "dequeue"), ("b", "enqueue"), ("c", "take")):
            waited = watcher.opened, watcher.opened + 1.0
            watcher.brief_wait((name, operation, 0, "", "", 1, *waited, 1))
        watcher.collect()
        share = input_share(watcher, times, now)
        assert share is not None
        assert abs(share - 0.2) < 1e-9  # a wait for room is no wait for input
        assert input_share(watcher, times, now + 600) == 0.0  # it waited long ago


def test_a_dashboard_that_is_let_go_looks_no_more() -> None:
    watcher = quiet()
    look = Dashboard(watcher)
    assert watcher.is_open
    del look
    assert not watcher.is_open


def test_retraces_are_told_with_their_reason() -> None:
    watcher = quiet()
    f = ef.trace(lambda x: x + 1, name="again")
    with Dashboard(watcher) as look:
        for shape in ((), (1,)):
            f(ef.ones(shape))
        assert "again was traced 2 times, last because of x: now" in repr(look)
