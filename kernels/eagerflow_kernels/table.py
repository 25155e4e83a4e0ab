"""The table of kernels: (op name, device kind, dtypes) -> kernel.

A *portable* kernel ``f(xp, *arrays, **attrs)`` is written once against the array namespace ``xp``
(NumPy on CPU, CuPy on GPU) and defines the meaning of the op. A *special* kernel
``f(*arrays, **attrs)`` is an extra row for one kind of device and, optionally, one tuple of dtype
names; it must have the same results.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

Array = Any  # of the namespace that a kernel is called with
Kernel = Callable[..., Any]  # arrays in and out
_K = TypeVar("_K", bound=Kernel)
_P = TypeVar("_P", bound=Callable[[Array], Kernel])

#: the names of dtypes of inputs
DTYPE_NAMES: Final = frozenset({
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128",
    "bytes",
})  # fmt: skip
_PACKAGE: Final = __name__.partition(".")[0]
_lock: Final = threading.Lock()
_portable: dict[str, Kernel | str] = {}
_original: dict[str, Kernel | str] = {}
_special: dict[tuple[str, str, tuple[str, ...] | None], Kernel] = {}
#: the rows of `_special` that this package registered
_own: Final[set[tuple[str, str, tuple[str, ...] | None]]] = set()
#: the ops for which this package registered a portable kernel
_own_portable: Final[set[str]] = set()
#: kernel -> the preparation of its calls with a last array that stays
_prepared: Final[dict[Kernel, Callable[[Array], Kernel]]] = {}
_checks: Final[list[Callable[[str, str, tuple[str, ...] | None], None]]] = []
_hooks: list[Callable[[str], None]] = []


class HasName(Protocol):
    """A dtype of another package, such as ``ef.float32`` or ``np.dtype("float32")``."""

    @property
    def name(self) -> str:
        """The name of the dtype."""


def _name_of(dtype: str | HasName) -> str:
    return dtype if isinstance(dtype, str) else getattr(dtype, "name", repr(dtype))


def _is_of_package(module: object) -> bool:
    """Whether a module name is in this package."""
    return str(module).partition(".")[0] == _PACKAGE


def portable(
    name: str, function: str | None = None, *, replace: bool = False
) -> Callable[[_K], _K]:
    """Register the portable kernel of the op ``name``, as a decorator.

    Registering again replaces the kernel from the next call on.

    Args:
        name: the op's name.
        function: instead of a decorated function, the name of a function of ``xp`` (dotted for a
            sub-namespace, ``"linalg.inv"``) that takes exactly the op's arrays and attributes.
        replace: whether it may replace a kernel of this package, wherever an op of that name runs
            from now on.

    Raises:
        ValueError: this package has a kernel of that name, which is not to be replaced.

    >>> from eagerflow_kernels.table import portable
    >>> @portable("my_halves")
    ... def halves(xp, x):
    ...     return xp.floor(x / 2)
    """
    if _is_of_package(sys._getframe(1).f_globals.get("__name__")):
        _own_portable.add(name)
    elif name in _own_portable and not replace:
        raise ValueError(
            f"eagerflow has an op {name!r} with a kernel: give yours another name; with "
            f"portable({name!r}, replace=True) all that calls that op gets your kernel"
        )
    if function is not None:
        _original.setdefault(name, function)
        _store(_portable, name, function, name)

    def register(kernel: _K) -> _K:
        _original.setdefault(name, kernel)
        _store(_portable, name, kernel, name)
        return kernel

    return register


def special(
    name: str, device_kind: str, dtypes: tuple[str | HasName, ...] | None = None
) -> Callable[[_K], _K]:
    """Register a kernel for one device kind, as a decorator.

    The kernel is called ``f(*arrays, **attrs)``: without the namespace ``xp`` that portable
    kernels get, as the kind of device says what its arrays are.

    Args:
        name: the op's name.
        device_kind: such as ``"cpu"`` or ``"gpu"``.
        dtypes: the dtypes of one call of the kernel, or their names: one for each input, or one for
            any number of inputs; None for all dtypes. For several dtypes of one input, register the
            kernel once for each.

    Raises:
        ValueError: there is no dtype of such a name, or the kernel takes ``xp``.

    >>> from eagerflow_kernels.table import portable, special
    >>> @portable("my_thirds")
    ... def thirds(xp, x):
    ...     return xp.floor(x / 3)
    >>> @special("my_thirds", "cpu", ("float32",))
    ... def thirds_on_cpus(x):
    ...     return x // 3
    """
    single = isinstance(dtypes, str) or hasattr(dtypes, "name")
    names = None if single or dtypes is None else tuple(map(_name_of, dtypes))
    unknown = [one for one in names or () if one not in DTYPE_NAMES]
    if single or unknown:
        wrong = repr(dtypes) if single else ", ".join(map(repr, unknown))
        raise ValueError(
            f"special: the dtypes of a kernel of {name!r} are a tuple, such as ('float32',); "
            f"got {wrong}"
        )

    def register(kernel: _K) -> _K:
        key = name, device_kind, _row_of(names)
        # users register functions of NumPy as well, so the kernel does not tell who registered it
        own = _is_of_package(sys._getframe(1).f_globals.get("__name__"))
        if not own:
            _refuse_namespace(name, kernel)
        for check in () if own else _checks:
            check(name, device_kind, names)
        (_own.add if own else _own.discard)(key)
        _store(_special, key, kernel, name)
        return kernel

    return register


def prepared(kernel: Kernel) -> Callable[[_P], _P]:
    """Register the preparation of a kernel, as a decorator.

    ``prepare(last)`` gives a kernel for loops in which the last array stays. It is called with the
    other arrays, and has the results of ``kernel``, bit for bit.
    """

    def register(prepare: _P) -> _P:
        _prepared[kernel] = prepare
        return prepare

    return register


def preparation(kernel: Kernel) -> Callable[[Array], Kernel] | None:
    """The preparation of a kernel; None if there is none."""
    return _prepared.get(kernel)


def _row_of(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The dtypes as they are looked up: one name stands for any number of inputs of a dtype."""
    return names[:1] if names is not None and len(set(names)) == 1 else names


def _refuse_namespace(name: str, kernel: Kernel) -> None:
    """Refuse a special kernel that is written like a portable one.

    Raises:
        ValueError: its first parameter is ``xp``.
    """
    code = getattr(kernel, "__code__", None)
    if code is not None and code.co_argcount and code.co_varnames[0] == "xp":
        raise ValueError(
            f"special: a kernel of {name!r} for one kind of device gets no xp: its arrays come "
            "first, and those of the CPU are NumPy's; @portable is for kernels that take it"
        )


def _store(rows: dict[Any, Any], key: Any, kernel: Kernel | str, name: str) -> None:
    with _lock:
        rows[key] = kernel
    for hook in _hooks:
        hook(name)


def remove(
    name: str, device_kind: str | None = None, dtypes: tuple[str, ...] | None = None
) -> None:
    """Remove a row: the portable kernel, or a special one if a device kind is given."""
    with _lock:
        if device_kind is None:
            _portable.pop(name, None)
        else:
            _special.pop((name, device_kind, _row_of(dtypes)), None)
    for hook in _hooks:
        hook(name)


def on_change(hook: Callable[[str], None]) -> None:
    """Call ``hook(op name)`` after each registration (the caches of callers depend on it)."""
    _hooks.append(hook)


def check_by(check: Callable[[str, str, tuple[str, ...] | None], None]) -> None:
    """Call ``check(op name, device kind, dtypes)`` before a special kernel of a user's is kept."""
    _checks.append(check)


def dtypes_of_users(name: str) -> list[tuple[str, ...]]:
    """The dtypes of the special kernels that users registered for an op."""
    return [key[2] for key in list(_special) if key[0] == name and key[2] and key not in _own]


def names() -> frozenset[str]:
    """The names of all ops that have a portable kernel."""
    return frozenset(_portable)


def portable_kernel(name: str) -> Kernel | str | None:
    """The portable kernel of an op as registered; None if there is none."""
    return _portable.get(name)


def original_kernel(name: str) -> Kernel | str | None:
    """The portable kernel of an op registered first, which the facts of the op describe."""
    return _original.get(name)


def is_own(name: str, device_kind: str, dtypes: tuple[str, ...]) -> bool:
    """Whether the kernel that `find` returns for NumPy is this package's, not a user's."""
    for key in ((name, device_kind, dtypes), (name, device_kind, None)):
        if key in _special:
            return key in _own
    return _portable.get(name) is _original.get(name)


def is_replaced(name: str) -> bool:
    """Whether any kernel of an op, for any device kind, is a user's."""
    special_rows = [key for key in _special if key[0] == name]
    return not _own.issuperset(special_rows) or _portable.get(name) is not _original.get(name)


def find(name: str, device_kind: str, dtypes: tuple[str, ...], xp: Any) -> Kernel | None:
    """The kernel for an op: special for these dtypes, special for the device kind, portable."""
    kernel = _special.get((name, device_kind, dtypes)) or _special.get((name, device_kind, None))
    if kernel is not None:
        return kernel
    return find_portable(name, xp)


def find_portable(name: str, xp: Any) -> Kernel | None:
    """The portable kernel for an op, also where there are special ones."""
    row = _portable.get(name)
    if row is None or xp is None:
        return None
    if isinstance(row, str):
        target: Any = xp
        for part in row.split("."):
            target = getattr(target, part)
        function: Kernel = target
        return function
    return partial(row, xp)
