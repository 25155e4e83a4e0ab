"""The table of queues: values and types of elements, and their order."""

from __future__ import annotations

import copy
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says
from tests.resources.queues.modes import Call, Waiting, drained, numbers, row

# --- types and values of elements -------------------------------------------------------------


@dataclass
class Sample:
    image: Any
    label: Any


@row("structure")
def test_elements_are_trees(call: Call) -> None:
    queue = ef.Queue(5, Sample(ef.zeros(2), [ef.tensor(0), (ef.tensor(False),)]))
    call(lambda: queue.enqueue(Sample(ef.ones(2), [3, (True,)])))
    call(lambda: queue.enqueue_many(Sample(ef.ones((2, 2)), [[1, 2], ([True, False],)])))
    one = call(queue.dequeue)
    assert type(one) is Sample
    assert numbers(one.image) == [1.0, 1.0]
    assert numbers(one.label[1][0]) is True
    many = call(lambda: queue.dequeue_many(2))
    assert many.image.shape == (2, 2)
    assert numbers(many.label[0]) == [1, 2]


@row("structure")
def test_another_structure(call: Call) -> None:
    queue = ef.Queue(5, {"x": ef.zeros(2), "y": ef.tensor(0)})
    for wrong in ({"x": ef.zeros(2)}, [ef.zeros(2), 0], ef.zeros(2), {"x": 0, "z": 0}):
        with pytest.raises(errors.ShapeError, match="another structure"):
            call(lambda wrong=wrong: queue.enqueue(wrong))
    with pytest.raises(errors.ShapeError, match="no parts"):
        ef.Queue(5, ())
    assert numbers(queue.size()) == 0


def test_the_error_shows_the_types_in_their_structure() -> None:
    queue = ef.Queue(5, ("f32[3]", "i64[]"))
    with pytest.raises(errors.ShapeError) as caught:
        queue.enqueue(ef.zeros(3))
    assert (caught.value.given, caught.value.expected) == (
        "a tensor f32[3]", "(f32[3], i64[])"
    )  # fmt: skip
    with pytest.raises(errors.ShapeError) as caught:
        queue.enqueue_many([ef.zeros((2, 3)), 1, "x"])
    assert (caught.value.given, caught.value.expected) == (
        "[f32[2,3], an int, a str]", "(f32[n,3], i64[n])"
    )  # fmt: skip


@row("structure")
def test_lists_and_tuples_fit_each_other(call: Call) -> None:
    queue = ef.Queue(5, [ef.zeros(2), (ef.tensor(0), {"y": [ef.tensor(0)]})])
    call(lambda: queue.enqueue((ef.ones(2), [1, {"y": (2,)}])))
    call(lambda: queue.enqueue_many((ef.ones((1, 2)), [[3], {"y": [(4,)]}])))
    first, (second, third) = one = call(queue.dequeue)
    assert (type(one), type(one[1]), type(third["y"])) == (list, tuple, list)
    assert [numbers(first), numbers(second), numbers(third["y"][0])] == [[1.0, 1.0], 1, 2]
    assert numbers(call(queue.dequeue)[1][1]["y"][0]) == 4
    for wrong in ((ef.ones(2),), (ef.ones(2), [1, {"y": (2, 3)}]), (ef.ones(2), [1, {"z": (2,)}])):
        with pytest.raises(errors.ShapeError, match="another structure"):
            call(lambda wrong=wrong: queue.enqueue(wrong))


def test_accumulators_take_either_sequence() -> None:
    sums = ef.Accumulator([ef.zeros(2), ef.zeros(())])
    sums.add((ef.ones(2), 2.0), 0)
    assert type(sums.take(1)) is list


@row("dtype")
def test_another_dtype(call: Call) -> None:
    queue = ef.Queue(5, ef.zeros(2))
    for wrong in (ef.zeros(2, dtype="float64"), ef.zeros(2, dtype="int64"), np.zeros(2)):
        with pytest.raises(errors.DTypeError, match="enqueue: another dtype"):
            call(lambda wrong=wrong: queue.enqueue(wrong))
    with pytest.raises(errors.DTypeError, match="f32 cannot hold c64"):
        call(lambda: queue.enqueue([1j, 2j]))
    with pytest.raises(errors.DTypeError):
        ef.Queue(5, "a text")
    assert numbers(queue.size()) == 0


@pytest.mark.parametrize("dtype", [ef.int64, int, np.int64])
def test_a_dtype_is_not_an_element(dtype: Any) -> None:
    for make in (ef.Accumulator, lambda like: ef.Queue(5, like), lambda like: ef.Barrier((like,))):
        with pytest.raises(errors.DTypeError, match="says nothing of the shape") as caught:
            make(dtype)
        assert str(caught.value.hint).startswith('"i64[]" for a number')


@row("dtype")
def test_another_device(call: Call) -> None:
    with ef.config(cpu_devices=2):
        queue, x = ef.Queue(5, ef.zeros(2), name="rows"), ef.ones(2, device="cpu:1")
        with pytest.raises(
            errors.DeviceError,
            check=says(
                r"cpu:1: x was assigned at .*x = ef.Queue(.|\n)*expected: cpu:0, where the fifo "
                r"queue 'rows' of f32\[2\]@cpu:0 is, made at .*ef.Queue(.|\n)*\.to\('cpu:0'\)"
            ),
        ):
            call(lambda: queue.enqueue(x))
        assert numbers(queue.size()) == 0


@row("dtype")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "bfloat16", "float16", "complex64"])
def test_every_dtype(call: Call, dtype: str) -> None:
    queue = ef.Queue(5, ef.zeros(2, dtype=dtype))
    x = ef.ones((3, 2), dtype=dtype)
    call(lambda: queue.enqueue_many(x))
    elements = call(lambda: queue.dequeue_many(3))
    assert elements.dtype is x.dtype
    assert ef.all(elements == x)


@row("dtype")
def test_numbers_and_lists_take_the_dtype(call: Call) -> None:
    queue = ef.Queue(5, ef.zeros(2, dtype="float64"))
    call(lambda: queue.enqueue([1, 2.5]))
    assert str(queue.dequeue().type) == "f64[2]@cpu:0"


@row("dtype")
@pytest.mark.parametrize("dtype", ["bool", "i64", "f64", "bytes"])
def test_an_empty_list_takes_the_dtype(call: Call, dtype: str) -> None:
    queue = ef.Queue(5, f"{dtype}[n,2]", kind="padding")
    call(lambda: queue.enqueue_many([]))
    assert numbers(queue.size()) == 0
    lists = ef.Queue(5, f"{dtype}[n]", kind="padding")
    call(lambda: lists.enqueue([]))
    call(lambda: lists.enqueue_many([[], []]))
    assert str(call(lambda: lists.dequeue_many(3)).type) == f"{dtype}[3,0]@cpu:0"
    with pytest.raises(errors.ShapeError):
        call(lambda: ef.Queue(5, f"{dtype}[3]").enqueue([]))


@row("dtype")
def test_types_as_they_print() -> None:
    for short in ("u8", "i8", "bf16", "bool"):
        assert ef.Queue(5, f"{short}[n]").resource.types[0].dtype.short == short


@row("shape")
def test_another_shape(call: Call) -> None:
    queue = ef.Queue(5, ef.zeros((2, 3)))
    for wrong in (ef.zeros((3, 2)), ef.zeros(6), ef.tensor(0.0)):
        with pytest.raises(errors.ShapeError, match="another shape"):
            call(lambda wrong=wrong: queue.enqueue(wrong))
    for wrong in (ef.zeros((2, 3)), ef.zeros((4, 3, 2)), ef.tensor(0.0)):
        with pytest.raises(errors.ShapeError, match="another shape"):
            call(lambda wrong=wrong: queue.enqueue_many(wrong))
    assert numbers(queue.size()) == 0


@row("shape")
@pytest.mark.parametrize("executor", [False, True])
def test_a_size_that_is_known_when_it_runs(executor: bool) -> None:
    queue = ef.Queue(5, ef.zeros(3))

    @ef.trace
    def put(x: Any) -> None:
        if executor:
            with ef.unordered():
                queue.enqueue(x)
                queue.enqueue(x)
        else:
            queue.enqueue(x)

    put(ef.zeros(3))
    with pytest.raises(errors.ShapeError):
        put(ef.zeros(2))
    graph = put.graph(ef.zeros(2))
    with pytest.raises(errors.ShapeError, match="another shape"):
        put(ef.zeros(4))
    assert "n" in str(graph.inputs[0].type)
    assert numbers(queue.size()) == 1 + executor


@row("options")
def test_numbers_that_are_no_integers() -> None:
    for wrong in ("3", 2.0, [1]):
        for call in (
            lambda x: ef.Queue(x, "f32[]"),
            lambda x: ef.Queue(3, "f32[]", kind="shuffle", min_after_dequeue=x),
            lambda x: ef.Queue(3, "f32[]").dequeue_many(x),
            lambda x: ef.Barrier(("f32[]",)).insert_many(x, [1], [1.0]),
        ):
            with pytest.raises(errors.DTypeError, match="not an integer"):
                call(wrong)


@row("parts-of-one-length")
def test_parts_of_different_lengths(call: Call) -> None:
    queue = ef.Queue(5, (ef.tensor(0), ef.tensor(0)))
    with pytest.raises(errors.ShapeError, match="different numbers of elements"):
        call(lambda: queue.enqueue_many(([1, 2], [1, 2, 3])))
    assert numbers(queue.size()) == 0


@row("own-memory")
def test_elements_do_not_change(call: Call) -> None:
    """Elements are unaffected by later changes of the memory that they came from."""
    queue, array = ef.Queue(9, ef.zeros(2)), np.ones(2, np.float32)
    shared, v = ef.asarray(array), ef.Variable([1.0, 1.0])
    x = ef.tensor([1.0, 1.0])
    for element in (array, shared, v, x):
        call(lambda element=element: queue.enqueue(element))
    rows = np.ones((2, 2), np.float32)
    call(lambda: queue.enqueue_many(rows))
    array[:] = rows[:] = 5
    v.assign_add([1.0, 1.0])
    x += 1
    assert list(drained(queue)) == [[1.0, 1.0]] * 6


@row("own-memory")
def test_elements_that_wait_do_not_change(call: Call) -> None:
    """Elements of a waiting enqueue are unaffected by changes of the memory that they came from."""
    for make in (ef.asarray, ef.Variable, ef.from_dlpack, lambda x: ef.asarray(x)[:]):
        queue, array = ef.Queue(1, ef.zeros(2)), np.ones((4, 2), np.float32)
        elements = make(array)
        producer = Waiting(
            lambda queue=queue, x=elements: call(lambda: queue.enqueue_many(x)), queue, 0
        )
        if isinstance(elements, ef.Variable):
            elements.assign_add(ef.ones((4, 2)))
        array[:] = 5
        assert numbers(queue.dequeue_many(4)) == [[1.0, 1.0]] * 4, make
        assert producer.result() is None


def test_too_little_memory_to_keep_elements_is_an_error() -> None:
    def fail() -> None:
        raise MemoryError("no room")

    state = ef.Queue(1, ef.tensor(0)).resource
    attempt = state.enqueue_many(2, lambda i: (i,), keep=fail)
    with pytest.raises(MemoryError, match="no room"):
        attempt.wait()
    assert state.waiting(0) == 0


def test_only_elements_that_wait_in_shared_memory_are_copied() -> None:
    """Each is copied when it goes in; nothing else is copied."""
    array = np.ones((1000, 1000), np.float32)
    own, shared = ef.zeros((1000, 1000)), ef.asarray(array)
    for x, extra in ((own, 0), (shared, array.nbytes)):
        roomy, narrow = ef.Queue(1000, ef.zeros(1000)), ef.Queue(1, ef.zeros(1000))
        tracemalloc.start()
        roomy.enqueue_many(x)
        roomy.dequeue_many(1000)
        first = tracemalloc.get_traced_memory()[1]
        assert first < 2.2 * array.nbytes  # the elements, and the batch taken
        tracemalloc.reset_peak()
        producer = Waiting(lambda queue=narrow, x=x: queue.enqueue_many(x), narrow, 0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        narrow.close(cancel_pending=True)
        with pytest.raises(errors.EnqueueCancelledError):
            producer.result()
        assert extra <= peak < extra + array.nbytes / 2


@row("sizes-that-differ")
def test_elements_of_different_sizes_do_not_stack(call: Call) -> None:
    queue = ef.Queue(5, {"x": "f32[n,2]"})
    call(lambda: queue.enqueue({"x": ef.ones((3, 2))}))
    call(lambda: queue.enqueue({"x": ef.ones((1, 2))}))
    with pytest.raises(errors.ShapeError, match="another shape"):
        call(lambda: queue.enqueue({"x": ef.ones((1, 3))}))
    for taking in (queue.dequeue_many, queue.dequeue_up_to):
        with pytest.raises(errors.ShapeError, match="do not stack"):
            call(lambda taking=taking: taking(2))
    assert [call(queue.dequeue)["x"].shape for _ in range(2)] == [(3, 2), (1, 2)]


@pytest.mark.parametrize("kind", ["fifo", "padding"])
def test_a_name_is_one_size_in_an_element(call: Call, kind: Any) -> None:
    queue = ef.Queue(9, ("f32[n,2]", "i64[n]"), kind=kind)
    for n in (3, 1):
        call(lambda n=n: queue.enqueue((ef.ones((n, 2)), ef.arange(n))))
    for wrong in (
        lambda: queue.enqueue((ef.ones((3, 2)), ef.arange(2))),
        lambda: queue.enqueue_many((ef.ones((4, 3, 2)), ef.ones((4, 2), dtype="int64"))),
    ):
        with pytest.raises(errors.ShapeError, match="the size n is 3 in one part and 2 in another"):
            call(wrong)
    assert int(queue.size()) == 2
    if kind == "fifo":
        assert numbers(call(lambda: ef.add(*_columns(queue.dequeue())))) == [1, 2, 3]
    else:
        x, y = call(lambda: queue.dequeue_many(2))
        assert (x.shape, y.shape) == ((2, 3, 2), (2, 3))


def _columns(element: Any) -> tuple[Any, Any]:
    x, y = element
    return x[:, 0], y.astype("float32")


def test_a_name_is_one_size_that_only_the_run_tells() -> None:
    queue = ef.Queue(9, ("f32[n]", "f32[n]"))
    put = ef.trace(lambda x, y: queue.enqueue((x[x > 0], y[y > 0])))
    put(ef.tensor([1.0, 2.0]), ef.tensor([3.0, 0.0, 4.0]))
    with pytest.raises(errors.EagerflowError):
        put(ef.tensor([1.0, 2.0]), ef.tensor([3.0, 0.0, 0.0]))
    taken = ef.trace(lambda: sum(queue.dequeue()))  # sizes are equal: nothing is broadcast
    assert numbers(taken()) == [4.0, 6.0]
    assert str(taken.graph().outputs[0].type).startswith("f32[n]")


def test_sizes_of_an_example_have_nothing_to_do_with_each_other() -> None:
    queue = ef.Queue(9, (ef.zeros(2), ef.zeros(3)), kind="padding")
    queue.enqueue((ef.zeros(5), ef.zeros(7)))
    assert [x.shape for x in queue.dequeue()] == [(5,), (7,)]


def test_a_dtype_is_no_type() -> None:
    with pytest.raises(errors.DTypeError, match="the argument is not a type") as caught:
        ef.Queue(1, "f32")
    assert caught.value.hint == 'Queue(..., "f32[]") for one without axes'


@row("constant")
def test_what_is_taken_is_a_constant(call: Call) -> None:
    queue = ef.Queue(5, ef.tensor(0.0))

    def f(x: Any) -> Any:
        queue.enqueue(x * x)
        return queue.dequeue() * x

    assert numbers(call(lambda: ef.grad(f)(ef.tensor(3.0)))) == 9.0
    assert numbers(ef.grad(ef.trace(f))(ef.tensor(3.0))) == 9.0
    assert numbers(ef.jvp(f, (ef.tensor(3.0),), (ef.tensor(1.0),))[1]) == 9.0


# --- options ----------------------------------------------------------------------------------


@row("options")
@pytest.mark.parametrize(
    ("capacity", "how"),
    [
        (0, {}),
        (-1, {}),
        (3, {"kind": "lifo"}),
        (3, {"seed": 1}),
        (3, {"min_after_dequeue": 1}),
        (3, {"kind": "shuffle", "min_after_dequeue": 3}),
        (3, {"kind": "shuffle", "min_after_dequeue": -1}),
    ],
)
def test_options_that_make_no_sense(capacity: int, how: dict[str, Any]) -> None:
    with pytest.raises(errors.TensorValueError, match="Queue: "):
        ef.Queue(capacity, ef.tensor(0), **how)


@row("options")
def test_timeouts_and_counts_that_make_no_sense(call: Call) -> None:
    queue = ef.Queue(3, ef.tensor(0))
    for seconds in (-1, float("nan"), float("inf")):
        with pytest.raises(errors.TensorValueError, check=says("timeout")):
            call(lambda seconds=seconds: queue.dequeue(timeout=seconds))
    with pytest.raises(errors.TensorValueError, match="-1 elements"):
        call(lambda: queue.dequeue_many(-1))
    with pytest.raises(TypeError):
        call(lambda: queue.dequeue_many(1.5))


@row("options")
def test_no_capacity_is_room_for_all(call: Call) -> None:
    queue = ef.Queue(None, ef.tensor(0))
    call(lambda: queue.enqueue_many(ef.arange(10_000)))
    assert queue.capacity is None
    assert numbers(queue.size()) == 10_000
    assert repr(queue) == "Queue(fifo, i64[]@cpu:0, 10000)"


def test_a_queue_is_shown_and_not_copied() -> None:
    queue = ef.Queue(3, ef.tensor(0), name="images")
    queue.enqueue(1)
    queue.close()
    assert repr(queue) == "Queue(fifo 'images', i64[]@cpu:0, 1 of 3, closed)"
    assert (queue.capacity, queue.kind, queue.name, queue.closed) == (3, "fifo", "images", True)
    with pytest.raises(TypeError):
        copy.deepcopy(queue)
