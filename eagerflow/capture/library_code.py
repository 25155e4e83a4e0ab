"""Library code, which is not analysed, and the reads of it in the user's code."""

from __future__ import annotations

import functools
import sys
import sysconfig
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from types import (
    BuiltinFunctionType,
    FunctionType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, Final, final

from eagerflow.capture.access_paths import GONE, AccessPath, Root, joined
from eagerflow.capture.bytecode import facts_of
from eagerflow.capture.equality import ATOMS

if TYPE_CHECKING:
    from eagerflow.capture.reads import Reads

_OWN: Final = ("eagerflow", "eagerflow_kernels", "eagerflow_widgets")
#: parts of eagerflow that are written like user code
EXAMPLES: Final = "eagerflow.demo"
#: parts of eagerflow with classes whose attributes users set, as in their own classes
_LIKE_USERS: Final = (
    "eagerflow.nn.layers.", "eagerflow.nn.metrics.", "eagerflow.nn.module.",
    "eagerflow.optim.", "eagerflow.data.", "eagerflow.distributions.", f"{EXAMPLES}.",
)  # fmt: skip
#: among them, modules with objects that never change
_FIXED: Final = ("eagerflow.optim.parameters",)
_STANDARD: Final = sys.stdlib_module_names - {"__main__"}
_STANDARD_FOLDERS: Final = tuple(
    {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")} - {None}
)
#: root of the paths to all modules
MODULES: Final = Root(sys.modules, "sys.modules")
_BARE: Final = frozenset({FunctionType, ModuleType, SimpleNamespace})
_DESCRIPTORS: Final = (MethodDescriptorType, WrapperDescriptorType)
_BARE_NAMES: Final = frozenset({("argparse", "Namespace"), ("_thread", "_local")})
#: modules of base classes whose methods read no attributes, or for which there are findings
_STATELESS: Final = frozenset({
    "abc", "builtins", "collections.abc", "concurrent.futures._base", "concurrent.futures.process",
    "concurrent.futures.thread", "logging", "typing",
})  # fmt: skip
_HEAP_TYPE: Final = 1 << 9
_KINDS_IN_SYS: Final[dict[type, str]] = {dict: "keys", list: "items"}

#: modules of Python's library that treat arguments of all types alike
_FOR_ALL: Final = frozenset({
    "abc", "argparse", "asyncio", "bisect", "builtins", "cmath", "collections", "collections_abc",
    "concurrent", "contextlib", "contextvars", "copy", "dataclasses", "enum", "functools", "gc",
    "heapq", "inspect", "itertools", "logging", "math", "numbers", "operator", "queue", "sys",
    "thread", "threading", "time", "traceback", "types", "typing", "unittest", "warnings",
    "weakref",
})  # fmt: skip

#: (module, file) -> whether it is library code; False also where a check is needed each time
_known: Final[dict[tuple[str, str], bool]] = {}

#: the class of functions with a cache
CACHED: Final = type(functools.lru_cache(lambda: None))


def is_library(namespace: Mapping[str, Any]) -> bool:
    """Whether the functions of a module are library code, given its global names."""
    name = namespace.get("__name__")
    if not isinstance(name, str) or name == "__main__":
        return False
    file = namespace.get("__file__")
    file = file if isinstance(file, str) else ""
    top = name.partition(".")[0]
    if top in _OWN:
        return not f"{name}.".startswith(_LIKE_USERS) or name in _FIXED
    if top in _STANDARD and (not file or file.startswith(_STANDARD_FOLDERS)):
        return True
    if "site-packages" not in file and "dist-packages" not in file and not _is_binary(file):
        return False
    key = (name, file)
    if key not in _known:
        _known[key] = not any(map(_is_own, list(namespace.values())))
    return _known[key]


def _is_binary(file: str) -> bool:
    return file.endswith((".so", ".pyd"))


def _is_own(value: Any) -> bool:
    """Whether a global of a module shows that the module uses eagerflow."""
    kind = type(value)
    if kind is ModuleType:
        name = value.__name__
    else:
        name = getattr(value if kind in (FunctionType, type) else kind, "__module__", None)
    return isinstance(name, str) and name.partition(".")[0] in _OWN


def is_library_class(cls: type) -> bool:
    """Whether the methods of a class are library code."""
    name = cls.__module__
    if not isinstance(name, str) or name == "builtins":
        # functions made by `exec` in a namespace without a name claim to be builtins
        return not cls.__flags__ & _HEAP_TYPE
    top = name.partition(".")[0]
    module = sys.modules.get(name)
    if module is None or top.startswith("_cython_"):
        return top in _OWN or top in _STANDARD or top.startswith("_cython_")
    return is_library(vars(module))


def is_bare_class(cls: type) -> bool:
    """Whether a library class has no methods and only attributes that the user sets."""
    # by name: few programs load these modules, and any with an instance did
    return cls in _BARE or (cls.__module__, cls.__name__) in _BARE_NAMES


def may_look_at_types(value: Any) -> bool:
    """Whether a function, class or module of Python's library or NumPy may ask for an exact int.

    `json`, `decimal` and `datetime` do: to them, a stand-in for a number in a trace, which is an
    int to `isinstance` alone, is no int.
    """
    if type(value) in _DESCRIPTORS:
        return value.__objclass__ in (int, float, complex)
    top = home(value)
    return top == "numpy" or (top in _STANDARD and top.lstrip("_") not in _FOR_ALL)


def home(value: Any) -> str:
    """The package that a function, a class, a module or the class of an object is from."""
    kind = type(value)
    owner = getattr(value, "__self__", None) if kind is BuiltinFunctionType else value
    if type(owner) is ModuleType:
        name: Any = owner.__name__
    else:
        cls = owner if isinstance(owner, type) else type(owner)
        name = getattr(value, "__module__", None) or cls.__module__
    return name.partition(".")[0] if isinstance(name, str) else ""


def reads_itself(cls: type) -> bool:
    """Whether a class has methods that Python or a library wrote, which may read attributes."""
    return (
        hasattr(cls, "__dataclass_fields__")
        or hasattr(cls, "__attrs_attrs__")
        or any(map(is_bare_class, cls.__mro__))
        or has_library_base(cls)
    )


def has_library_base(cls: type) -> bool:
    """Whether a class is, or derives from, a library class whose methods may read attributes."""
    return any(map(_holds_more, cls.__mro__))


def calls_methods(cls: type, names: Container[str]) -> bool:
    """Whether one of these names is the name of a method or property of a class."""
    return any(
        name in names and not name.startswith("__") and hasattr(type(member), "__get__")
        and not isinstance(member, MemberDescriptorType)
        for base in cls.__mro__
        for name, member in list(base.__dict__.items())
    )  # fmt: skip


def _holds_more(base: type) -> bool:
    if not is_library_class(base) or is_bare_class(base):
        return False
    # the waiters of a condition are no state
    if base.__module__ in _STATELESS or base.__qualname__ == "Condition":
        return False
    return base.__module__.partition(".")[0] not in _OWN


def member_of(
    path: AccessPath, module: ModuleType, names: Sequence[str]
) -> tuple[AccessPath, Any] | None:
    """The value that code reads of a library module by attributes, with its access path.

    Args:
        path: of the module.
        module: the module.
        names: the attributes, as in ``np.linalg.norm``.
    """
    value: Any = module
    for name in names:
        if not isinstance(value, ModuleType) or not is_library(vars(value)):
            break
        owner, value = value, attribute_of(value, name)
        if value is GONE or attribute_of(owner, name) is not value:  # computed at each access
            return None
        path = AccessPath(path, "attribute", name, joined(path.text, f".{name}"), True)
    return None if value is module else (path, value)


def attribute_of(module: ModuleType, name: str) -> Any:
    """An attribute of a module, or `GONE` if it is missing or taking it may run the user's code."""
    if name in vars(module) or not is_library(vars(module)):
        return vars(module).get(name, GONE)
    # NumPy imports its parts, such as np.random, when they are first asked for
    with warnings.catch_warnings(action="ignore"):
        try:
            return getattr(module, name, GONE)
        except Exception:  # the import failed
            return GONE


def kind_of_member(module: ModuleType, value: Any) -> str | None:
    """The kind of guard for a value of a library module; None if the value is visited."""
    if type(value) in ATOMS or type(value) is tuple:
        return "value"
    if module is sys:  # which leads to all modules
        return _KINDS_IN_SYS.get(type(value), "member")
    # for os there are rules for findings
    known = callable(value) or isinstance(value, ModuleType) or module.__name__ == "os"
    return "member" if known else None


@final
class LibraryMembers:
    """The reads by name of library modules in the user's code."""

    def __init__(self) -> None:
        self._modules: list[tuple[AccessPath, ModuleType]] = []  # by any name
        self._given: set[tuple[int, str]] = set()

    def add(self, path: AccessPath | Root, module: ModuleType) -> bool:
        """Note a module if it is of a library, and return whether it is."""
        library = is_library(vars(module))
        if library and isinstance(path, AccessPath):
            self._modules.append((path, module))
        return library

    def new(self, reads: Reads, asked: Set[str]) -> Iterator[tuple[AccessPath, Any, str | None]]:
        """The reads not yielded before: path, value, and kind of guard.

        Args:
            reads: the reads of the code known so far.
            asked: names that `getattr` and `hasattr` may be asked for.
        """
        for start, module, names in self._named(reads, asked):
            member = member_of(start, module, names)
            if member is None:
                continue
            path, value = member
            key = (id(path.parent.get()), path.key)
            if key not in self._given:
                self._given.add(key)
                yield path, value, kind_of_member(path.parent.get(), value)

    def _named(
        self, reads: Reads, asked: Set[str]
    ) -> Iterator[tuple[AccessPath, ModuleType, tuple[str, ...]]]:
        """Modules, with the attributes that code of the user reads of them."""
        sites = {id(one.code): one for one in reads.sites if not is_own_code(one.function)}
        for path, module in self._modules:
            for name in asked & vars(module).keys():
                yield path, module, (name,)
            for code, load in reads.loads_of(path):
                if id(code) in sites:
                    yield path, module, load.attributes
        for site in sites.values():  # modules that functions import when they run
            facts = facts_of(site.code)
            for load in facts.loads:
                name, level, first = facts.aliases.get(load.name, ("", 1, ""))
                value = sys.modules.get(name)
                if load.kind == "local" and not level and value is not None:
                    names = (first, *load.attributes) if first else load.attributes
                    yield AccessPath(MODULES, "item", name, name, True), value, names


def is_settled(path: AccessPath | Root, kind: str) -> bool:
    """Whether a guard of this kind is needless, as it is about eagerflow's own code."""
    if isinstance(path, AccessPath) and _is_own_name(path, kind):
        return True
    while isinstance(path, AccessPath):
        if _is_own_member(path):
            return True
        path = path.parent
    return False


def _is_own_name(path: AccessPath, kind: str) -> bool:
    """Whether a path is a global name in eagerflow that is bound to code, or unbound."""
    if path.how != "global" or not is_own_code(path.parent.get()):
        return False
    return kind in ("absent", "function") or isinstance(path.get(), type | ModuleType)


def _is_own_member(path: AccessPath) -> bool:
    """Whether a path is a member of a class of eagerflow, or a default or a constant there."""
    owner = path.parent.get()
    if path.how == "global":
        return is_own_code(owner) and path.key.isupper()
    if path.how == "base":
        owner = owner.__mro__[path.key[0]]
    elif path.how not in ("attribute", "dict"):
        return False
    return isinstance(owner, type | FunctionType) and is_own_code(owner)


def is_own_code(code: Any) -> bool:
    """Whether a function or class is one of eagerflow."""
    name = getattr(code, "__module__", None)
    return isinstance(name, str) and name.startswith("eagerflow.")
