"""Programs with device scopes: ops, creation, updates in place, patterns."""

from __future__ import annotations

import numpy as np

import eagerflow as ef
from tests.hardware.scope_programs.table import program, x, y

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
