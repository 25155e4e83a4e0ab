"""Device scopes: moves, and the ends of scopes.

The devices that scopes name: `test_scope_names.py`. Programs in scopes, eagerly and traced:
`test_scope_programs.py`.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import warnings
import weakref
from collections.abc import Iterator
from contextlib import ExitStack

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors, hardware
from eagerflow.core.interpreter import stack
from eagerflow.core.moves_to_scopes import _crossings, _reads
from eagerflow.events import StepEvent, TransferEvent
from eagerflow.hardware import as_device, current_device
from eagerflow.hardware.device_scopes import all_open
from tests.recorded import recorded


@pytest.fixture(autouse=True)
def _three_cpus() -> Iterator[None]:
    with ef.config(cpu_devices=3):
        yield
    assert not stack.scoped, "a scope is still open"
    assert not _reads


def _moves(function) -> list[tuple[str, str, int]]:
    with recorded(TransferEvent) as seen:
        function()
    return [(e.origin, e.device, e.nbytes) for e in seen.events]


# --- moves --------------------------------------------------------------------------------------


def test_outside_of_scopes_mixed_operands_are_an_error() -> None:
    x, y = ef.ones(2), ef.ones(2, device="cpu:1")
    for call in (lambda: x + y, lambda: ef.matmul(x, y), ef.trace(lambda: x * y)):
        with pytest.raises(errors.DeviceError, match="operands sit on different devices"):
            call()
    with ef.device("cpu:1"), ef.device(None), pytest.raises(errors.DeviceError, match="different"):
        ef.add(x, y)
    with pytest.raises(errors.DeviceError, match="different"):
        x += y


def test_a_move_is_told_with_its_line() -> None:
    x = ef.ones(4)
    with recorded(TransferEvent) as seen, ef.device("cpu:1"):
        y = x + 1  # this line
    (event,) = seen.events
    assert (event.origin, event.device, event.nbytes) == ("cpu:0", "cpu:1", 16)
    assert event.source.text == "y = x + 1  # this line"
    assert y.device == "cpu:1"


def test_a_moved_value_lives_as_long_as_both_the_handle_and_the_scope() -> None:
    x, y = ef.ones(4), ef.ones(4, device="cpu:1")
    copies = []

    class Watch(ef.core.interpreter.AbstractInterpreter):
        def bind(self, op, inputs, attrs):
            result = self.below.bind(op, inputs, attrs)
            if op.name == "transfer":
                copies.append(weakref.ref(result))
            return result

    with ef.core.monitors.monitored(Watch()), ef.device("cpu:1"):
        z = ef.ones(4, device="cpu:0")
        y + x, y + z, y + z
        assert [copy() is not None for copy in copies] == [True, True]
        del z
        assert [copy() is not None for copy in copies] == [True, False]
    gc.collect()
    assert [copy() is not None for copy in copies] == [False, False]


def test_values_are_moved_and_not_handles() -> None:
    x, y = ef.ones(2), ef.ones(2, device="cpu:1")
    with ef.device("cpu:1"):
        before = x + y
        x[0] = 5.0
        assert (x + y).tolist() == [6, 2]
        x += 1
        assert (x + y).tolist() == [7, 3]
        v = ef.Variable([1.0, 2.0], device="cpu:0")
        read = v.value
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.MoveWarning)
            first = read + y
            v.assign_add([1.0, 1.0])
            assert (read + y).tolist() == first.tolist() == [2, 3]
            assert (v + y).tolist() == [3, 4]
    assert before.tolist() == [2, 2]


def test_a_tape_that_opens_later_sees_a_move_of_its_own() -> None:
    x = ef.tensor([1.0, 2.0])

    def steps() -> None:
        with ef.device("cpu:1"):
            before = x * 2
            with ef.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = (x * before).sum()
                with tape.stop_recording():
                    z = x + 1
                w = (x * z).sum()
            assert tape.gradient(y, x).tolist() == [2, 4]
            assert tape.gradient(w, x).tolist() == [2, 3]

    there, back = ("cpu:0", "cpu:1"), ("cpu:1", "cpu:0")
    assert [move[:2] for move in _moves(steps)] == [there, there, back, back]


def test_moves_can_be_refused() -> None:
    x = ef.ones(2)
    double = ef.trace(lambda a: a * 2)
    with ef.device("cpu:1"):
        assert double(x).device == "cpu:1"
        y = ef.ones(2)
        with ef.config(moves="error"):
            assert (y + 1).device == "cpu:1"
            assert double(y).device == "cpu:1"
            for call in (lambda: x + y, lambda: double(x), lambda: ef.Variable(x)):
                with pytest.raises(errors.DeviceError, match="refuses to move it") as caught:
                    call()
                assert "by the scope cpu:1 at " in str(caught.value)
            assert x.to("cpu:1").device == "cpu:1"
        assert double(x).device == "cpu:1"
    text = str(caught.value)
    assert "x=f32[2]@cpu:0" in text
    assert "all on cpu:1, by the scope cpu:1" in text
    assert "x.to('cpu:1')" in text
    with pytest.raises(errors.SettingError, match="'allow' or 'error'"):
        ef.config(moves="never")


def test_a_setting_of_one_thread_refuses_moves_of_that_thread() -> None:
    x, results = ef.ones(2), []

    def work() -> None:
        with ef.device("cpu:1"):
            results.append((x + 1).device)

    with ef.config(moves="error"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert results == ["cpu:1"]


def test_what_a_device_cannot_hold_does_not_move_there(monkeypatch) -> None:
    monkeypatch.setattr(type(as_device("null:0").backend), "holds_bytes", False)
    with ef.device("null:0"), pytest.raises(errors.DeviceError, match="cannot hold bytes"):
        ef.tensor([b"a"], device="cpu:0")[0]


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace])
def test_printing_moves_nothing_unless_it_has_to(capsys, wrap) -> None:
    show = wrap(lambda *xs: ef.print(*xs))
    x, y = ef.ones(2), ef.zeros(2, device="cpu:1")
    with ef.device("cpu:1"):
        assert not _moves(lambda: show(x, "and", x))
        assert _moves(lambda: show(x, y)) == [("cpu:0", "cpu:1", 8)]
    assert capsys.readouterr().out == "[1. 1.] and [1. 1.]\n[1. 1.] [0. 0.]\n"


@pytest.mark.parametrize("wrap", [lambda f: f, ef.trace])
def test_a_scope_on_a_device_with_memory_of_its_own(wrap) -> None:
    def energy(a, w):
        with ef.device("async:1"):
            h = ef.tanh(a @ w + ef.arange(3))
            return (h * h)[:, 1:].sum()

    a, w = ef.ones((2, 4)) * 0.1, ef.ones((4, 3))
    value, slope = wrap(ef.value_and_grad(energy, argnums=1))(a, w)
    assert value.device == "async:1"
    assert slope.device == "cpu:0"
    here = ef.value_and_grad(
        lambda a, w: (ef.tanh(a @ w + ef.arange(3)) ** 2)[:, 1:].sum(), argnums=1
    )(a, w)
    np.testing.assert_allclose(value.numpy(), here[0].numpy(), rtol=1e-6)
    np.testing.assert_allclose(slope.numpy(), here[1].numpy(), rtol=1e-5)


def test_a_scope_on_a_null_device_plans() -> None:
    x = ef.ones((2, 3))
    with ef.device("null:1"):
        y = x @ ef.ones((3, 4))
    assert str(y.type) == "f32[2,4]@null:1"


@pytest.mark.parametrize("how", ["eager", "traced", "unnamed"])
def test_a_variable_that_crosses_in_each_step_is_told_of_once(how) -> None:
    v = ef.Variable(ef.ones(100), name=None if how == "unnamed" else "table")
    step = (lambda: v * 2) if how == "eager" else ef.trace(lambda: v * 2)
    with warnings.catch_warnings(record=True) as caught, ef.device("cpu:1"):
        warnings.simplefilter("always")
        for _ in range(5):
            step()
    (warning,) = [w for w in caught if w.category is errors.MoveWarning]
    text = str(warning.message)
    if how == "unnamed":
        assert text.startswith(f"variable f32[100]@cpu:0, made at {__file__}")
    else:
        assert text.startswith("variable 'table' f32[100]@cpu:0 is read on cpu:1 in every step")
    assert "400 bytes" in text
    assert warning.filename == __file__
    assert v.resource in _crossings


def test_a_variable_that_crosses_in_one_step_is_nothing_to_tell() -> None:
    v = ef.Variable(ef.ones(3))
    with ef.device("cpu:1"):
        assert (v * v).device == "cpu:1"
        assert (v + v).device == "cpu:1"


# --- calls of traced functions ------------------------------------------------------------------


def test_a_traced_call_in_a_scope_is_one_step_of_one_trace_for_each_scope() -> None:
    f = ef.trace(lambda a: ef.exp(a) * a + 1)
    x = ef.ones(2)
    for name in ("cpu:1", "/device:CPU:1", as_device("cpu:1"), "cpu:*"):
        with ef.device(name):
            f(x)
            with recorded(StepEvent) as seen:
                f(x)
            assert len(seen.events) == 1
    with ef.colocate(ef.ones(1, device="cpu:1")):
        f(x)
    assert [t.scope for t in f.traces] == ["cpu:1", "cpu:*", "colocation on cpu:1"]
    assert f.traces[1].reason == "the device scope: now cpu:*, before cpu:1"
    assert "device scope: cpu:1" in str(f.explain())
    f(x)
    assert f.traces[3].reason == "the device scope: now none, before colocation on cpu:1"


def test_a_graph_says_its_moves() -> None:
    f = ef.trace(lambda a, b: a * b + a)
    with ef.device("cpu:1"):
        graph = f.graph(ef.ones(2, device="cpu:0"), ef.ones(2, device="cpu:2"))
    assert [n.op for n in graph.nodes] == ["transfer", "transfer", "multiply", "add"]
    assert {str(n.device) for n in graph.nodes[2:]} == {"cpu:1"}
    ef.Graph.parse(str(graph))


# --- where a scope ends -------------------------------------------------------------------------


def test_the_device_of_all_open_scopes_is_known_in_whatever_order_they_end() -> None:
    blocks = [ef.device(name) for name in ("cpu:1", "cpu:1", None, "cpu:2")]
    homes = [all_open.home]
    for block in blocks:
        block.__enter__()
        homes.append(all_open.home)
    for number in (0, 3, 1, 2):
        blocks[number].__exit__(None, None, None)
        homes.append(all_open.home)
    assert homes == [None, "cpu:1", "cpu:1", "cpu:1", None, None, "cpu:1", None, None]


def test_what_is_at_home_in_the_scopes_of_others_runs_where_it_is() -> None:
    def waiting():
        with ef.device("cpu:1"):
            yield

    here, there = ef.ones(2), ef.ones(2, device="cpu:1")
    waits = waiting()
    next(waits)  # the generator's scope is open, and not in force
    assert all_open.home == "cpu:1"
    assert (here + 1.0).device == "cpu:0"
    assert (there * there).device == "cpu:1"
    with pytest.raises(errors.DeviceError, match="different"):
        here + there
    with ef.device("cpu:0"):  # now there are scopes for two devices
        assert all_open.home is None
        assert (there * there).device == "cpu:0"
        assert ef.multiply(there, 2).device == "cpu:0"
    waits.close()


def test_a_block_that_is_left_in_another_thread() -> None:
    block = ef.device("cpu:1")
    with ef.device("cpu:2"):
        block.__enter__()
        assert ef.ones(1).device == "cpu:1"
        thread = threading.Thread(target=lambda: block.__exit__(None, None, None))
        thread.start()
        thread.join()
        assert ef.ones(1).device == "cpu:2"
    assert ef.ones(1).device == "cpu:0"


def test_one_block_in_several_threads_at_once() -> None:
    block, barrier, results = ef.device("cpu:1"), threading.Barrier(4), []

    def work(late: bool) -> None:
        with block:
            barrier.wait()
            results.append(ef.ones(1).device)
            if late:
                barrier.wait()
        results.append(ef.ones(1).device)
        if not late:
            barrier.wait()

    threads = [threading.Thread(target=work, args=(i % 2 == 0,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(str, results)) == ["cpu:0"] * 4 + ["cpu:1"] * 4


def test_another_context_has_the_scope_until_its_block_is_left() -> None:
    with ef.device("cpu:1"):
        context = contextvars.copy_context()
        assert context.run(current_device) == "cpu:1"
    assert context.run(current_device) == "cpu:0"


def test_a_task_within_a_scope_has_it() -> None:
    async def inner() -> object:
        await asyncio.sleep(0)
        return current_device()

    async def main() -> list[object]:
        with ef.device("cpu:1"):
            task = asyncio.create_task(inner())
            return [await inner(), await task]

    assert asyncio.run(main()) == ["cpu:1", "cpu:1"]


def test_an_asynchronous_generator_keeps_its_scope_to_itself() -> None:
    async def devices():
        with ef.device("cpu:1"):
            yield current_device()
            yield current_device()

    async def main() -> list[object]:
        return [(name, current_device()) async for name in devices()]

    assert asyncio.run(main()) == [("cpu:1", "cpu:0")] * 2


def test_a_generator_that_is_closed_in_another_thread() -> None:
    def devices():
        with ef.device("cpu:1"):
            while True:
                yield current_device()

    every = devices()
    assert next(every) == "cpu:1"
    thread = threading.Thread(target=every.close)
    thread.start()
    thread.join()
    assert current_device() == "cpu:0"
    assert not stack.scoped


def test_a_generator_that_nobody_holds_ends_its_scope() -> None:
    def devices():
        with ef.device("cpu:1"):
            yield 1

    next(devices())
    assert not stack.scoped


def test_generators_that_delegate() -> None:
    def inner():
        with ef.device("cpu:1"):
            yield current_device()
        yield current_device()

    def outer():
        with ef.device("cpu:2"):
            yield current_device()
            yield from inner()
            yield current_device()

    seen = []
    for name in outer():
        seen.append(name)
        assert current_device() == "cpu:0"
    assert seen == ["cpu:2", "cpu:1", "cpu:2", "cpu:2"]


def test_an_exit_stack_in_a_generator() -> None:
    def devices():
        with ExitStack() as opened:
            opened.enter_context(ef.device("cpu:1"))
            yield current_device()

    for name in devices():
        assert (name, current_device()) == ("cpu:1", "cpu:0")


@pytest.fixture
def _on_cpu_2(_three_cpus) -> Iterator[None]:
    with ef.device("cpu:2"):
        yield


@pytest.mark.usefixtures("_on_cpu_2")
def test_a_fixture_opens_a_scope_for_its_test() -> None:
    assert current_device() == "cpu:2"


def test_libraries_ask_where_ops_run() -> None:
    v, cpu = ef.Variable(1.0, device="cpu:2"), as_device("cpu:0")
    with hardware.beside(v):
        assert current_device() == "cpu:0"  # no scope is open
    assert hardware.home_of(cpu) is cpu
    with ef.device("cpu:1"), hardware.beside(v):
        assert current_device() == "cpu:2"
        assert hardware.home_of(cpu) == "cpu:2"
    with ef.device("cpu:*"), hardware.beside(v):
        assert current_device() == "cpu:2"
