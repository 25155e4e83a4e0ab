"""`GradientTape`: gradients of the values computed within a ``with`` block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, final

from eagerflow.autodiff.backward import Cotangent, add_at, full_like, gradients
from eagerflow.autodiff.grad import described
from eagerflow.autodiff.gradient_sources import check_inexact, finished, is_variable
from eagerflow.autodiff.looks import check_looks
from eagerflow.autodiff.tape import UNKNOWN, Tape
from eagerflow.core import tree
from eagerflow.core.interpreter import installed
from eagerflow.core.tensor import AbstractArray, Tensor
from eagerflow.errors import GradientError


@final
class GradientTape:
    """A tape that records the ops within a ``with`` block, to differentiate results afterwards.

    Trainable variables are watched from their first read on, tensors after `watch`. Tapes nest:
    a gradient computed by an inner tape is recorded by outer tapes, never by the tape itself.
    Entering a tape again continues its recording.

    Args:
        persistent: whether `gradient` may be called more than once; the recording is then kept
            for the lifetime of the tape.

    >>> x = ef.tensor([1.0, 2.0])
    >>> with ef.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = (x * x).sum()
    >>> tape.gradient(y, x)
    Tensor([2., 4.], f32[2]@cpu:0)
    """

    __slots__ = ("__weakref__", "_block", "_persistent", "_tape", "_used")

    def __init__(self, persistent: bool = False) -> None:
        self._persistent = persistent
        self._tape = Tape(watch_variables=True)
        self._block: installed | None = None
        self._used = False

    def __enter__(self) -> GradientTape:
        if self._block is not None:
            raise GradientError("GradientTape: the tape is in use already", hint="make another")
        self._check_unused()
        block = installed(self._tape)
        block.__enter__()
        self._block = block
        return self

    def __exit__(self, *raised: object) -> None:
        block = self._block
        if block is None:
            return
        try:
            block.__exit__(*raised)
        except BaseException:  # Ctrl-C while the block is left
            block.__exit__(*raised)
            raise
        finally:
            self._block = None

    def watch(self, x: object) -> None:
        """Follow the value of a tensor, or the reads of a variable.

        After a later update in place, the new value of a tensor is followed as well: `gradient`
        differentiates by the value at the time of its call.

        Args:
            x: a tensor or variable, floating or complex, or a tree of these.

        Raises:
            GradientError: a leaf has an integer dtype, or is no tensor or variable.
        """
        for leaf in tree.leaves(x):
            if not isinstance(leaf, AbstractArray):
                raise GradientError(
                    "GradientTape.watch: only tensors and variables can be watched",
                    given=type(leaf).__name__,
                    hint="make a tensor of it first: x = ef.tensor(x)",
                )
            check_inexact("GradientTape.watch", "the tensor", leaf)
            if isinstance(leaf, Tensor):
                self._tape.watch(leaf)
            else:
                self._tape.watch_variable(leaf)

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """A context manager within whose block nothing is recorded.

        >>> with ef.GradientTape() as tape:
        ...     with tape.stop_recording():
        ...         big = ef.ones(1000) * 2
        """
        before, self._tape.recording = self._tape.recording, False
        try:
            yield
        finally:
            self._tape.recording = before

    def gradient(self, target: object, sources: object) -> Any:
        """The gradient of ``target``, or of the sum of its elements, by each of ``sources``.

        Args:
            target: a real tensor, or a tree of real tensors, which are summed.
            sources: a tree of tensors (inputs or intermediate values) and variables.

        Returns:
            A tree like ``sources``: dense tensors, `IndexedSlices` for variables of which only
            rows were read, None for sources that ``target`` does not depend on.

        Raises:
            GradientError: the tape was used before and is not persistent, a target is not real, a
                source has an integer dtype, or all paths to a source lead through ops without
                derivative.
        """
        self._check_unused()
        leaves, treedef = tree.flatten(sources)

        def name(i: int) -> str:
            return f"the source{tree.paths(treedef)[i]}"

        wanted = [self._slots(x, partial(name, i)) for i, x in enumerate(leaves)]
        seeds = self._seeds(target)
        what = "GradientTape.gradient"
        # persistent tapes are queried about pairs that may be independent
        if self._tape.looks and not self._persistent:
            check_looks(self._tape, [*seeds], wanted, what, name, visible=True)
        try:
            cotangents = gradients(
                self._tape, seeds, wanted, what, name, consume=not self._persistent
            )
        finally:
            if not self._persistent:
                self._used = True
                self._tape.forget()
        return tree.unflatten(treedef, finished(cotangents, leaves, zeros=False))

    def _seeds(self, target: Any) -> dict[int, Cotangent]:
        seeds: dict[int, Cotangent] = {}
        for y in tree.leaves(target):
            if not isinstance(y, AbstractArray) or not y.dtype.is_floating:
                raise GradientError(
                    "GradientTape.gradient: the target is not a real tensor",
                    given=described(y),
                    hint="take .real, .imag or ef.abs(...) of a complex tensor",
                )
            if isinstance(y, Tensor):
                add_at(seeds, self._tape.slot_of(y), full_like(y, 1))
        return seeds

    def _slots(self, x: Any, name: Callable[[], str]) -> Sequence[int]:
        if is_variable(x):
            return self._tape.slots_of_reads(x)
        if not isinstance(x, Tensor):
            raise GradientError(
                f"GradientTape.gradient: {name()} is neither a tensor nor a variable",
                given=type(x).__name__,
            )
        if not x.dtype.is_inexact:
            check_inexact("GradientTape.gradient", name(), x)
        slot = self._tape.slot_of(x)
        if slot < UNKNOWN:
            raise GradientError(
                f"GradientTape.gradient: no derivative flows into {name()}",
                given=str(x.type),
                hint="it depends on watched values only through an op without derivative; "
                "watch it itself, with tape.watch(...) before it is used",
            )
        return () if slot == UNKNOWN else (slot,)

    def _check_unused(self) -> None:
        if self._used:
            raise GradientError(
                "GradientTape: this tape was used already",
                expected="one call of gradient",
                hint="make it with ef.GradientTape(persistent=True) to call gradient again",
            )
