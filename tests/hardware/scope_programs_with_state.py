"""More programs for `scope_programs`: state, libraries, control flow, calls, generators."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import eagerflow as ef
from tests.hardware.scope_programs import FIRST, INVARIANT, PREDICATE, STRAIGHT, program, x, y

# --- state --------------------------------------------------------------------------------------


@program("0 1", "0>1")
def a_variable_stays(wrap):
    v = ef.Variable([1.0, 2.0, 3.0])

    def f(b):
        with ef.device("cpu:1"):
            return v.value, v * b

    return wrap(f)(y())


@program("0 0", "1>0")
def an_assignment_runs_where_the_variable_is(wrap):
    v = ef.Variable([1.0, 2.0, 3.0])

    def f(b):
        with ef.device("cpu:1"):
            return v.assign_add(b)

    return wrap(f)(y()), v.value


@program("0", "1>0 1>0")
def rows_of_a_variable(wrap):
    v = ef.Variable([1.0, 2.0, 3.0])

    def f(b, i):
        with ef.device("cpu:1"):
            v.scatter_add(i, b[:2])

    wrap(f)(y(), ef.tensor([0, 2], device="cpu:1"))
    return v.value


@program("1 2")
def variables_are_made_in_a_scope(wrap):
    with ef.device("cpu:1"):
        v, w = ef.Variable([1.0]), ef.Variable([1.0], device="cpu:2")

    def f():
        v.assign_add(1.0)
        w.assign_sub(2.0)
        return v.value, w.value

    return wrap(f)()


@program("0", "0>1 1>0")
def the_gradient_of_a_variable(wrap):
    v = ef.Variable([1.0, 2.0, 3.0])

    def f(b):
        with ef.device("cpu:1"):
            return (ef.exp(v) * b).sum()

    return wrap(ef.grad(f, wrt=v))(y())


@program("0", "1>0")
def a_queue_takes_what_is_elsewhere(wrap):
    queue = ef.Queue(2, "f32[3]")

    def f(b):
        with ef.device("cpu:1"):
            queue.enqueue(b * 2)

    wrap(f)(y())
    return queue.dequeue()


@program("1", "0>1")
def what_a_queue_gives_moves_when_it_is_used(wrap):
    queue = ef.Queue(2, "f32[3]")
    queue.enqueue(x())

    def f(b):
        with ef.device("cpu:1"):
            return queue.dequeue() * b

    return wrap(f)(y())


@program("1 1 1")
def a_generator_of_random_numbers(wrap):
    generator = ef.random.Generator(1)

    def f():
        with ef.device("cpu:1"):
            return (
                ef.random.bits((2,), generator=generator),
                ef.random.permutation(4, generator=generator),
                ef.random.randint((2,), 0, 9, generator=generator),
            )

    return wrap(f)()


@program("1", "0>1")
def a_python_function_computes_there(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.py_call(lambda b: b * ef.ones(3), "f32[3]", a)

    return wrap(f)(x())


# --- libraries ----------------------------------------------------------------------------------


@program("1", "0>1")
def a_module_that_is_there(wrap):
    with ef.device("cpu:1"):
        net = ef.nn.Linear(3, 2, generator=ef.random.Generator(0))

    def f(a):
        with ef.device("cpu:1"):
            return net(a)

    return wrap(f)(x())


@program("1", "0>1")
def a_module_on_a_device_of_its_own(wrap):
    class Net(ef.nn.Module):
        def __init__(self):
            with ef.device("cpu:1"):
                self.inner = ef.nn.Linear(3, 3, generator=ef.random.Generator(0))

        def forward(self, a):
            with ef.device("cpu:1"):
                return ef.nn.functional.relu(self.inner(a))

    return wrap(Net())(x())


@program("0 0 1", "1>0 1>0")
def an_optimiser_updates_where_the_variable_is(wrap):
    v = ef.Variable([1.0, 2.0, 3.0])
    optimiser = ef.optim.Adam({"v": v}, lr=0.1)

    def f(g):
        with ef.device("cpu:1"):
            optimiser.update({"v": g})
            return g + 1

    step = wrap(f)
    step(y())
    after = step(y())
    return v.value, optimiser.state["exp_avg.v"].value, after


@program("1 1", "0>1")
def a_training_step(wrap):
    with ef.device("cpu:1"):
        w = ef.Variable([1.0, 2.0, 3.0])
    optimiser = ef.optim.Momentum([w], lr=0.1)

    def f(a):
        with ef.device("cpu:1"):
            loss, gradients = ef.value_and_grad(lambda: ((a * w) ** 2).sum(), wrt=[w])()
            optimiser.update(ef.optim.clip_by_global_norm(gradients, 1.0)[0])
        return loss

    return wrap(f)(x()), w.value


# --- control flow -------------------------------------------------------------------------------


@program("1", "0>1")
def a_branch_of_tensors(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = a * 2
            return ef.cond(b.sum() > 100, lambda: b + 1, lambda: b - 1)

    return wrap(f)(x())


@program("1", "0>1", traced="0>1 1>0", why=(PREDICATE,))
def a_branch_that_moves(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            return ef.cond(b.sum() > 100, lambda: b + 1, lambda: b - a)

    return wrap(f)(x(), y())


@program("1", "0>1")
def a_loop_in_a_scope(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = a + 0
            while b.sum() < 100:
                b = b * 2
            return b

    return wrap(f)(x())


@program("1", "0>1")
def a_loop_that_begins_elsewhere(wrap):
    def f(a):
        with ef.device("cpu:1"):
            for _ in range(3):
                a = a * 2
            return a

    return wrap(f)(x())


@program("1 1", "0>1")
def a_while_loop_that_begins_elsewhere(wrap):
    def f(a):
        with ef.device("cpu:1"):
            total = ef.zeros(())
            while total < 20:
                a = a * 2
                total = total + a[0]
            return a, total

    return wrap(f)(x())


@program("2", "0>2 1>2 1>2 1>2 2>1 2>1 2>1 2>1",
         traced="0>2 0>1 1>2 1>2 2>1 1>2 1>2 2>1 1>2 1>2 2>1 1>2",
         why=(PREDICATE, STRAIGHT))  # fmt: skip
def a_loop_whose_iterations_end_elsewhere(wrap):
    def f(a):  # the predicate is computed where the loop carries its value
        a = a.to("cpu:2")
        with ef.device("cpu:1"):
            while a.sum() < 40:
                a = (a * 2).to("cpu:2")
        return a

    return wrap(f)(x())


@program("2", "0>1 1>2", traced="0>1 1>2 1>0 1>2", why=(PREDICATE,))
def branches_that_both_end_elsewhere(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return (a * 2).to("cpu:2") if a.sum() > 1 else a.to("cpu:2")

    return wrap(f)(x())


@program("2 1", "0>1 1>2 2>1 1>2 2>1 2>1", traced="0>1 1>2 1>2 2>1 1>2 2>1 2>1", why=(FIRST,))
def what_a_scan_stacks(wrap):
    def f(a):
        def step(total, i):
            total = (total + i).to("cpu:2")
            return total, total

        with ef.device("cpu:1"):
            return ef.scan(step, a[0], ef.arange(2.0))

    return wrap(f)(x())


@program("1", "0>1 0>1")
def what_a_loop_does_not_change_moves_once(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            c = b * 1
            while c.sum() < 100:
                c = c * a + 1
            return c

    return wrap(f)(x(), x() * 2)


@program("0", "0>1 1>0")
def a_gradient_through_such_a_loop(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            total = b * 2
            while total.sum() < 500:
                total = total * ef.exp(a)
            return total.sum()

    return wrap(ef.grad(f))(x(), y())


@program("2", "1>2 1>2 1>2", traced="0>2 0>2 0>2 0>2 1>2", why=(PREDICATE, INVARIANT))
def a_scope_in_a_loop(wrap):
    def f(b, i):
        total = ef.zeros(3, device="cpu:2")
        while i < 3:
            i = i + 1
            with ef.device("cpu:2"):
                total = total + b
        return total

    return wrap(f)(y(), ef.tensor(0))


@program("1", "0>1 0>1")
def a_branch_within_a_loop(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            c = b * 1
            while c.sum() < 100:
                c = c * a if c[0] > 3 else c + 1
            return c

    return wrap(f)(x(), x() * 2)


@program("1 2", "0>1 0>2")
def calls_as_nodes(wrap):
    def inner(a):
        return ef.exp(a) * a

    def f(a):
        with ef.device("cpu:1"):
            b = ef.call(inner, a)
        with ef.device("cpu:2"):
            return b, ef.call(inner, a)

    return wrap(f)(x())


@program("0 1")
def calls_as_nodes_follow_their_arguments(wrap):
    def inner(a):
        return ef.exp(a) * a

    return wrap(lambda a, b: (ef.call(inner, a), ef.call(inner, b)))(x(), y())


@program("1 1", "0>1")
def a_scan(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.scan(lambda c, b: (c + b, c * b), ef.zeros(()), a * 1)

    return wrap(f)(x())


# --- calls --------------------------------------------------------------------------------------


@program("1", "0>1")
def a_call_in_a_scope(wrap):
    f = wrap(lambda a: ef.exp(a) + a)
    with ef.device("cpu:1"):
        return f(x())


@program("1 2 1", "0>1 0>2 0>1")
def a_call_in_each_of_several_scopes(wrap):
    f = wrap(lambda a: a * 2)
    results = []
    for name in ("cpu:1", "cpu:2", "cpu:1"):
        with ef.device(name):
            results.append(f(x()))
    return results


@program("1", "0>1")
def a_nested_call(wrap):
    inner = wrap(lambda a: a * a)

    def f(a):
        with ef.device("cpu:1"):
            return inner(a) + 1

    return wrap(f)(x())


@program("2", "0>2")
def a_nested_call_in_two_scopes(wrap):
    inner = wrap(lambda a: a * a)

    def f(a):
        with ef.device("cpu:2"):
            return inner(a) + 1

    with ef.device("cpu:1"):
        return wrap(f)(x())


@program("0", "0>1 1>0")
def a_call_under_a_tape(wrap):
    f = wrap(lambda a: (a * a).sum())
    with ef.device("cpu:1"):
        return ef.grad(f)(x())


@program("1", "0>1")
def a_call_in_a_profile(wrap):
    f = wrap(lambda a: a * 2)
    with ef.device("cpu:1"), ef.profile():
        return f(x())


# --- where scopes end ---------------------------------------------------------------------------


@program("0")
def an_exception_ends_a_scope(wrap):
    def f(a):
        with contextlib.suppress(KeyError), ef.device("cpu:1"):
            raise KeyError
        return a + ef.ones(3)

    return wrap(f)(x())


@program("1", "0>1")
def an_exception_passes_within(wrap):
    def f(a):
        with ef.device("cpu:1"):
            try:
                with ef.device("cpu:2"):
                    raise KeyError
            except KeyError:
                pass
            return a + ef.ones(3)

    return wrap(f)(x())


@program("0")
def returning_ends_a_scope(wrap):
    def inner():
        with ef.device("cpu:1"):
            return

    def f(a):
        inner()
        return a + ef.ones(3)

    return wrap(f)(x())


@program("1 1 1 0", "0>1")
def a_generator_keeps_its_scope_to_itself(wrap):
    def multiples(a):
        with ef.device("cpu:1"):
            for i in range(3):
                yield a * (i + 1)

    def f(a):
        results = []
        for b in multiples(a):
            results.append(b)
            last = ef.ones(2)
        return [*results, last]

    return wrap(f)(x())


@program("1 0 0", "0>1 1>0")
def a_generator_that_is_left_early(wrap):
    def multiples(a):
        with ef.device("cpu:1"):
            for i in range(3):
                yield a * (i + 1)

    def f(a):
        for b in multiples(a):
            inside = ef.ones(2) + b[:2].to("cpu:0") * 0
            break
        return b, inside, ef.ones(2) + a[:2]

    return wrap(f)(x())


@program("1 2 1 2 0", "0>1 0>2")
def generators_side_by_side(wrap):
    def multiples(a, name):
        with ef.device(name):
            for i in range(2):
                yield a * (i + 1)

    def f(a):
        results = []
        for pair in zip(multiples(a, "cpu:1"), multiples(a, "cpu:2"), strict=True):
            results += pair
        return [*results, ef.ones(2)]

    return wrap(f)(x())


@program("1 2 1", "0>1 0>2")
def a_generator_within_another_scope(wrap):
    def multiples(a):
        with ef.device("cpu:1"):
            yield a * 2
            yield a * 3

    def f(a):
        every = multiples(a)
        first = next(every)
        with ef.device("cpu:2"):
            return first, a + 1, next(every)

    return wrap(f)(x())


@program("1", "0>1")
def a_context_manager_of_ones_own(wrap):
    @contextlib.contextmanager
    def elsewhere():
        with ef.device("cpu:1"):
            yield

    def f(a):
        with elsewhere():
            return a * 2

    return wrap(f)(x())


@program("2 1 0", "0>2 0>1")
def scopes_that_end_in_another_order(wrap):
    first, second = ef.device("cpu:1"), ef.device("cpu:2")

    def f(a):
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        b = a * 2
        second.__exit__(None, None, None)
        with first:
            c = a * 3
        return b, c, a + 1

    return wrap(f)(x())


@program("1 0 1", "0>1")
def a_thread_starts_without(wrap):
    f = wrap(lambda a: a * 2)
    results = []
    with ef.device("cpu:1"):
        results.append(f(x()))
        thread = threading.Thread(target=lambda: results.append(f(x())))
        thread.start()
        thread.join()
        results.append(ef.ones(2))
    return results


@program("1", "0>1")
def a_thread_has_scopes_of_its_own(wrap):
    f = wrap(lambda a: a * 2)
    results = []

    def work():
        with ef.device("cpu:1"):
            results.append(f(x()))

    with ef.device("cpu:2"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    return results


@program("1 2 0", "0>1 0>2")
def tasks_have_scopes_of_their_own(wrap):
    f = wrap(lambda a: a * 2)

    async def compute(name):
        with ef.device(name):
            await asyncio.sleep(0)
            return f(x())

    async def main():
        return await asyncio.gather(compute("cpu:1"), compute("cpu:2"))

    return [*asyncio.run(main()), ef.ones(2)]


@program("0", "0>1 1>0")
def a_spawned_runner_keeps_the_scope(wrap):
    inputs, outputs = ef.Queue(2, "f32[3]"), ef.Queue(2, "f32[3]")
    step = wrap(lambda: outputs.enqueue(inputs.dequeue() * 2))
    with ef.device("cpu:1"):
        runner = ef.spawn(step)
    with runner:
        inputs.enqueue(x())
        return outputs.dequeue()
