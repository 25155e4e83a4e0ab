"""A module `cupy` whose arrays are NumPy's, and that refuses all calls that CuPy lacks.

`cupy_signatures.json` lists CuPy's interface (``tools/cupy_signatures.py`` writes it): functions
with their parameters, ufuncs with their dtypes, methods. Each call of a kernel is checked against
that list, then done by NumPy. So a kernel that passes makes calls that CuPy takes; the values that
CuPy computes are seen on a GPU alone (`test_gpu.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from eagerflow_kernels.cuda import library

SIGNATURES = json.loads((Path(__file__).parent / "cupy_signatures.json").read_text())
#: dtypes of arrays of CuPy, by the character of NumPy
CHARACTERS = "?bBhHiIlLqQefdFD"


class LacksError(Exception):
    """CuPy has no such function, attribute or dtype, or does not take such arguments."""


class LacksAttributeError(LacksError, AttributeError):
    """CuPy has no attribute of that name."""


def bound(name: str, parameters: Sequence[str] | None, args: Sequence[Any], kwargs: Any) -> None:
    """Check a call against the parameters of a function.

    Raises:
        LacksError: a parameter is unknown, or too many or too few arguments are given.
    """
    if parameters is None:
        return
    positional: list[str] = []
    keywords: set[str] = set()
    more = others = False
    after = False
    required = []
    for text in parameters:
        if text.startswith("**"):
            others = True
        elif text.startswith("*"):
            more, after = more or text != "*", True
        else:
            key = text.rstrip("=")
            keywords.add(key)
            if not after:
                positional.append(key)
                if not text.endswith("="):
                    required.append(key)
    if len(args) > len(positional) and not more:
        raise LacksError(f"cupy.{name} takes {len(positional)} positional arguments: {len(args)}")
    unknown = {*kwargs} - keywords
    if unknown and not others:
        raise LacksError(f"cupy.{name} has no parameter {min(unknown)}")
    missing = [key for key in required[len(args) :] if key not in kwargs]
    if missing:
        raise LacksError(f"cupy.{name} needs {missing[0]}")


#: the driver (`tests.kernels.cuda.driver`), if any, that is notified of memory and of work
driver: Any = None


class CheckedArray:
    """An array of the devices, which NumPy does not take for one of its own.

    Args:
        inner: an array of NumPy; or a shape, for an array of the dtype in the memory of a driver.
    """

    __array_ufunc__ = None
    __hash__ = None

    def __init__(self, inner: Any, dtype: Any = None, memptr: Any = None) -> None:
        if memptr is not None:
            inner = memptr.array(inner, dtype)
        if inner.dtype.char not in CHARACTERS:
            raise LacksError(f"CuPy has no arrays of {inner.dtype}")
        if driver is not None:
            driver.made(inner)
        self.inner = inner

    @property
    def data(self) -> Any:
        return driver.pointer_of(self.inner)

    @property
    def device(self) -> Any:
        return library.cupy().cuda.Device(driver.memory_of(self.inner).device)

    def get(self, *, stream: Any) -> np.ndarray[Any, Any]:
        """Copies the values to the host, without waiting."""
        return driver.get(self.inner, stream)

    def set(self, values: np.ndarray[Any, Any], *, stream: Any) -> None:
        """Copies values of the host to the array, without waiting."""
        driver.set(self.inner, values, stream)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inner.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.inner.dtype

    @property
    def ndim(self) -> int:
        return self.inner.ndim

    @property
    def size(self) -> int:
        return self.inner.size

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise LacksError("an array of CuPy does not become NumPy's by itself")

    def _on_host(self) -> np.ndarray[Any, Any]:
        if driver is not None:
            driver.read_on_host(self.inner)
        return self.inner

    def __bool__(self) -> bool:
        return bool(self._on_host())

    def __float__(self) -> float:
        return float(self._on_host())

    def __complex__(self) -> complex:
        return complex(self._on_host())

    def __int__(self) -> int:
        return int(self._on_host())

    def __index__(self) -> int:
        return self._on_host().__index__()

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Any:
        return (wrap(part) for part in self.inner)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in SIGNATURES["methods"]:
            raise LacksAttributeError(f"cupy.ndarray has no {name}")
        attribute = getattr(self.inner, name)
        if not callable(attribute):
            return wrap(attribute)
        parameters = SIGNATURES["methods"][name]

        def method(*args: Any, **kwargs: Any) -> Any:
            bound(f"ndarray.{name}", parameters, args, kwargs)
            return call(attribute, *args, **kwargs)

        return method

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "inner":
            object.__setattr__(self, name, value)
        else:
            setattr(self.inner, name, unwrap(value))


_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift",
)  # fmt: skip
_OTHER = ["neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne", "getitem"]


def _operator(name: str) -> Callable[..., Any]:
    function = getattr(np.ndarray, name)

    def operate(self: CheckedArray, *args: Any) -> Any:
        if name not in SIGNATURES["operators"]:
            raise LacksError(f"cupy.ndarray has no {name}")
        return call(function, self, *args)

    return operate


for _name in (*_BINARY, *_OTHER, *(f"r{n}" for n in _BINARY)):
    setattr(CheckedArray, f"__{_name}__", _operator(f"__{_name}__"))


def _in_place(name: str) -> Callable[..., Any]:
    function = getattr(np.ndarray, name)

    def operate(self: CheckedArray, *args: Any) -> Any:
        if name not in SIGNATURES["operators"]:
            raise LacksError(f"cupy.ndarray has no {name}")
        call(function, self, *args)
        _written(self)
        return self

    return operate


for _name in (f"i{n}" for n in _BINARY if n != "matmul"):
    setattr(CheckedArray, f"__{_name}__", _in_place(f"__{_name}__"))


# --- differences between CuPy and NumPy -------------------------------------------------------


def _wrapped(index: Any, size: int) -> Any:
    """The index, with integers that are out of range wrapped around."""
    kind = getattr(getattr(index, "dtype", None), "kind", "")
    return index % size if kind in ("i", "u") and size else index


def _getitem(self: CheckedArray, key: Any) -> Any:
    given, key = key, unwrap(key)
    parts = key if type(key) is tuple else (key,)
    if all(isinstance(part, np.ndarray) for part in parts):
        sizes = zip(parts, self.inner.shape, strict=False)
        key = tuple(_wrapped(part, size) for part, size in sizes)
    taken = self.inner[key]
    _told((self, given), taken)
    return wrap(taken)


def _setitem(self: CheckedArray, key: Any, value: Any) -> None:
    """Assigns by index; of several values for one element, the first wins."""
    _told((key, value), None)
    _written(self)
    key, value = unwrap(key), unwrap(value)
    parts = key if type(key) is tuple else (key,)
    if parts and all(isinstance(p, np.ndarray) and p.dtype.kind in "iu" for p in parts):
        places = np.broadcast_arrays(*parts)
        values = np.broadcast_to(value, self.inner[key].shape)
        flat = values.reshape(places[0].size, *values.shape[places[0].ndim :])
        self.inner[tuple(p.reshape(-1)[::-1] for p in places)] = flat[::-1]
    else:
        self.inner[key] = value


def _take(self: CheckedArray, indices: Any, axis: Any = None, out: Any = None) -> Any:
    size = self.inner.size if axis is None else self.inner.shape[axis]
    return call(self.inner.take, wrap(_wrapped(unwrap(indices), size)), axis, out)


CheckedArray.__getitem__ = _getitem
CheckedArray.__setitem__ = _setitem
CheckedArray.take = _take


def unwrap(value: Any) -> Any:
    """The value with NumPy's arrays in place of checked ones, also in lists and tuples.

    Raises:
        LacksError: the value contains an array of NumPy.
    """
    if isinstance(value, CheckedArray):
        return value.inner
    if isinstance(value, np.ndarray):
        raise LacksError("an array of NumPy is given to CuPy")
    if type(value) in (list, tuple):
        return type(value)(map(unwrap, value))
    return value


def wrap(value: Any) -> Any:
    """The inverse of `unwrap`; NumPy's scalars become arrays, as CuPy's results are."""
    if isinstance(value, (np.ndarray, np.generic)):
        return CheckedArray(np.asarray(value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(wrap, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(wrap, value))
    return value


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result of a function of NumPy on checked arrays."""
    plain = {k: unwrap(v) for k, v in kwargs.items()}
    with np.errstate(all="ignore"):  # a GPU warns of nothing
        result = function(*map(unwrap, args), **plain)
    _told((args, tuple(kwargs.values())), result)
    return wrap(result)


def _told(given: Any, results: Any) -> None:
    """Notifies the driver of the arrays that a kernel has read, and of its results."""
    if driver is not None:
        made = results if isinstance(results, (tuple, list)) else [results]
        driver.kernel([x.inner for x in _arrays_in(given)], made)


def _arrays_in(given: Any) -> Iterator[CheckedArray]:
    if isinstance(given, CheckedArray):
        yield given
    elif isinstance(given, (tuple, list)):
        for one in given:
            yield from _arrays_in(one)


def _written(array: Any) -> None:
    """Notifies the driver of an array that a kernel has written into."""
    if driver is not None and isinstance(array, CheckedArray):
        driver.written(array.inner)


class CheckedUfunc:
    """A ufunc of CuPy: it has loops for some dtypes, and few methods."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.function = getattr(np, name)
        self.known = SIGNATURES["ufuncs"][name]
        self.nin = self.known["in"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        unknown = {*kwargs} - {"out", "dtype", "casting", "where"}
        if unknown:
            raise LacksError(f"cupy.{self.name} has no parameter {min(unknown)}")
        if not self.nin <= len(args) <= self.nin + self.function.nout:
            raise LacksError(f"cupy.{self.name} takes {self.nin} arrays and outputs: {len(args)}")
        self.check_dtypes(args[: self.nin])
        result = call(self.function, *args, **kwargs)
        for out in (*args[self.nin :], kwargs.get("out")):
            _written(out)
        return result

    def check_dtypes(self, args: Sequence[Any]) -> None:
        arrays = [x.dtype for x in args if isinstance(x, (CheckedArray, np.generic))]
        if not arrays:
            return
        for types in self.known["types"]:
            loop = types.partition("->")[0]
            pairs = zip(args, loop, strict=False)
            if all(np.can_cast(x.dtype, c) for x, c in pairs if hasattr(x, "dtype")):
                return
        given = ", ".join(map(str, arrays))
        raise LacksError(f"cupy.{self.name} has no loop for {given}")

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in SIGNATURES["ufunc methods"]:
            raise LacksAttributeError(f"cupy.ufunc has no {name}")

        def method(*args: Any, **kwargs: Any) -> Any:
            bound(f"{self.name}.{name}", SIGNATURES["ufunc methods"][name], args, kwargs)
            if name in ("reduceat", "at") and self.name not in _SCATTERED[name]:
                raise LacksError(f"cupy.{self.name}.{name} is not implemented")
            if name == "at" and args[0].dtype.char not in _SCATTERED_DTYPES.get(self.name, ""):
                raise LacksError(f"cupy.{self.name}.at has no loop for {args[0].dtype}")
            result = call(getattr(self.function, name), *args, **kwargs)
            if name == "at":
                _written(args[0])
            return result

        return method


#: the ufuncs for which methods are implemented (CuPy 14: `cupy/_core/_kernel.pyx`)
_SCATTERED = {
    "at": ("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"),
    "reduceat": ("add",),
}


#: and the dtypes for which ``at`` is (`cupy/_core/_routines_indexing.pyx`)
_SCATTERED_DTYPES = {"add": "iIlLqQefd", "maximum": "iIlLqQfd", "minimum": "iIlLqQfd"}


class CheckedNamespace:
    """The namespace of CuPy, or of one of its submodules."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        full = f"{self._prefix}{name}"
        target: Any = np
        for part in full.split("."):
            target = getattr(target, part, None)
        if full in ("linalg", "fft", "lib", "lib.stride_tricks"):
            return CheckedNamespace(f"{full}.")
        if full in SIGNATURES["ufuncs"] and isinstance(target, np.ufunc):
            return CheckedUfunc(full)
        if full in SIGNATURES["functions"] and target is not None:
            return _function(full, target)
        if full in SIGNATURES["values"]:
            return CheckedArray if full == "ndarray" else target
        raise LacksAttributeError(f"cupy has no {full}")


#: functions that make arrays of CuPy from arrays of NumPy
_ENTRANCES = ("asarray", "array", "ascontiguousarray")


def _function(name: str, target: Callable[..., Any]) -> Callable[..., Any]:
    parameters = SIGNATURES["functions"][name]

    def function(*args: Any, **kwargs: Any) -> Any:
        bound(name, parameters, args, kwargs)
        if name.startswith("linalg."):
            try:
                return call(target, *args, **kwargs)
            except np.linalg.LinAlgError:
                if raises:
                    raise
                return wrap(np.full_like(unwrap(args[0]), np.nan))
        if name in _ENTRANCES and isinstance(args[0], np.ndarray):
            args = (CheckedArray(args[0].copy()), *args[1:])
        return call(target, *args, **kwargs)

    function.__module__ = "cupy"  # not a kernel of the user
    return function


#: open blocks in which decompositions raise
raises: list[None] = []


class CheckedCupy(CheckedNamespace):
    """The module ``cupy``."""

    @contextmanager
    def raising(self) -> Iterator[None]:
        raises.append(None)
        try:
            yield
        finally:
            raises.pop()
