"""The backend by which plain einops takes tensors; einops is not imported for it.

einops asks the subclasses of its ``AbstractBackend`` whether a tensor is theirs. Ours is defined
once the module with that class is imported: now, or later by the user.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast, final

if TYPE_CHECKING:
    from importlib.abc import Loader  # whose module takes a while to import

_MODULE: Final = "einops._backends"


def register() -> None:
    """Let einops take tensors, if it is installed."""
    module = sys.modules.get(_MODULE)
    if module is not None:
        _define(module)
    elif "einops" in sys.modules or find_spec("einops") is not None:
        sys.meta_path.insert(0, _Finder())


@final
class _Finder:
    """A finder of the backends module of einops, which then removes itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = cast("Loader", _DefiningLoader(spec.loader))
        return spec


@final
class _DefiningLoader:
    """A loader that defines the backend after the module is loaded."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _define(module)


def _define(einops: ModuleType) -> None:
    """Define the backend; einops finds it among the subclasses."""
    base: Any = getattr(einops, "AbstractBackend", None)
    if base is None:  # a version of einops without backends
        return
    ef = sys.modules["eagerflow"]

    @final
    class EagerflowBackend(base):  # type: ignore[misc]  # einops has no types
        """The operations of einops on tensors and variables."""

        framework_name = "eagerflow"

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, (ef.Tensor, ef.Variable))

        def from_numpy(self, x: Any) -> Any:
            return ef.asarray(x)

        def to_numpy(self, x: Any) -> Any:
            return x.numpy()

        def arange(self, start: int, stop: int) -> Any:
            return ef.arange(start, stop)

        def stack_on_zeroth_dimension(self, tensors: Sequence[Any]) -> Any:
            return ef.stack(tensors)

        def add_axis(self, x: Any, new_position: int) -> Any:
            return ef.expand_dims(x, new_position)

        def tile(self, x: Any, repeats: Sequence[int]) -> Any:
            return ef.tile(x, repeats)

        def concat(self, tensors: Sequence[Any], axis: int) -> Any:
            return ef.concat(tensors, axis=axis)

        def is_float_type(self, x: Any) -> bool:
            return bool(ef.isdtype(x.dtype, "real floating"))

        def einsum(self, pattern: str, *x: Any) -> Any:
            return ef.einsum(pattern, *x)

    _defined.append(EagerflowBackend)  # einops itself keeps weak references only


_defined: Final[list[type]] = []
