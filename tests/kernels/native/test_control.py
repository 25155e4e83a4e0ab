"""Control of regions: kernels count the work done, and can be ended while they run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from eagerflow_kernels.native.callable_ops import pool
from eagerflow_kernels.native.control import BEGIN, FLAG, Control
from eagerflow_kernels.native.fusion import FusedNode, NativeRegion, fuse
from eagerflow_kernels.native.llvm.thread_pool_code import QUANTUM
from eagerflow_kernels.native.loop_form import LoopArray
from tests.kernels.native.compiling import MISSING, needs_compiler

pytestmark = needs_compiler

#: number of elements for which a chain of exp and tanh is several quanta of work
_SIZE = 1 << 21


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    if MISSING is not None:
        yield
        return
    before = pool().threads
    pool().limit(1)
    yield
    pool().limit(before)


class _EndedError(Exception):
    pass


def _once() -> Callable[[], None]:
    """A function that raises in its first call."""
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)
        if len(asked) == 1:
            raise _EndedError("as asked")

    return ask


def _region(ask: Callable[[], object] | None, *, inner: bool = False, reduces: bool = False) -> Any:
    nodes = [FusedNode("exp", (0,)), FusedNode("tanh", (1,))]
    for last in range(2, 8):
        nodes.append(FusedNode("multiply", (last, last)))
    outputs = [8]
    if reduces:
        nodes.append(FusedNode("sum", (8,)))
        outputs = [9]
    loops = fuse("controlled", [LoopArray("f32", inner)], nodes, outputs)
    return NativeRegion(loops, control=Control(pool(), ask))


def _run(region: Any, x: Any) -> Any:
    region.control.memory[BEGIN] = 1
    return region.ufunc(x)


def _data(*shape: int) -> Any:
    return np.full(shape, 0.5, np.float32)


def _whole(region: Any, x: Any) -> int:
    work: int = region.weight * x.size
    assert work > 2 * QUANTUM
    return work


def test_it_counts_what_it_has_done() -> None:
    region, x = _region(None), _data(_SIZE)
    for _ in range(2):
        _run(region, x)
        assert region.control.done == _whole(region, x)
    region.ufunc(x[:1000])
    assert region.control.done == _whole(region, x) + 1000 * region.weight


def test_calls_within_one_call_are_counted_together() -> None:
    region, x = _region(None), _data(_SIZE).reshape(-1, 64)[:, ::2]
    _run(region, x)
    assert region.control.done == _whole(region, x)


@pytest.mark.parametrize("shape", [(_SIZE,), (_SIZE // 64, 64)], ids=["at once", "row by row"])
def test_what_asks_may_end_it(shape: tuple[int, ...]) -> None:
    region, x = _region(_once()), _data(*shape)
    out = np.full(shape, -1, np.float32)
    region.control.memory[BEGIN] = 1
    region.ufunc(x if x.ndim == 1 else x[:, :], out=out)
    assert region.control.done < _whole(region, x)
    assert region.control.memory[FLAG]
    assert out.flat[0] != -1
    assert out.flat[-1] == -1
    with pytest.raises(_EndedError, match="as asked"):
        region.control.end()
    assert not region.control.memory[FLAG]


@pytest.mark.parametrize("shape", [(1, _SIZE), (_SIZE // 64, 64)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_reductions_may_be_ended(shape: tuple[int, int], order: Any) -> None:
    region, x = _region(_once(), inner=True, reduces=True), _data(*shape)
    x = np.asarray(x, order=order)
    _run(region, x)
    assert region.control.done < _whole(region, x)
    with pytest.raises(_EndedError):
        region.control.end()


def test_it_goes_on_after_an_answer() -> None:
    asked = []
    region, x = _region(lambda: asked.append(1)), _data(_SIZE)
    expected = _region(None).ufunc(x)
    assert np.array_equal(_run(region, x), expected)
    assert asked
    assert not region.control.memory[FLAG]


def test_the_next_call_is_whole() -> None:
    region, x = _region(_once()), _data(_SIZE)
    _run(region, x)
    with pytest.raises(_EndedError):
        region.control.end()
    small = x[:1000]
    assert np.array_equal(_run(region, small), _region(None).ufunc(small))
    assert not region.control.memory[FLAG]


def test_only_the_thread_that_was_asked_is_ended() -> None:
    region, x = _region(_once()), _data(_SIZE)
    expected = _region(None).ufunc(x)
    observations: list[Any] = []

    def other() -> None:
        observations.append(_run(region, x))
        region.control.end()  # the flag of another thread
        observations.append(region.control.memory[FLAG])

    _run(region, x)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert np.array_equal(observations[0], expected)
    assert observations[1]
    with pytest.raises(_EndedError):
        region.control.end()


def test_a_shared_call_is_ended_and_the_next_is_whole() -> None:
    pool().limit(2)
    region, x = _region(_once()), _data(8 * _SIZE)
    _run(region, x)
    with pytest.raises(_EndedError):
        region.control.end()
    assert np.array_equal(_run(region, x[:_SIZE]), _region(None).ufunc(x[:_SIZE]))
