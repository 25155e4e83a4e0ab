"""The memory of variables: values never change, buffers are reused when unshared, atomicity."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import eagerflow as ef


def address(v) -> int:
    return v.numpy().ctypes.data


# --- values stay ------------------------------------------------------------------------------

READS = [
    lambda v: v.value,
    lambda v: v.numpy(),
    lambda v: v.value[1:],
    lambda v: v.value.T,
    lambda v: ef.asarray(v),
    lambda v: memoryview(v.numpy()),
    lambda v: np.from_dlpack(v.value),
    lambda v: v.assign_add(0.0),
]
ASSIGNMENTS = [
    lambda v: v.assign([9.0, 9.0, 9.0]),
    lambda v: v.assign_add(1.0),
    lambda v: v.assign_sub([1.0, 2.0, 3.0]),
    lambda v: v.scatter_update([0, 1, 2], 9.0),
    lambda v: v.scatter_add([0, 1, 2], 9.0),
    lambda v: v.scatter_add([1, 1, 2], 9.0),
]


@pytest.mark.parametrize("assign", ASSIGNMENTS)
@pytest.mark.parametrize("read", READS)
def test_a_value_read_earlier_never_changes(read, assign) -> None:
    v = ef.Variable([1.0, 2.0, 3.0])
    v.assign_add(0.0)  # from here on the buffer is the variable's own
    seen = read(v)
    before = np.array(seen)
    for _ in range(3):
        assign(v)
        np.testing.assert_array_equal(np.array(seen), before)
    assert v.tolist() != [1.0, 2.0, 3.0]


@pytest.mark.parametrize("assign", ASSIGNMENTS[1:])
def test_the_buffer_is_reused_when_nobody_holds_it(assign) -> None:
    v = ef.Variable([1.0, 2.0, 3.0])
    assign(v)
    where = address(v)
    for _ in range(5):
        assign(v)
        assert address(v) == where
    held = v.value
    assign(v)
    assert address(v) != where
    del held


def test_what_it_was_made_of_is_not_written_into() -> None:
    array, tensor = np.ones(3, np.float32), ef.ones(3)
    for source in (array, tensor, ef.asarray(array)):
        v = ef.Variable(source)
        v.assign_add(1.0)
        v.assign_add(1.0)
        assert v.tolist() == [3.0] * 3
        v.assign(source)
        v.assign_add(1.0)
    assert array.tolist() == tensor.tolist() == [1.0] * 3
    v = ef.Variable(array)
    array[:] = 7.0
    assert v.tolist() == [1.0] * 3
    v.assign(array)
    array[:] = 8.0
    assert v.tolist() == [7.0] * 3


def test_number_constants_are_not_written_into() -> None:
    v = ef.Variable(0.0)
    v.assign(2.0)
    v.assign_add(1.0)
    v.assign_add(1.0)
    assert (ef.tensor(1.0) * 2.0).item() == 2.0
    assert ef.Variable(2.0).item() == 2.0


def test_two_variables_that_were_assigned_each_other_are_apart() -> None:
    a, b = ef.Variable([1.0, 2.0]), ef.Variable([0.0, 0.0])
    b.assign(a)
    a += 1
    b += 10
    a += 1
    assert (a.tolist(), b.tolist()) == ([3.0, 4.0], [11.0, 12.0])


# --- a value of its own ------------------------------------------------------------------------


def _with_array(value):
    array = np.array(value, np.float32)
    return array, ef.asarray(array)


@pytest.mark.parametrize(
    "seen", [lambda t: t, lambda t: t[:], lambda t: t.reshape((3,)), lambda t: ef.from_dlpack(t)]
)
def test_a_variable_owns_its_value(seen) -> None:
    array, tensor = _with_array([1.0, 2.0, 3.0])
    v = ef.Variable([0.0, 0.0, 0.0])
    result = v.assign(seen(tensor))
    array[0] = 50.0
    assert v.tolist() == [1.0, 2.0, 3.0]
    assert result.tolist() == [1.0, 2.0, 3.0]
    other = ef.Variable(seen(tensor))
    array[1] = 60.0
    assert other.tolist() == [50.0, 2.0, 3.0]


def test_what_an_op_made_is_not_copied() -> None:
    v = ef.Variable([0.0, 0.0, 0.0])
    made = ef.ones(3) + 1.0
    v.assign(made)
    assert address(v) == made.numpy().ctypes.data


def test_values_lie_by_rows_whatever_they_were_made_from() -> None:
    columns = np.asfortranarray(np.arange(6.0).reshape(2, 3))

    def by_rows(v: ef.Variable, want: object) -> None:
        assert v.numpy().flags.c_contiguous
        assert np.array_equal(v.numpy(), want)

    v = ef.Variable(columns)
    by_rows(v, columns)
    v.assign(ef.tensor(columns) * 2)
    by_rows(v, columns * 2)
    held = v.value  # so that the sum is a new array
    v.assign_add(ef.asarray(columns))
    by_rows(v, columns * 3)
    by_rows(ef.Variable(held), columns * 2)
    held = v.value
    v.assign_sub(ef.tensor(columns).mT.mT)
    by_rows(v, columns * 2)
    held = v.value
    v.scatter_update([0], ef.ones((1, 3), dtype=v.dtype))
    by_rows(v, np.concatenate([np.ones((1, 3)), columns[1:] * 2]))
    assert np.array_equal(held.numpy(), columns * 2)


# --- threads and memory -----------------------------------------------------------------------


def run_threads(*functions) -> None:
    threads = [threading.Thread(target=f) for f in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_assign_add_from_many_threads_loses_nothing() -> None:
    v, rows = ef.Variable(ef.zeros(1000)), ef.Variable(ef.zeros((10, 3)))

    def work() -> None:
        for _ in range(100):
            v.assign_add(1.0)
            v.assign_sub(ef.full(1000, 0.5))
            rows.scatter_add([1, 1, 2], ef.ones((3, 3)))

    run_threads(*[work] * 8)
    assert (v.numpy() == 400.0).all()
    assert rows[1].tolist() == [1600.0] * 3
    assert rows[2].tolist() == [800.0] * 3


def test_readers_never_see_half_an_assignment() -> None:
    size = 200_000  # large enough for NumPy to let other threads run
    v, torn = ef.Variable(ef.zeros(size)), []
    done = threading.Event()

    def write() -> None:
        for _ in range(400):
            v.assign_add(1.0)
        done.set()

    def read() -> None:
        while not done.is_set():
            seen = v.numpy()
            if seen[0] != seen[-1] or seen.min() != seen.max():
                torn.append(seen)

    run_threads(write, read, read)
    assert not torn
    assert (v.numpy() == 400.0).all()


def test_deleted_variables_free_everything() -> None:
    def make() -> list[ef.Variable]:
        made = [ef.Variable(np.ones(100, np.float32), name=str(i)) for i in range(10_000)]
        for v in made:
            v.assign_add(1.0)
        return made

    make()
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        states = [weakref.ref(v.resource) for v in made]
        full = tracemalloc.get_traced_memory()[0]
        del made
        assert all(state() is None for state in states)  # without the collector
        rest = tracemalloc.get_traced_memory()[0] - sum(map(sys_size, states))
    finally:
        tracemalloc.stop()
    assert full > 4_000_000
    assert rest < 1_000_000


def sys_size(reference: weakref.ref) -> int:
    return reference.__sizeof__() + 8
