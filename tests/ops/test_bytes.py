"""The dtype bytes: creation, supported and refused ops, graphs, and the packed form."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eagerflow as ef
from eagerflow import errors
from eagerflow.core.byte_arrays import byte_array, byte_count, pack, packed_size, unpack
from eagerflow.core.infer import infer
from eagerflow.core.op import all_ops
from eagerflow.hardware import CpuBackend
from eagerflow.types import BYTES, DTYPES, TensorType
from tests.each import check_each
from tests.messages import says
from tests.ops.bound import OPS

WORDS = ef.tensor([b"a", b"bc\0"])

#: arrays of bytes as nested lists, all of one shape
arrays = st.integers(0, 3).flatmap(
    lambda n: st.lists(st.lists(st.binary(max_size=4), min_size=n, max_size=n), max_size=3).map(
        lambda rows: np.array(rows, object).reshape(len(rows), n)
    )
)


# --- making -----------------------------------------------------------------------------------


def test_what_they_look_like() -> None:
    assert repr(WORDS) == r"Tensor([b'a', b'bc\x00'], bytes[2]@cpu:0)"
    assert str(ef.tensor(b"x")) == "b'x'"
    assert f"{ef.tensor(b'x')}" == "b'x'"
    assert repr(ef.zeros((0,), dtype="bytes")) == "Tensor([], bytes[0]@cpu:0)"
    assert repr(ef.tensor(b"x" * 99)) == f"Tensor({b'x' * 64!r}… (99 bytes), bytes[]@cpu:0)"
    assert repr(ef.bytes) == "bytes"
    assert ef.bytes == "bytes" == ef.bytes
    assert ef.types.as_dtype(bytes) is ef.bytes is WORDS.dtype


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"abc", b"abc"),
        (np.bytes_(b"abc"), b"abc"),
        ([], []),
        ([[b"a\0"], [b""]], [[b"a\0"], [b""]]),
        ((b"a", np.bytes_(b"b")), [b"a", b"b"]),
        (np.array([b"a", b"bc"]), [b"a", b"bc"]),
        (np.array([b"a\0", b""], object), [b"a\0", b""]),
        ([ef.tensor(b"a"), b"b"], [b"a", b"b"]),
        (ef.Variable([b"v"]), [b"v"]),
    ],
)
def test_what_makes_them(data: Any, expected: Any) -> None:
    for made in (ef.tensor(data, dtype=ef.bytes), ef.asarray(data, dtype="bytes")):
        assert made.dtype is BYTES
        assert made.tolist() == expected
        assert all(type(x) is bytes for x in made.numpy().reshape(-1))


def test_memory_is_their_own() -> None:
    array = np.array([b"a", b"b"], object)
    made = ef.asarray(array)
    array[0] = 3
    assert made.tolist() == [b"a", b"b"]
    with pytest.raises(ValueError, match="read-only"):
        made.numpy()[0] = b"x"
    with pytest.raises(errors.TensorValueError, match="cannot be shared"):
        ef.asarray(array, copy=False)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: ef.tensor("abc"), errors.DTypeError, r"text.encode\(\)"),
        (lambda: ef.tensor(["abc"]), errors.DTypeError, "'abc'"),
        (lambda: ef.tensor(np.array(["abc"])), errors.DTypeError, "numpy.char.encode"),
        (lambda: ef.tensor(np.array([], "U1")), errors.DTypeError, "text cannot be a tensor"),
        (lambda: ef.tensor([b"a", 1]), errors.DTypeError, "an int among the elements"),
        (lambda: ef.tensor([1, b"a"]), errors.DTypeError, "do not mix"),
        (lambda: ef.tensor([b"a", None]), errors.DTypeError, "a NoneType"),
        (lambda: ef.tensor(np.array([None])), errors.DTypeError, "a NoneType"),
        (lambda: ef.tensor([b"a", [b"b"]]), errors.TensorValueError, "equal lengths"),
        (lambda: ef.tensor(b"1", dtype="f32"), errors.DTypeError, "ef.io.parse_numbers"),
        (lambda: ef.tensor([b"1"], dtype="i64"), errors.DTypeError, "ef.io.parse_numbers"),
        (lambda: ef.tensor(1, dtype="bytes"), errors.DTypeError, "cannot be converted to bytes"),
        (lambda: ef.tensor([1], dtype="bytes"), errors.DTypeError, "an int among"),
        (
            lambda: ef.tensor(np.zeros(2), dtype="bytes"),
            errors.DTypeError,
            "float64 cannot be cast",
        ),
        (lambda: ef.full((2,), 1, dtype="bytes"), errors.DTypeError, "cannot be cast to bytes"),
        (lambda: ef.ones((2,), dtype="bytes"), errors.DTypeError, "cannot be cast to bytes"),
        (lambda: ef.arange(3, dtype="bytes"), errors.DTypeError, "cannot be cast to bytes"),
        (lambda: ef.linspace(0, 1, 3, dtype="bytes"), errors.DTypeError, "cannot be cast to"),
        (lambda: ef.eye(3, dtype="bytes"), errors.DTypeError, "cannot be cast to bytes"),
        (lambda: ef.random.normal((2,), dtype="bytes"), errors.DTypeError, "real floating"),
        (lambda: ef.zeros(2).astype("bytes"), errors.DTypeError, "cast to each other"),
        (lambda: WORDS.astype("f32"), errors.DTypeError, "cast to each other"),
        (lambda: ef.types.as_dtype(object), errors.DTypeError, "is not a dtype"),
    ],
)
def test_what_makes_none(wrong: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, check=says(words)):
        wrong()


def test_blanks() -> None:
    for made in (
        ef.zeros((2,), dtype="bytes"),
        ef.empty((2,), dtype="bytes"),
        ef.zeros_like(WORDS),
        ef.full((2,), b""),
    ):
        assert made.tolist() == [b"", b""]
    assert ef.full((1, 2), b"x").tolist() == [[b"x", b"x"]]


# --- supported ops ----------------------------------------------------------------------------


def test_as_python_values() -> None:
    assert WORDS[1].item() == b"bc\0"
    assert WORDS.nbytes == 4
    assert b"a" in WORDS
    assert b"z" not in WORDS
    assert [x.item() for x in WORDS] == [b"a", b"bc\0"]
    for convert in (bool, int, float, complex):
        with pytest.raises(errors.DTypeError, match=r"\(\) of bytes"):
            convert(ef.tensor(b"1"))
    for other in (copy.deepcopy(WORDS), pickle.loads(pickle.dumps(WORDS))):
        assert other.type == WORDS.type
        assert other.tolist() == WORDS.tolist()
    assert pickle.loads(pickle.dumps(ef.bytes)) is ef.bytes
    with pytest.raises(errors.InterchangeError, match="DLPack has no bytes"):
        np.from_dlpack(WORDS)


@pytest.mark.parametrize("traced", [False, True])
def test_comparing(traced: bool) -> None:
    def compared(x: ef.Tensor) -> tuple[ef.Tensor, ...]:
        reflected = b"a" == x  # noqa: SIM300 - the reflected comparison is under test
        return x == b"a", x != [b"a", b"bc"], reflected, x == x[::-1]

    comparisons = (ef.trace(compared) if traced else compared)(WORDS)
    assert [x.tolist() for x in comparisons] == [
        [True, False], [False, True], [True, False], [False, False],
    ]  # fmt: skip
    for wrong in (lambda: WORDS == 1, lambda: WORDS == "a", lambda: WORDS != "a"):
        with pytest.raises(errors.DTypeError):
            wrong()


def test_updates_in_place() -> None:
    x = ef.tensor([b"a", b"b", b"c"])
    before = x[:]
    x[0] = b"new"
    x[ef.tensor([1, 2])] = [b"1", b"2"]
    assert x.tolist() == [b"new", b"1", b"2"]
    x[x == b"1"] = b""
    assert x.tolist() == [b"new", b"", b"2"]
    assert before.tolist() == [b"a", b"b", b"c"]
    assert all(type(y) is bytes for y in x.numpy())
    with pytest.raises(errors.DTypeError):
        x[0] = 1
    with pytest.raises(errors.DTypeError):
        x += b"more"


@pytest.mark.parametrize("traced", [False, True])
def test_variables(traced: bool) -> None:
    v = ef.Variable([b"a", b"b"], name="words")

    def change(x: ef.Tensor) -> ef.Tensor:
        v.assign(x)
        v.scatter_update([0], [b"first"])
        return v[1]

    assert (ef.trace(change) if traced else change)(WORDS).item() == b"bc\0"
    assert v.numpy().tolist() == [b"first", b"bc\0"]
    with pytest.raises(errors.DTypeError):
        v.assign_add(WORDS)


def test_lists_and_loops() -> None:
    def collected(words: ef.Tensor) -> ef.Tensor:
        array = ef.TensorArray(3, ef.tensor(b""))
        array = array.write(1, words[0])
        return array.stack()

    assert ef.trace(collected)(WORDS).tolist() == collected(WORDS).tolist() == [b"", b"a", b""]
    doubled = ef.map(lambda x: ef.stack([x, x]), WORDS)
    assert doubled.tolist() == [[b"a", b"a"], [b"bc\0", b"bc\0"]]


# --- refusals ---------------------------------------------------------------------------------

_TAKE = [name for name in OPS if all_ops()[name].takes_bytes]


def test_rules_refuse_them() -> None:
    """Bytes are refused before the type rule itself is asked."""
    check_each([name for name in OPS if name not in _TAKE], _refuses)


def _refuses(name: str) -> None:
    kind = TensorType(BYTES, (2, 2))
    with pytest.raises(errors.DTypeError, match=f"{name}: it does not take bytes") as caught:
        infer(all_ops()[name], (kind, kind), {})
    assert "compared by == and !=" in str(caught.value)


def test_what_takes_them() -> None:
    """A new op takes bytes on purpose only; a row of cases with the dtype bytes belongs to it."""
    assert {"equal", "not_equal", "concat", "getitem", "where", "queue_enqueue"} <= set(_TAKE)
    assert {"add", "less", "sort", "cast", "sum", "matmul"}.isdisjoint(_TAKE)


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: x + x,
        lambda x: x + b"a",
        lambda x: x * 2,
        lambda x: x < x,
        lambda x: -x,
        lambda x: x @ x,
        lambda x: x.sum(),
        lambda x: x.any(),
        ef.exp,
        ef.sort,
        ef.isnan,
        ef.argmax,
        ef.cumsum,
        ef.unique_values,
        ef.nonzero,
        lambda x: ef.maximum(x, x),
        lambda x: ef.pad(x, 1),
        lambda x: ef.where(x, x, x),
        lambda x: ef.concat([x, ef.tensor([1.0])]),
        lambda x: ef.take(ef.arange(3), x),
        lambda x: ef.allclose(x, x),
        lambda x: ef.Accumulator("f32[2]").add(x, 0),
    ],
)
def test_functions_of_numbers_refuse_them(wrong: Callable[[Any], Any], traced: bool) -> None:
    function = ef.trace(lambda x: wrong(x)) if traced else wrong
    with pytest.raises((errors.DTypeError, errors.TensorIndexError)):
        function(WORDS)


def test_they_are_none_of_the_standard() -> None:
    assert ef.bytes.name not in DTYPES
    assert ef.bytes.name not in ef.__array_namespace_info__().dtypes()
    for kind in ("bool", "integral", "real floating", "complex floating", "numeric"):
        assert not ef.isdtype(ef.bytes, kind)
    assert ef.isdtype(ef.bytes, ef.bytes)
    assert ef.can_cast(ef.bytes, ef.bytes)
    assert not ef.can_cast(ef.bytes, ef.float32)
    assert not ef.can_cast(ef.uint8, ef.bytes)
    assert ef.result_type(WORDS, ef.bytes) is ef.bytes
    for other in (ef.float32, ef.bool, 1):
        with pytest.raises(errors.DTypeError, match="no common dtype"):
            ef.result_type(WORDS, other)


def test_derivatives_pass_them_by() -> None:
    def f(x: ef.Tensor, words: ef.Tensor) -> ef.Tensor:
        return ef.where(words == b"a", x * x, x).sum()

    for function in (f, ef.trace(f)):
        assert ef.grad(function)(ef.tensor([3.0, 3.0]), WORDS).tolist() == [6.0, 1.0]
        value, tangent = ef.jvp(lambda x, g=function: g(x, WORDS), (ef.ones(2),), (ef.ones(2),))
        assert (value.item(), tangent.item()) == (2.0, 3.0)
        with pytest.raises(errors.GradientError):
            ef.grad(function, argnums=1)(ef.tensor([3.0, 3.0]), WORDS)
    with pytest.raises(errors.GradientError):
        ef.grad(lambda x: ef.io.encode_example({"x": x}) == b"")(ef.ones(2))


class _Numbers:
    """A backend whose devices hold numbers only, and are CPUs in all else."""

    kind = "numbers"
    holds_bytes = False
    _of = CpuBackend()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)

    def count(self) -> int:
        return 1


@pytest.fixture
def numbers_only() -> Any:
    from eagerflow.hardware import registry

    ef.hardware.register_backend(_Numbers())
    yield "numbers:0"
    registry._backends.pop("numbers")
    registry._devices.pop("numbers:0", None)


def test_devices_that_hold_numbers_only(numbers_only: str) -> None:
    for wrong in (
        lambda: ef.tensor(b"a", device=numbers_only),
        lambda: ef.tensor([b"a"], device=numbers_only),
        lambda: ef.zeros(2, dtype="bytes", device=numbers_only),
        lambda: WORDS.to(numbers_only),
        lambda: ef.trace(lambda x: x.to(numbers_only))(WORDS),
    ):
        with pytest.raises(errors.DeviceError, match="cannot hold bytes"):
            wrong()
    assert ef.tensor([1.0], device=numbers_only).device == numbers_only


def test_devices_that_hold_nothing() -> None:
    x = WORDS.to("null:0")
    assert str(ef.concat([x, x]).type) == "bytes[4]@null:0"
    assert str((x == b"a").type) == "bool[2]@null:0"
    with pytest.raises(errors.DTypeError):
        x + x


# --- graphs -----------------------------------------------------------------------------------


def test_one_trace_for_all_bytes_and_sizes() -> None:
    f = ef.trace(lambda x: ef.concat([x, x[:1]]))
    for n in (1, 2, 3, 4):
        words = ef.tensor([bytes([i]) * i for i in range(n)])
        assert f(words).tolist() == [*words.tolist(), words[0].item()]
    assert len(f.traces) == 2  # the second trace is for any size


def test_python_bytes_are_static() -> None:
    f = ef.trace(lambda x, key: x == key)
    assert f(WORDS, b"a").tolist() == [True, False]
    assert f(WORDS, b"bc\0").tolist() == [False, True]
    assert len(f.traces) == 2


def test_values_are_not_known_while_tracing() -> None:
    for ask in (lambda x: x[0].item(), lambda x: x.nbytes, lambda x: x.tolist()):
        with pytest.raises(errors.TraceError, match="known only when the graph runs"):
            ef.trace(ask)(WORDS)


@given(arrays)
def test_constants_in_texts_and_files(tmp_path_factory: Any, array: Any) -> None:
    x = ef.asarray(array)

    def constant() -> ef.Tensor:
        return ef.concat([ef.tensor(array), x])

    graph = ef.trace(constant).graph()
    path = tmp_path_factory.mktemp("graphs") / "graph"
    graph.save(path)
    read = ef.Graph.load(path)
    assert str(read) == str(graph)
    inputs = dict.fromkeys(read.inputs, x)
    assert read.run(read.outputs, inputs)[0].tolist() == [*array.tolist()] * 2


def test_large_constants_lie_beside_the_text(tmp_path: Any) -> None:
    many, long = [b"%d" % i for i in range(50)], [b"x" * 1000]
    f = ef.trace(lambda: (ef.tensor(many), ef.tensor(long)))
    graph = f.graph()
    assert "tensor(bytes[50], $a" in str(graph)
    assert "x" * 20 not in str(graph)
    graph.save(tmp_path / "graph")
    read = ef.Graph.load(tmp_path / "graph")
    assert [x.tolist() for x in read.run(read.outputs, {})] == [many, long]


@pytest.mark.parametrize(
    "constant",
    [
        'tensor(bytes[2], ("a",))',
        "tensor(bytes[1], (1,))",
        'tensor(bytes[1], ("\u0100",))',
        'tensor(f32[1], ("a",))',
        'bytes("\u0100")',
        "bytes(1)",
    ],
)
def test_texts_that_are_no_bytes(constant: str) -> None:
    text = f"graph g() {{\n  %x = constant() {{value={constant}}} : bytes[1]@cpu:0\n  return %x\n}}"
    with pytest.raises(errors.GraphSyntaxError):
        ef.Graph.parse(text)


# --- the packed form --------------------------------------------------------------------------


@given(arrays)
def test_packing(array: Any) -> None:
    data = pack(array)
    assert len(data) == packed_size(array)
    assert byte_count(array) == sum(len(x) for row in array.tolist() for x in row)
    again = unpack(data, array.shape)
    assert again.tolist() == array.tolist()
    assert again.shape == array.shape
    for torn in (data[:-1], data + b"x"):
        with pytest.raises(ValueError, check=says("packed")):
            unpack(torn, array.shape if array.size else (1, 1))


@given(arrays)
def test_as_arrays_of_numpy(array: Any) -> None:
    assert byte_array(array).tolist() == array.tolist()
    assert ef.asarray(array).numpy().tolist() == array.tolist()
