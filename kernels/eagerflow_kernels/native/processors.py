"""Detection of the targets of native code that this processor can run, without a compiler."""

from __future__ import annotations

import platform
import sys
from functools import cache
from typing import Final, Literal, final

#: supported instruction sets
TargetName = Literal["x86-64-v3", "x86-64-v4", "aarch64"]
TARGETS: Final[tuple[TargetName, ...]] = ("x86-64-v4", "x86-64-v3", "aarch64")

#: the flags by which Linux reports all of x86-64-v3; ``abm`` is LZCNT, which gives wrong counts,
#: without a fault, on processors that lack it
_V3: Final = frozenset({
    "abm", "avx", "avx2", "bmi1", "bmi2", "cx16", "f16c", "fma", "lahf_lm", "movbe", "popcnt",
    "sse4_1", "sse4_2", "ssse3", "xsave",
})  # fmt: skip
#: flags of the targets of x86, the best first
_FLAGS: Final[dict[TargetName, frozenset[str]]] = {
    "x86-64-v4": _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
    "x86-64-v3": _V3,
}
#: names of AArch64 in `platform.machine`; its processors all have NEON and fused multiply-adds
_ARM: Final = ("aarch64", "arm64")
#: bytes of /proc/cpuinfo that hold the flags of the first processor
_FIRST: Final = 8192


@final
class NoCompilerError(ImportError):
    """An environment without native code: no llvmlite to make it, or no target for its CPU."""


@cache
def targets() -> tuple[TargetName, ...]:
    """The targets that this processor can run, the best first; none without fused multiply-adds."""
    machine = platform.machine().lower()
    if machine in _ARM:
        return ("aarch64",) if sys.platform in ("linux", "darwin") else ()
    if machine not in ("x86_64", "amd64") or sys.platform != "linux":
        return ()
    flags = _flags()
    return tuple(target for target, needed in _FLAGS.items() if needed <= flags)


def best_target() -> TargetName:
    """The best of `targets`.

    Raises:
        NoCompilerError: there is none.
    """
    usable = targets()
    if not usable:
        raise NoCompilerError("native kernels need a processor with AVX2 and FMA, or AArch64")
    return usable[0]


def _flags() -> frozenset[str]:
    """The features that Linux lets programs use; not those with registers that it does not save."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            first = file.read(_FIRST)
    except OSError:
        return frozenset()
    for line in first.splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def file_of(target: TargetName) -> str:
    """The name of the file with the kernels for a target."""
    return f"{target}.kernels"
