"""The choice between code with native kernels and without: both are timed, the faster stays."""

from __future__ import annotations

from typing import Final, final

#: runs of either after which kernels stay if they are faster; the first of each is left out
_FEWEST_RUNS: Final = 4
#: runs after which kernels go if they are slower: on a busy machine a step takes a hundred times as
#: long now and then, and all of a few runs may have been disturbed
_MOST_RUNS: Final = 16
#: the fraction of the time without kernels that kernels may take, a margin for noise
_LOSS: Final = 1.05
#: runs of other sizes than the first after which kernels stay
_PATIENCE: Final = 64


@final
class KernelTrial:
    """Timed runs of code with kernels and without.

    Attributes:
        faster: whether kernels are faster; None as long as that is not known.
        best: the shortest times with kernels and without; None before there are enough runs.
    """

    __slots__ = ("_key", "_seconds", "_skipped", "best", "faster")

    def __init__(self) -> None:
        self.faster: bool | None = None
        self.best: tuple[float, float] | None = None
        self._key: int | None = None
        self._seconds: tuple[list[float], list[float]] = [], []
        self._skipped = 0

    def pick(self) -> bool:
        """Whether the next run uses kernels."""
        native, plain = self._seconds
        return len(native) <= len(plain)

    def took(self, native: bool, seconds: float, size: int) -> None:
        """Note the time of a run.

        Args:
            native: whether it used kernels.
            seconds: the time that it took.
            size: the number of elements of its inputs; only runs of one size are compared.
        """
        if self._key is None:
            self._key = size
        if size != self._key:
            self._skipped += 1
            if self._skipped >= _PATIENCE:
                self.faster = True
            return
        with_kernels, without = self._seconds
        (with_kernels if native else without).append(seconds)
        runs = min(len(with_kernels), len(without)) - 1
        if runs >= _FEWEST_RUNS and self.faster is None:
            self.best = min(with_kernels[1:]), min(without[1:])
            faster = self.best[0] <= _LOSS * self.best[1]
            if faster or runs >= _MOST_RUNS:
                self.faster = faster
