"""Arrays of NumPy in a trace: what NumPy makes of them becomes part of the graph, or is refused.

A `TracedArray` is in the place of an array or a scalar of NumPy. Functions of eagerflow and
operators with tensors take it as a tensor. What NumPy would do with it alone gives what NumPy
gives, if an op computes that bit for bit: `UFUNCS` and `FUNCTIONS` have those.

An array from outside has elements while tracing. NumPy computes with these what no tensor takes
part in; then they were looked at, and the trace is for this content.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType
from typing import Any, Final, NamedTuple, final

import numpy as np

from eagerflow.core.convert import as_tensor
from eagerflow.core.interpreter import current, tracer_among
from eagerflow.core.op import functions
from eagerflow.core.symbols import AbstractNumber, AbstractSymbol
from eagerflow.core.tensor import AbstractArray, Tensor, handle_of, make_tensor
from eagerflow.dims import Dim
from eagerflow.errors import TraceError
from eagerflow.hardware import as_device, current_device
from eagerflow.types import same_shape

Array = np.ndarray[Any, Any]

# --- what ops compute as NumPy does -------------------------------------------------------------

#: by the name of the public function the name that NumPy has for it, where that is another one
_RENAMED: Final = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
    "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "conj": "conjugate",
    "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "pow": "power",
}  # fmt: skip
_SAME_NAMES: Final = """
    add bitwise_and bitwise_or bitwise_xor cbrt ceil copysign cos cosh divide equal exp exp2 floor
    floor_divide fmod gcd greater greater_equal heaviside hypot isfinite isinf isnan lcm less
    less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
    maximum minimum multiply negative nextafter not_equal positive remainder sign signbit sin sinh
    sqrt square subtract tan tanh trunc
"""
#: the public functions for NumPy's, which compute the same in the dtypes of NumPy's loops
UFUNCS: Final[dict[Any, str]] = {
    getattr(np, _RENAMED.get(name, name)): name for name in (*_RENAMED, *_SAME_NAMES.split())
}
#: the codes of dtypes in which they do not
_REFUSED: Final = {"floor_divide": "efd", "sum": "e", "prod": "e", "mean": "e", "std": "eF",
                   "var": "eF", "cumsum": "e", "cumprod": "e"}  # fmt: skip
#: exponents of ``array ** number`` for which NumPy and the op do the same, by kind of dtype
_POWERS: Final[dict[str, Iterable[int]]] = {"i": range(64), "u": range(64), "f": (1, 2)}

_VIEWS: Final = """
    reshape a shape / ravel a / transpose a axes / squeeze a : axis / expand_dims a : axis
    swapaxes a axis1 axis2 / moveaxis a source destination / flip m : axis
"""
_REDUCTIONS: Final = """
    all a : axis keepdims / any a : axis keepdims / argmax a : axis / argmin a : axis
    count_nonzero a : axis / max a : axis keepdims / mean a : axis keepdims
    min a : axis keepdims / prod a : axis keepdims / std a : axis keepdims
    sum a : axis keepdims / var a : axis keepdims
"""
_OTHERS: Final = """
    clip A A_MIN A_MAX / concatenate ARRAYS : axis / copy a / cumprod a : axis / cumsum a : axis
    diff a : n axis / dot A B / flatten a / full_like a fill_value / hstack ARRAYS / ones_like a
    outer A B / repeat a repeats : axis / roll a shift : axis / round a / stack ARRAYS : axis
    take a indices : axis / tile a reps / vstack ARRAYS / where condition X Y / zeros_like a
"""


class Counterpart(NamedTuple):
    """A public function for one of NumPy.

    Attributes:
        name: of it.
        operands: NumPy's names of the parameters that it takes by position.
        common: the positions of those that are brought to one dtype.
        options: the names of those that it takes by name.
        views: whether NumPy's result shares memory with the array.
        reduces: whether NumPy gives a scalar for a result without axes.
    """

    name: str
    operands: tuple[str, ...]
    common: tuple[bool, ...]
    options: tuple[str, ...]
    views: bool
    reduces: bool


def _counterparts() -> Iterator[Counterpart]:
    """Those of the tables: names of parameters in capitals are of operands of one dtype."""
    for table in (_VIEWS, _REDUCTIONS, _OTHERS):
        for row in table.replace("\n", "/").split("/"):
            if not row.strip():
                continue
            first, _, options = row.partition(":")
            name, *names = first.split()
            yield Counterpart(
                name, tuple(n.lower() for n in names), tuple(n.isupper() for n in names),
                tuple(options.split()), table is _VIEWS, table is _REDUCTIONS,
            )  # fmt: skip


METHODS: Final = {one.name: one for one in _counterparts()}
FUNCTIONS: Final[dict[Any, Counterpart]] = {
    getattr(np, name): one for name, one in METHODS.items() if hasattr(np, name)
}
#: what NumPy computes reductions in
_IN_DOUBLE: Final = frozenset({"mean", "std", "var"})
_TOTALS: Final = frozenset({"sum", "prod", "cumsum", "cumprod"})


def _accumulator(name: str, dtype: Any) -> Any:
    """The dtype in which NumPy reduces."""
    if name in _TOTALS:
        return np.sum(np.zeros(1, dtype)).dtype
    return np.dtype("f8") if name in _IN_DOUBLE and dtype.kind in "biu" else dtype


def _mean(x: Tensor, **options: Any) -> Tensor:
    """NumPy divides by a number of double precision."""
    total = functions["sum"](x, **options)
    count = x.size if total.size == 0 else x.size // total.size
    wide = np.dtype("c16" if x.dtype.is_complex else "f8")
    return _cast(_cast(total, wide) / count, x.dtype.dtype)


def _flatten(x: Tensor) -> Tensor:
    return functions["copy"](functions["ravel"](x))


_COMPOSED: Final[dict[str, Callable[..., Tensor]]] = {"mean": _mean, "flatten": _flatten}


def _cast(x: Tensor, dtype: Any) -> Tensor:
    return x if x.dtype.dtype == dtype else functions["astype"](x, dtype)


# --- arguments ----------------------------------------------------------------------------------

#: the classes of NumPy whose arrays do what those of `numpy.ndarray` do
_PLAIN: Final = (np.ndarray, np.memmap)


def argument_tensor(name: str, array: Any) -> Tensor:
    """The elements of an argument of a traced function that is an array of another library.

    Raises:
        TraceError: one of NumPy that does not behave as most do, such as a `numpy.matrix`.
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
    """Whether ``array`` is an array or a scalar of NumPy, and no stand-in for one."""
    return issubclass(type(array), (np.ndarray, np.generic))


# --- in the place of arrays ---------------------------------------------------------------------

#: what NumPy takes for an index that gives a view
_BASIC: Final = (int, slice, type(None), type(...), Dim, AbstractNumber)
_METHOD: Final = (MethodDescriptorType, FunctionType, BuiltinFunctionType)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        yield from _leaves(tuple(value.values()))
    else:
        yield value


def _are_known(*values: Any) -> bool:
    return all(x._is_known for x in _leaves(values) if type(x) is TracedArray)


def _plain(value: Any) -> Any:
    """Arguments of NumPy with the arrays themselves in them."""
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {k: _plain(v) for k, v in value.items()}
    return value._elements("NumPy") if type(value) is TracedArray else value


def _weak(x: Any) -> Any:
    """A type of Python for a number, which takes the dtype of the array; else None."""
    if issubclass(type(x), AbstractNumber):
        return x.kind
    return int if type(x) is Dim else type(x) if type(x) in (int, float, complex) else None


def _dtype_of(x: Any) -> Any:
    weak = _weak(x)
    return weak or (x.dtype if isinstance(x, (np.ndarray, np.generic)) else np.asarray(x).dtype)


def _as_view(x: Tensor) -> Any:
    return x._data.view()


def _as_array(x: Tensor) -> Any:
    """An array of its own, which may be written."""
    return x.numpy().copy("K")


def _as_scalar(x: Tensor) -> Any:
    return x.numpy()[()]


def _binary(ufunc: Any) -> tuple[Any, Any]:
    def forward(self: TracedArray, other: Any) -> Any:
        return NotImplemented if isinstance(other, AbstractArray) else ufunc(self, other)

    return forward, lambda self, other: ufunc(other, self)


def _unary(ufunc: Any) -> Any:
    return lambda self: ufunc(self)


_power: Final = _binary(np.power)[0]


def _in_place(sign: str, known: Callable[..., Any], made: Callable[..., Any]) -> Any:
    def method(self: TracedArray, other: Any) -> Any:
        if self._is_scalar:
            return NotImplemented  # nothing is written: Python takes the operator without =
        if _are_known(self, other):
            known(self._elements(sign), _plain(other))
            return self
        result = made(self, other)
        if not np.can_cast(result.dtype, self.dtype, "same_kind"):
            raise self._refusal(sign, f"the result is {result.dtype}")
        self._write(sign, lambda _: result.tensor)
        return self

    return method


def _converted(what: str, function: Callable[..., Any]) -> Any:
    def method(self: TracedArray, *args: Any) -> Any:
        return function(self._elements(what), *args)

    return method


def _spelled(function: Callable[..., str]) -> Any:
    """A text: if only the graph knows the elements, it spells them."""

    def method(self: TracedArray, *args: Any) -> str:
        x = handle_of(self.tensor)
        if self._is_known:
            return function(self._elements("a text"), *args)
        make = self.maker
        text: str = x._data.text(x, lambda now: function(make(now), *args))
        return text

    return method


@final
class TracedArray:
    """An array, or a scalar, of NumPy in a trace.

    Args:
        tensor: the elements, in a handle that nothing else has.
        kind: the class of what it stands for.
        name: what the user calls the array that it is made of, for messages.
        shares: whether it stands for memory of the caller.

    Attributes:
        tensor: see above.
        shares: likewise.
        looked: whether Python or NumPy has seen the elements of an array from outside.
    """

    __slots__ = ("__weakref__", "_kind", "_name", "_owns", "looked", "shares", "tensor")

    def __init__(self, tensor: Tensor, kind: type, name: str, *, shares: bool = False) -> None:
        put = object.__setattr__
        put(self, "tensor", tensor)
        put(self, "_kind", kind)
        put(self, "_name", name)
        put(self, "shares", shares)
        put(self, "looked", False)
        # whether nothing else can share its memory, so that it may be written
        put(self, "_owns", not shares and not self._is_scalar)

    @staticmethod
    def of(array: Array, name: str) -> TracedArray:
        """In the place of an array from outside, whose elements nobody has looked at yet."""
        lane = as_device("cpu:0").lanes[array.dtype]
        return TracedArray(make_tensor(array, lane), type(array), name, shares=True)

    def _result(self, tensor: Tensor, *, scalar: bool, shares: bool = False) -> TracedArray:
        kind = tensor.dtype.dtype.type if scalar else np.ndarray
        return TracedArray(tensor, kind, self._name, shares=shares)

    def like(self, tensor: Tensor) -> TracedArray:
        """The same with the elements of a tensor."""
        return self._result(handle_of(tensor), scalar=self._is_scalar)

    @property  # type: ignore[misc]  # `isinstance(x, np.ndarray)` holds where it does eagerly
    def __class__(self) -> Any:
        return self._kind

    def __tensor__(self) -> Tensor:
        self._set("_owns", False)
        device = current_device()
        if self.tensor.device is not device:  # where all arrays of NumPy go
            return functions["to_device"](self.tensor, device)
        return handle_of(self.tensor)

    tensor: Tensor
    shares: bool
    looked: bool
    _kind: type
    _name: str
    _owns: bool

    # --- the elements ---

    @property
    def _is_scalar(self) -> bool:
        return issubclass(self._kind, np.generic)

    @property
    def _is_known(self) -> bool:
        return not isinstance(self.tensor._data, AbstractSymbol)

    def _elements(self, what: str) -> Any:
        """The array itself, if it is from outside or follows from constants alone."""
        data = self.tensor._data
        if self._is_known:
            self._set("looked", True)
            return data[()] if self._is_scalar else data
        try:
            return self.maker(make_tensor(data.concrete(what), self.tensor._lane.twin))
        except TraceError:
            raise self._refusal(what) from None

    @property
    def maker(self) -> Callable[[Tensor], Any]:
        """What makes the array or the scalar of a run of the tensor that it gives."""
        return _as_view if self.shares else _as_scalar if self._is_scalar else _as_array

    def _refusal(self, what: str, why: str = "") -> TraceError:
        own = f"ef.asarray({self._name})"
        return TraceError(
            f"{what} of an array of NumPy cannot become part of a graph"
            + (f": {why}" if why else ""),
            given=f"{self._name}, {self.tensor.type}",
            hint=f"go on with a tensor, x = {own}, which has eagerflow's functions, x[i] = v and "
            "x += v; or run NumPy in each step by ef.py_call",
        )

    def _write(self, what: str, change: Callable[[Tensor], Tensor]) -> None:
        """Give it other elements, if no other array can share its memory."""
        made_in: Any = getattr(self.tensor._data, "tracer", None)
        if not self._owns or tracer_among(current()) is not made_in:
            raise self._refusal(what, "others may see the memory that it writes")
        new = change(handle_of(self.tensor))
        if not same_shape(new.shape, self.tensor.shape):
            raise self._refusal(what, "the shape does not fit")
        self._set("tensor", _cast(new, self.dtype))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise self._refusal(f"setting .{name}")

    # --- NumPy's protocols ---

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self._elements("conversion by NumPy"), dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if _are_known(inputs, options):
            return getattr(ufunc, method)(*_plain(inputs), **_plain(options))
        what = f"np.{ufunc.__name__}" + ("" if method == "__call__" else f".{method}")
        name = UFUNCS.get(ufunc)
        if name is None or method != "__call__" or options:
            raise self._refusal(what)
        loop = ufunc.resolve_dtypes((*map(_dtype_of, inputs), None))
        if any(d != loop[0] for d in loop[1:-1]) or loop[0].char in _REFUSED.get(name, ""):
            raise self._refusal(what, f"no op computes it with {loop[0]} as NumPy does")
        made = self._computed(what, name, *[self._operand(x, loop[0], what) for x in inputs])
        if made.dtype.dtype != loop[-1]:
            raise self._refusal(what, f"no op gives {loop[-1]}")
        return self._result(made, scalar=made.ndim == 0)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if _are_known(args, kwargs):
            return function(*_plain(args), **_plain(kwargs))
        found = FUNCTIONS.get(function)
        if found is None:
            if function in (np.shape, np.ndim, np.size) and len(args) == 1:
                return getattr(self, function.__name__)
            raise self._refusal(f"np.{function.__name__}()")
        return self._call(found, f"np.{found.name}()", *args, **kwargs)

    def _call(self, found: Counterpart, what: str, *args: Any, **kwargs: Any) -> Any:
        """What a public function gives in the place of one of NumPy, or of a method."""
        given = dict(zip((*found.operands, *found.options), args, strict=False)) | kwargs
        if len(given) < len(args) + len(kwargs) or not given.keys() <= {
            *found.operands, *found.options
        }:  # fmt: skip
            raise self._refusal(what, "no op takes all of these arguments")
        taken = [given.pop(name) for name in found.operands if name in given]
        common = [x for x, same in zip(taken, found.common, strict=False) if same]
        dtype = self._common(common, what) if common else None

        def operand(x: Any, own: Any = None) -> Any:
            if isinstance(x, (list, tuple)) and any(
                isinstance(y, (np.ndarray, np.generic)) for y in x
            ):
                return [operand(y, own) for y in x]
            if not isinstance(x, (np.ndarray, np.generic)):
                return x if own is None or x is None else self._operand(x, own, what)
            return self._operand(x, own or _accumulator(found.name, x.dtype), what)

        operands = [
            operand(x, dtype if same else None)
            for x, same in zip(taken, found.common, strict=False)
        ]
        made = self._computed(what, found.name, *operands, **given)
        scalar = made.ndim == 0 and (found.reduces or found.name == "dot")
        return self._result(made, scalar=scalar, shares=found.views and self._lends())

    def _common(self, values: Any, what: str) -> Any:
        """The dtype that NumPy brings operands to."""
        known = [x for x in _leaves(values) if x is not None]
        return np.result_type(*[_dtype_of(x) if _weak(x) is None else _weak(x)(1) for x in known])

    def _operand(self, x: Any, dtype: Any, what: str) -> Tensor:
        """An operand of an op, in the dtype in which NumPy computes."""
        device = self.tensor.device
        if device.backend.array_type is not np.ndarray or isinstance(x, AbstractArray):
            raise self._refusal(what, "NumPy computes with its own arrays only")
        if dtype.kind not in "biufc":
            raise self._refusal(what, f"no op computes it with {dtype}")
        if type(x) is TracedArray:
            return _cast(x.tensor, dtype)
        if _weak(x) is None:
            return _cast(functions["asarray"](np.asarray(x), device=device), dtype)
        return functions["asarray"](x, dtype=dtype, device=device)

    def _computed(self, what: str, name: str, *operands: Any, **options: Any) -> Tensor:
        refused = _REFUSED.get(name, "")
        if any(isinstance(x, Tensor) and x.dtype.dtype.char in refused for x in operands):
            raise self._refusal(what, f"no op computes it with {self.dtype} as NumPy does")
        try:
            return (_COMPOSED.get(name) or functions[name])(*operands, **options)
        except TraceError:
            raise
        except TypeError as error:  # an op or its function takes less than NumPy
            raise self._refusal(what, getattr(error, "wrong", str(error))) from None

    def _lends(self) -> bool:
        """Whether a view of it shares memory of the caller; it has one from now on."""
        self._set("_owns", False)
        return self.shares

    # --- as an array ---

    @property
    def dtype(self) -> Any:
        """NumPy's dtype."""
        return self.tensor.dtype.dtype

    @property
    def shape(self) -> Any:
        """The sizes."""
        return self.tensor.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.tensor.ndim

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.tensor.size

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.tensor.itemsize

    @property
    def nbytes(self) -> Any:
        """The bytes that the elements take."""
        return self.tensor.nbytes

    @property
    def T(self) -> Any:  # noqa: N802 - NumPy's name
        """The axes in the opposite order."""
        return self._elements(".T").T if self._is_known else self._method("transpose")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(self._kind, name):
            raise AttributeError(f"'{self._kind.__name__}' object has no attribute {name!r}")
        if self._is_known:
            return getattr(self._elements(f".{name}"), name)
        if not isinstance(getattr(self._kind, name), _METHOD):
            raise self._refusal(f".{name}")
        return partial(self._method, name)

    def _method(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        found = METHODS.get(name)
        if found is None or self._is_scalar:
            raise self._refusal(f".{name}()")
        if name in ("reshape", "transpose") and len(args) > 1:
            args = (args,)
        return self._call(found, f".{name}()", self, *args, **kwargs)

    def astype(self, dtype: Any) -> TracedArray:
        """A copy of another dtype."""
        self._operand(self, self.dtype, ".astype()")
        made = functions["astype"](self.tensor, np.dtype(dtype), copy=True)
        return self._result(made, scalar=self._is_scalar)

    def item(self, *args: Any) -> Any:
        """An element as a Python number."""
        return self._elements(".item()").item(*args)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of unsized object")
        return operator.index(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __getitem__(self, key: Any) -> Any:
        if self._is_known:
            return self._elements("[]")[_plain(key)]
        parts = key if type(key) is tuple else (key,)
        if any(isinstance(x, (bool, np.bool_)) for x in parts):
            raise self._refusal(f"[{key!r}]")
        made = functions["getitem"](self.tensor, key)
        scalar = made.ndim == 0 and not any(x is ... for x in parts)
        view = not scalar and all(isinstance(x, _BASIC) for x in parts)
        return self._result(made, scalar=scalar, shares=view and self._lends())

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._is_known:
            self._elements("[]")[_plain(key)] = _plain(value)
            return  # it was from outside

        def change(x: Tensor) -> Tensor:
            x[key] = _cast(functions["asarray"](value, device=x.device), self.dtype)
            return x

        self._write("[...] = ...", change)

    def __hash__(self) -> int:
        if not self._is_scalar:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self._elements("hash()"))

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, AbstractArray):
            return NotImplemented
        if not self._is_known and not isinstance(other, np.ndarray):
            other = other.ask("**") if issubclass(type(other), AbstractNumber) else other
            kind = self.dtype.kind
            if self._is_scalar or other not in _POWERS.get(kind, ()) or (
                kind in "iu" and type(other) is not int
            ):  # fmt: skip
                raise self._refusal(f"** {other}", "no op computes it as NumPy does")
        return _power(self, other)

    __add__, __radd__ = _binary(np.add)
    __sub__, __rsub__ = _binary(np.subtract)
    __mul__, __rmul__ = _binary(np.multiply)
    __truediv__, __rtruediv__ = _binary(np.true_divide)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide)
    __mod__, __rmod__ = _binary(np.remainder)
    __matmul__, __rmatmul__ = _binary(np.matmul)
    __and__, __rand__ = _binary(np.bitwise_and)
    __or__, __ror__ = _binary(np.bitwise_or)
    __xor__, __rxor__ = _binary(np.bitwise_xor)
    __lshift__, __rlshift__ = _binary(np.left_shift)
    __rshift__, __rrshift__ = _binary(np.right_shift)
    __rpow__ = _binary(np.power)[1]
    __eq__ = _binary(np.equal)[0]
    __ne__ = _binary(np.not_equal)[0]
    __lt__ = _binary(np.less)[0]
    __le__ = _binary(np.less_equal)[0]
    __gt__ = _binary(np.greater)[0]
    __ge__ = _binary(np.greater_equal)[0]
    __iadd__ = _in_place("+=", operator.iadd, operator.add)
    __isub__ = _in_place("-=", operator.isub, operator.sub)
    __imul__ = _in_place("*=", operator.imul, operator.mul)
    __itruediv__ = _in_place("/=", operator.itruediv, operator.truediv)
    __ifloordiv__ = _in_place("//=", operator.ifloordiv, operator.floordiv)
    __imod__ = _in_place("%=", operator.imod, operator.mod)
    __ipow__ = _in_place("**=", operator.ipow, operator.pow)
    __imatmul__ = _in_place("@=", operator.imatmul, operator.matmul)
    __iand__ = _in_place("&=", operator.iand, operator.and_)
    __ior__ = _in_place("|=", operator.ior, operator.or_)
    __ixor__ = _in_place("^=", operator.ixor, operator.xor)
    __ilshift__ = _in_place("<<=", operator.ilshift, operator.lshift)
    __irshift__ = _in_place(">>=", operator.irshift, operator.rshift)
    __neg__ = _unary(np.negative)
    __pos__ = _unary(np.positive)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)
    __bool__ = _converted("bool()", bool)
    __int__ = _converted("int()", int)
    __float__ = _converted("float()", float)
    __complex__ = _converted("complex()", complex)
    __index__ = _converted("its use as an index", operator.index)
    __round__ = _converted("round()", round)
    __divmod__ = _converted("divmod()", divmod)
    __reduce_ex__ = _converted("pickling", lambda x, *args: x.__reduce_ex__(*args))
    __copy__ = _converted("copying", lambda x: x.copy())
    __deepcopy__ = _converted("copying", lambda x, memo: x.copy())
    __str__ = _spelled(str)
    __repr__ = _spelled(repr)
    __format__ = _spelled(format)
