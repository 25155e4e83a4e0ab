"""Programs with device scopes, with the devices of their results and the moves.

Each takes ``wrap``, which is `ef.trace` or leaves its functions as they are, and gives a tree of
results. Both ways give the same bits, on the same devices, with the same moves; where the moves of
a graph differ, its row gives the reason, in words of `docs/devices.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import eagerflow as ef

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Program = Callable[[Wrap], Any]


@dataclass(frozen=True)
class Row:
    """A program.

    Attributes:
        run: the function.
        devices: the devices of the results, as ``"1 0"`` for cpu:1 and cpu:0.
        moves: the moves, in any order, as ``"0>1"`` for a move from cpu:0 to cpu:1.
        traced: the moves when traced.
        why: why the moves of a graph differ; empty if they do not.
    """

    run: Program
    devices: str
    moves: str
    traced: str
    why: tuple[str, ...] = ()


ROWS: dict[str, Row] = {}


#: reasons for other moves in a graph than in eager code
PREDICATE = "a predicate crosses"
INVARIANT = "an invariant crosses once"
STRAIGHT = "a value goes straight"
FIRST = "the first value crosses"


def program(
    devices: str, moves: str = "", traced: str | None = None, why: tuple[str, ...] = ()
) -> Callable[[Program], Program]:
    """A decorator that puts a program into the table."""

    def put(run: Program) -> Program:
        assert run.__name__ not in ROWS
        ROWS[run.__name__] = Row(run, devices, moves, moves if traced is None else traced, why)
        return run

    return put


def x() -> ef.Tensor:
    """A tensor on cpu:0."""
    return ef.tensor([1.0, 2.0, 3.0], device="cpu:0")


def y() -> ef.Tensor:
    """A tensor on cpu:1."""
    return ef.tensor([4.0, 5.0, 6.0], device="cpu:1")


# --- ops ----------------------------------------------------------------------------------------


@program("1", "0>1")
def an_op_runs_in_the_scope(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return a * 2

    return wrap(f)(x())


@program("1")
def nothing_moves_that_is_there(wrap):
    def f(b):
        with ef.device("cpu:1"):
            return b * 2 + b

    return wrap(f)(y())


@program("2", "0>2 1>2")
def operands_from_two_devices(wrap):
    def f(a, b):
        with ef.device("cpu:2"):
            return a * b

    return wrap(f)(x(), y())


@program("1", "0>1")
def an_operator_with_mixed_operands(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            return a - b, b / a, a < b

    return wrap(f)(x(), y())[0]


@program("1 1 1 1", "0>1")
def a_value_moves_once(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return a + 1, a * a, ef.exp(a), a.sum()

    return wrap(f)(x())


@program("1 1", "0>1 0>1")
def another_scope_moves_again(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = ef.sin(a)
        a = a + 1
        with ef.device("cpu:1"):
            return b, ef.cos(a)

    return wrap(f)(x())


@program("1 2 1", "0>1 0>2")
def the_innermost_wins(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = a + 1
            with ef.device("cpu:2"):
                c = a * 2
            return b, c, a * 3

    return wrap(f)(x())


@program("0 1", "0>1")
def none_ends_a_scope(wrap):
    def f(a):
        with ef.device("cpu:1"):
            with ef.device(None):
                b = a + ef.ones(3)
            return b, a + 1

    return wrap(f)(x())


@program("1", "0>1")
def an_index_and_a_slice(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return a[1:] + a[0]

    return wrap(f)(x())


@program("1", "0>1 0>1")
def an_index_is_an_operand(wrap):
    def f(a, i):
        with ef.device("cpu:1"):
            return ef.take(a, i, axis=0)

    return wrap(f)(x(), ef.tensor([2, 0]))


@program("1 1", "0>1")
def numbers_are_made_there(wrap):
    def f(a, n):
        with ef.device("cpu:1"):
            return n - a, ef.where(a > n, a, 0)

    return wrap(f)(x(), 1.5)


@program("1", "0>1")
def an_array_of_numpy_is_made_there(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return a + np.array([1.0, 2.0, 3.0], "float32")

    return wrap(f)(x())


@program("1", "0>1 0>1")
def several_outputs(wrap):
    def f(a, b):
        with ef.device("cpu:1"):
            q, r = ef.linalg.qr(ef.stack([a, b]))
            return q @ r

    return wrap(f)(x(), x() * 2)


@program("1", "0>1")
def a_result_stays(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = a * 2
        return b + 1

    return wrap(f)(x())


@program("0 2", "0>1 1>0 0>2")
def to_wins(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = (a * 2).to("cpu:0")
        return b, a.to("cpu:2")

    return wrap(f)(x())


@program("0 1", "0>1 1>0 0>1")
def what_to_moved_is_moved_again(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = ef.exp(a).to("cpu:0")
            with ef.device("cpu:0"):
                b = b * 2
            return b, b + 1

    return wrap(f)(x())


# --- creation -----------------------------------------------------------------------------------


@program("1 1 1 1 1")
def creation(wrap):
    def f():
        with ef.device("cpu:1"):
            return ef.zeros(2), ef.arange(3), ef.tensor([1.0]), ef.full((2,), 7), ef.eye(2)

    return wrap(f)()


@program("2 2 2", "1>2")
def the_argument_device_wins(wrap):
    def f(b):
        with ef.device("cpu:1"):
            return (
                ef.ones(2, device="cpu:2"),
                ef.full((3,), b[0], device="cpu:2"),
                ef.linspace(0, 1, 3, device="cpu:2"),
            )

    return wrap(f)(y())


@program("1 1 2")
def creation_like_another(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.zeros_like(a), ef.full_like(a, 2.0), ef.ones_like(a, device="cpu:2")

    return wrap(f)(x())


@program("1 2 1", "0>1")
def random_numbers(wrap):
    generator = ef.random.Generator(3)

    def f(a):
        with ef.device("cpu:1"):
            return (
                ef.random.normal((3,), generator=generator),
                ef.random.normal((3,), loc=1.0, scale=2.0, generator=generator, device="cpu:2"),
                ef.random.uniform((3,), high=a, generator=generator),
            )

    return wrap(f)(x())


@program("0 1", "0>1")
def copies(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.asarray(a), ef.tensor(a)

    return wrap(f)(x())


@program("2", "0>1 1>2")
def conversion_to_another_device(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.astype(a, "float64", device="cpu:2")

    return wrap(f)(x())


# --- updates in place ---------------------------------------------------------------------------


@program("0", "1>0")
def an_update_leaves_the_handle_where_it_is(wrap):
    def f(a, b):
        a = a.copy()
        with ef.device("cpu:1"):
            a += b
        return a

    return wrap(f)(x(), y())


@program("0", "1>0")
def an_assignment_to_a_part(wrap):
    def f(a, b):
        a = a.copy()
        with ef.device("cpu:1"):
            a[1:] = b[1:]
        return a

    return wrap(f)(x(), y())


@program("0")
def an_update_with_what_is_there(wrap):
    def f(a):
        a = a.copy()
        with ef.device("cpu:1"):
            a *= a
            a[0] = 9.0
        return a

    return wrap(f)(x())


@program("0 1 1", "1>0 0>1 0>1")
def an_updated_value_moves_anew(wrap):
    def f(a, b):
        a = a.copy()
        with ef.device("cpu:1"):
            before = a * 2
            a += b
            return a, before, a * 2

    return wrap(f)(x(), y())


@program("0", "1>0")
def an_argument_is_updated(wrap):
    a = x()

    def f(a, b):
        with ef.device("cpu:1"):
            a -= b

    wrap(f)(a, y())
    return a


# --- reading ------------------------------------------------------------------------------------


@program("0")
def looking_moves_nothing(wrap):
    a = wrap(lambda a: a + 1)(x())
    with ef.device("cpu:1"):
        assert a.tolist() == [2, 3, 4]
        assert a.numpy().sum() == np.from_dlpack(a).sum() == 9
        assert bool(ef.tensor(True, device="cpu:0"))
        assert ef.tensor(2.5, device="cpu:0").item() == 2.5
        assert "cpu:0" in repr(a)
        assert str(a) == "[2. 3. 4.]"
        assert len(a) == 3
    return a


@program("1", "0>1")
def a_question_about_a_tensor(wrap):
    def f(a):
        with ef.device("cpu:1"):
            if a.sum() > 5:
                return a * 2
            return a * 3

    return wrap(f)(x())


# --- patterns and colocation --------------------------------------------------------------------


@program("0 1 2", "0>2")
def a_pattern_leaves_ops_where_they_are(wrap):
    def f(a, b, c):
        with ef.device("cpu:*"):
            return a + 1, b * b, ef.exp(c)

    return wrap(f)(x(), y(), x().to("cpu:2"))


@program("0 1", "1>0 0>1")
def the_first_operand_on_a_device_of_a_pattern(wrap):
    def f(a, b):
        with ef.device("cpu:*"):
            return a + b, b - a

    return wrap(f)(x(), y())


@program("0 2")
def what_is_made_in_a_pattern(wrap):
    def f():
        with ef.device("cpu:*"):
            a = ef.ones(2)
        with ef.device("cpu:2"), ef.device("cpu:*"):
            return a, ef.ones(2)

    return wrap(f)()


@program("1 1", "0>1")
def colocation_with_a_tensor(wrap):
    def f(a, b):
        with ef.colocate(b):
            return a + b, ef.ones(2)

    return wrap(f)(x(), y())


@program("2", "0>2")
def colocation_with_a_variable(wrap):
    v = ef.Variable([1.0, 2.0, 3.0], device="cpu:2")

    def f(a):
        with ef.colocate(v):
            return a * v

    return wrap(f)(x())


@program("1 2", "0>1 0>2")
def a_partial_name_merges(wrap):
    def f(a):
        with ef.device("cpu:1"), ef.device("cpu"):
            b = a + 1
        with ef.device("cpu:1"), ef.device("cpu:2"):
            return b, a + 1

    return wrap(f)(x())


# --- gradients ----------------------------------------------------------------------------------


@program("0", "0>1 1>0")
def a_gradient_comes_back(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return (a * a).sum()

    return wrap(ef.grad(f))(x())


@program("0", "0>1 1>0")
def a_gradient_of_a_traced_function(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return (a * a).sum()

    return ef.grad(wrap(f))(x())


@program("0 1", "0>1 1>0")
def a_gradient_within_a_scope(wrap):
    def f(a, b):
        return (a * a * b).sum()

    def slopes(a, b):
        with ef.device("cpu:1"):
            return ef.grad(f, argnums=(0, 1))(a, b)

    return wrap(slopes)(x(), y())


@program("0 0", "0>1 1>0 0>1 1>0")
def a_value_used_in_and_outside(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = ef.exp(a) * a
        return (b.to("cpu:0") * a).sum()

    return wrap(ef.value_and_grad(f))(x())


@program("0 0", "0>1 1>0 0>1 1>0")
def a_second_derivative(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.exp(a * a).sum()

    return wrap(ef.value_and_grad(lambda b: ef.grad(f)(b).sum()))(x())


@program("0", "0>1 1>0")
def a_tape_inside_of_a_scope(wrap):
    def f(a):
        with ef.device("cpu:1"), ef.GradientTape() as tape:
            tape.watch(a)
            b = (a * a).sum()
        return tape.gradient(b, a)

    return wrap(f)(x())


@program("0", "0>1 1>0")
def a_tape_around_a_scope(wrap):
    def f(a):
        with ef.GradientTape() as tape:
            tape.watch(a)
            with ef.device("cpu:1"):
                b = (a * a).sum()
        with ef.device("cpu:2"):
            return tape.gradient(b, a)

    return wrap(f)(x())


@program("1 1", "0>1 0>1")
def forward_mode(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return a * a

    return wrap(lambda a: ef.jvp(f, (a,), (ef.ones(3),)))(x())


@program("0 1", "0>1 0>1 1>0")
def cotangents_are_moved(wrap):
    def f(a, g):
        with ef.device("cpu:1"):
            value, pull = ef.vjp(lambda b: b * b, a)
            return pull(g)[0], value

    return wrap(f)(x(), x())


@program("0", "0>1 1>0")
def rematerialisation(wrap):
    def f(a):
        with ef.device("cpu:1"):
            return ef.remat(lambda b: ef.exp(b) * b)(a * 1).sum()

    return wrap(ef.grad(f))(x())


@program("0", "0>1 1>0")
def a_rule_of_ones_own(wrap):
    @ef.custom_vjp
    def cube(a):
        return a * a * a

    def forward(a):
        square = a * a
        return square * a, square

    cube.defvjp(forward, lambda square, g: (3 * square * g * ef.ones(3),))

    def f(a):
        with ef.device("cpu:1"):
            return cube(a).sum()

    return wrap(ef.grad(f))(x())


@program("0", "0>1 1>0")
def a_gradient_of_a_loop(wrap):
    def f(a):
        with ef.device("cpu:1"):
            b = a * 1
            for _ in range(3):
                b = ef.sin(b) * b
            return b.sum()

    return wrap(ef.grad(f))(x())
