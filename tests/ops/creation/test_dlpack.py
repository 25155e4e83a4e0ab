"""Memory shared with other libraries, both ways."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import eagerflow as ef
from eagerflow import errors
from eagerflow.types import DTYPES
from tests.messages import says

NATIVE = [n for n, d in DTYPES.items() if d.is_native]
OTHERS = [n for n, d in DTYPES.items() if not d.is_native]


class Exporter:
    """Another library's array with DLPack and nothing else. It records the options asked for."""

    def __init__(self, array: Any, device: tuple[int, int] | None = None) -> None:
        self.array = array
        self.device = device
        self.asked: list[dict[str, Any]] = []

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device or self.array.__dlpack_device__()


class OldExporter(Exporter):
    """An exporter that knows no keyword added by DLPack 1.0 or later."""

    def __dlpack__(self, *, stream: Any = None) -> Any:
        return self.array.__dlpack__()


class OldConsumer:
    """Hands NumPy the capsule that a consumer older than DLPack 1.0 gets."""

    def __init__(self, x: ef.Tensor, **options: Any) -> None:
        self.x = x
        self.options = options

    def __dlpack__(self, **ignored: Any) -> Any:
        return self.x.__dlpack__(**self.options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.x.__dlpack_device__()


# --- giving ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NATIVE)
def test_numpy_takes_a_tensor_as_read_only_memory(dtype: str) -> None:
    x = ef.tensor([[0, 1], [1, 0]], dtype=dtype)
    array = np.from_dlpack(x)
    assert array.dtype == dtype
    np.testing.assert_array_equal(array, x.numpy())
    assert np.shares_memory(array, x.numpy())
    assert not array.flags.writeable


def test_layouts_are_kept() -> None:
    x = ef.flip(ef.reshape(ef.arange(6), (2, 3))).T
    array = np.from_dlpack(x)
    np.testing.assert_array_equal(array, x.numpy())
    assert array.strides == x.numpy().strides
    for shape in ((), (0, 3)):
        assert np.from_dlpack(ef.zeros(shape)).shape == shape


def test_a_copy_is_the_consumers_own() -> None:
    x = ef.tensor([1.0, 2.0])
    array = np.from_dlpack(x, copy=True)
    assert array.flags.writeable
    array[0] = 9
    assert x.tolist() == [1, 2]


def _flags(capsule: Any) -> int:
    """The flags of a DLManagedTensorVersioned: 1 for read-only, 2 for copied."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.c_uint64.from_address(pointer(capsule, b"dltensor_versioned") + 24).value


EXPORTED = {
    "tensor": ef.tensor([1.0, 2.0]),
    "view": ef.tensor([0.0, 1.0, 2.0])[1:],
    "broadcast": ef.broadcast_to(ef.tensor(1.0), (2,)),
    "variable": ef.Variable([1.0, 2.0]),
    "bfloat16": ef.tensor([1.0, 2.0], dtype="bfloat16"),
}


@pytest.mark.parametrize("x", EXPORTED.values(), ids=EXPORTED)
@pytest.mark.parametrize("version", [{}, {"max_version": (1, 0)}])
def test_who_ignores_the_flag_is_safe_with_a_copy(x: Any, version: dict[str, Any]) -> None:
    before = x.numpy().astype(float).tolist()
    theirs = ef.from_dlpack(OldConsumer(x, copy=True, **version)).numpy()
    assert not np.shares_memory(theirs, x.numpy())
    ctypes.memset(theirs.ctypes.data, 1, theirs.nbytes)
    assert x.numpy().astype(float).tolist() == before
    if version:
        assert _flags(x.__dlpack__(**version)) & 1
        assert _flags(x.__dlpack__(copy=True, **version)) == 2


def test_older_consumers_get_a_copy() -> None:
    x = ef.tensor([1.0, 2.0])
    for options in ({}, {"max_version": (0, 8)}, {"copy": True}, {"dl_device": (1, 0)}):
        array = np.from_dlpack(OldConsumer(x, **options))
        assert not np.shares_memory(array, x.numpy())
        assert array.tolist() == [1, 2]


def test_older_consumers_get_the_buffer_if_they_refuse_a_copy() -> None:
    for x in (ef.tensor([1.0, 2.0]), ef.broadcast_to(ef.tensor(3.0), (2,))):
        array = np.from_dlpack(OldConsumer(x, copy=False))
        assert np.shares_memory(array, x.numpy())


def test_capsules_by_version() -> None:
    x = ef.tensor([1.0])
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(1, 0)))
    assert "dltensor_versioned" in repr(x.__dlpack__(max_version=(2, 5)))
    assert "versioned" not in repr(x.__dlpack__())
    assert "versioned" not in repr(x.__dlpack__(max_version=(0, 8)))


def test_the_memory_lives_as_long_as_the_consumer() -> None:
    x = ef.tensor(np.arange(3.0))
    data = weakref.ref(x._data)
    array = np.from_dlpack(x)
    del x
    gc.collect()
    assert data() is not None
    assert array.tolist() == [0, 1, 2]
    del array
    gc.collect()
    assert data() is None


def test_devices_of_a_tensor() -> None:
    x = ef.tensor([1.0])
    assert x.__dlpack_device__() == (1, 0)
    with ef.config(cpu_devices=2):
        assert x.to("cpu:1").__dlpack_device__() == (1, 0)
    null = ef.zeros(2, device="null:0")
    with pytest.raises(errors.DeviceError, match="no values"):
        null.__dlpack_device__()
    with pytest.raises(errors.DeviceError, match="no values"):
        null.__dlpack__()


@pytest.mark.parametrize(
    "options",
    [{"dl_device": (99, 0)}, {"dl_device": (2, 0)}, {"dl_device": (2, 0), "copy": False}],
)
def test_devices_that_a_tensor_cannot_be_given_on(options: dict[str, Any]) -> None:
    with pytest.raises(errors.InterchangeError) as caught:
        ef.tensor([1.0]).__dlpack__(**options)
    assert isinstance(caught.value, BufferError)


def test_a_cpu_has_no_streams() -> None:
    with pytest.raises(errors.InterchangeError, check=says("streams")):
        ef.tensor([1.0]).__dlpack__(stream=3)


# --- taking ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NATIVE)
def test_a_numpy_array_is_shared(dtype: str) -> None:
    array = np.array([[0, 1], [1, 0]], dtype=dtype)
    for source in (array, Exporter(array), OldExporter(array)):
        x = ef.from_dlpack(source)
        assert x.dtype.name == dtype
        assert np.shares_memory(x.numpy(), array)
        np.testing.assert_array_equal(x.numpy(), array)


def test_eagerflow_never_writes_into_shared_memory() -> None:
    array = np.array([1.0, 2.0])
    x = ef.from_dlpack(array)
    x += 1
    x[0] = 9
    assert array.tolist() == [1, 2]


def test_read_only_arrays_are_taken() -> None:
    array = np.array([1.0, 2.0])
    array.flags.writeable = False
    assert ef.from_dlpack(array).tolist() == [1, 2]
    assert np.from_dlpack(ef.from_dlpack(array)).tolist() == [1, 2]


def test_copies_when_taking() -> None:
    array = np.array([1.0, 2.0])
    for source in (array, Exporter(array), OldExporter(array)):
        x = ef.from_dlpack(source, copy=True)
        assert not np.shares_memory(x.numpy(), array)
        assert x.tolist() == [1, 2]
    for source in (array, Exporter(array)):
        assert np.shares_memory(ef.from_dlpack(source, copy=False).numpy(), array)


def test_devices_to_take_to() -> None:
    array = np.array([1.0, 2.0])
    assert ef.from_dlpack(array).device == "cpu:0"
    with ef.config(cpu_devices=3):
        x = ef.from_dlpack(array, device="cpu:2")
        assert x.device == "cpu:2"
        assert np.shares_memory(x.numpy(), array)
        with ef.device("cpu:1"):
            assert ef.from_dlpack(array).device == "cpu:1"
        with pytest.raises(errors.TensorValueError, check=says("copy")):
            ef.from_dlpack(ef.tensor([1.0]), device="cpu:1", copy=False)
        assert ef.from_dlpack(ef.tensor([1.0]), device="cpu:1").device == "cpu:1"
    assert str(ef.from_dlpack(array, device="null:0").type) == "f64[2]@null:0"


def test_a_tensor_from_a_tensor() -> None:
    x = ef.tensor([1.0, 2.0])
    y = ef.from_dlpack(x)
    assert y is not x
    assert np.shares_memory(x.numpy(), y.numpy())
    assert not np.shares_memory(ef.from_dlpack(x, copy=True).numpy(), x.numpy())
    assert ef.grad(lambda v: (ef.from_dlpack(v) * 2).sum())(x).tolist() == [2, 2]


@pytest.mark.parametrize("device", [(99, 0), (10, 0)])
def test_devices_that_cannot_be_taken_from(device: tuple[int, int]) -> None:
    with pytest.raises(errors.InterchangeError, match="DLPack type"):
        ef.from_dlpack(Exporter(np.ones(2), device))


def test_an_array_on_a_gpu_is_asked_for_a_copy_on_the_cpu() -> None:
    exporter = Exporter(np.ones(2), (2, 0))
    with pytest.raises(errors.DeviceError, check=says("gpu")):
        ef.from_dlpack(exporter)
    with pytest.raises(errors.TensorValueError, check=says("copy")):
        ef.from_dlpack(exporter, device="cpu:0", copy=False)
    assert ef.from_dlpack(exporter, device="cpu:0").tolist() == [1, 1]
    assert exporter.asked[-1]["dl_device"] == (1, 0)


@pytest.mark.parametrize("value", [3, [1, 2], "text", None])
def test_what_speaks_no_dlpack(value: object) -> None:
    with pytest.raises(errors.UnknownNameError, match="__dlpack__") as caught:
        ef.from_dlpack(value)
    assert isinstance(caught.value, AttributeError)


def test_what_cannot_be_exchanged() -> None:
    with pytest.raises(errors.InterchangeError, match="cannot be exchanged"):
        ef.from_dlpack(np.array(["a"]))
    with pytest.raises(errors.InterchangeError, match="cannot be exchanged"):
        ef.from_dlpack(np.ones(2, ">f4"))


def test_conversion_takes_what_speaks_dlpack_only() -> None:
    array = np.array([1.0, 2.0])
    x = ef.asarray(Exporter(array))
    assert np.shares_memory(x.numpy(), array)
    assert not np.shares_memory(ef.tensor(Exporter(array)).numpy(), array)
    assert ef.add(ef.tensor([1.0, 1.0]), Exporter(array)).dtype is ef.float64
    with pytest.raises(errors.InterchangeError):
        ef.asarray(Exporter(array, (99, 0)))


# --- dtypes that NumPy does not exchange ----------------------------------------------------


@pytest.mark.parametrize("dtype", OTHERS)
def test_small_floats_are_exchanged_though_numpy_cannot(dtype: str) -> None:
    x = ef.tensor([[0.5, -2.0, 1.0]], dtype=dtype).T
    for source in (Exporter(x), OldExporter(x), OldConsumer(x, copy=False)):
        y = ef.from_dlpack(source)
        assert y.dtype.name == dtype
        assert y.numpy().astype(float).tolist() == [[0.5], [-2.0], [1.0]]
    assert np.shares_memory(ef.from_dlpack(Exporter(x)).numpy(), x.numpy())
    assert x.numpy().astype(float).tolist() == [[0.5], [-2.0], [1.0]]


@pytest.mark.parametrize("dtype", OTHERS)
def test_numpy_says_that_it_cannot_take_them(dtype: str) -> None:
    x = ef.ones(2, dtype=dtype)
    with pytest.raises((BufferError, RuntimeError), check=says("dtype")):
        np.from_dlpack(x)
    assert x.tolist() == [1, 1]
    with pytest.raises(errors.InterchangeError, check=says(r"asarray")):
        ef.from_dlpack(np.ones(2, getattr(ml_dtypes, dtype)))
    assert ef.asarray(np.ones(2, getattr(ml_dtypes, dtype))).dtype.name == dtype


# --- PyTorch --------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize("dtype", [*NATIVE, "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_torch_both_ways(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.ones((2, 3), dtype=getattr(torch, dtype))
    x = ef.from_dlpack(theirs)
    assert str(x.type) == f"{DTYPES[dtype].short}[2,3]@cpu:0"
    theirs[0, 0] = 0
    assert x.numpy().astype(complex)[0].tolist() == [0, 1, 1]
    back = torch.from_dlpack(ef.tensor(x))
    assert back.dtype == theirs.dtype
    assert torch.equal(back.to(torch.complex64), theirs.to(torch.complex64))


@pytest.mark.peer
@pytest.mark.parametrize("x", EXPORTED.values(), ids=EXPORTED)
def test_torch_writes_into_what_is_not_copied(x: Any) -> None:
    torch = pytest.importorskip("torch")
    shared = [torch.from_dlpack(x)]
    copies = [torch.from_dlpack(x, copy=True), torch.from_dlpack(x).clone()]
    if x.dtype is not ef.bfloat16:  # bfloat16 has no NumPy dtype that PyTorch knows
        shared += [torch.as_tensor(x), torch.asarray(x)]
        copies += [torch.tensor(x), torch.from_numpy(x.numpy().copy())]
    address = x.numpy().ctypes.data
    assert [t.data_ptr() for t in shared] == [address] * len(shared)  # as the pages say
    before = x.tolist()
    for theirs in copies:
        theirs[:] = 9
    assert x.tolist() == before


@pytest.mark.peer
def test_torch_tensors_are_converted() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.arange(3, dtype=torch.bfloat16)
    assert ef.asarray(theirs).dtype is ef.bfloat16
    assert ef.add(ef.ones(3), theirs).tolist() == [1, 2, 3]
    with pytest.raises(errors.EagerflowError, match="gradient"):
        ef.from_dlpack(torch.ones(2, requires_grad=True))


@pytest.mark.peer
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16"])
def test_jax_both_ways(dtype: str) -> None:
    jnp = pytest.importorskip("jax.numpy")
    x = ef.from_dlpack(jnp.array([0, 1], dtype=dtype))
    assert str(x.type) == f"{DTYPES[dtype].short}[2]@cpu:0"
    back = jnp.from_dlpack(ef.tensor(x))
    assert back.dtype == dtype
    assert back.tolist() == x.tolist()
