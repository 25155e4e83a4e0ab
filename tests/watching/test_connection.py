"""The connection to a view: messages within a rate limit, in order, resent whole after a gap."""

from __future__ import annotations

from eagerflow.watching.board import Board
from eagerflow.watching.connection import BYTES_A_SECOND, MOST_BYTES, Connection
from tests.watching.fake_comm import FakeComm


def connected(answers: bool = True) -> tuple[Board, FakeComm, Connection]:
    board, comm = Board(), FakeComm(answers)
    return board, comm, Connection(board, comm)


def step(executable: int, count: int):
    return (executable, count, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)


def test_only_what_changed_is_told() -> None:
    board, comm, connection = connected()
    board.put("steps", [step(1, 1), step(2, 1)])
    connection.flush(0.0)
    board.put("steps", [step(1, 2), step(2, 1)])
    connection.flush(1.0)
    connection.flush(2.0)
    first, second = comm.decoded
    assert first.whole
    assert first.tables["steps"] == [step(1, 1), step(2, 1)]
    assert not second.whole
    assert second.tables == {"steps": [step(1, 2)]}
    assert [m.sequence for m in comm.decoded] == [1, 2]


def test_at_most_twenty_messages_a_second() -> None:
    board, comm, connection = connected()
    for millisecond in range(2000):
        board.put("steps", [step(1, millisecond)])
        connection.flush(millisecond / 1000)
    assert len(comm.messages) == 40
    assert comm.rows("steps")[-1][1] >= 1949


def test_events_without_end_keep_within_bytes() -> None:
    """At the rate of 100,000 events a second: each flush finds thousands of new rows."""
    board, comm, connection = connected()
    seconds = 10
    for tick in range(seconds * 20):
        board.put("timeline", [(1, float(tick), float(i), 0.0) for i in range(5000)])
        board.put("nodes", [(1, i, float(tick), 0.0, 0.0, 0.0, 1, 0.0) for i in range(2000)])
        connection.flush(tick / 20)
    assert max(map(len, comm.messages)) <= MOST_BYTES
    assert sum(map(len, comm.messages)) <= BYTES_A_SECOND * seconds + MOST_BYTES
    assert len(comm.messages) <= seconds * 20
    assert connection.dropped > 0
    times = [row[1] for row in comm.rows("timeline")]
    assert times == sorted(times)  # the oldest rows were dropped, the rest is in order


def test_what_found_no_room_comes_later() -> None:
    board, comm, connection = connected()
    board.put("nodes", [(1, i, 0.5, 0.0, 0.0, 0.0, 1, 0.0) for i in range(20_000)])
    for tick in range(100):
        connection.flush(tick / 10)
    assert sorted(row[1] for row in comm.rows("nodes")) == list(range(20_000))


def test_who_missed_one_is_told_all() -> None:
    board, comm, connection = connected()
    board.put("steps", [step(1, 1)])
    board.put("retraces", [(0, 0, 1.0, 2.0)])
    connection.flush(0.0)
    board.put("steps", [step(2, 1)])
    comm.say(resync=True)
    assert connection.take_wishes() == []
    connection.flush(1.0)
    again = comm.decoded[-1]
    assert again.whole
    assert again.sequence == 2
    assert again.tables["steps"] == [step(1, 1), step(2, 1)]
    assert again.tables["retraces"] == [(0, 0, 1.0, 2.0)]


def test_lists_are_replaced_and_may_become_empty() -> None:
    board, comm, connection = connected()
    place = (1.0, 1, 0, 0, 0.0, 0, -1, 0, 0.0)
    for now, rows in enumerate(([place], [place], [])):
        board.put("places", rows)
        connection.flush(float(now))
    assert [m.tables.get("places") for m in comm.decoded] == [[place], []]


def test_a_view_that_does_not_read_gets_one_message_a_second() -> None:
    board, comm, connection = connected(answers=False)

    def run(begin: int, end: int) -> int:
        before = len(comm.messages)
        for tick in range(begin * 20, end * 20):
            board.put("steps", [step(1, tick)])
            connection.take_wishes()
            connection.flush(tick / 20)
        return len(comm.messages) - before

    assert run(0, 6) > 100
    assert run(6, 16) == 10
    comm.say(ack=len(comm.messages))
    assert run(16, 17) == 20


def test_a_broken_line_is_no_error() -> None:
    board, comm, connection = connected()
    comm.broken = OSError("gone")
    board.put("steps", [step(1, 1)])
    connection.flush(0.0)
    assert connection.broken == "OSError: gone"
    connection.flush(1.0)
    connection.close()


def test_wishes_are_what_a_connection_does_not_know() -> None:
    _, comm, connection = connected()
    comm.say(structure=3)
    comm.say(ack=1)
    comm.say(look=[1, 2])
    assert connection.take_wishes() == [{"structure": 3}, {"look": [1, 2]}]
    assert connection.take_wishes() == []


def test_rows_and_names_are_bounded() -> None:
    board = Board()
    board.put("curve", [(1, float(i), 1, 0.0, 0.0, 0.0) for i in range(10_000)])
    assert len(board.rows["curve"]) == 4096
    numbers = {board.name(f"name {i}") for i in range(30_000)}
    assert len(numbers) == len(board.rows["names"]) <= 20_001
    assert board.name("name 29999") == board.name("name 29998")


def test_a_closed_view_is_forgotten() -> None:
    board, comm, connection = connected()
    connection.close()
    assert comm.closed
    board.put("steps", [step(1, 1)])
    connection.flush(0.0)
    assert comm.messages == []
    assert board._views == []
