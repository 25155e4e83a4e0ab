"""Arrangement of elements: views, forms of arguments, and refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from tests.messages import says

X = ef.reshape(ef.arange(24.0), (2, 3, 4))

# --- memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.reshape(4, -1),
        lambda x: ef.ravel(x),
        lambda x: x.T,
        lambda x: x.mT,
        lambda x: ef.broadcast_to(x, (5, 2, 3, 4)),
        lambda x: ef.expand_dims(x, 1),
        lambda x: ef.squeeze(ef.expand_dims(x, 1)),
        lambda x: ef.flip(x),
        lambda x: ef.moveaxis(x, 0, 2),
        lambda x: ef.unstack(x)[1],
        lambda x: ef.split(x, 3, axis=1)[1],
        lambda x: ef.rot90(x),
    ],
)
def test_views_share_memory(function: Callable[[ef.Tensor], ef.Tensor]) -> None:
    y = function(X)
    assert y is not X
    assert np.shares_memory(y.numpy(), X.numpy())


def test_an_updated_handle_leaves_its_views_alone() -> None:
    x = ef.arange(4)
    view = x.reshape(2, 2)
    x[0] = 9
    assert view.tolist() == [[0, 1], [2, 3]]


def test_reshape_copies_as_asked() -> None:
    assert not np.shares_memory(ef.reshape(X, (24,), copy=True).numpy(), X.numpy())
    assert np.shares_memory(ef.reshape(X, (24,), copy=False).numpy(), X.numpy())
    with pytest.raises(errors.TensorValueError, match="a copy is needed"):
        ef.reshape(X.T, (24,), copy=False)
    assert ef.reshape(ef.zeros((0, 2)).T, (0,), copy=False).shape == (0,)


# --- shapes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [24, (24,), [4, 6], (-1, 6), np.int64(-1), (ef.tensor(2), -1)])
def test_what_reshape_takes(shape: object) -> None:
    assert ef.reshape(X, shape).numpy().ravel().tolist() == list(range(24))


@pytest.mark.parametrize(
    ("shape", "wrong"),
    [
        ((5, 5), "24 elements do not fill"),
        ((-1, 5), "24 elements do not fill"),
        ((-1, -1), "only one size can be -1"),
        ((-2, 12), "negative"),
        ((-1, 0), "do not fill"),
    ],
)
def test_shapes_that_reshape_refuses(shape: tuple[int, ...], wrong: str) -> None:
    with pytest.raises(errors.ShapeError, match=wrong) as caught:
        ef.reshape(X, shape)
    assert str(caught.value).startswith("reshape: ")


def test_methods() -> None:
    assert X.reshape(6, 4).shape == X.reshape((6, 4)).shape == (6, 4)
    assert X.transpose(1, 0, 2).shape == X.transpose((1, 0, 2)).shape == (3, 2, 4)
    assert X.T.shape == (4, 3, 2)
    assert X.flatten().shape == X.ravel().shape == (24,)
    assert X[:1].squeeze().shape == X[:1].squeeze(0).shape == (3, 4)
    assert X.swapaxes(0, 1).shape == (3, 2, 4)
    assert X.repeat(2, axis=1).shape == (2, 6, 4)
    assert ef.zeros(()).T.shape == ()


def test_broadcasting() -> None:
    assert ef.broadcast_shapes() == ()
    assert ef.broadcast_shapes((2, 1), 3, (1, 1, 1)) == (1, 2, 3)
    assert ef.broadcast_arrays() == ()
    x, y = ef.broadcast_arrays(ef.zeros((2, 1), dtype=ef.int8), ef.zeros(3))
    assert (str(x.type), str(y.type)) == ("i8[2,3]@cpu:0", "f32[2,3]@cpu:0")
    for call in (
        lambda: ef.broadcast_shapes((2,), (3,)),
        lambda: ef.broadcast_arrays(ef.zeros(2), ef.zeros(3)),
        lambda: ef.broadcast_to(ef.zeros(2), (3,)),
        lambda: ef.broadcast_to(ef.zeros((2, 2)), (2,)),
        lambda: ef.broadcast_to(ef.zeros((2, 2)), (2, 1)),
    ):
        with pytest.raises(errors.ShapeError, check=says("broadcast")):
            call()


def test_a_broadcast_view_can_be_used_and_not_written() -> None:
    x = ef.broadcast_to(ef.tensor([1.0, 2.0]), (3, 2))
    x[0] = 7.0
    assert x.tolist() == [[7, 7], [1, 2], [1, 2]]


# --- axes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("permute_dims", lambda: ef.permute_dims(X, (0, 1, 3))),
        ("permute_dims", lambda: ef.permute_dims(X, (0, 1, 1))),
        ("permute_dims", lambda: ef.permute_dims(X, (0, 1))),
        ("swapaxes", lambda: ef.swapaxes(X, 0, 3)),
        ("moveaxis", lambda: ef.moveaxis(X, -4, 0)),
        ("moveaxis", lambda: ef.moveaxis(X, (0, 0), (0, 1))),
        ("squeeze", lambda: ef.squeeze(X, 3)),
        ("expand_dims", lambda: ef.expand_dims(X, 4)),
        ("expand_dims", lambda: ef.expand_dims(X, (0, -5))),
        ("flip", lambda: ef.flip(X, axis=3)),
        ("roll", lambda: ef.roll(X, 1, axis=(0, 0))),
        ("repeat", lambda: ef.repeat(X, 2, axis=-4)),
        ("unstack", lambda: ef.unstack(ef.zeros(()))),
        ("stack", lambda: ef.stack([X], axis=4)),
        ("concat", lambda: ef.concat([X], axis=3)),
        ("split", lambda: ef.split(X, 2, axis=5)),
        ("rot90", lambda: ef.rot90(X, axes=(1, -2))),
        ("rot90", lambda: ef.rot90(X, axes=(0, 1, 2))),
    ],
)
def test_axes_that_are_none(name: str, call: Callable[[], object]) -> None:
    with pytest.raises(errors.AxisError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(f"{name}: ")
    assert "got: " in message
    assert caught.value.source is not None
    assert __file__ in str(caught.value)


@pytest.mark.parametrize("axis", [0.5, "a", (0, 1.5)])
def test_axes_are_integers(axis: object) -> None:
    with pytest.raises(errors.DTypeError, match=r"flip: axis must be"):
        ef.flip(X, axis=axis)


def test_axes_may_be_any_integers() -> None:
    for axis in (np.int8(1), ef.tensor(1), [1], (-2,)):
        assert ef.flip(X, axis=axis)[0, 0, 0].item() == 8


def test_only_axes_of_size_one_go() -> None:
    with pytest.raises(errors.ShapeError, match=r"squeeze: axis 1 has size 3"):
        ef.squeeze(X, (1,))
    assert ef.squeeze(X).shape == X.shape


def test_moveaxis_takes_as_many_places_as_axes() -> None:
    with pytest.raises(errors.ShapeError, match="differ in number"):
        ef.moveaxis(X, (0, 1), 2)


@pytest.mark.parametrize("axes", [*itertools.permutations(range(3))])
def test_moveaxis_as_numpy_has_it(axes: tuple[int, ...]) -> None:
    for n in range(4):
        got = ef.moveaxis(X, axes[:n], tuple(range(n)))
        assert got.shape == np.moveaxis(X.numpy(), axes[:n], tuple(range(n))).shape


def test_matrices_only() -> None:
    with pytest.raises(errors.ShapeError, check=says("matrix_transpose")):
        ef.matrix_transpose(ef.zeros(3))


def test_atleast() -> None:
    for n, function in enumerate((ef.atleast_1d, ef.atleast_2d, ef.atleast_3d), 1):
        for shape in ((), (2,), (2, 3), (2, 3, 4), (2, 3, 4, 5)):
            want = getattr(np, f"atleast_{n}d")(np.zeros(shape)).shape
            assert function(ef.zeros(shape)).shape == want
        assert [x.ndim for x in function(1, [2])] == [n, n]


# --- joining and cutting --------------------------------------------------------------------


def test_joining_promotes() -> None:
    x, y = ef.tensor([1], dtype=ef.int8), ef.tensor([2.5], dtype=ef.float16)
    assert ef.concat([x, y]).dtype is ef.stack((x, y)).dtype is ef.float16
    assert ef.stack([x[0], 3]).dtype is ef.int8  # a Python number is weak
    assert ef.hstack([1, 2.5]).tolist() == [1, 2.5]
    with pytest.raises(errors.DTypeError, match="no common dtype"):
        ef.concat([ef.zeros(1, dtype=ef.int64), ef.zeros(1, dtype=ef.uint64)])


@pytest.mark.parametrize("function", [ef.concat, ef.stack, ef.hstack, ef.vstack])
def test_joining_nothing(function: Callable[[object], object]) -> None:
    with pytest.raises(errors.ShapeError, match="at least one array"):
        function([])
    with pytest.raises(errors.DTypeError, match="sequence"):
        function(3)


def test_joining_takes_any_iterable() -> None:
    assert ef.stack(ef.tensor([i]) for i in range(2)).tolist() == [[0], [1]]
    assert ef.concat(ef.tensor([[1], [2]])).tolist() == [1, 2]


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda: ef.concat([ef.zeros((2, 3)), ef.zeros((2, 4))]), "concat: the shapes differ"),
        (lambda: ef.concat([ef.zeros((2, 3)), ef.zeros(3)]), "concat: the shapes differ"),
        (lambda: ef.concat([ef.zeros(()), ef.zeros(())]), "concat: an array with no axes"),
        (lambda: ef.stack([ef.zeros(2), ef.zeros(3)]), "stack: the shapes differ"),
        (lambda: ef.tensor([[ef.zeros(2)], [ef.zeros(3)]]), "stack: the shapes differ"),
        (lambda: ef.split(X, 5), "split: 5 sections do not divide axis 0"),
        (lambda: ef.split(X, 0), "split: needs at least one section"),
        (lambda: ef.split(X, [2, 1], axis=2), "split: the indices must not decrease"),
    ],
)
def test_parts_that_do_not_fit(call: Callable[[], object], wrong: str) -> None:
    with pytest.raises(errors.ShapeError) as caught:
        call()
    assert str(caught.value).startswith(wrong)


@pytest.mark.parametrize(
    "where", [2, [1], [0, 2, 2, 9], [-1], range(1, 4, 2), np.array([1, 3]), ef.tensor([2])]
)
def test_cutting_as_numpy_has_it(where: object) -> None:
    x = np.arange(8).reshape(2, 4)
    plain = where.numpy() if isinstance(where, ef.Tensor) else where
    for name in ("split", "array_split"):
        got = getattr(ef, name)(ef.asarray(x), where, axis=1)
        want = getattr(np, name)(x, plain, axis=1)
        assert [p.tolist() for p in got] == [p.tolist() for p in want]
    assert [p.shape[0] for p in ef.array_split(ef.arange(3), 5)] == [1, 1, 1, 0, 0]


def test_parts_that_nothing_uses_have_zero_gradients() -> None:
    x = ef.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert ef.grad(lambda v: ef.unstack(v)[1].sum())(x).tolist() == [[0, 0], [1, 1], [0, 0]]
    assert ef.grad(lambda v: (ef.split(v, [1])[1] * 2).sum())(x).tolist() == [
        [0, 0],
        [2, 2],
        [2, 2],
    ]


def test_joining_one_array_several_times() -> None:
    g = ef.grad(lambda v: (ef.concat([v, v, v]) * ef.arange(6.0)).sum())(ef.tensor([1.0, 1.0]))
    assert g.tolist() == [0 + 2 + 4, 1 + 3 + 5]


# --- moving and repeating -------------------------------------------------------------------


@pytest.mark.parametrize("axis", [(0, 1), (-1, 0)])
def test_shifts_may_be_tensors(axis: tuple[int, int]) -> None:
    rows, shifts = (
        np.arange(60.0).reshape(5, 3, 4),
        np.array([[0, 1], [2, -3], [7, 4], [-1, 0], [3, 8]]),
    )
    want = np.stack([np.roll(x, tuple(n), axis) for x, n in zip(rows, shifts, strict=True)])

    def pair(x: ef.Tensor, n: ef.Tensor) -> ef.Tensor:
        return ef.roll(x, (n[0], n[1]), axis=axis)

    for f in (pair, ef.trace(pair), lambda x, n: ef.roll(x, n, axis=axis)):
        many = ef.vmap(f)
        for result in (many(rows, shifts), ef.trace(many)(rows, shifts)):
            np.testing.assert_array_equal(result, want)
        np.testing.assert_array_equal(f(ef.tensor(rows[1]), ef.tensor(shifts[1])), want[1])
    mixed = ef.roll(rows[1], (2, ef.tensor(-3, dtype="int8")), axis=axis)
    np.testing.assert_array_equal(mixed, want[1])
    assert ef.roll(rows[1], np.array([2, -3]), axis=axis).tolist() == want[1].tolist()
    assert ef.roll(ef.zeros((0, 2)), ef.tensor(1), axis=0).shape == (0, 2)
    assert ef.roll(ef.arange(6), ef.Variable(2)).tolist() == [4, 5, 0, 1, 2, 3]


def test_random_shifts_in_a_trace() -> None:
    @ef.trace
    def moved(images: ef.Tensor) -> ef.Tensor:
        dy, dx = (ef.random.randint((), -2, 3) for _ in range(2))
        return ef.roll(images, (dy, dx), axis=(2, 3))

    images = ef.arange(120.0).reshape((2, 3, 4, 5))
    ef.random.seed(3)
    traced = [moved(images).tolist() for _ in range(4)]
    ef.random.seed(3)
    assert traced == [moved.fn(images).tolist() for _ in range(4)]
    assert traced[0] != traced[1]
    assert len(moved.traces) == 1


def test_shifts_that_are_no_integers() -> None:
    for shift in (ef.tensor(1.0), ef.tensor([True]), np.array([1.5])):
        with pytest.raises(errors.DTypeError, match="roll: the shifts must be integers"):
            ef.roll(X, shift, axis=0)
    with pytest.raises(errors.ShapeError, match="roll: the shifts have more than one axis"):
        ef.roll(X, ef.tensor([[1]]), axis=0)
    with pytest.raises(errors.ShapeError, match="roll: shifts and axes differ in number"):
        ef.roll(X, ef.tensor([1, 2]), axis=0)


def test_roll_pairs_shifts_with_axes() -> None:
    with pytest.raises(errors.ShapeError, match="differ in number"):
        ef.roll(X, (1, 2), axis=0)
    assert ef.roll(ef.zeros((0, 2)), 1, axis=0).shape == (0, 2)
    assert ef.roll(ef.tensor(5), 3).item() == 5


@pytest.mark.parametrize("k", range(-5, 6))
def test_rot90_as_numpy_has_it(k: int) -> None:
    for axes in ((0, 1), (2, 0)):
        want = np.rot90(X.numpy(), k, axes)
        np.testing.assert_array_equal(ef.rot90(X, k, axes).numpy(), want)


def test_repeat_by_an_array() -> None:
    x = ef.tensor([1.0, 2.0, 3.0])
    for dtype in (ef.int8, ef.uint64):
        counts = ef.tensor([2, 0, 1], dtype=dtype)
        assert ef.repeat(x, counts).tolist() == [1, 1, 3]
    g = ef.grad(lambda v: (ef.repeat(v, counts) * ef.tensor([1.0, 10.0, 100.0])).sum())(x)
    assert g.tolist() == [11, 0, 100]
    assert ef.repeat(x, ef.tensor(2)).tolist() == ef.repeat(x, np.int64(2)).tolist()
    assert ef.repeat(ef.zeros(0), ef.zeros(0, dtype=ef.int64)).shape == (0,)


@pytest.mark.parametrize(
    ("repeats", "kind"),
    [
        (-1, errors.TensorValueError),
        (ef.tensor([1, -1]), errors.TensorValueError),
        (ef.tensor([1, 2, 3]), errors.ShapeError),
        (ef.tensor([[1, 2]]), errors.ShapeError),
        (ef.tensor([1.0, 2.0]), errors.DTypeError),
        (1.5, errors.DTypeError),
    ],
)
def test_repeats_that_are_none(repeats: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="repeat: "):
        ef.repeat(ef.tensor([1, 2]), repeats)


def test_tile() -> None:
    x = ef.tensor([[1, 2]])
    for counts in (2, (2,), (2, 1), (1, 1, 3), ()):
        np.testing.assert_array_equal(ef.tile(x, counts).numpy(), np.tile(x.numpy(), counts))
    with pytest.raises(errors.ShapeError, check=says("tile")):
        ef.tile(x, (-1,))


# --- padding --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_pad_as_numpy_has_it(mode: str, size: int) -> None:
    x = np.arange(float(size))
    for before, after in itertools.product((0, 1, 4, 5, 11), repeat=2):
        got = ef.pad(ef.asarray(x), (before, after), mode=mode).numpy()
        np.testing.assert_array_equal(got, np.pad(x, (before, after), mode=mode))


@pytest.mark.parametrize(
    "widths",
    [1, (1, 2), ((1, 2),), ((1, 2), (0, 3)), [[1, 2], [0, 3]], (1,), np.array([[1, 2], [0, 3]])],
)
def test_forms_of_widths(widths: object) -> None:
    x = np.ones((2, 3), np.int8)
    np.testing.assert_array_equal(ef.pad(ef.asarray(x), widths).numpy(), np.pad(x, widths))


@pytest.mark.parametrize(
    ("widths", "options", "kind"),
    [
        (-1, {}, errors.ShapeError),
        ((1, 2, 3), {}, errors.ShapeError),
        (((1, 2), (1, 2), (1, 2)), {}, errors.ShapeError),
        (1.5, {}, errors.DTypeError),
        (1, {"mode": "mirror"}, errors.TensorValueError),
        (1, {"mode": "edge"}, errors.ShapeError),
        (1, {"constant_values": 1j}, errors.DTypeError),
    ],
)
def test_padding_that_is_none(widths: object, options: dict[str, object], kind: type) -> None:
    with pytest.raises(kind, match="pad: "):
        ef.pad(ef.zeros((2, 0)), widths, **options)


def test_pad_of_no_axes_and_no_width() -> None:
    assert ef.pad(ef.tensor(3), 2).item() == 3
    assert ef.pad(ef.zeros((2, 0)), ((1, 1), (0, 0)), mode="edge").shape == (4, 0)
    assert ef.pad(ef.zeros((2, 0)), 1, constant_values=5).tolist() == [[5, 5]] * 4
    with pytest.raises(errors.TensorValueError, check=says("pad")):
        ef.pad(ef.zeros(2, dtype=ef.int8), 1, constant_values=300)


# --- types without values -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "type_"),
    [
        (lambda x: ef.reshape(x, (-1, 2)), "f32[3,2]"),
        (lambda x: ef.concat([x, x], axis=1), "f32[2,6]"),
        (lambda x: ef.stack([x, x], axis=2), "f32[2,3,2]"),
        (lambda x: ef.unstack(x)[0], "f32[3]"),
        (lambda x: ef.split(x, [1], axis=1)[1], "f32[2,2]"),
        (lambda x: ef.tile(x, (2, 2)), "f32[4,6]"),
        (lambda x: ef.repeat(x, 2, axis=0), "f32[4,3]"),
        (lambda x: ef.pad(x, 1), "f32[4,5]"),
        (lambda x: ef.pad(x, (1, 2), mode="reflect"), "f32[5,6]"),
        (lambda x: ef.roll(ef.flip(x), 1), "f32[2,3]"),
        (lambda x: ef.astype(x, ef.bfloat16).mT, "bf16[3,2]"),
        (lambda x: ef.broadcast_to(ef.expand_dims(x, 0), (4, 2, 3)), "f32[4,2,3]"),
    ],
)
def test_null_devices_know_the_types(function: Callable[..., ef.Tensor], type_: str) -> None:
    assert str(function(ef.zeros((2, 3), device="null:0")).type) == f"{type_}@null:0"


@pytest.mark.parametrize("cut", [ef.split, ef.array_split, lambda x, n: ef.unstack(x[None])])
def test_gradient_of_a_cut_into_one_part(cut) -> None:
    x = ef.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert ef.grad(lambda t: (cut(t, 1)[0] ** 2).sum())(x).tolist() == [[2.0, 4.0], [6.0, 8.0]]
    ef.check_grads(lambda t: ef.concat([t]) ** 2, (x,))
    ef.check_grads(lambda t: ef.stack([t]) ** 2, (x,))


def test_expanded_and_repeated_arrays_are_views() -> None:
    x = ef.asarray(np.arange(24.0).reshape(2, 3, 4)[:, ::2, ::-1])
    for axis in (0, 1, -1, (0, 2), (-1, 0)):
        got = ef.expand_dims(x, axis)
        np.testing.assert_array_equal(got.numpy(), np.expand_dims(x.numpy(), axis))
        assert np.shares_memory(got.numpy(), x.numpy())
    wide = ef.asarray(np.arange(6.0).reshape(2, 1, 3)[:, :, ::2])
    for part, shape in (
        (wide, (5, 2, 4, 2)),
        (ef.tensor([[1.0], [2.0]]), (3, 2, 4)),
        (ef.tensor(3.0), (2, 3)),
        (ef.zeros((0, 1)), (0, 4)),
        (ef.ones((1, 1)), (0, 4)),
    ):
        got = ef.broadcast_to(part, shape)
        np.testing.assert_array_equal(got.numpy(), np.broadcast_to(part.numpy(), shape))
        assert not got.size or np.shares_memory(got.numpy(), part.numpy())


def test_small_and_large_triangles_are_alike() -> None:
    for rows, columns in ((3, 5), (64, 64), (65, 70)):
        x = np.full((2, rows, columns), np.nan)
        for k in (-2, 0, 1, 100):
            np.testing.assert_array_equal(ef.tril(ef.asarray(x), k=k).numpy(), np.tril(x, k))
            np.testing.assert_array_equal(ef.triu(ef.asarray(x), k=k).numpy(), np.triu(x, k))
