"""Programs with device scopes: variables, queues and generators, and libraries that use them."""

from __future__ import annotations

import eagerflow as ef
from tests.hardware.scope_programs.table import program, x, y

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
