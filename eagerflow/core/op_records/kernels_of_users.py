"""Kernels that users register: their results are checked, and they cannot write into inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from types import CodeType
from typing import Any, Final, final

import numpy as np

from eagerflow.errors import DataDependentError, KernelError
from eagerflow.source import Source
from eagerflow.types import TensorType
from eagerflow_kernels.lists import ListData

#: packages whose kernels are not checked: tests compare them
_OWN: Final = ("eagerflow", "eagerflow_kernels", "numpy", "cupy", "scipy")
#: the most combinations of inputs whose types are kept for a kernel
_MOST: Final = 256
_CONVERTED: Final = (
    "return result.astype(x.dtype), where NumPy computes with more digits, as of floats and "
    "integers; or name that dtype in infer="
)

#: the types of the results by the type rule, given arrays and attributes
Types = TensorType | tuple[TensorType, ...]


def code_of_user(kernel: Any) -> CodeType | None:
    """The code of a kernel that is not one of eagerflow's own."""
    while isinstance(kernel, partial):
        kernel = kernel.func
    code = getattr(kernel, "__code__", None)
    module = str(getattr(kernel, "__module__", "")).partition(".")[0]
    return code if isinstance(code, CodeType) and module not in _OWN else None


def form_refusing(kernel: Any, count: int, attrs: Iterable[str]) -> tuple[str, str] | None:
    """The form of a user's kernel if it does not take such arguments; else None.

    Args:
        kernel: the kernel.
        count: number of inputs.
        attrs: the names of the attributes.

    Returns:
        The signature, ``kernel(xp, x, *, k)``, and the arguments of a call: ``x, k=...``.
    """
    code = code_of_user(kernel)
    if code is None:
        return None
    given = inspect.signature(kernel)
    try:
        given.bind(*range(count), **dict.fromkeys(attrs))
    except TypeError:
        whole = inspect.signature(kernel.func) if isinstance(kernel, partial) else given
        plain = [p.replace(annotation=p.empty) for p in whole.parameters.values()]
        call = [
            f"{p.name}=..." if p.kind is p.KEYWORD_ONLY else str(p.replace(annotation=p.empty))
            for p in given.parameters.values()
        ]
        return f"{code.co_name}{inspect.Signature(plain)}", ", ".join(call)
    return None


def checked(
    name: str, kernel: Callable[..., Any], code: CodeType, array_type: type[Any],
    types_of: Callable[[Any, dict[str, Any]], Types], *, protects: bool,
) -> Callable[..., Any]:  # fmt: skip
    """A user's kernel, each of whose results is compared with the type rule.

    The rule runs once for each combination of shapes and attributes: it costs more than a small
    kernel.

    Args:
        name: of the op.
        kernel: the kernel.
        code: its code, for messages.
        array_type: the class of its arrays.
        types_of: the type rule, of arrays and attributes.
        protects: whether the kernel gets read-only views of its inputs.
    """
    known: dict[Any, _Expected | None] = {}

    def expected(arrays: Any, attrs: dict[str, Any]) -> _Expected | None:
        try:
            made = _Expected(types_of(arrays, attrs))
        except DataDependentError:
            made = None
        return made

    def run(*arrays: Any, **attrs: Any) -> Any:
        data = kernel(*map(_read_only, arrays), **attrs) if protects else kernel(*arrays, **attrs)
        try:
            key: Any = tuple([x.shape for x in arrays])
            if attrs:
                key = key, *attrs.items()
            wanted = known[key]
        except (AttributeError, TypeError):  # a number, a list, or an attribute without hash
            wanted = expected(arrays, attrs)
        except KeyError:
            wanted = expected(arrays, attrs)
            if len(known) < _MOST:
                known[key] = wanted
        if wanted is not None and not (
            type(data) is array_type and data.dtype is wanted.dtype and data.shape == wanted.shape
        ):
            _check(name, data, wanted.types, array_type, code)
        if protects and type(data) is np.ndarray and not data.flags.writeable:
            return np.array(data)  # a view of an input, in an op whose results are new arrays
        return data

    return run


@final
class _Expected:
    """The types of results by the type rule.

    Attributes:
        types: the types.
        dtype: NumPy's dtype of a single result.
        shape: its shape.
    """

    __slots__ = ("dtype", "shape", "types")

    def __init__(self, types: Types) -> None:
        single = None if isinstance(types, tuple) else types
        self.types = types
        self.dtype = None if single is None else single.dtype.dtype
        self.shape = None if single is None else single.shape


def _read_only(x: Any) -> Any:
    if type(x) is not np.ndarray:
        return x
    x = x.view()
    x.setflags(write=False)
    return x


def _check(name: str, data: Any, types: Types, array_type: type[Any], code: CodeType) -> None:
    """Compare the result of a kernel with the type rule.

    Args:
        name: of the op.
        data: the result.
        types: the types by the rule.
        array_type: the class of the kernel's arrays.
        code: the code of the kernel.

    Raises:
        KernelError: result and types differ.
    """
    given, expected = (data, types) if isinstance(types, tuple) else ((data,), (types,))
    if not isinstance(given, tuple) or len(given) != len(expected):
        raise _wrong(name, "gives another number of outputs than", _shown(data), types, code)
    for x, kind in zip(given, expected, strict=True):
        if type(x) is ListData:
            continue
        if not isinstance(x, (array_type, np.generic)):
            raise _wrong(name, "gives no array, as", _shown(x), types, code)
        if x.dtype != kind.dtype.dtype:
            raise _wrong(name, "gives another dtype than", f"{x.dtype}", types, code, _CONVERTED)
        if x.shape == kind.shape:
            continue
        sizes = zip(x.shape, kind.shape, strict=False)
        if len(x.shape) != len(kind.shape) or any(a != b for a, b in sizes if type(b) is int):
            raise _wrong(name, "gives another shape than", _shown(x), types, code)


def _shown(x: Any) -> str:
    if isinstance(x, (np.ndarray, np.generic)):
        return f"{x.dtype}[{', '.join(map(str, x.shape))}]"
    return f"{len(x)} outputs" if isinstance(x, tuple) else f"a {type(x).__name__}"


def _wrong(
    name: str, what: str, given: str, types: Any, code: CodeType, hint: str | None = None
) -> KernelError:
    kinds = types if isinstance(types, tuple) else (types,)
    return KernelError(
        f"{name}: a kernel that was registered {what} the type rule of the op says",
        given=f"{given} by {Source(code, 0)}",
        expected=", ".join(map(str, kinds)),
        hint=hint,
    )
