"""What ``dir`` lists of a module, and completion in notebooks: the names that users call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any


def module_dir(
    namespace: Mapping[str, Any], modules: Sequence[str] = ()
) -> Callable[[], list[str]]:
    """The ``__dir__`` of a module: ``__all__`` if it has that, else what it has of eagerflow's.

    The modules of a package are not listed, nor is what a module imports from elsewhere for itself.

    Args:
        namespace: ``globals()`` of the module.
        modules: those of its modules that are public.

    >>> module_dir({"exp": ef.exp, "sequence": list, "layers": ef.nn, "_rule": ef.exp})()
    ['exp']
    """

    def names() -> list[str]:
        listed = namespace.get("__all__")
        if listed is not None:
            return sorted(listed)
        own = {name for name, value in namespace.items() if _is_own(name, value)}
        return sorted(own.union(modules))

    return names


def _is_own(name: str, value: Any) -> bool:
    if name.startswith("_") or isinstance(value, ModuleType):
        return False
    return str(getattr(value, "__module__", "")).partition(".")[0] == "eagerflow"
