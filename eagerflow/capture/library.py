"""Tells library code, which a trace takes as it is, from the user's own."""

from __future__ import annotations

import functools
import sys
import sysconfig
from collections.abc import Mapping
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final

_OWN: Final = ("eagerflow", "eagerflow_kernels", "eagerflow_widgets")
#: parts of eagerflow that are written like user code
EXAMPLES: Final = "eagerflow.demo"
#: parts of eagerflow with classes whose attributes users set, as in their own classes
_LIKE_USERS: Final = (
    "eagerflow.nn.layers", "eagerflow.nn.metrics", "eagerflow.nn.module",
    "eagerflow.optim", "eagerflow.data", EXAMPLES,
)  # fmt: skip
#: among them, those with objects that never change
_FIXED: Final = ("eagerflow.optim.parameters",)
_STANDARD: Final = sys.stdlib_module_names - {"__main__"}
_STANDARD_FOLDERS: Final = tuple(
    {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")} - {None}
)
_BARE: Final = frozenset({FunctionType, ModuleType, SimpleNamespace})
_HEAP_TYPE: Final = 1 << 9

#: (module, file) -> whether it is library code; False also where it has to be checked each time
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
        return not name.startswith(_LIKE_USERS) or name in _FIXED
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
    # by its name: few programs load its module, and any with an instance did
    return cls in _BARE or (cls.__module__, cls.__name__) == ("argparse", "Namespace")
