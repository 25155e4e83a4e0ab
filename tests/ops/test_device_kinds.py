"""The table of cases on asynchronous devices of other kinds: from a cell, and from a package.

Nothing may compute on the host, look at an array before it is there, or lose the order of its
elements: each case gives the bits that it gives on a CPU, and so do its graphs. `make test` runs
one dtype of each case, and graphs and gradients of one case of each function; `make test-slow` one
of each kind of dtype, graphs and gradients of all, and both kinds of device.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import hardware
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.hardware import as_device, registry
from eagerflow_kernels.asynchronous import AsyncBackend, DeviceArray
from tests.each import check_each, in_groups
from tests.ops.case import OpCase
from tests.ops.cases import ALL_CASES
from tests.ops.gradients import gradient
from tests.ops.one_trace import Row, joined_rows
from tests.ops.table import (
    arguments,
    flatten,
    flatten_arrays,
    function_of,
    layout_of,
    map_arrays,
    map_type,
    one_of_each_function,
    one_of_each_kind,
)
from tests.ops.tracing import State, call_traced

PACKAGE = {
    "sundial/__init__.py": "",
    "sundial/device.py": '''
        """A kind of device."""

        from eagerflow_kernels.asynchronous import AsyncBackend

        def backend():
            return AsyncBackend("sundial", devices=2)
    ''',
    "sundial-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: sundial\nVersion: 1.0\n",
    "sundial-1.0.dist-info/entry_points.txt": """
        [eagerflow.devices]
        sundial = sundial.device:backend
    """,
}
KINDS = ("hourglass", "sundial")
ONE = one_of_each_function([c for c in ALL_CASES if not c.untraceable])
#: cases that move their results to another device
_MOVING = {"to_device"}


@pytest.fixture(scope="module", autouse=True)
def _kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Registers a kind from a cell, pumped by hand, and a kind of a package, with threads."""
    hardware.register_backend(AsyncBackend("hourglass", threads=False))
    place = tmp_path_factory.mktemp("site")
    for name, text in PACKAGE.items():
        path = place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text).lstrip())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path, str(place)])
        patch.setattr(registry, "_plugins_loaded", False)
        yield
    for kind in KINDS:
        registry._backends.pop(kind, None)
        for index in range(2):
            registry._devices.pop(f"{kind}:{index}", None)
    for name in ("sundial", "sundial.device"):
        sys.modules.pop(name, None)


def _kind_of(case: OpCase) -> str:
    """The kind that runs a case where one kind is enough."""
    return KINDS[len(case.id) % 2]


def _moved(args: Sequence[Any], kind: str) -> list[Any]:
    def move(x: Any) -> Any:
        to = f"{kind}:1"
        return ef.Variable(x, device=to) if isinstance(x, ef.Variable) else x.to(to)

    return [map_type(AbstractArray, move, map_arrays(ef.asarray, a)) for a in args]


def _holds_bytes(args: Sequence[Any]) -> bool:
    return any(a.dtype.kind == "O" for a in flatten_arrays(args))


def _same_bits(got: Any, want: Any) -> None:
    for g, w in zip(flatten(got), flatten(want), strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind == "O":
            assert g.tolist() == w.tolist()
        else:
            wide = np.complex128 if w.dtype.kind in "cfV" else w.dtype  # any NaN equals any other
            np.testing.assert_array_equal(g.astype(wide), w.astype(wide))


def _run(
    case: OpCase, function: Callable[..., Any], args: Sequence[Any], kind: str, **kwargs: Any
) -> None:
    """Check that the results are those of the CPU, and on the device of the kind."""
    moved = _moved(args, kind)
    state = State(args)
    with np.errstate(all="ignore"):
        want = function(*[map_arrays(ef.asarray, a) for a in args], **kwargs)
        state.restore()
        got = function(*moved, **kwargs)
    if case.name not in _MOVING and any(True for _ in _tensors(moved)):
        assert {str(x.device) for x in _tensors(got)} <= {f"{kind}:1"}
    _same_bits(got, want)


def _tensors(value: Any) -> Iterator[Tensor]:
    arrays: list[Tensor] = []
    map_type(AbstractArray, lambda x: arrays.append(x), value)
    return iter([x for x in arrays if isinstance(x, Tensor)])


def check(case: OpCase, dtype: str, kind: str) -> None:
    """Check the values; bytes, which these devices do not hold, are refused."""
    args = arguments(case, dtype, layout_of(case))
    if _holds_bytes(args):
        with pytest.raises(ef.errors.DeviceError, match="cannot hold bytes"):
            _moved(args, kind)
        return
    _run(case, function_of(case), args, kind, **case.kwargs)


@contextmanager
def _worked(kind: str) -> Iterator[None]:
    """A thread does the work of the kind that has no threads: graphs wait for that, and do none."""
    backend = as_device(f"{kind}:0").backend
    assert isinstance(backend, AsyncBackend)
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.001):
            backend.pump(100)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        ended.set()
        worker.join()


def check_traced(rows: Sequence[Row], kind: str) -> None:
    """Check the values of several cases in one trace."""
    joined = joined_rows([row for row in rows if not _holds_bytes(arguments(*row))])
    with np.errstate(all="ignore"), _worked(kind):
        call_traced(joined.function, _moved(joined.args, kind), {})


def check_slopes(case: OpCase, kind: str, order: int) -> None:
    """Check the gradients, which have the bits that they have on the CPU."""
    dtype = "float64" if "float64" in case.dtypes else case.dtypes[0]
    args = arguments(case, dtype, layout_of(case))
    _run(case, gradient(function_of(case), case.grad, case.kwargs, order), args, kind)


def test_both_kinds_are_there() -> None:
    for kind in KINDS:
        assert [str(d) for d in ef.devices(kind)] == [f"{kind}:0", f"{kind}:1"]
        x = ef.ones(2, device=f"{kind}:0")
        assert type((x + x)._data) is DeviceArray
    assert set(KINDS) <= {d.kind for d in ef.devices()}


@pytest.mark.parametrize("part", range(8))
def test_values(part: int) -> None:
    cases = ALL_CASES[part::8]
    check_each(((c, one_of_each_kind(c)[0], _kind_of(c)) for c in cases), check)
    for kind in KINDS:
        traceable = [c for c in ONE if _kind_of(c) == kind]
        for some in in_groups(traceable[part::8]):
            check_traced([(c, one_of_each_kind(c)[0], layout_of(c)) for c in some], kind)


@pytest.mark.parametrize("part", range(4))
def test_gradients(part: int) -> None:
    smooth = one_of_each_function([c for c in ALL_CASES if c.grad])
    check_each(((c, _kind_of(c), 1) for c in smooth[part::4]), check_slopes)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", range(32))
def test_all(part: int, kind: str) -> None:
    check_each(((case, kind) for case in ALL_CASES[part::32]), _check_all)


def _check_all(case: OpCase, kind: str) -> None:
    dtypes = one_of_each_kind(case)
    check_each(((case, dtype, kind) for dtype in dtypes), check)
    if not case.untraceable:
        check_traced([(case, dtype, layout_of(case)) for dtype in dtypes], kind)
    if case.grad:
        check_slopes(case, kind, 2 if case.second else 1)
