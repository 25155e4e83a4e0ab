"""Text of LLVM as machine code, by llvmlite."""

from __future__ import annotations

import os
import threading
from functools import cache
from types import ModuleType
from typing import Any, Final, final

from eagerflow_kernels.native.llvm.module import TargetName

#: from the best; each with the features by which a processor is known to have it
_FEATURES: Final[dict[TargetName, tuple[str, ...]]] = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma", "bmi2"),
    "x86-64-v3": ("avx2", "fma", "bmi2", "f16c", "movbe"),
}
_TRIPLE: Final = "x86_64-unknown-linux-gnu"
#: held while LLVM works; a process that is forked meanwhile would find LLVM's own locks taken
_lock: Final = threading.Lock()
os.register_at_fork(
    before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
)


@final
class NoCompilerError(ImportError):
    """llvmlite is not installed, or the processor is none that there is code for."""


@cache
def _llvm() -> ModuleType:
    """Llvmlite's binding, which is large and rarely needed.

    Raises:
        NoCompilerError: it is not installed.
    """
    try:
        from llvmlite import binding  # noqa: PLC0415 - 173 MB, loaded by the first native kernel
    except ImportError as error:
        raise NoCompilerError(
            "native kernels need llvmlite (pip install 'eagerflow[native]')"
        ) from error
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    module: ModuleType = binding
    return module


@cache
def targets() -> tuple[TargetName, ...]:
    """What this processor can run, from the best.

    Raises:
        NoCompilerError: llvmlite is not installed.
    """
    llvm = _llvm()
    if not llvm.get_process_triple().startswith("x86_64"):
        return ()
    has = llvm.get_host_cpu_features()
    return tuple(t for t, names in _FEATURES.items() if all(has.get(n, False) for n in names))


def best_target() -> TargetName:
    """The best of `targets`.

    Raises:
        NoCompilerError: there is none.
    """
    usable = targets()
    if not usable:
        raise NoCompilerError("native kernels need a processor with AVX2 and FMA")
    return usable[0]


@final
class MachineCode:
    """Machine code that is ready to run; it is freed with this object.

    Args:
        code: what `object_code` gave.
        target: what it was made for.

    Attributes:
        target: the same.
    """

    __slots__ = ("_engine", "target")

    def __init__(self, code: bytes, target: TargetName) -> None:
        llvm = _llvm()
        with _lock:
            # an engine takes its target machine with it when it goes: each has its own
            nothing = llvm.parse_assembly("")
            self._engine: Any = llvm.create_mcjit_compiler(nothing, _machine(target))
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
            self._engine.finalize_object()
        self.target = target

    def address(self, name: str) -> int:
        """Where a function begins."""
        return int(self._engine.get_function_address(name))


def _machine(target: TargetName) -> Any:
    of = _llvm().Target.from_triple(_TRIPLE)
    return of.create_target_machine(cpu=target, features="", opt=2, jit=True)


def assembly(text: str, target: TargetName) -> str:
    """The machine code of a module for people."""
    with _lock:
        return str(_machine(target).emit_assembly(_llvm().parse_assembly(text)))


def object_code(text: str, target: TargetName) -> bytes:
    """The machine code of a module as a file in the format of the platform."""
    with _lock:
        module = _llvm().parse_assembly(text)
        module.verify()
        return bytes(_machine(target).emit_object(module))
