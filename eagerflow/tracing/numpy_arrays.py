"""Arrays of NumPy in a trace: calls of NumPy become part of the graph, or are refused.

A `TracedArray` is in the place of an array or a scalar of NumPy. Functions of eagerflow and
operators with tensors take it as a tensor. Functions of NumPy give NumPy's results, if an op
computes them bit for bit (`tracing/numpy_functions.py`).

An array from outside has elements while tracing. NumPy computes with these where no tensor takes
part; then the elements were looked at, and the trace is for these elements only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import Any, Final, final

import numpy as np

from eagerflow.core.abstract_symbols import AbstractNumber, AbstractSymbol
from eagerflow.core.interpreter import current, tracer_among
from eagerflow.core.op import functions
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of, make_tensor
from eagerflow.core.to_tensor import as_tensor
from eagerflow.dims import Dim
from eagerflow.errors import TensorValueError, TraceError
from eagerflow.hardware import as_device, current_device
from eagerflow.ops.names.numpy_counterparts import REFUSED
from eagerflow.tracing.numpy_functions import (
    FUNCTIONS,
    METHODS,
    UFUNCS,
    Counterpart,
    accumulator,
    calls_of_numpy,
    cast,
    function_of,
    takes_power,
)
from eagerflow.tracing.numpy_operators import AbstractArrayOperators
from eagerflow.types import same_shape

#: the classes of NumPy whose arrays behave as `numpy.ndarray` does, and the kinds of dtypes
_PLAIN: Final = (np.ndarray, np.memmap)
_KINDS: Final = "biufc"
#: types of indices with which NumPy gives a view
_BASIC: Final = (int, slice, type(None), type(...), Dim, AbstractNumber)
_METHOD: Final = (MethodDescriptorType, FunctionType, BuiltinFunctionType)
#: attributes taken from the tensor
_OF_TENSOR: Final = frozenset({"itemsize", "nbytes", "ndim", "shape", "size"})


def argument_tensor(name: str, array: Any) -> Tensor:
    """The elements of an argument of a traced function that is an array of another library.

    Raises:
        TraceError: it is an array of NumPy with other behaviour, such as a `numpy.matrix`.
    """
    tensor = as_tensor(array)
    if isinstance(array, np.ndarray) and not (type(array) in _PLAIN and array.dtype.isnative):
        raise TraceError(
            f"the argument {name} is an array of NumPy of a kind that a trace does not follow",
            given=f"a {type(array).__name__} of {array.dtype!r}",
            expected="a numpy.ndarray, in the byte order of this machine",
            hint=f"pass a tensor: ef.asarray({name})",
        )
    return tensor


def is_numpy(array: Any) -> bool:
    """Whether ``array`` is an array or a scalar of NumPy, and not a stand-in."""
    return issubclass(type(array), (np.ndarray, np.generic))


def can_be_watched(array: Any) -> bool:
    """Whether an array from outside may have a `TracedArray` in its place."""
    return type(array) is np.ndarray and array.dtype.kind in _KINDS and array.dtype.isnative


#: NumPy's reactions to an overflow or a division by zero on which no result depends
_SILENT: Final = frozenset({"ignore", "warn"})


# --- operands -----------------------------------------------------------------------------------


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(tuple(value.values()))
    else:
        yield value


def _are_known(*values: Any) -> bool:
    return all(x.is_known for x in _leaves(values) if type(x) is TracedArray)


def _plain(value: Any) -> Any:
    """Arguments of NumPy with the arrays themselves in them."""
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {k: _plain(v) for k, v in value.items()}
    return value.elements("NumPy") if type(value) is TracedArray else value


def _weak(x: Any) -> Any:
    """The type of a Python number, which takes the dtype of the array; None for other values."""
    if issubclass(type(x), AbstractNumber):
        return x.kind
    return int if type(x) is Dim else type(x) if type(x) in (int, float, complex) else None


def _is_array(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic))


def _dtype_of(x: Any) -> Any:
    return _weak(x) or (x.dtype if _is_array(x) else np.asarray(x).dtype)


def _common_dtype(values: Any) -> Any:
    """The dtype to which NumPy converts operands; None if there are no operands."""
    known = [_weak(x)(1) if _weak(x) else _dtype_of(x) for x in _leaves(values) if x is not None]
    return np.result_type(*known) if known else None


# --- results ------------------------------------------------------------------------------------


def _as_view(x: Tensor) -> Any:
    return x._data.view()


def _as_array(x: Tensor) -> Any:
    return x.numpy().copy("K")  # its own, which may be written


def _as_scalar(x: Tensor) -> Any:
    return x.numpy()[()]


@final
class TracedArray(AbstractArrayOperators):
    """An array, or a scalar, of NumPy in a trace.

    Args:
        tensor: the elements, in a handle of its own.
        kind: the class of the array or scalar.
        name: the user's name of the array from which it is made, for messages.
        shares: whether it stands for memory of the caller.

    Attributes:
        tensor: see above.
        shares: likewise.
        looked: whether Python or NumPy has seen the elements of an array from outside.
    """

    __slots__ = ("_kind", "_name", "_owns", "looked", "shares", "tensor")
    tensor: Tensor
    shares: bool
    looked: bool

    def __init__(self, tensor: Tensor, kind: type, name: str, *, shares: bool = False) -> None:
        # whether no other array can share its memory, so that it may be written
        owns = not shares and not issubclass(kind, np.generic)
        self._set(tensor=tensor, _kind=kind, _name=name, shares=shares, looked=False, _owns=owns)

    @staticmethod
    def of(array: Any, name: str) -> TracedArray:
        """The stand-in for an array from outside, whose elements were not looked at yet."""
        lane = as_device("cpu:0").lanes[array.dtype]
        return TracedArray(make_tensor(array, lane), np.ndarray, name, shares=True)

    def _result(self, tensor: Tensor, *, scalar: bool, shares: bool = False) -> TracedArray:
        kind = tensor.dtype.dtype.type if scalar else np.ndarray
        return TracedArray(tensor, kind, self._name, shares=shares)

    def like(self, tensor: Tensor) -> TracedArray:
        """The same with the elements of a tensor."""
        return self._result(handle_of(tensor), scalar=self.is_scalar)

    @property  # type: ignore[misc]  # `isinstance(x, np.ndarray)` holds where it does eagerly
    def __class__(self) -> Any:
        return self._kind

    def __tensor__(self) -> Tensor:
        self._set(_owns=False)
        device = current_device()
        if self.tensor.device is not device:  # eagerly, arrays of NumPy are moved there
            return functions["to_device"](self.tensor, device)
        return handle_of(self.tensor)

    @property
    def maker(self) -> Callable[[Tensor], Any]:
        return _as_view if self.shares else _as_scalar if self.is_scalar else _as_array

    # --- the elements ---

    @property
    def is_scalar(self) -> bool:
        return issubclass(self._kind, np.generic)

    @property
    def is_known(self) -> bool:
        """Whether it has elements while tracing."""
        return not isinstance(self.tensor._data, AbstractSymbol)

    def elements(self, what: str) -> Any:
        """The array itself, if it is from outside or follows from constants alone."""
        data = self.tensor._data
        if self.is_known:
            self._set(looked=True)
            return data[()] if self.is_scalar else data
        try:
            return self.maker(make_tensor(data.concrete(what), self.tensor._lane.twin))
        except TraceError:
            raise self.refusal(what) from None

    def refusal(self, what: str, why: str = "") -> TraceError:
        return TraceError(
            f"{what} of an array of NumPy cannot become part of a graph"
            + (f": {why}" if why else ""),
            given=f"{self._name}, {self.tensor.type}",
            hint=f"continue with a tensor, x = ef.asarray({self._name}), which has eagerflow's "
            "functions, x[i] = v and x += v; or run NumPy in each step by ef.py_call",
        )

    def write(self, what: str, change: Callable[[Tensor], Tensor]) -> None:
        """Give it other elements, if no other array can share its memory."""
        made_in: Any = getattr(self.tensor._data, "tracer", None)
        if not self._owns or tracer_among(current()) is not made_in:
            raise self.refusal(what, "others may see the memory that it writes")
        new = change(handle_of(self.tensor))
        if not same_shape(new.shape, self.tensor.shape):
            raise self.refusal(what, "the shape does not fit")
        self._set(tensor=cast(new, self.dtype))

    def _lends(self) -> bool:
        """Note that there is a view of it; return whether that shares memory of the caller."""
        self._set(_owns=False)
        return self.shares

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise self.refusal(f"setting .{name}")

    # --- NumPy's protocols ---

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.elements("conversion by NumPy"), dtype=dtype, copy=copy)

    def apply(self, ufunc: Any, *inputs: Any) -> Any:
        return self.__array_ufunc__(ufunc, "__call__", *inputs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if _are_known(inputs, options):
            return getattr(ufunc, method)(*_plain(inputs), **_plain(options))
        what = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        name = UFUNCS.get(ufunc)
        if name is None or method != "__call__" or options:
            raise self.refusal(what)
        try:
            loop = ufunc.resolve_dtypes((*map(_dtype_of, inputs), None))
        except TypeError as error:
            raise self.refusal(what, str(error)) from None
        if any(dtype != loop[0] for dtype in loop[1:-1]):
            raise self.refusal(what, "no op computes with two dtypes")
        made = self._computed(what, name, *[self._operand(x, loop[0], what) for x in inputs])
        if made.dtype.dtype != loop[-1]:
            raise self.refusal(what, f"no op gives {loop[-1]}")
        return self._result(made, scalar=made.ndim == 0)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if _are_known(args, kwargs):
            return function(*_plain(args), **_plain(kwargs))
        counterpart = FUNCTIONS.get(function)
        if counterpart is not None:
            return self._call(counterpart, f"np.{counterpart.name}()", *args, **kwargs)
        if function in (np.shape, np.ndim, np.size) and len(args) == 1:
            return getattr(self, function.__name__)
        raise self.refusal(f"np.{function.__name__}()")

    def _call(self, counterpart: Counterpart, what: str, *args: Any, **kwargs: Any) -> Any:
        """The result of a public function in place of a function of NumPy, or of a method."""
        names = (*counterpart.operands, *counterpart.options)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        if len(given) < len(args) + len(kwargs) or not given.keys() <= {*names}:
            raise self.refusal(what, "no op takes all of these arguments")
        whole = zip(counterpart.operands, counterpart.common, strict=True)
        pairs = [(given.pop(name), common) for name, common in whole if name in given]
        common = _common_dtype([x for x, is_common in pairs if is_common])

        def operand(x: Any, dtype: Any) -> Any:
            if isinstance(x, (list, tuple)) and any(map(_is_array, x)):
                return [operand(y, dtype) for y in x]
            if _is_array(x):
                return self._operand(x, dtype or accumulator(counterpart.name, x.dtype), what)
            return x if dtype is None or x is None else self._operand(x, dtype, what)

        operands = [operand(x, common if is_common else None) for x, is_common in pairs]
        made = self._computed(what, counterpart.name, *operands, **given)
        scalar = made.ndim == 0 and counterpart.reduces
        return self._result(made, scalar=scalar, shares=counterpart.views and self._lends())

    def _operand(self, x: Any, dtype: Any, what: str) -> Tensor:
        """An operand of an op, in the dtype in which NumPy computes."""
        device = self.tensor.device
        if device.backend.array_type is not np.ndarray or isinstance(x, AbstractArray):
            raise self.refusal(what, "NumPy computes with its own arrays only")
        if dtype.kind not in _KINDS:
            raise self.refusal(what, f"no op computes it with {dtype}")
        if type(x) is TracedArray:
            return cast(x.tensor, dtype)
        if _weak(x) is None:
            return cast(functions["asarray"](np.asarray(x), device=device), dtype)
        try:
            return functions["asarray"](x, dtype=dtype, device=device)
        except TensorValueError as error:
            raise self.refusal(what, error.wrong) from None

    def _computed(self, what: str, name: str, *operands: Any, **options: Any) -> Tensor:
        if not _SILENT.issuperset(np.geterr().values()):
            raise self.refusal(what, "np.errstate or np.seterr asks for errors that no op raises")
        for x in operands:
            if isinstance(x, Tensor) and x.dtype.dtype.char in REFUSED.get(name, ""):
                raise self.refusal(what, f"no op computes it with {x.dtype.dtype} as NumPy does")
        try:
            with calls_of_numpy():
                return function_of(name)(*operands, **options)
        except TraceError:
            raise
        except TypeError as error:  # an op, or its function, takes less than NumPy
            raise self.refusal(what, getattr(error, "wrong", str(error))) from None

    # --- as an array ---

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        dtype = self.tensor.dtype.dtype
        if dtype.hasobject:  # texts of many lengths are one dtype of tensors
            raise self.refusal(".dtype")
        return dtype

    @property
    def T(self) -> Any:
        """The axes in the opposite order."""
        return self.elements(".T").T if self.is_known else self._method("transpose")

    def __getattr__(self, name: str) -> Any:
        if name in _OF_TENSOR:
            return getattr(self.tensor, name)
        if name.startswith("__") or not hasattr(self._kind, name):
            raise AttributeError(f"'{self._kind.__name__}' object has no attribute {name!r}")
        if self.is_known:
            return getattr(self.elements(f".{name}"), name)
        if not isinstance(getattr(self._kind, name), _METHOD):
            raise self.refusal(f".{name}")
        return partial(self._method, name)

    def _method(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        if name == "item":
            return self.elements(".item()").item(*args)
        counterpart = METHODS.get(name)
        if counterpart is None or self.is_scalar:
            raise self.refusal(f".{name}()")
        if name in ("reshape", "transpose") and len(args) > 1:
            args = (args,)
        return self._call(counterpart, f".{name}()", self, *args, **kwargs)

    def astype(self, dtype: Any, *, copy: bool = True, **options: Any) -> TracedArray:
        """A copy converted to another dtype."""
        if options:
            raise self.refusal(".astype()", f"no op takes {', '.join(options)}=")
        if not copy and self.dtype == dtype:
            return self
        made = functions["astype"](self._operand(self, self.dtype, ".astype()"), np.dtype(dtype))
        return self._result(made, scalar=self.is_scalar)

    def __getitem__(self, key: Any) -> Any:
        if self.is_known:
            return self.elements("[]")[_plain(key)]
        parts = key if type(key) is tuple else (key,)
        if self.is_scalar or any(isinstance(x, (bool, np.bool_)) for x in parts):
            raise self.refusal(f"[{key!r}]")
        made = functions["getitem"](self._operand(self, self.dtype, "[]"), key)
        scalar = made.ndim == 0 and not any(x is ... for x in parts)
        view = not scalar and all(isinstance(x, _BASIC) for x in parts)
        return self._result(made, scalar=scalar, shares=view and self._lends())

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.is_known:
            self.elements("[]")[_plain(key)] = _plain(value)
            return

        def change(x: Tensor) -> Tensor:
            x[key] = cast(functions["asarray"](value, device=x.device), self.dtype)
            return x

        self.write("[...] = ...", change)

    def check_power(self, exponent: Any) -> None:
        if self.is_known or isinstance(exponent, np.ndarray):
            return
        if issubclass(type(exponent), AbstractNumber):
            exponent = exponent.ask("**")
        if self.is_scalar or not takes_power(self.dtype, exponent):
            raise self.refusal(f"** {exponent}", "no op computes it as NumPy does")
