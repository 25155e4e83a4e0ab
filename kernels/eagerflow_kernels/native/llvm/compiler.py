"""Compilation of LLVM text to machine code, by llvmlite."""

from __future__ import annotations

from functools import cache
from types import ModuleType
from typing import Any, Final

from eagerflow_kernels.native.llvm.linker import link
from eagerflow_kernels.native.locks import COMPILING
from eagerflow_kernels.native.machine_code import Image
from eagerflow_kernels.native.processors import NoCompilerError, TargetName

#: triple, processor and features. For AArch64 one code runs on Linux and macOS: x18 is reserved by
#: macOS, and the calling convention is the same for arguments that are pointers.
_MACHINES: Final[dict[TargetName, tuple[str, str, str]]] = {
    "x86-64-v3": ("x86_64-unknown-linux-gnu", "x86-64-v3", ""),
    "x86-64-v4": ("x86_64-unknown-linux-gnu", "x86-64-v4", ""),
    "aarch64": ("aarch64-unknown-linux-gnu", "generic", "+neon,+reserve-x18"),
}


@cache
def _llvm() -> ModuleType:
    """The binding of llvmlite, which is large and rarely needed.

    Raises:
        NoCompilerError: it is not installed.
    """
    try:
        from llvmlite import binding  # noqa: PLC0415 - 173 MB, loaded by the first compilation
    except ImportError as error:
        raise NoCompilerError("this needs llvmlite (pip install 'eagerflow[native]')") from error
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module: ModuleType = binding
    return module


def _machine(target: TargetName) -> Any:
    triple, processor, features = _MACHINES[target]
    return (
        _llvm()
        .Target.from_triple(triple)
        .create_target_machine(
            cpu=processor, features=features, opt=2, reloc="pic", codemodel="small"
        )
    )


def assembly(text: str, target: TargetName) -> str:
    """The assembly of a module, as text for people.

    Raises:
        NoCompilerError: llvmlite is not installed.
    """
    with COMPILING:
        return str(_machine(target).emit_assembly(_llvm().parse_assembly(text)))


def machine_code(text: str, target: TargetName) -> Image:
    """The machine code of a module.

    Args:
        text: of the module; it has no external references.
        target: the target of the code, which need not be this processor.

    Raises:
        NoCompilerError: llvmlite is not installed.
        LinkError: the code refers to a symbol that the module does not define.
    """
    with COMPILING:
        module = _llvm().parse_assembly(text)
        module.verify()
        data = bytes(_machine(target).emit_object(module))
    return link(data)
