"""Programs for the portable kernels that no case of the table of ops calls.

Those are kernels of state, of lists, of checks, and helper ops of others. Each program is a
function of a device, registered with the names of the ops that it covers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import eagerflow as ef
from eagerflow.core.op import bind, declare
from eagerflow.ops.state import lists

#: programs by the ops that they cover
PROGRAMS: dict[tuple[str, ...], Callable[[str], Any]] = {}
#: ops without a device
OF_NONE = frozenset({"mutex_acquire", "mutex_release"})
#: ops of bytes, which no array of a GPU holds
OF_BYTES = frozenset({
    "byte_length", "decode_csv", "decode_image", "decode_raw", "encode_example", "parse_example",
    "parse_numbers", "read_file", "reader_count", "reader_read", "reader_read_up_to",
    "reader_reset", "reader_skipped", "write_file",
})  # fmt: skip


def _calls(*names: str) -> Callable[[Callable[[str], Any]], Callable[[str], Any]]:
    def note(program: Callable[[str], Any]) -> Callable[[str], Any]:
        PROGRAMS[names] = program
        return program

    return note


def _at(device: str, *values: Any) -> list[Any]:
    return [ef.tensor(value, device=device) for value in values]


@_calls("list_new", "list_push", "list_pop", "list_read", "list_size", "list_stack", "list_unstack")
def elements_of_lists(device: str) -> Any:
    x, y, i = _at(device, [1.0, 2.0], [3.0, 4.0], 1)
    made = lists.list_push(lists.list_push(lists.list_new(ef.hardware.as_device(device)), x), y)
    rest, last = lists.list_pop(made, [(2,)], [ef.float32])
    again = lists.list_unstack(lists.list_stack(made, x.type))
    return last, lists.list_size(rest), lists.list_read(again, i, x.type)


@_calls("list_write", "list_erase", "list_cut", "list_add")
def lists_that_change(device: str) -> Any:
    x, y, i, size = _at(device, [1.0, 2.0], [3.0, 4.0], 0, 1)
    made = lists.list_unstack(ef.stack([x, y]))
    changed = lists.list_write(made, i, y)
    total = lists.list_add(changed, bind(declare("list_erase"), made, i))
    cut = bind(declare("list_cut"), total, size)
    return lists.list_stack(total, x.type), lists.list_stack(cut, x.type)


@_calls("list_concat", "list_split")
def lists_of_parts(device: str) -> Any:
    x, like = _at(device, [[1.0], [2.0], [3.0]], [[0.0], [0.0], [0.0]])
    parts = lists.list_push(lists.list_push(lists.list_new(like.device), x[:1]), x[1:])
    whole = lists.list_concat(parts, like.type)
    return whole, lists.list_concat(lists.list_split(whole, parts), like.type)


@_calls(
    "queue_enqueue",
    "queue_enqueue_many",
    "queue_dequeue",
    "queue_dequeue_many",
    "queue_size",
    "queue_dequeue_up_to",
    "queue_close",
    "queue_closed",
    "queue_cancel_and_close",
)
def queues(device: str) -> Any:
    x, rows = _at(device, [1.0, 2.0], [[3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    queue = ef.Queue(9, x, device=device)
    queue.enqueue(x)
    queue.enqueue_many(rows)
    taken = queue.size(), queue.dequeue(), queue.dequeue_many(2)
    queue.close()
    other = ef.Queue(9, x, device=device)
    other.close(cancel_pending=True)
    return *taken, queue.dequeue_up_to(5), ef.trace(lambda: (queue.closed, other.closed))()


@_calls("accumulator_add", "accumulator_take", "accumulator_size", "accumulator_set_step")
def accumulators(device: str) -> Any:
    x, y = _at(device, [1.0, 2.0], [3.0, 5.0])
    total = ef.Accumulator(x, device=device)
    total.set_step(1)
    kept = total.add(x, step=0), total.add(x, step=1), total.add(y, step=2), total.size()
    return *kept, total.take(2)


@_calls("accumulator_add")
def sums_of_rows(device: str) -> Any:
    like, rows = _at(device, [[0.0], [0.0], [0.0]], [[1.0], [2.0]])
    total = ef.Accumulator(like, sparse=True, device=device)
    (where,) = _at(device, [2, 0])
    for _ in range(2):
        total.add(ef.IndexedSlices(rows, where, (3, 1)), step=0)
    return total.take(2)


@_calls("barrier_insert_many", "barrier_take_many", "barrier_ready_size",
        "barrier_incomplete_size", "barrier_close")  # fmt: skip
def barriers(device: str) -> Any:
    keys, x, y = _at(device, [7, 8], [0.5, 1.5], [80])
    barrier = ef.Barrier(("f32[]", "i64[]"), device=device)
    barrier.insert_many(0, keys, x)
    barrier.insert_many(1, keys[1:], y)
    sizes = barrier.ready_size(), barrier.incomplete_size()
    taken = barrier.take_many(1)
    barrier.close()
    return sizes, taken


@_calls("snapshot")
def snapshots(device: str) -> Any:
    return ef.snapshot([ef.Variable(1.0, device=device), ef.Variable([2.0, 3.0], device=device)])


@_calls("print")
def prints(device: str) -> Any:
    (x,) = _at(device, [1.0, 2.0])
    ef.print("x is", x)
    return x


@_calls("random_normal", "random_exponential", "random_truncated_normal", "check_parameters")
def draws(device: str) -> Any:
    (scale,) = _at(device, [1.0, 2.0])
    options: Any = {"generator": ef.random.Generator(3), "device": device}

    @ef.trace
    def draw(scale: Any) -> Any:
        return (
            ef.random.normal((2,), scale=scale, **options),
            ef.random.exponential((2,), scale=scale, **options),
            ef.random.truncated_normal((2,), scale=scale, **options),
        )

    return draw(scale)


@_calls("set_key")
def generators(device: str) -> Any:
    made = ef.random.Generator(3)

    @ef.trace
    def draw() -> Any:
        with ef.device(device):
            made.state = {"seed": 7, "ticket": 5}
            return made.normal((2,))

    return draw()


@_calls("frequency_numbers")
def frequencies(device: str) -> Any:
    return ef.fft.fftfreq(5, device=device), ef.fft.rfftfreq(5, device=device)


@_calls("matmul_like", "softmax_cross_entropy_with_gradient")
def gradients(device: str) -> Any:
    x, w, labels = _at(device, [[1.0, 2.0]], [[3.0, 4.0], [5.0, 7.0]], [1])

    @ef.trace
    def loss(w: Any) -> Any:
        return ef.value_and_grad(lambda w: ef.nn.functional.cross_entropy(x @ w, labels))(w)

    return loss(w)


@_calls("segment_sums")
def clusters(device: str) -> Any:
    x, weights, ids = _at(device, [[1.0, 2.0], [3.0, 4.0]], [5.0, 7.0], [1, 1])

    @ef.trace
    def sums(x: Any, weights: Any) -> Any:
        return ef.segment_sum(x, ids, 3), ef.segment_sum(weights, ids, 3)

    return sums(x, weights)


@_calls("check_sizes")
def sizes(device: str) -> Any:
    (x,) = _at(device, [1.0, 2.0])
    return bind(declare("check_sizes"), x, sizes=(2,), expected=(2,), least=False, refusal="")


@_calls("of_taking_rows")
def rows_that_take_a_way(device: str) -> Any:
    return bind(declare("of_taking_rows"), *_at(device, [1.0, -2.0], True))
