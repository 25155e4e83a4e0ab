"""Whether code is faster with native kernels: both are timed, and the faster stays."""

from __future__ import annotations

from typing import Final, final

#: runs of either after which kernels stay if they are faster; the first of each is left out
_FEWEST_RUNS: Final = 4
#: those after which they go if they are not: on a busy machine a step takes a hundred times as long
#: now and then, and of a few runs none may have been left in peace
_MOST_RUNS: Final = 16
#: the part of the other's time that kernels may take, so that noise does not throw them out
_LOSS: Final = 1.05
#: runs after which kernels stay if none was of the same size as the first
_PATIENCE: Final = 64


@final
class KernelTrial:
    """Runs that are timed.

    Attributes:
        faster: whether kernels are faster; None as long as that is not known.
        best: the shortest times with kernels and without; None if there are none.
    """

    __slots__ = ("_key", "_seconds", "_skipped", "best", "faster")

    def __init__(self) -> None:
        self.faster: bool | None = None
        self.best: tuple[float, float] | None = None
        self._key: int | None = None
        self._seconds: tuple[list[float], list[float]] = [], []
        self._skipped = 0

    def pick(self) -> bool:
        """Whether to run with kernels now."""
        native, plain = self._seconds
        return len(native) <= len(plain)

    def took(self, native: bool, seconds: float, size: int) -> None:
        """Note a run.

        Args:
            native: whether it was one with kernels.
            seconds: how long it took.
            size: the number of elements that it got; others are not compared with it.
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
