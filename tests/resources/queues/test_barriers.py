"""The tables of barriers and mutexes."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.resources.mutex import this_thread
from tests.messages import says
from tests.resources.queues.modes import Call, Waiting, numbers, row


def pairs() -> ef.Barrier:
    return ef.Barrier((ef.tensor(0.0), "i64[2]"))


def fill(barrier: ef.Barrier, *keys: int, component: int | None = None) -> None:
    for key in keys:
        if component in (None, 0):
            barrier.insert_many(0, [key], [key / 2])
        if component in (None, 1):
            barrier.insert_many(1, [key], [[key, key]])


def sizes(barrier: ef.Barrier) -> tuple[int, int]:
    return numbers(barrier.ready_size()), numbers(barrier.incomplete_size())


@row("barrier-complete")
def test_components_come_together(call: Call) -> None:
    barrier = pairs()
    call(lambda: barrier.insert_many(0, [1, 2, 3], [0.5, 1.0, 1.5]))
    assert sizes(barrier) == (0, 3)
    call(lambda: barrier.insert_many(1, ef.tensor([3, 1]), [[3, 3], [1, 1]]))
    assert [
        numbers(x) for x in call(lambda: (barrier.ready_size(), barrier.incomplete_size()))
    ] == [2, 1]
    keys, (x, y) = call(lambda: barrier.take_many(2))
    assert numbers(keys) == [3, 1]  # of one call, in the order in which they became ready
    assert numbers(x) == [1.5, 0.5]
    assert numbers(y) == [[3, 3], [1, 1]]
    assert repr(barrier) == "Barrier((f32[]@cpu:0, i64[2]@cpu:0), 0 ready, 1 incomplete)"


@row("barrier-keys")
def test_keys_are_bytes(call: Call) -> None:
    barrier = ef.Barrier(("f32[]", "bytes[]"), key_dtype="bytes")
    call(lambda: barrier.insert_many(0, [b"a", b"b\0"], [0.5, 1.5]))
    call(lambda: barrier.insert_many(1, ef.tensor([b"b\0"]), [b"value"]))
    keys, (x, y) = call(lambda: barrier.take_many(1))
    assert (numbers(keys), numbers(x), numbers(y)) == ([b"b\0"], [1.5], [b"value"])
    with pytest.raises(errors.TensorValueError, match="key b'a' already has a value"):
        call(lambda: barrier.insert_many(0, [b"a"], [0.0]))
    for wrong in ([1], ["a"], [b"a"]):
        other = barrier if wrong != [b"a"] else pairs()
        with pytest.raises(errors.DTypeError):
            call(lambda wrong=wrong, other=other: other.insert_many(0, wrong, [0.0]))
    barrier.close()
    with pytest.raises(errors.QueueClosedError, match="key b'new' is new"):
        call(lambda: barrier.insert_many(0, [b"new"], [0.0]))
    with pytest.raises(errors.DTypeError, match="int64 or bytes"):
        ef.Barrier(("f32[]",), key_dtype="f32")


@row("barrier-order")
def test_whose_key_came_first_comes_first(call: Call) -> None:
    barrier = pairs()
    fill(barrier, 1, 2, 3, component=0)
    fill(barrier, 3, 2, 1, component=1)
    assert numbers(call(lambda: barrier.take_many(3))[0]) == [1, 2, 3]


@row("barrier-twice", "barrier-all-or-none")
def test_a_component_comes_once(call: Call) -> None:
    barrier = pairs()
    fill(barrier, 1, component=0)
    for keys in ([2, 1], [2, 2]):
        with pytest.raises(errors.TensorValueError, match="already has a value for component 0"):
            call(lambda keys=keys: barrier.insert_many(0, keys, [0.0, 0.0]))
    assert sizes(barrier) == (0, 1)
    fill(barrier, 1, component=1)
    fill(barrier, 1)  # a ready element does not block another one of the same key
    assert numbers(barrier.take_many(2)[0]) == [1, 1]


@row("barrier-wrong")
def test_wrong_components(call: Call) -> None:
    barrier = pairs()
    with pytest.raises(errors.TensorIndexError, match="no component 2"):
        call(lambda: barrier.insert_many(2, [1], [0.0]))
    with pytest.raises(errors.DTypeError):
        call(lambda: barrier.insert_many(0, [0.5], [0.0]))
    with pytest.raises(errors.DTypeError):
        call(lambda: barrier.insert_many(0, [1], ef.tensor([0.0], dtype="float64")))
    with pytest.raises(errors.ShapeError, match="as many keys as values"):
        call(lambda: barrier.insert_many(0, [1, 2], [0.0]))
    with pytest.raises(errors.ShapeError, match="another shape"):
        call(lambda: barrier.insert_many(1, [1], [[1, 2, 3]]))
    with pytest.raises(errors.DTypeError, match="tuple of components"):
        ef.Barrier(ef.tensor(0.0))
    with pytest.raises(errors.DTypeError, match=r"got: an int\n(.*\n)*.*threading.Barrier"):
        ef.Barrier(3)
    with pytest.raises(errors.ShapeError, match="must be known"):
        ef.Barrier(("f32[n]",))
    assert sizes(barrier) == (0, 0)


@row("barrier-wrong")
def test_no_keys_and_components_that_are_trees(call: Call) -> None:
    barrier = ef.Barrier(("i64[2]", "bool[]"))
    for i in range(2):
        call(lambda i=i: barrier.insert_many(i, [], []))
    assert numbers(barrier.incomplete_size()) == 0
    for wrong in (({"a": "f32[]"},), ([ef.zeros(2)],), ("f32[]", ("f32[]",))):
        with pytest.raises(errors.DTypeError, match="each component is a tensor"):
            ef.Barrier(wrong)


@row("barrier-waits")
def test_take_waits_until_enough_are_ready(call: Call) -> None:
    barrier = pairs()
    fill(barrier, 1)
    waiting = Waiting(lambda: call(lambda: barrier.take_many(2)), barrier)
    fill(barrier, 2, component=0)
    assert waiting.waits
    fill(barrier, 2, component=1)
    assert numbers(waiting.result()[0]) == [1, 2]
    with pytest.raises(errors.WaitTimeoutError, check=says("take_many")) as caught:
        call(lambda: barrier.take_many(1, timeout=0.01))
    assert "got: barrier of f32[]" in str(caught.value)


@row("barrier-close-new", "barrier-close-old", "barrier-close-ends")
def test_closing_lets_what_is_incomplete_be_completed(call: Call) -> None:
    barrier = pairs()
    fill(barrier, 1, 2, component=0)
    call(barrier.close)
    with pytest.raises(errors.QueueClosedError, match="key 3 is new"):
        call(lambda: barrier.insert_many(0, [3], [0.0]))
    waiting = Waiting(lambda: call(lambda: barrier.take_many(1)), barrier)
    fill(barrier, 2, component=1)
    assert numbers(waiting.result()[0]) == [2]
    fill(barrier, 1, component=1)
    assert numbers(call(lambda: barrier.take_many(1))[0]) == [1]
    with pytest.raises(errors.QueueClosedError, match="barrier is closed"):
        call(lambda: barrier.insert_many(0, [1], [0.0]))
    call(lambda: barrier.insert_many(0, ef.zeros(0, dtype="int64"), ef.zeros(0)))


@row("barrier-close-ends")
def test_closing_ends_takes_that_ask_for_too_much(call: Call) -> None:
    barrier = pairs()
    fill(barrier, 1)
    early = Waiting(lambda: call(lambda: barrier.take_many(3)), barrier)
    fill(barrier, 2, component=0)
    barrier.close()
    assert early.waits
    fill(barrier, 2, component=1)  # the last component: no more can come after it
    with pytest.raises(errors.QueueClosedError) as caught:
        early.result()
    assert caught.value.hint == "take_many(3, allow_small_batch=True) takes what is ready"
    assert numbers(barrier.take_many(2)[0]) == [1, 2]


@row("barrier-too-few")
def test_takes_of_what_will_never_be_there(call: Call) -> None:
    barrier = pairs()
    fill(barrier, 1)
    fill(barrier, 2, component=0)
    barrier.close()
    with pytest.raises(errors.QueueClosedError, match="too few elements") as caught:
        call(lambda: barrier.take_many(3))
    assert caught.value.hint == "take_many(3, allow_small_batch=True) takes what is ready"
    assert sizes(barrier) == (1, 1)


@row("barrier-small")
def test_small_batches(call: Call) -> None:
    barrier = pairs()
    fill(barrier, 1, 2, 3)
    assert numbers(call(lambda: barrier.take_many(2, allow_small_batch=True))[0]) == [1, 2]
    barrier.close()
    assert numbers(call(lambda: barrier.take_many(2, allow_small_batch=True))[0]) == [3]
    with pytest.raises(errors.QueueClosedError):
        call(lambda: barrier.take_many(2, allow_small_batch=True))


@row("barrier-cancel", "barrier-close-twice")
def test_cancelling_drops_what_is_incomplete(call: Call) -> None:
    barrier = pairs()
    fill(barrier, 1)
    fill(barrier, 2, component=0)
    call(barrier.close)
    with pytest.raises(errors.QueueClosedError, match="already closed"):
        call(barrier.close)
    call(lambda: barrier.close(cancel_pending=True))
    assert sizes(barrier) == (1, 0)
    with pytest.raises(errors.QueueClosedError):
        call(lambda: barrier.insert_many(1, [2], [[2, 2]]))
    with pytest.raises(errors.QueueClosedError, match="already closed"):
        call(lambda: barrier.close(cancel_pending=True))
    assert numbers(barrier.take_many(1)[0]) == [1]


# --- mutexes ----------------------------------------------------------------------------------


@row("mutex-one")
def test_one_at_a_time(call: Call) -> None:
    mutex, inside = ef.Mutex(), ef.Variable(0)
    with mutex:
        assert repr(mutex) == "Mutex(held)"

        def section() -> Any:
            with mutex:
                return inside.assign_add(1)

        waiting = [Waiting(lambda: call(section), mutex, 0) for _ in range(3)]
        assert numbers(inside.value) == 0
    assert [numbers(w.result()) for w in waiting] == [1, 2, 3]
    assert repr(mutex) == "Mutex(free)"


@row("mutex-atomic")
def test_sections_are_atomic(call: Call) -> None:
    """Reads of two variables that are updated together are consistent."""
    mutex, a, b = ef.Mutex(), ef.Variable(0), ef.Variable(0)

    def move() -> None:
        with mutex:
            a.assign_add(1)
            b.assign_sub(1)

    def look() -> Any:
        with mutex:
            return a + b

    def work() -> None:
        for _ in range(20):
            call(move)
            sums.append(numbers(call(look)))

    sums: list[int] = []
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [0] * 60
    assert numbers(a.value) == 60


@row("mutex-error")
def test_an_error_lets_go(call: Call) -> None:
    mutex, x = ef.Mutex(), ef.tensor([1.0, 2.0])

    def fail() -> None:
        raise IndexError("as planned")

    def section() -> Any:
        with mutex:
            ef.py_call(fail, None)
            return x

    with pytest.raises(IndexError):
        call(section)
    assert repr(mutex) == "Mutex(free)"
    with mutex:
        pass


@row("mutex-again")
def test_nobody_waits_for_itself(call: Call) -> None:
    mutex = ef.Mutex(name="m")

    def again() -> None:
        with mutex, mutex:
            pass

    with pytest.raises(errors.MutexError, match="holds the mutex already"):
        call(again)
    assert repr(mutex) == "Mutex('m', free)"
    with pytest.raises(errors.MutexError, match="does not hold"):
        mutex.release()
    step = ef.trace(lambda: mutex.acquire() or mutex.release())
    step()
    with mutex, pytest.raises(errors.MutexError, match="holds the mutex already"):
        step()
    step()


@row("mutex-again")
def test_a_thread_that_died_is_no_other_one(call: Call) -> None:
    """A later thread waits, even if it reuses the identifier of the dead one."""
    mutex, identities = ef.Mutex(), list[Any]()
    holder = threading.Thread(target=mutex.acquire)
    holder.start()
    holder.join()

    def late() -> None:
        with pytest.raises(errors.WaitTimeoutError):
            call(lambda: mutex.acquire(timeout=0))
        identities.append(this_thread())

    for _ in range(10):
        other = threading.Thread(target=late)
        other.start()
        other.join()
    assert len(set(identities)) == 10


@row("mutex-timeout")
def test_a_mutex_can_be_late(call: Call) -> None:
    mutex = ef.Mutex()

    def late() -> None:
        mutex.acquire(timeout=0.01)
        mutex.release()

    call(late)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with mutex:
            held.set()
            done.wait()

    other = threading.Thread(target=hold)
    other.start()
    held.wait()
    with pytest.raises(errors.WaitTimeoutError, check=says("acquire")):
        call(late)
    done.set()
    other.join()
    call(late)
