"""Each portable kernel makes calls that CuPy takes; kernels for GPUs are used for the others.

The table of cases runs on devices that refuse what CuPy lacks. Bits may differ from those of the
CPU, whose special kernels are not those of a GPU; values do not.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import hardware
from eagerflow.core import tree
from eagerflow.errors import EagerflowError
from eagerflow_kernels import table
from eagerflow_kernels.cuda.backend import CudaBackend
from eagerflow_kernels.scattering import scatter
from tests.each import check_each
from tests.kernels.cuda.checked import (
    SIGNATURES,
    CheckedArray,
    CheckedCupy,
    LacksError,
)
from tests.kernels.cuda.checked_backend import CheckedBackend
from tests.kernels.cuda.programs import OF_BYTES, OF_NONE, PROGRAMS
from tests.ops import test_device_kinds as kinds
from tests.ops.case import OpCase
from tests.ops.cases import ALL_CASES
from tests.ops.table import flatten, one_of_each_kind

pytestmark = pytest.mark.usefixtures("checked_gpu")
#: dtypes that CuPy has no arrays of
LACKING = ("bfloat16", "float8_e4m3fn", "float8_e5m2")
_RTOL = {"e": 4e-3, "f": 1e-4, "F": 1e-4}


def _close(got: Any, want: Any) -> None:
    for g, w in zip(flatten(got), flatten(want), strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if w.dtype.kind in "fc":
            rtol = _RTOL.get(w.dtype.char, 1e-9)
            np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol / 4)
        else:
            np.testing.assert_array_equal(g, w)


def _lacks_dtype(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, LacksError) and any(d in str(error) for d in LACKING):
            return True
        error = error.__cause__ or error.__context__
    return False


def test_every_kernel_calls_what_cupy_has(
    checked_gpu: CheckedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kinds, "_same_bits", _close)
    cases = [(case, dtype) for case in ALL_CASES for dtype in one_of_each_kind(case)]
    check_each(cases, check_case)
    check_each(list(PROGRAMS.values()), check_program)
    assert len(cases) > 2_000
    assert _names_of_kernels() - checked_gpu.launched == OF_BYTES | OF_NONE


def _names_of_kernels() -> set[str]:
    """Names of the package's ops with portable kernels, and of those with kernels for GPUs."""
    of_package = set()
    for name in table.names():
        kernel = table.original_kernel(name)
        made_by = getattr(kernel, "func", kernel)  # the function of a partial one
        if isinstance(kernel, str) or made_by.__module__.startswith("eagerflow_kernels."):
            of_package.add(name)
    return of_package | {name for name, kind, _ in table._special if kind == "gpu"}


def check_case(case: OpCase, dtype: str) -> None:
    """A case gives on a GPU what it gives on the CPU, unless it has a dtype that CuPy lacks."""
    if dtype not in LACKING:
        try:
            kinds.check(case, dtype, "gpu")
        except Exception as error:
            if not _lacks_dtype(error):
                raise


def check_program(program: Callable[[str], Any], kind: str = "gpu") -> None:
    """A program gives on the first device of a kind what it gives on the CPU."""
    got, want = (
        [np.asarray(x.numpy()) for x in tree.leaves(program(f"{k}:0")) if x is not None]
        for k in (kind, "cpu")
    )
    assert want
    _close(got, want)


def test_no_kernel_gets_bytes() -> None:
    with pytest.raises(EagerflowError, match="cannot hold bytes"):
        ef.tensor(b"bytes").to("gpu:0")


@pytest.mark.parametrize("dtype", "bBhHiIlLqQefdFD")
def test_scattering_takes_each_dtype(dtype: str) -> None:
    for name in ("add", "maximum", "minimum")[: 1 if dtype in "FD" else 3]:
        start, values = np.arange(4).astype(dtype), np.array([100, 50, 100, 120]).astype(dtype)
        got, where = CheckedArray(start.copy()), np.array([1, 2, 1, 1])
        scatter(CheckedCupy(), name, got, CheckedArray(where), CheckedArray(values))
        getattr(np, name).at(start, where, values)
        np.testing.assert_array_equal(got.inner, start)


def test_members_of_the_contract_are_there() -> None:
    members = hardware.contract.MEMBERS
    assert [name for name in members if not hasattr(CudaBackend, name)] == []


def _array(dtype: str = "float32") -> CheckedArray:
    return CheckedArray(np.ones(3, dtype))


#: calls that NumPy takes and CuPy does not
WRONG: dict[str, Callable[[Any], Any]] = {
    "no such function": lambda xp: xp.busday_count("2025-01", "2025-02"),
    "no such parameter": lambda xp: xp.sum(_array(), where=True),
    "no such parameter of a ufunc": lambda xp: xp.add(_array(), _array(), subok=False),
    "an argument too many of a ufunc": lambda xp: xp.exp(_array(), _array(), _array()),
    "no such parameter of a method": lambda xp: _array().sum(where=True),
    "no such method": lambda xp: _array().newbyteorder(),
    "no such method of ufuncs": lambda xp: xp.add.resolve_dtypes,
    "a method that is not implemented": lambda xp: xp.multiply.at(_array(), _array("int64"), 2.0),
    "a dtype for which a method is not": lambda xp: xp.add.at(
        _array("complex64"), _array("int64"), _array("complex64")
    ),
    "an array of NumPy": lambda xp: xp.add(_array(), np.ones(3)),
    "an array of NumPy in a list": lambda xp: xp.concatenate([_array(), np.ones(3)]),
    "a dtype without a loop": lambda xp: xp.bitwise_and(_array("float64"), _array("float64")),
    "a dtype without arrays": lambda xp: CheckedArray(np.ones(3, ef.bfloat16.dtype)),
    "an array that is to become NumPy's": lambda xp: np.asarray(_array()),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_are_seen(name: str) -> None:
    with pytest.raises(LacksError):
        WRONG[name](CheckedCupy())


@pytest.mark.skipif(importlib.util.find_spec("cupy") is None, reason="needs CuPy, but no GPU")
def test_the_signatures_are_those_of_cupy() -> None:
    cupy = importlib.import_module("cupy")
    from tools.cupy_signatures import signatures

    assert signatures(cupy) == SIGNATURES
