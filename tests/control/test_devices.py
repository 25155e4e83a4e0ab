"""Branches and loops over two devices: values and gradients have the bits of eager code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import eagerflow as ef
from eagerflow.core import tree
from eagerflow.errors import GraphError
from eagerflow.graph.edit import all_nodes
from eagerflow.graph.lowering import lower
from eagerflow.graph.signatures import kind_of
from eagerflow.graph.verify import verify
from eagerflow.runtime.scheduled.scheduled_tier import ScheduledTier
from tests.control.test_programs import close, same


@pytest.fixture(autouse=True)
def devices() -> Iterator[None]:
    with ef.config(cpu_devices=3):
        yield


def there(x: Any) -> Any:
    return x.to("cpu:1")


def back(x: Any) -> Any:
    return x.to("cpu:0")


def data_dependent(x):
    """How often it runs depends on what the other device gives."""

    def body(i, v):
        w = ef.sin(there(v))
        return i + 1, back(w * w + ef.exp(-w)) * v

    return ef.while_loop(lambda i, v: (i < 7) & (v.sum() > 0.02), body, (ef.tensor(0), x))[1]


def carried_there(x):
    """Values of both devices are loop-carried, and the predicate is on the other one."""

    def body(here, other):
        return ef.tanh(here) + back(other), ef.cos(other) * there(here)

    return ef.while_loop(
        lambda here, other: other.sum() < 2.0, body, (x, there(x) * 0.5), max_iterations=6
    )[0]


def counted(x):
    """Python numbers are loop-carried, and kept for the way back, beside tensors of two devices."""

    def body(n, scale, v):
        return n + 1, scale * 0.5, v * scale + back(ef.sin(there(v) * scale))

    return ef.while_loop(lambda n, scale, v: n < 3, body, (0, 2.0, x))[2]


def scanned(x):
    def step(c, row):
        d = ef.exp(there(c) * there(row))
        return back(ef.sin(d)) + row, (d * d, c * row)

    c, (there_rows, here_rows) = ef.scan(step, x, ef.stack([x, x * 2, x * 3]))
    return c + back(there_rows.sum(axis=0)) + here_rows.sum(axis=0)


def chosen(x):
    def far(v):
        w = ef.exp(there(v))
        return back(w * ef.sin(w))

    return ef.cond(x.sum() > 0, far, lambda v: ef.cos(v) * v, x) + ef.cond(
        x.sum() < 0, far, lambda v: ef.cos(v) * v, x
    )


def switched(x):
    y = there(x)
    branches = [lambda: ef.sin(y) * y, lambda: there(ef.exp(x) * x), lambda: y * there(back(y) * x)]
    return sum(back(ef.switch(there(ef.tensor(i)), branches)) for i in range(3))


def mapped(x):
    def f(row):
        w = there(row)
        return back(ef.sin(w) * ef.exp(w)) * row, w * w

    here, other = ef.map(f, ef.stack([x, x + 1.0]))
    return here.sum(axis=0) + back(other).sum(axis=0)


def nested(x):
    """A branch in a loop in a loop."""

    def inner(j, w):
        w = ef.cond(w.sum() > 1.0, lambda: back(ef.sin(there(w) * 2)), lambda: w * ef.exp(w))
        return j + 1, w

    def outer(i, v):
        w = ef.while_loop(lambda j, w: j <= i, inner, (ef.tensor(0), v))[1]
        return i + 1, back(there(w) * ef.cos(there(v)))

    return ef.while_loop(lambda i, v: i < 3, outer, (ef.tensor(0), x))[1]


def three(x):
    """A ring of three devices."""

    def step(c, _):
        a = ef.sin(c)
        b = ef.exp(a.to("cpu:1") * 0.5)
        d = ef.cos(b.to("cpu:2"))
        return back(d * d) + c, None

    return ef.scan(step, x, ef.arange(3))[0]


def remembered(x):
    """Values are computed again on the way back, on the device where they were."""
    f = ef.remat(lambda v: back(ef.sin(ef.exp(there(v))) * there(v)))
    return ef.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, f(v)), (0, x))[1]


PROGRAMS = [data_dependent, carried_there, counted, scanned, chosen, switched, mapped, nested,
            three, remembered]  # fmt: skip
X = ef.tensor([0.25, 0.5, 0.75], dtype=ef.float64)


def scalar(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: f(x).sum()


@pytest.mark.parametrize("f", PROGRAMS)
def test_values_and_gradients_are_those_of_eager_code(f: Callable[..., Any]) -> None:
    traced = ef.trace(f)
    same(traced(X), f(X))
    gradient = ef.grad(scalar(f))(X)
    assert gradient.device == "cpu:0"
    same(ef.trace(ef.grad(scalar(f)))(X), gradient)
    same(ef.grad(scalar(traced))(X), gradient)


@pytest.mark.parametrize("f", PROGRAMS)
def test_graphs_are_sound(f: Callable[..., Any]) -> None:
    """Each value is where the rules of the ops say; the text says so as well; lowered, too."""
    for g in (f, ef.grad(scalar(f))):
        graph = ef.trace(g).graph(X)
        verify(graph)
        again = ef.Graph.parse(str(graph), graph.resources)
        assert str(again) == str(graph)
        verify(again)
        assert {str(v.device) for v in graph.values()} <= {"cpu:0", "cpu:1", "cpu:2", "None"}
        flat = lower(graph, whole=lambda node: False)
        verify(flat)
        (value,) = ScheduledTier(graph, whole=lambda node: False).run([X.numpy()])
        assert value.tobytes() == g(X).numpy().tobytes()


@pytest.mark.parametrize("f", [data_dependent, scanned, chosen, nested, three])
def test_second_order(f: Callable[..., Any]) -> None:
    def along(x):
        return (ef.grad(scalar(f))(x) * X).sum()

    close(ef.trace(ef.grad(along))(X), ef.grad(along)(X))


@pytest.mark.parametrize("f", [data_dependent, counted, scanned, nested])
def test_forward_mode(f: Callable[..., Any]) -> None:
    expected = ef.jvp(f, (X,), (X * 2,))
    close(ef.trace(lambda x: ef.jvp(f, (x,), (x * 2,)))(X), expected)


def test_python_code_over_two_devices() -> None:
    def f(x):
        total = there(x) * 0
        while x.sum() > 0.1:
            if x.sum() > 1.0:
                total = total + ef.sin(there(x))
            else:
                total = total * ef.exp(there(x))
            x = x * 0.5
        return back(total).sum()

    same(ef.trace(f)(X), f(X))
    same(ef.trace(ef.grad(f))(X), ef.grad(f)(X))


def test_variables_of_the_other_device() -> None:
    v = ef.Variable(ef.tensor([1.0, 2.0, 3.0], dtype=ef.float64), device="cpu:1")

    def f(x):
        def body(i, y):
            return i + 1, back(ef.sin(there(y)) * v)

        return ef.while_loop(lambda i, y: i < 2, body, (0, x))[1].sum()

    for g in (f, ef.grad(f), ef.grad(f, wrt=v)):
        close(ef.trace(g)(X), g(X))


def test_random_draws_know_their_device() -> None:
    ef.random.seed(3)

    def f(x):
        def body(i, y):
            noise = ef.random.normal((3,), dtype=ef.float64, device="cpu:1")
            return i + 1, y + back(noise * there(y))

        return ef.while_loop(lambda i, y: i < 3, body, (0, x))[1]

    eager = f(X)
    ef.random.seed(3)
    traced = ef.trace(f)
    same(traced(X), eager)
    (loop,) = [n for n in traced.graph(X).nodes if n.op == "while_loop"]
    inner = loop.attrs["body"].nodes
    keys = [n for n in inner if n.op in ("next_key", "random_normal")]
    assert [str(v.device) for n in keys for v in n.outputs] == ["cpu:1"] * len(keys)
    assert keys


def test_branches_on_different_devices_are_named_so():
    here, other = ef.ones(3), there(ef.ones(3))

    @ef.trace
    def chosen(p):
        return ef.cond(p, lambda: here * 2.0, lambda: other * 2.0)

    @ef.trace
    def named(p):
        return here * 2.0 if p else other * 2.0

    for f, what in ((chosen, "cond: the result"), (named, "the result of `x if c else y`")):
        with pytest.raises(ef.errors.TraceError) as raised:
            f(ef.tensor(True))
        text = str(raised.value)
        assert f"{what} is on different devices in two branches" in text
        assert "f32[3]@cpu:0" in text
        assert "f32[3]@cpu:1" in text
        assert "x.to('cpu:0')" in text
        assert "dtype" not in text


@pytest.mark.parametrize("ends", ["with a move", "as it was given"])
def test_branches_that_end_on_different_devices_are_refused_in_a_scope_too(ends):
    """Eagerly the result is where the chosen branch leaves it: no device of a graph is right."""

    @ef.trace
    def chosen(x):
        with ef.device("cpu:1"):
            doubled = x * 2.0
            y = x if ends == "as it was given" else doubled.to("cpu:2")
            if doubled.sum() > 1:
                y = doubled + 1.0
        return y

    with ef.config(cpu_devices=3), pytest.raises(ef.errors.TraceError) as raised:
        chosen(ef.ones(3))
    text = str(raised.value)
    assert "y is on different devices in two branches" in text
    assert "f32[3]@cpu:1 from" in text
    assert ("f32[3]@cpu:0" if ends == "as it was given" else "f32[3]@cpu:2") in text
    assert "if doubled.sum() > 1" in text
    assert "y = doubled + 1.0" in text
    assert "x.to('cpu:1')" in text  # as the scope says


def _halved(x, limit):
    with ef.device("cpu:1"):
        while (x > limit).any():
            x = x / 2
    return x


def _repeated(x, n):
    with ef.device("cpu:1"):
        for _ in range(n):
            x = x / 2
    return x


def _in_a_container(x, limit):
    values = {"x": x}
    with ef.device("cpu:1"):
        while (values["x"] > limit).any():
            values = {"x": values["x"] / 2}
    return values["x"]


@pytest.mark.parametrize(
    ("f", "argument", "name", "moved"),
    [
        (_halved, 1.0, "x", "x = x"),
        (_repeated, 2, "x", "x = x"),
        (_in_a_container, 1.0, "values", "each tensor x in values: x"),
    ],
)
def test_a_loop_of_python_that_may_move_its_carry_or_not_is_refused(f, argument, name, moved):
    """Without an iteration eager code leaves it where it was: no device of a graph is right."""
    x, limit = ef.ones(3) * 4, ef.tensor(argument)
    with pytest.raises(ef.errors.TraceError) as raised:
        ef.trace(f)(x, limit)
    text = str(raised.value)
    assert f"an iteration of a loop on tensors leaves {name} on another device" in text
    assert "f32[3]@cpu:0 before" in text
    assert "f32[3]@cpu:1 after" in text
    assert f"hint: move it before the loop: {moved}.to('cpu:1')" in text


@pytest.mark.parametrize("limit", [1.0, 100.0])
def test_a_loop_of_python_whose_carry_was_moved_before_it(limit):
    def halved(x, limit):
        x = x.to("cpu:1")
        return _halved(x, limit)

    x = ef.ones(3) * 4
    eager, traced = halved(x, limit), ef.trace(halved)(x, limit)
    assert eager.device is traced.device is ef.hardware.as_device("cpu:1")
    assert (eager == traced).all()


@pytest.mark.parametrize("sizes", [(3, 4), (0, 2)])
def test_a_loop_over_rows_leaves_its_carry_where_eager_code_does(sizes):
    def total(x, rows):
        with ef.device("cpu:1"):
            for row in rows:
                x = x + row
        return x

    traced = ef.trace(total)
    for n in sizes:
        eager, result = total(ef.ones(2), ef.ones((n, 2))), traced(ef.ones(2), ef.ones((n, 2)))
        assert eager.device is result.device
        assert (eager == result).all()


def test_a_carry_that_goes_to_and_fro_in_a_scope_is_refused():
    @ef.trace
    def circles(x):
        with ef.device("cpu:0"):
            while x.sum() < 10:
                x = (x * 2.0).to("cpu:1" if x.device.index == 0 else "cpu:0")
        return x

    message = "changes the device of the carry"
    with ef.config(cpu_devices=2), pytest.raises(ef.errors.TraceError, match=message):
        circles(ef.ones(3))


def test_a_carry_that_changes_its_device_is_named_so():
    def moves(x):
        return ef.while_loop(lambda x: x.sum() < 10.0, lambda x: there(x * 2.0), x)

    def moves_along(x):
        return ef.scan(lambda c, y: (there(c + y), y), x[0], x)

    for f in (moves, ef.trace(moves), moves_along, ef.trace(moves_along)):
        with pytest.raises(ef.errors.TraceError) as raised:
            f(ef.ones(3))
        text = str(raised.value)
        assert "an iteration changes the device of the carry" in text
        assert "@cpu:1 after an iteration" in text
        assert "@cpu:0, which the loop starts with" in text
        assert "x.to('cpu:0')" in text
        assert "astype" not in text


def in_a_body(x):
    y = (x * 2).to("cpu:1")  # decides
    return ef.while_loop(lambda v: v.sum() < 9, lambda v: ef.exp(v) + ef.sin(y), (x * 1,))[0]


def as_a_carry(x):
    y = (x * 2).to("cpu:1")  # decides

    def outer(v, w):
        def inner(u):
            return ef.exp(u) + v

        return v, ef.while_loop(lambda u: u.sum() < 9, inner, (w,))[0]

    return ef.while_loop(lambda v, w: v.sum() < 9, outer, (x, y))[1]


def in_parts(x):
    y = (x * 2).to("cpu:1")  # decides
    return ef.scan(lambda c, v: (c + ef.sin(v), None), x.sum(), y)[0]


def behind_a_scan(x):
    y = (x * 2).to("cpu:1")  # decides
    _, ys = ef.scan(lambda c, v: (c, ef.sin(v)), x.sum(), y)
    return x + ys


def behind_nested_branches(x):
    y = (x * 2).to("cpu:1")  # decides
    p = x.sum() > 0
    z = ef.cond(p, lambda: ef.cond(p, lambda: ef.sin(y), lambda: y), lambda: y * 2)
    return ef.cond(p, lambda: z + x, lambda: x)


def of_an_if(x):
    y = (x * 2).to("cpu:1")  # decides
    if x.sum() > 0:
        y = ef.sin(y)
    return x + y


def through_calls(x):
    y = (x * 2).to("cpu:1")  # decides
    z = ef.call(lambda v: ef.sin(v), y)
    return ef.call(lambda v, w: v + w, x, z)


CLASHES = [in_a_body, as_a_carry, in_parts, behind_a_scan, behind_nested_branches, of_an_if,
           through_calls]  # fmt: skip


@pytest.mark.parametrize("f", CLASHES)
def test_the_line_that_decided_a_device_is_named_while_tracing(f: Callable[..., Any]) -> None:
    with pytest.raises(ef.errors.DeviceError, match="add: operands sit on different") as caught:
        ef.trace(f)(X)
    _, *decisions = caught.value.given.splitlines()
    assert len(decisions) == 2
    assert sum("# decides" in line and " on cpu:1, by " in line for line in decisions) == 1
    assert sum("%x" in line and " on cpu:0" in line for line in decisions) == 1


@pytest.mark.parametrize("f", PROGRAMS)
def test_the_line_that_decided_a_device_is_named_by_checks(f: Callable[..., Any]) -> None:
    """Of each node that is put elsewhere: it is never one that only hands a value on."""
    graph = ef.trace(f).graph(X)
    for node in [*all_nodes(graph.nodes)]:
        operands = [v for v in node.inputs if v.device is not None]
        if not operands or kind_of(node.op) != "op" or node.op == "transfer":
            continue
        before, node.device = node.device, ef.hardware.as_device("cpu:2")
        if operands[0].device != node.device:
            with pytest.raises(GraphError, match="is on cpu:2, and its operand") as caught:
                verify(graph)
            wrong = str(caught.value).splitlines()[0]
            decided = wrong.partition(", by ")[2]
            if "test_devices.py:" in decided:
                assert any(word in decided for word in (".to(", "arange", "zeros", "tensor("))
            else:
                assert decided in ("the input %x", "&constant") or "operand %x on" in wrong
        node.device = before


@pytest.mark.parametrize("n", [0, 2])
def test_a_loop_in_a_scope_leaves_its_carry_there_with_iterations_and_without(n: int) -> None:
    def loop(x: Any) -> Any:
        return ef.while_loop(lambda i, y, z: i < n, lambda i, y, z: (i + 1, y * 2.0, z), (0, x, x))

    def along(x: Any) -> Any:
        return ef.scan(lambda c, row: (c + row, c), x, ef.zeros((n, 2)))

    def where(results: Any) -> list[str]:
        return [str(x.device) for x in tree.leaves(results) if isinstance(x, ef.Tensor)]

    x = ef.ones(2)
    for f, want in ((loop, ["cpu:1", "cpu:0"]), (along, ["cpu:1", "cpu:1"])):
        with ef.device("cpu:1"):
            assert where(f(x)) == where(ef.trace(f)(x)) == want
        assert where(f(x)) == where(ef.trace(f)(x)) == ["cpu:0", "cpu:0"]


def test_an_iteration_that_cannot_be_traced_moves_nothing() -> None:
    with ef.device("cpu:1"):
        x = ef.while_loop(lambda y: False, lambda y: y * y.item(), ef.ones((), device="cpu:0"))
    assert str(x.device) == "cpu:0"


def test_an_iteration_that_does_not_happen_raises_nothing() -> None:
    def body(y: Any) -> Any:
        raise ValueError("there is nothing to iterate over")

    with ef.device("cpu:1"):
        x = ef.while_loop(lambda y: False, body, ef.ones((), device="cpu:0"))
    assert str(x.device) == "cpu:0"
