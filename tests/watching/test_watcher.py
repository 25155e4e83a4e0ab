"""The watcher on real programs: it gathers the figures that the tests expect."""

from __future__ import annotations

import subprocess
import sys
import threading
from time import perf_counter

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import events
from eagerflow.events import AbstractEvent, RegionEvent, StepEvent
from eagerflow.watching import Watcher
from eagerflow.watching.diagnosing.diagnosis import diagnoses
from eagerflow.watching.graph_columns import decode_structure
from eagerflow.watching.node_costs import Duty
from tests.watching.fake_comm import FakeComm
from tests.watching.held_loop import held_loop

_ahead = 0.0


def quiet() -> Watcher:
    """A watcher without a thread: tests call its steps."""
    global _ahead
    _ahead = 0.0
    watcher = Watcher()
    watcher._run = lambda: None
    return watcher


def tick(watcher: Watcher) -> None:
    """One round of the watcher's thread, as if a tenth of a second had passed."""
    global _ahead
    _ahead += 0.1
    now = perf_counter() + _ahead
    watcher.look(now)
    watcher.tell(now)


def small():
    # not compiled: a step that tries out kernels looks at the clock
    f = ef.trace(lambda x: ef.exp(x) + 1, name="small", compile="off")
    f(ef.ones(2))
    return f


def test_steps_reach_a_view() -> None:
    f, comm, watcher = small(), FakeComm(), quiet()
    watcher.connect(comm)
    with watcher:
        for _ in range(7):
            f(ef.ones(2))
        tick(watcher)
    names = {row[0]: row[1] for row in comm.rows("names")}
    ((number, name, nodes, _),) = comm.rows("executables")
    assert names[name] == "small"
    assert nodes == len(f.graph(ef.ones(2)).nodes)
    (row,) = comm.rows("steps")
    assert (row[0], row[1]) == (number, 7)
    assert len(comm.rows("timeline")) == 7


def test_threads_have_names() -> None:
    f, comm, watcher = small(), FakeComm(), quiet()
    watcher.connect(comm)
    with watcher:
        f(ef.ones(2))
        other = threading.Thread(target=lambda: (f(ef.ones(2)), tick(watcher)), name="evaluation")
        other.start()
        other.join()
    names = {row[0]: row[1] for row in comm.rows("names")}
    told = {row[0]: names[row[1]] for row in comm.rows("threads")}
    assert told == {threading.get_ident(): "MainThread", other.ident: "evaluation"}
    assert {row[3] for row in comm.rows("timeline")} == told.keys()


def test_the_structure_comes_once() -> None:
    f, comm, watcher = small(), FakeComm(), quiet()
    watcher.connect(comm)
    with watcher:
        for _ in range(3):
            f(ef.ones(2))
            tick(watcher)
    ((_, piece, pieces, data),) = comm.rows("structures")
    assert (piece, pieces) == (0, 1)
    assert decode_structure(data)["graph"] == "small"


def test_a_view_asks_for_a_value() -> None:
    f, comm, watcher = small(), FakeComm(), quiet()
    watcher.observer.duty = Duty(share=1.0)
    watcher.observer.draw = lambda below: 0  # the next step
    watcher.connect(comm)
    x = ef.tensor([0.0, np.inf])
    with watcher:
        f(x)
        tick(watcher)
        ((number, *_),) = comm.rows("executables")
        index = watcher.observed(number).index
        exp = next(i for i, node in enumerate(index.nodes) if node.op == "exp")
        comm.say(look=[number, exp])
        for _ in range(6):
            tick(watcher)
            f(x)
        tick(watcher)
    names = {row[0]: row[1] for row in comm.rows("names")}
    (row, *_) = comm.rows("values")
    assert (row[0], row[1], names[row[2]], names[row[3]]) == (number, exp, "2", "float32")
    assert (row[6], row[7], row[9], row[10]) == (1.0, 1.0, 0, 1)


@pytest.mark.parametrize(
    "wish", [{"look": [0, 0]}, {"look": "all"}, {"look": [1]}, {"structure": "x"},
             {"structure": -1}, {"structure": 10**9}, {"ack": "x"}, {"unknown": None}],
)  # fmt: skip
def test_a_view_may_ask_for_anything(wish) -> None:
    comm, watcher = FakeComm(), quiet()
    watcher.connect(comm)
    with watcher:
        comm.say(**wish)
        tick(watcher)


def test_the_iteration_of_a_loop_that_runs() -> None:
    """A loop is held in its third iteration while a view is told."""
    comm, watcher = FakeComm(), quiet()
    watcher.connect(comm)
    with watcher, held_loop(2) as thread:
        tick(watcher)
    names = {row[0]: row[1] for row in comm.rows("names")}
    (place,) = comm.rows("places")
    assert (place[0], names[place[3]], place[6]) == (thread.ident, "works", 2)


def test_a_queue_that_starves_its_consumer() -> None:
    queue = ef.Queue(2, ef.tensor(0), name="letters")
    comm, watcher = FakeComm(), quiet()
    watcher.connect(comm)
    with watcher:
        queue.enqueue(1)
        queue.dequeue()
        thread = threading.Thread(target=queue.dequeue)
        thread.start()
        while not events.open_waits():
            pass
        tick(watcher)
        queue.enqueue(1)
        thread.join()
    names = {row[0]: row[1] for row in comm.rows("names")}
    (place,) = comm.rows("places")
    assert (names[place[3]], names[place[7]]) == ("waits", "letters")
    (row,) = comm.rows("queues")
    assert (names[row[0]], row[2], row[3]) == ("letters", 0, 2)


def test_a_view_asks_for_a_queue_that_nothing_has_happened_to() -> None:
    queue = ef.Queue(3, ef.tensor(0), name="still")
    ef.Queue(3, ef.tensor(0), name="other")
    queue.enqueue(1)
    comm, watcher = FakeComm(), quiet()
    watcher.connect(comm)
    with watcher:
        tick(watcher)
        assert comm.rows("queues") == []
        comm.say(levels=["still", "gone", 3])
        tick(watcher)
        tick(watcher)
        names = {row[0]: row[1] for row in comm.rows("names")}
        (row,) = comm.rows("queues")
        assert (names[row[0]], *row[2:4], *row[7:]) == ("still", 1, 3, 0, 0)
        queue.dequeue()
        tick(watcher)
    row = comm.rows("queues")[-1]
    assert (row[2], row[7], row[8]) == (0, 0, 1)


def test_its_thread_sends_and_ends() -> None:
    f, comm, watcher = small(), FakeComm(), Watcher()
    watcher.connect(comm)
    before = {*threading.enumerate()}  # idle threads of pools may end meanwhile
    with watcher:
        assert len({*threading.enumerate()} - before) == 1
        deadline = perf_counter() + 60
        while len(comm.messages) < 3 and perf_counter() < deadline:
            f(ef.ones(2))
        assert len(comm.messages) >= 3
    assert {*threading.enumerate()} <= before
    sequences = [message.sequence for message in comm.decoded]
    assert sequences == list(range(1, len(sequences) + 1))


def test_opened_twice_it_looks_until_both_are_closed() -> None:
    watcher = quiet()
    with watcher:
        with watcher:
            pass
        assert watcher.is_open
        assert watcher in AbstractEvent.listeners
    assert not watcher.is_open
    assert watcher not in AbstractEvent.listeners


def test_a_broken_view_is_let_go_and_the_others_go_on() -> None:
    f, broken, good, watcher = small(), FakeComm(), FakeComm(), quiet()
    broken.broken = OSError("gone")
    watcher.connect(broken)
    watcher.connect(good)
    with watcher:
        for _ in range(2):
            f(ef.ones(2))
            tick(watcher)
    assert len(watcher._connections) == 1
    assert good.messages


def test_a_hundred_views_come_and_go() -> None:
    watcher = quiet()
    with watcher:
        for _ in range(100):
            watcher.disconnect(watcher.connect(FakeComm()))
    assert watcher._connections == ()
    assert watcher.board._views == []


# --- nothing watched ----------------------------------------------------------------------------


def calls_of(run) -> list[str]:
    """The names of the functions called, in Python and in C."""
    called: list[str] = []

    def note(frame, what, argument):
        if what == "call":
            called.append(frame.f_code.co_qualname)
        elif what == "c_call":
            called.append(argument.__qualname__)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return called


def test_with_nothing_watched_there_is_no_call_and_no_allocation() -> None:
    f, x = small(), ef.ones(2)
    f(x)
    f.wait()  # else the compiler allocates meanwhile
    never = calls_of(lambda: f(x))
    with quiet() as watcher:
        watched = calls_of(lambda: f(x))
        watcher.collect()
    after = calls_of(lambda: f(x))
    assert after == never
    assert "perf_counter" not in after
    assert "get_ident" not in after
    assert watched.count("perf_counter") == 2  # `calls_of` would see the calls
    assert (StepEvent.brief, StepEvent.brief_alone, RegionEvent.brief) == (None, None, None)
    assert AbstractEvent.listeners == ()
    f(x)
    before = sys.getallocatedblocks()
    for _ in range(1000):
        f(x)
    assert sys.getallocatedblocks() - before < 10


def test_watched_a_step_costs_one_tuple_and_four_calls() -> None:
    f, x = small(), ef.ones(2)
    plain = calls_of(lambda: f(x))
    with quiet():
        f(x)
        watched = calls_of(lambda: f(x))
    assert len(watched) - len(plain) == 4  # the clock twice, the thread, and the list


FORKED = """
import os
import eagerflow as ef
from eagerflow.watching import shared

f = ef.trace(lambda x: ef.exp(x) + 1)
f(ef.ones(2))
shared.open()
child = os.fork()
if child == 0:
    f(ef.ones(2))
    shared.open()
    shared.close()
    os._exit(shared.log._steps != [] or shared.is_open)
print(os.waitpid(child, 0)[1], shared.is_open)
shared.close()
"""


def test_a_process_that_is_forked_looks_at_nothing() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "0 True\n", done.stderr


def test_events_without_end_give_few_messages() -> None:
    """100,000 steps, waits and levels a second, for three seconds of simulated time."""
    comm, watcher = FakeComm(), quiet()
    watcher.connect(comm)
    with watcher:
        for beat in range(60):
            now = 1000.0 + beat / 20
            for i in range(3000):
                watcher.brief_step((i % 3, now, now + 1e-5, i % 7, 1))
            for i in range(1000):
                watcher.brief_wait((f"q{i % 50}", "dequeue", 0, "", "", 1, now, now + 1e-4, 1))
                watcher.brief_level((f"q{i % 50}", "fifo", i, 0, 0, 0, False, now, -1))
            watcher.look(now)
            watcher.tell(now)
    assert 0 < len(comm.messages) <= 60
    assert max(map(len, comm.messages)) <= 100_000
    assert sum(map(len, comm.messages)) <= 3 * 250_000 + 100_000
    assert sum(t.count for t in watcher.log.executables.values()) == 180_000
    names = {row[0]: row[1] for row in comm.rows("names")}
    last = {names[row[0]]: row[2] for row in comm.rows("queues")}
    assert last == {f"q{i}": 950 + i for i in range(50)}


def test_regions_and_transfers_say_where_they_were() -> None:
    with ef.config(cpu_devices=2):
        weight = ef.Variable(ef.ones((4, 4)).to("cpu:1"), name="weight")

        @ef.trace
        def over(x):
            with ef.device("cpu:1"):
                y = ef.relu(x.to("cpu:1") @ weight.value.T + 1.0)
            return ef.sin(y.to("cpu:0"))

        x, comm, watcher = ef.ones((4, 4)), FakeComm(), quiet()
        over(x)
        watcher.connect(comm)
        with watcher:
            for _ in range(3):
                over(x)
            tick(watcher)
        names = {row[0]: row[1] for row in comm.rows("names")}
        moves = [(names[row[5]], names[row[6]], row[7]) for row in comm.rows("moves")]
        assert moves == [("cpu:0", "cpu:1", 64.0), ("cpu:1", "cpu:0", 64.0)] * 3
        assert {names[row[5]] for row in comm.rows("regions")} == {"cpu:0", "cpu:1"}
        (index,) = [o.index for o in watcher.observer.executables.values()]
        nodes = [index.nodes[row[1]] for row in comm.rows("moves")]
        assert [str(n.outputs[0].device) for n in nodes] == ["cpu:1", "cpu:0"] * 3
        steps = [(row[1], row[2]) for row in comm.rows("timeline")]
        for _, _, start, stop, *_ in comm.rows("moves"):
            assert any(begin <= start <= stop <= end for begin, end in steps)


def test_waits_that_ended_are_told_with_their_times() -> None:
    queue, comm, watcher = ef.Queue(1, "f32[]", name="slow letters"), FakeComm(), quiet()
    watcher.connect(comm)
    with watcher:
        taker = threading.Thread(target=queue.dequeue)
        taker.start()
        while not queue.resource.level().consumers:
            pass
        queue.enqueue(1.0)
        taker.join()
        tick(watcher)
    names = {row[0]: row[1] for row in comm.rows("names")}
    ((executable, node, start, stop, _, name, operation),) = comm.rows("pauses")
    assert (executable, node, names[name], names[operation]) == (0, -1, "slow letters", "dequeue")
    assert start < stop


def test_objects_are_told_while_a_view_shows_them() -> None:
    variable, comm, watcher = ef.Variable(ef.zeros(2), name="v"), FakeComm(), quiet()
    watcher.connect(comm)
    with watcher:
        number = watcher.panels.add(lambda: {"title": str(variable.value)})
        tick(watcher)
        variable.assign(ef.ones(2))
        for _ in range(6):
            tick(watcher)
        watcher.panels.remove(number)
        variable.assign(ef.zeros(2))
        for _ in range(6):
            tick(watcher)
    texts = [f'{{"title": "{title}"}}' for title in ("[0. 0.]", "[1. 1.]")]
    assert comm.rows("panels") == [(number, text) for text in texts]
    assert watcher.board.rows["panels"] == {}  # not kept: a notebook shows very many in a day


def test_the_queue_that_starves_eager_code_lately_is_named() -> None:
    f, queue, watcher = small(), ef.Queue(1, "f32[]", name="letters"), quiet()
    with watcher:
        f(ef.ones(2))
        taker = threading.Thread(target=queue.dequeue)
        taker.start()
        while not queue.resource.level().consumers:
            pass
        queue.enqueue(1.0)
        taker.join()
        watcher.collect()
        (wait,) = watcher.activity.waited
        start, stop = wait[6:8]
        watcher.opened = start - 1.0
        (known,) = watcher.activity.waits.values()
        known.lately.add(1.0 - (stop - start), stop)  # as if the wait had taken a second
        (diagnosis,) = diagnoses(watcher, start + 1.0)
        assert diagnosis.text == (
            "letters runs empty: the code that fills it is too slow; "
            "eager code waits 50 % of the time"
        )
        assert diagnoses(watcher, start + 60.0) == []
