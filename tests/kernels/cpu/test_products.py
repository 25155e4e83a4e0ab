"""Products with a matrix that stays, against single products."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from eagerflow_kernels.cpu import products
from eagerflow_kernels.cpu.products import RepeatedFactor, matmul


def _factors(rows: int, inner: int, columns: int, dtype: str = "float32") -> tuple[Any, Any]:
    rng = np.random.default_rng(rows + inner + columns)
    x1, x2 = rng.normal(size=(rows, inner)), rng.normal(size=(columns, inner))
    return x1.astype(dtype), x2.astype(dtype).T


def _assert_same(repeated: RepeatedFactor, x1: Any, x2: Any) -> None:
    for _ in range(5):
        got, want = repeated(x1), matmul(x1, x2)
        assert got.tobytes() == want.tobytes()
        assert got.strides == want.strides


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 4, 8, 17, 64, 200])
@pytest.mark.parametrize(("inner", "columns"), [(32, 64), (64, 256), (100, 130), (2, 3)])
def test_products_have_the_bits_of_single_ones(
    rows: int, inner: int, columns: int, dtype: str
) -> None:
    x1, x2 = _factors(rows, inner, columns, dtype)
    _assert_same(RepeatedFactor(x2), x1, x2)


@pytest.mark.parametrize("same", [True, False])
def test_a_copy_is_used_only_where_it_gives_the_same_bits(
    same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is tried once for each type of product."""
    tried = []
    monkeypatch.setattr(products, "_same_bits", {})
    monkeypatch.setattr(products, "_have_same_bits", lambda *key: tried.append(key) or same)
    x1, x2 = _factors(8, 64, 256)
    repeated, copies = RepeatedFactor(x2), []
    real = np.matmul
    monkeypatch.setattr(
        products, "_matmul", lambda x, y: copies.append(y.flags.c_contiguous) or real(x, y)
    )
    for _ in range(6):
        repeated(x1)
    assert len(tried) == 1
    assert copies == [False, False, *[same] * 4]


def test_bits_are_compared_for_each_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS adds in the same order with two threads, but not with one, for some sizes.

    The number may change in the middle of a loop.
    """
    blas = SimpleNamespace(threads=2)
    monkeypatch.setattr(products, "_thread_counts", lambda: [lambda: blas.threads])
    monkeypatch.setattr(products, "_same_bits", {})
    monkeypatch.setattr(products, "_have_same_bits", lambda *_key: blas.threads == 2)
    real, (x1, x2) = np.matmul, _factors(8, 64, 256)
    copies: list[bool] = []
    monkeypatch.setattr(
        products, "_matmul", lambda x, y: copies.append(y.flags.c_contiguous) or real(x, y)
    )
    repeated = RepeatedFactor(x2)
    for blas.threads in (2, 2, 2, 1, 2, 1):
        repeated(x1)
    assert copies == [False, False, True, False, True, False]


def test_libraries_tell_their_threads() -> None:
    with threadpool_limits(1, user_api="blas"):
        assert {count() for count in products._thread_counts()} == {1}


@pytest.mark.parametrize("layer", ["openmp", "pthreads"])
def test_a_library_that_cannot_be_called_directly_tells_its_threads(layer: str) -> None:
    library = SimpleNamespace(
        check_symbols=["threads"], dynlib=object(), internal_api="openblas", threading_layer=layer,
        get_num_threads=lambda: 3,
    )  # fmt: skip
    assert products._thread_count(library)() == 3


@pytest.mark.parametrize("rows", [46, 64])
def test_a_matrix_times_its_transpose(rows: int) -> None:
    """NumPy calls `syrk` for that, and `gemm` with a copy."""
    x1 = _factors(rows, rows, 1, "float64")[0]
    _assert_same(RepeatedFactor(x1.T), x1, x1.T)
    _assert_same(RepeatedFactor(x1.T), x1.copy(), x1.T)


def test_bits_that_differ_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    key = 8, (64, 256), np.dtype("float32")
    real = np.matmul

    def other(x1: Any, x2: Any) -> Any:
        """A product that adds in another order where a matrix lies by rows."""
        return real(x1[:, ::-1], x2[::-1]) if x2.flags.c_contiguous else real(x1, x2)

    monkeypatch.setattr(products, "_matmul", other)
    assert not products._have_same_bits(*key)


@pytest.mark.parametrize(
    "x2",
    [
        pytest.param(np.ones((64, 256), np.float32), id="by rows"),
        pytest.param(np.ones((256, 64), np.int32).T, id="integers"),
        pytest.param(np.ones((2, 256, 64), np.float32).transpose(0, 2, 1), id="several"),
        pytest.param(np.ones((1024, 1024), np.float32).T, id="large"),
    ],
)
def test_other_matrices_are_not_copied(x2: Any) -> None:
    repeated = RepeatedFactor(x2)
    x1 = np.ones((8, x2.shape[-2]), x2.dtype)
    _assert_same(repeated, x1, x2)
    assert repeated._rows is None


def test_other_first_factors() -> None:
    x1, x2 = _factors(8, 64, 256)
    repeated = RepeatedFactor(x2)
    _assert_same(repeated, x1, x2)
    assert repeated._rows is not None
    for other in (x1[::2], x1.T[:, :1].T, x1[0], np.stack([x1, x1]), np.asfortranarray(x1)):
        _assert_same(repeated, other, x2)
    with pytest.raises(ValueError, match="mismatch"):
        repeated(x1[:, :5].copy())
