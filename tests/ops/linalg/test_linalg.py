"""Linear algebra beyond the table: free phases, singular matrices, zero norms, refusals."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eagerflow as ef
from eagerflow.core.infer import infer
from eagerflow.core.op import get_op
from eagerflow.errors import (
    AxisError,
    DTypeError,
    EagerflowError,
    ShapeError,
    TensorValueError,
)
from eagerflow.types import TensorType, as_dtype
from eagerflow_kernels import table
from tests.messages import says
from tests.numeric import numeric_vjp_check

linalg = ef.linalg


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def _complex(rng: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def _adjoint(x: Any) -> Any:
    return ef.conj(x).mT


# --- the namespace --------------------------------------------------------------------------


def test_namespace_has_its_names_and_no_others() -> None:
    assert sorted(dir(linalg)) == sorted(linalg.__all__)
    with pytest.raises(AttributeError, match="did you mean 'cholesky'"):
        _ = linalg.chol
    assert linalg.matmul is ef.matmul
    assert linalg.matrix_transpose is ef.matrix_transpose


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("eigh", ("eigenvalues", "eigenvectors")),
        ("eig", ("eigenvalues", "eigenvectors")),
        ("qr", ("Q", "R")),
        ("slogdet", ("sign", "logabsdet")),
        ("svd", ("U", "S", "Vh")),
    ],
)
def test_results_have_names(name: str, fields: tuple[str, ...]) -> None:
    result = getattr(linalg, name)(ef.eye(2))
    assert result._fields == fields


# --- products -------------------------------------------------------------------------------


def test_product_of_transposed_views_makes_no_copy() -> None:
    x = ef.ones((400, 400))
    np.matmul(x.numpy().T, x.numpy())  # BLAS takes its buffers at the first call
    tracemalloc.start()
    try:
        result = x.T @ x
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < result.nbytes * 1.1


def test_batch_times_matrix_is_the_same_as_one_by_one(rng: np.random.Generator) -> None:
    x, w = ef.tensor(rng.standard_normal((3, 4, 5))), ef.tensor(rng.standard_normal((5, 2)))
    got = (x @ w).numpy()
    want = np.stack([part.numpy() @ w.numpy() for part in x])
    np.testing.assert_allclose(got, want, rtol=1e-13)
    column = (x @ w[:, 0]).numpy()
    np.testing.assert_allclose(column, want[..., 0], rtol=1e-13)


def test_half_precision_sums_in_single() -> None:
    ones = ef.ones(4096, dtype=ef.float16)
    assert (ones @ ones).item() == 4096
    assert linalg.vecdot(ones, ones).item() == 4096


def test_axis_of_vectors_counts_from_the_front_if_it_is_the_same_of_both() -> None:
    x, y = ef.tensor([[1.0, 2.0], [3.0, 4.0]]), ef.tensor([[1.0, 1.0], [0.0, 2.0]])
    assert ef.vecdot(x, y, axis=0).tolist() == [1.0, 10.0]
    assert ef.cross(ef.eye(3), ef.ones((3, 3)), axis=0).shape == (3, 3)


def test_operands_promote() -> None:
    assert (ef.tensor([1, 2]) @ ef.tensor([0.5, 0.5])).dtype is ef.float32
    assert linalg.solve(ef.eye(2, dtype=ef.float64), ef.tensor([1.0, 2.0])).dtype is ef.float64
    assert linalg.inv(ef.tensor([[2]])).dtype is ef.float32
    assert (ef.tensor([True, False]) @ ef.tensor([True, True])).dtype is ef.bool


# --- functions without the free phase ------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_gradient_of_complex_svd(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    def squared(x: Any) -> Any:
        u, s, vh = linalg.svd(x, full_matrices=False)
        return (u * (s**2)[..., None, :]) @ vh

    def projector(x: Any) -> Any:
        u, _, vh = linalg.svd(x, full_matrices=False)
        return u[..., :1] @ vh[..., :1, :], u[..., 1:2] @ _adjoint(u[..., 1:2])

    for function in (squared, projector):
        numeric_vjp_check(function, [_complex(rng, *shape)], [0], rng, order=2)


def test_gradient_of_complex_eigh(rng: np.random.Generator) -> None:
    def function(x: Any) -> Any:
        values, vectors = linalg.eigh(x)
        return (vectors * ef.exp(values / 4)[..., None, :]) @ _adjoint(vectors), values

    def projector(x: Any) -> Any:
        vectors = linalg.eigh(x).eigenvectors
        return vectors[..., :1] @ _adjoint(vectors[..., :1])

    for f in (function, projector):
        numeric_vjp_check(f, [_complex(rng, 2, 3, 3)], [0], rng, order=2)


@pytest.mark.parametrize("real", [True, False])
def test_gradient_of_eig(real: bool, rng: np.random.Generator) -> None:
    x = _complex(rng, 3, 3)

    def function(x: Any) -> Any:
        values, vectors = linalg.eig(x)
        order = ef.argsort(ef.imag(values) + 2 * ef.real(values))
        vectors = ef.take(vectors, order, axis=-1)
        return ef.abs(vectors) ** 2, ef.take(values, order, axis=-1)

    numeric_vjp_check(function, [x.real if real else x], [0], rng, order=2)


# --- where the derivative is special -------------------------------------------------------


def test_singular_values_of_a_full_svd_have_a_gradient(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 2))
    numeric_vjp_check(lambda x: linalg.svd(x).S, [x], [0], rng, order=1)
    numeric_vjp_check(lambda x: linalg.svd(x).Vh, [x], [0], rng, order=1)
    added = ef.grad(lambda x: linalg.svd(x).U[:, 2:].sum())(ef.tensor(x))
    np.testing.assert_array_equal(added.numpy(), np.zeros((4, 2)))


def test_r_of_a_complete_qr_has_a_gradient(rng: np.random.Generator) -> None:
    x = rng.standard_normal((4, 2))
    numeric_vjp_check(lambda x: linalg.qr(x, mode="complete").R, [x], [0], rng, order=1)
    added = ef.grad(lambda x: linalg.qr(x, mode="complete").Q[:, 2:].sum())(ef.tensor(x))
    np.testing.assert_array_equal(added.numpy(), np.zeros((4, 2)))


def test_equal_eigenvalues_have_a_gradient() -> None:
    g = ef.grad(lambda x: linalg.eigvalsh(x).sum())(ef.eye(3))
    np.testing.assert_allclose(g.numpy(), np.eye(3), atol=1e-6)
    g = ef.grad(lambda x: linalg.eigh(x).eigenvalues.sum())(ef.eye(3))
    np.testing.assert_allclose(g.numpy(), np.eye(3), atol=1e-6)
    g = ef.grad(lambda x: linalg.svd(x).S.sum())(ef.eye(3))
    np.testing.assert_allclose(g.numpy(), np.eye(3), atol=1e-6)


def test_pinv_with_equal_singular_values_has_a_gradient(rng: np.random.Generator) -> None:
    q = np.linalg.qr(rng.standard_normal((4, 3)))[0]
    numeric_vjp_check(linalg.pinv, [q], [0], rng, order=2)


@pytest.mark.parametrize("order", [2, 1, 3, 1.5, 0.5, np.inf, -np.inf, 0, -1])
def test_gradient_of_a_norm_is_zero_at_zero(order: float) -> None:
    x = ef.zeros(3, dtype=ef.float64)

    def norm(x: Any) -> Any:
        return linalg.vector_norm(x, ord=order)

    np.testing.assert_array_equal(ef.grad(norm)(x).numpy(), np.zeros(3))
    second = ef.grad(lambda x: ef.grad(norm)(x).sum())(x) if order == 2 else x
    np.testing.assert_array_equal(second.numpy(), np.zeros(3))


def test_gradient_of_norms_of_rows_some_zero() -> None:
    x = ef.tensor([[3.0, 4.0], [0.0, 0.0]])
    g = ef.grad(lambda x: linalg.vector_norm(x, axis=1).sum())(x)
    np.testing.assert_allclose(g.numpy(), [[0.6, 0.8], [0.0, 0.0]])
    g = ef.grad(lambda x: linalg.matrix_norm(x))(ef.zeros((2, 2)))
    np.testing.assert_array_equal(g.numpy(), np.zeros((2, 2)))


def test_largest_elements_share_the_gradient_of_the_norm() -> None:
    g = ef.grad(lambda x: linalg.vector_norm(x, ord=np.inf))(ef.tensor([2.0, -2.0, 1.0]))
    np.testing.assert_array_equal(g.numpy(), [0.5, -0.5, 0.0])


def test_norms_neither_overflow_nor_vanish() -> None:
    x = ef.tensor([3e30, 4e30])
    np.testing.assert_allclose(linalg.vector_norm(x, ord=3).item(), 91 ** (1 / 3) * 1e30, rtol=1e-5)
    x = ef.tensor([3e-30, 4e-30])
    np.testing.assert_allclose(
        linalg.vector_norm(x, ord=3).item(), 91 ** (1 / 3) * 1e-30, rtol=1e-5
    )
    assert linalg.vector_norm(ef.tensor([0.0, 2.0]), ord=-1).item() == 0
    assert linalg.vector_norm(ef.tensor([ef.inf, 2.0]), ord=3).item() == ef.inf


@pytest.mark.parametrize("n", [2, 3])
def test_gradient_of_the_determinant_of_singular_matrices(n: int) -> None:
    g = ef.grad(linalg.det)(ef.zeros((n, n), dtype=ef.float64))
    np.testing.assert_array_equal(g.numpy(), np.zeros((n, n)))
    x = ef.tensor(np.diag([0.0] + [2.0] * (n - 1)))
    want = np.zeros((n, n))
    want[0, 0] = 2.0 ** (n - 1)
    np.testing.assert_allclose(ef.grad(linalg.det)(x).numpy(), want, atol=1e-12)


def test_slogdet_of_a_singular_matrix() -> None:
    sign, logabsdet = linalg.slogdet(ef.zeros((2, 2)))
    assert sign.item() == 0
    assert logabsdet.item() == -ef.inf
    with pytest.raises(TensorValueError, match="inv: the matrix is singular"):
        ef.grad(lambda x: linalg.slogdet(x).logabsdet)(ef.zeros((2, 2)))


def test_only_one_triangle_is_read() -> None:
    a = ef.tensor([[2.0, ef.nan], [1.0, 4.0]])
    assert linalg.triangular_solve(a, [2.0, 2.0]).tolist() == [1.0, 0.25]
    assert linalg.triangular_solve(a.mT, [2.0, 2.0], lower=False).tolist() == [0.75, 0.5]
    a = ef.tensor([[ef.nan, 0.0], [1.0, ef.nan]])
    got = linalg.triangular_solve(a, [2.0, 2.0], unit_diagonal=True)
    assert got.tolist() == [2.0, 0.0]


def test_portable_triangular_solve_is_the_same(rng: np.random.Generator) -> None:
    a, b = _complex(rng, 2, 17, 17) + 17 * np.eye(17), _complex(rng, 3, 1, 17, 2)
    portable: Any = table.portable_kernel("triangular_solve")
    for lower in (True, False):
        for adjoint in (True, False):
            for unit in (True, False):
                how = {"lower": lower, "adjoint": adjoint, "unit_diagonal": unit}
                for x in (a, a.swapaxes(-1, -2).copy().swapaxes(-1, -2)):
                    got = linalg.triangular_solve(ef.asarray(x), ef.asarray(b), **how)
                    np.testing.assert_allclose(got.numpy(), portable(np, a, b, **how), rtol=1e-9)
    with pytest.raises(ValueError, match="the matrix is singular"):
        portable(np, np.zeros((2, 2)), np.ones((2, 1)), lower=True, adjoint=False,
                 unit_diagonal=False)  # fmt: skip


def test_portable_vecdot_is_the_same(rng: np.random.Generator) -> None:
    a, b = _complex(rng, 2, 3), _complex(rng, 3)
    portable: Any = table.portable_kernel("vecdot")
    np.testing.assert_allclose(ef.vecdot(ef.asarray(a), ef.asarray(b)).numpy(), portable(np, a, b))


# --- sizes of zero --------------------------------------------------------------------------


def test_empty_matrices() -> None:
    nothing, tall = ef.zeros((2, 0, 0)), ef.zeros((3, 0))
    assert linalg.det(nothing).tolist() == [1, 1]
    assert linalg.inv(nothing).shape == (2, 0, 0)
    assert linalg.expm(nothing).shape == (2, 0, 0)
    assert linalg.cholesky(nothing).shape == (2, 0, 0)
    assert linalg.solve(nothing, ef.zeros((2, 0, 3))).shape == (2, 0, 3)
    assert linalg.triangular_solve(nothing, ef.zeros((0, 3))).shape == (2, 0, 3)
    assert [x.shape for x in linalg.svd(tall)] == [(3, 3), (0,), (0, 0)]
    assert [x.shape for x in linalg.qr(tall)] == [(3, 0), (0, 0)]
    assert [x.shape for x in linalg.eigh(nothing)] == [(2, 0), (2, 0, 0)]
    assert linalg.pinv(tall).shape == (0, 3)
    assert linalg.matrix_rank(tall).item() == 0
    assert linalg.matrix_norm(tall, ord=2).item() == 0
    assert linalg.matrix_norm(tall, ord=1).item() == 0
    assert linalg.vector_norm(ef.zeros(0), ord=np.inf).item() == 0
    assert linalg.vector_norm(ef.zeros(0), ord=-2).item() == ef.inf
    assert (ef.zeros((2, 0)) @ ef.zeros((0, 3))).tolist() == [[0] * 3] * 2
    assert ef.grad(lambda x: linalg.svdvals(x).sum())(tall).shape == (3, 0)
    assert ef.grad(lambda x: linalg.qr(x).R.sum())(tall).shape == (3, 0)


def test_types_without_data() -> None:
    x = ef.zeros((2, 4, 3), dtype=ef.complex64, device="null:0")
    square = x.mT @ x
    assert str(square.type) == "c64[2,3,3]@null:0"
    assert [str(y.type) for y in linalg.svd(x, full_matrices=False)] == [
        "c64[2,4,3]@null:0", "f32[2,3]@null:0", "c64[2,3,3]@null:0",
    ]  # fmt: skip
    assert str(linalg.eigh(square).eigenvalues.type) == "f32[2,3]@null:0"
    assert str(linalg.solve(square, x.mT).type) == "c64[2,3,4]@null:0"
    assert str(linalg.pinv(x).type) == "c64[2,3,4]@null:0"


# --- refusals -------------------------------------------------------------------------------

_M, _V = ef.eye(2), ef.ones(2)
REFUSALS: list[tuple[Callable[[], Any], type[EagerflowError], str]] = [
    (lambda: ef.ones((1, 2)) @ ef.ones((1, 2)), ShapeError,
     r"matmul: inner dimensions differ \(2 and 1\)\n  got: x1=f32\[1,2\]@cpu:0, x2=f32"),
    (lambda: ef.ones(2) @ ef.ones(3), ShapeError, r"inner dimensions differ \(2 and 3\)"),
    (lambda: ef.matmul(_V, 2.0), ShapeError, "matmul: x2 has no axes"),
    (lambda: ef.ones((2, 2, 2)) @ ef.ones((3, 2, 2)), ShapeError, "cannot be broadcast"),
    (lambda: ef.matmul(_M, ef.zeros((2, 2), dtype=ef.float8_e5m2).astype("float8_e4m3fn")
                       @ ef.zeros((2, 2), dtype=ef.float8_e5m2)), DTypeError, "no common dtype"),
    (lambda: ef.tensordot(ef.ones((2, 3)), ef.ones((3, 2))), ShapeError,
     r"sum over differ in size \(\(2, 3\) and \(3, 2\)\)"),
    (lambda: ef.tensordot(_M, _V), AxisError, "cannot sum over 2 axes"),
    (lambda: ef.tensordot(_M, _M, axes=-1), AxisError, "cannot sum over -1 axes"),
    (lambda: ef.tensordot(_M, _M, axes=((0,), (2,))), AxisError, "axis 2 is out of range"),
    (lambda: ef.tensordot(_M, _M, axes=((0,),)), ShapeError, "must be those of two arrays"),
    (lambda: ef.vecdot(_V, ef.ones(3)), ShapeError, "2 and 3 elements"),
    (lambda: ef.vecdot(_V, ef.ones(1)), ShapeError, "2 and 1 elements"),
    (lambda: ef.vecdot(ef.tensor(True), ef.tensor(True)), AxisError, "axis -1"),
    (lambda: ef.vecdot(_M, _V, axis=0), AxisError, "not the same axis of both"),
    (lambda: ef.cross([True] * 3, [True] * 3), DTypeError, "cross: no rule for bool"),
    (lambda: ef.cross(_V, _V), ShapeError, "cross: the vectors have 2 and 2 elements"),
    (lambda: ef.diag(ef.ones((2, 2, 2))), ShapeError, "neither a vector nor a matrix"),
    (lambda: linalg.diagonal(_V), ShapeError, "diagonal: needs a matrix"),
    (lambda: ef.diagonal(_M, 0, 1, -1), ShapeError, "axis1 and axis2 are the same"),
    (lambda: linalg.trace(_V), ShapeError, "diagonal: needs a matrix"),
    (lambda: linalg.inv(ef.ones((2, 3))), ShapeError, r"inv: .* not square \(2 by 3\)"),
    (lambda: linalg.inv(_V), ShapeError, "inv: x is not a matrix"),
    (lambda: linalg.inv(ef.zeros((2, 2))), TensorValueError, "inv: the matrix is singular"),
    (lambda: linalg.inv(ef.zeros((3, 2, 2))), TensorValueError, "inv: the matrix is singular"),
    (lambda: linalg.solve(ef.zeros((2, 2)), _V), TensorValueError, "the matrix is singular"),
    (lambda: linalg.solve(_M, ef.ones(3)), ShapeError, "x1 has 2 equations, x2 has 3"),
    (lambda: linalg.solve(_M, 1.0), ShapeError, "right-hand side has no axes"),
    (lambda: linalg.triangular_solve(ef.zeros((2, 2)), _V), TensorValueError, "is singular"),
    (lambda: linalg.det(ef.ones((2, 3))), ShapeError, "det: .* not square"),
    (lambda: linalg.slogdet(ef.ones((2, 3))), ShapeError, "slogdet: .* not square"),
    (lambda: linalg.matrix_power(ef.ones((2, 3)), 2), ShapeError, "matrix_power: .* not square"),
    (lambda: linalg.expm(ef.ones((2, 3))), ShapeError, "expm: .* not square"),
    (lambda: linalg.matrix_power(_M, 0.5), DTypeError, "n must be an integer"),
    (lambda: linalg.matrix_power(ef.zeros((2, 2)), -1), TensorValueError, "is singular"),
    (lambda: linalg.cholesky(-_M), TensorValueError, "cholesky: .* not positive definite"),
    (lambda: linalg.cholesky(ef.ones((2, 3))), ShapeError, "cholesky: .* not square"),
    (lambda: linalg.qr(_V), ShapeError, "qr: x is not a matrix"),
    (lambda: linalg.qr(_M, mode="r"), TensorValueError, "'r' is not a mode"),
    (lambda: linalg.eigh(ef.ones((2, 3))), ShapeError, "eigh: .* not square"),
    (lambda: linalg.eig(ef.full((2, 2), ef.nan)), TensorValueError, "did not converge"),
    (lambda: linalg.svd(ef.full((2, 2), ef.nan)), TensorValueError, "did not converge"),
    (lambda: linalg.svdvals(_V), ShapeError, "svdvals: x is not a matrix"),
    (lambda: linalg.pinv(_V), ShapeError, "pinv: needs a matrix"),
    (lambda: linalg.pinv(ef.ones((3, 2, 2)), rtol=_V), ShapeError, "pinv: shapes cannot"),
    (lambda: linalg.matrix_rank(_V), ShapeError, "matrix_rank: needs a matrix"),
    (lambda: linalg.vector_norm(_V, axis=1), AxisError, "vector_norm: axis 1"),
    (lambda: linalg.vector_norm(_V, ord="fro"), TensorValueError, "'fro' is not an order"),
    (lambda: linalg.matrix_norm(_V), ShapeError, "matrix_norm: needs a matrix"),
    (lambda: linalg.matrix_norm(_M, ord=3), TensorValueError, "3 is not an order"),
    (lambda: linalg.norm(ef.ones((2, 2, 2)), ord=1), ShapeError, "norm: of 3 axes"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "text"), REFUSALS)
def test_refusals(call: Callable[[], Any], error: type[EagerflowError], text: str) -> None:
    with pytest.raises(error, check=says(text)):
        call()


def _type(*shape: int, dtype: str = "float32") -> TensorType:
    return TensorType(as_dtype(dtype), shape)


@pytest.mark.parametrize(
    ("name", "types", "error", "text"),
    [
        (
            "vecdot",
            (_type(2, 3), _type(2)),
            ShapeError,
            "vecdot: the vectors have 3 and 2 elements",
        ),
        ("cross", (_type(2), _type(2)), ShapeError, "cross: the vectors have 2 and 2 elements"),
        ("matmul", (_type(2), _type(2, dtype="float64")), DTypeError, "the dtypes differ"),
        ("pinv", (_type(2, 2), _type(dtype="float64")), DTypeError, "rtol has another dtype"),
    ],
)
def test_rules_refuse_what_public_functions_never_bind(
    name: str, types: tuple[TensorType, ...], error: type[EagerflowError], text: str
) -> None:
    with pytest.raises(error, match=text):
        infer(get_op(name), types, {})


@pytest.mark.parametrize(
    "name", ["adjugate", "cholesky", "det", "eig", "eigh", "eigvalsh", "expm", "inv", "slogdet"]
)
@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (3, 1), (0, 1), (1, 0), (2, 0, 1)])
def test_matrices_that_are_not_square_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="not square"):
        getattr(ef.linalg, name)(ef.ones(shape))


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (3, 2)), ((3, 3), (4, 2)), ((3, 3), (2, 2)), ((1, 1), (0, 2))]
)
def test_triangular_systems_of_other_sizes_are_refused(
    a: tuple[int, ...], b: tuple[int, ...]
) -> None:
    with pytest.raises(ShapeError, match="triangular_solve: "):
        ef.linalg.triangular_solve(ef.eye(*a), ef.ones(b))
