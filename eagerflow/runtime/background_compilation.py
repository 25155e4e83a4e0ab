"""Compilation of a graph to native code, in the background or at once, and its failures."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from importlib import import_module
from typing import Any, Final, Literal, TypeAlias, final
from weakref import ref

from eagerflow.errors import CompileWarning
from eagerflow.hardware.kernel_library import has_compiler, in_force
from eagerflow.runtime.generated.generated_tier import RegionCode
from eagerflow.runtime.generated.native_kernels import NativeProgram
from eagerflow.runtime.native_or_plain import KernelTrial
from eagerflow.runtime.threads.workers import Workers

#: when a graph is compiled: beside its steps after the first few, before its steps, never
Mode: TypeAlias = Literal["background", "now", "off"]
#: steps that a graph runs before it is compiled in the background: a graph that runs a few times
#: only would be done before its kernels are there
STEPS_BEFORE_COMPILING: Final = 5

#: one thread compiles; the compiler has a lock of its own anyway
_threads: Final = Workers(most=lambda: 1, name="compiler")
os.register_at_fork(after_in_child=_threads.forget)
_warned: Final[set[str]] = set()
#: held while modules are loaded: a fork in between would have modules half loaded
_loading: Final = threading.Lock()
os.register_at_fork(
    before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_loading.release
)


def _load() -> None:
    """Load the compiler's modules; most programs do without them."""
    with _loading:
        import_module("eagerflow.compilation.native_regions")
        import_module("eagerflow_kernels.native.fusion")
        import_module("eagerflow_kernels.native.processors").best_target()


@final
class Compilation:
    """The compilation of a graph to native code, done once.

    Args:
        regions: the generated functions of the tier: one, or one for each scheduled node.
        mode: when they are compiled.

    Attributes:
        failure: why there is no native code, for people; empty if there is, or nothing was tried.
    """

    __slots__ = ("__weakref__", "_done", "_process", "_regions", "_untold", "failure", "mode")

    def __init__(self, regions: Sequence[RegionCode], mode: Mode) -> None:
        self._regions = regions
        self.mode = mode
        self.failure = ""
        self._untold = False  # whether there is a failure that was not reported yet
        self._done = threading.Event()
        self._process = os.getpid()

    def begin(self, changed: ref[Any]) -> None:
        """Compile now or in the background, as the mode says.

        Args:
            changed: a method to be called when native code is there, if it is still alive.
        """
        if self.mode == "off" or in_force() != "native" or not has_compiler():
            self._done.set()
        elif self.mode == "now":
            self._compile(changed)
            self.tell()
        else:
            here = ref(self)

            def job() -> None:
                one = here()
                if one is not None:
                    one._compile(changed, slices=True)

            _threads.submit(job)

    def _compile(self, changed: ref[Any], slices: bool = False) -> None:
        def call() -> None:
            method = changed()
            if method is not None:
                method()

        try:
            _load()
            compiler_slices = import_module("eagerflow_kernels.native.compiler_slices")
            with compiler_slices.in_slices() if slices else nullcontext():
                for region in self._regions:
                    region.compile(call)
        except Exception as error:  # a graph that does not compile runs as before
            self.failure = f"{type(error).__name__}: {error}"
            self._untold = True
            call()  # the next step warns
        finally:
            self._done.set()

    def tell(self) -> None:
        """Warn of a failure, once for each reason."""
        if not self._untold:
            return
        self._untold = False
        if self.failure not in _warned:
            _warned.add(self.failure)
            warnings.warn(
                f"a graph was not compiled, and runs as it is: {self.failure}",
                CompileWarning, stacklevel=2,
            )  # fmt: skip

    def wait(self) -> None:
        """Wait until it has ended; a compilation under way in a fork's parent is not waited for."""
        if self._process == os.getpid():
            self._done.wait()

    @property
    def ended(self) -> bool:
        """Whether the compilation has ended."""
        return self._done.is_set()

    @property
    def kernels(self) -> list[RegionCode]:
        """The regions for which there are kernels."""
        return [r for r in self._regions if r.compiled is not None and r.compiled.kernels]

    # --- for people ---

    def report(self) -> list[str]:
        """The outcome: the kernels with their nodes, and why other ops are in none."""
        if in_force() != "native":
            return ["nothing: ef.config(kernels='portable') is in force"]
        if self.mode == "off":
            return ["nothing: compile='off'"]
        if not has_compiler():
            return ["nothing: that needs llvmlite (pip install 'eagerflow[native]')"]
        if self.failure:
            return [f"nothing: {self.failure}"]
        if not self.ended:
            return ["nothing yet"]
        if not self.kernels:
            return ["nothing: there are no two ops that could run as one"]
        lines = []
        for region in self.kernels:
            compiled = region.compiled
            assert compiled is not None
            lines += [*_slower(region.trial_ended), *_kernels(compiled), *_alone(compiled)]
        return lines

    def text(self, stage: str) -> str:
        """The kernels as text: in the ``"loops"`` form, for ``"llvm"``, or as machine code."""
        regions = [region.compiled for region in self._regions if region.compiled is not None]
        if not regions:
            return "\n".join(self.report())
        texts = []
        for native in regions:
            for kernel, nodes in native.nodes().items():
                names = "\n".join(f"# {', '.join(some)}" for some in nodes)
                texts.append(f"{names}\n{_written(kernel.loops, stage)}")
        return "\n\n".join(texts)


def _slower(trial: KernelTrial | None) -> list[str]:
    """A line saying that kernels are not used, if they are slower."""
    if trial is None or trial.faster is not False or trial.best is None:
        return []
    native, plain = (f"{seconds * 1e6:.1f} us" for seconds in trial.best)
    return [f"not used: a step takes {native} with kernels, and {plain} without"]


def _kernels(native: NativeProgram) -> list[str]:
    """The kernels, each with the nodes of the places where it runs."""
    return [
        f"{kernel.name} runs {', '.join(names)}"
        for kernel, places in native.nodes().items()
        for names in places
    ]


def _alone(native: NativeProgram) -> list[str]:
    """The reasons for which nodes are in no kernel."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for node, why in native.alone:
        reasons.setdefault((node.op, why), []).append(f"%{node.name}")
    return [f"alone: {', '.join(names)}: {why}" for (_, why), names in reasons.items()]


def _written(loops: Any, stage: str) -> str:
    """Loops as text."""
    if stage == "loops":
        text: str = import_module("eagerflow_kernels.native.loop_text").show(loops)
        return text
    compiler = import_module("eagerflow_kernels.native.llvm.compiler")
    target = import_module("eagerflow_kernels.native.processors").best_target()
    text = import_module("eagerflow_kernels.native.llvm.module").render(loops, target)
    return text if stage == "llvm" else str(compiler.assembly(text, target))
