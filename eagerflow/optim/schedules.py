"""Learning rates that change over time: functions of the number of updates done.

A schedule is called with an int, and gives a float; or with an integer tensor of any shape, as
optimisers do, also in a traced step, and gives float64.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import eagerflow as ef
from eagerflow.errors import TensorValueError
from eagerflow.extending import TensorLike, is_traced
from eagerflow.optim.checks import count, not_negative

__all__ = [
    "AbstractSchedule",
    "ChainedSchedule",
    "CosineSchedule",
    "ExponentialSchedule",
    "MultiStepSchedule",
    "OneCycleSchedule",
    "PolynomialSchedule",
    "StepSchedule",
    "WarmUp",
]


class AbstractSchedule(ABC):
    """A learning rate as a function of the number of updates done: 0 for the first one.

    >>> schedule = ef.optim.StepSchedule(0.5, step_size=2, gamma=0.5)
    >>> isinstance(schedule, ef.optim.AbstractSchedule), schedule(0), schedule(2)
    (True, 0.5, 0.25)
    """

    def __call__(self, count: TensorLike) -> Any:
        """The learning rate.

        Args:
            count: an int, or an integer tensor.

        Returns:
            A float for an int outside of a trace; else ``f64`` of the shape of ``count``.
        """
        if isinstance(count, int) and not is_traced():
            return float(self._at(ef.asarray(count, dtype=ef.float64, device="cpu:0")))
        return self._at(ef.asarray(count).astype(ef.float64))

    @abstractmethod
    def _at(self, n: ef.Tensor) -> ef.Tensor:
        """The formula.

        Args:
            n: the number of updates done, ``f64`` of any shape.
        """


@final
@dataclass(frozen=True)
class StepSchedule(AbstractSchedule):
    """``lr * gamma ** (n // step_size)``: falls by a factor at equal distances.

    Args:
        lr: the rate at first.
        step_size: after how many updates it changes.
        gamma: the factor.

    >>> schedule = ef.optim.StepSchedule(0.5, step_size=2, gamma=0.5)
    >>> [schedule(n) for n in range(5)]
    [0.5, 0.5, 0.25, 0.25, 0.125]
    """

    lr: float
    step_size: int
    gamma: float = 0.1

    def __post_init__(self) -> None:
        not_negative("StepSchedule", lr=self.lr, gamma=self.gamma)
        count("StepSchedule", "updates", step_size=self.step_size)

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        return self.lr * self.gamma ** ef.floor(n / self.step_size)


@final
@dataclass(frozen=True)
class MultiStepSchedule(AbstractSchedule):
    """``lr * gamma ** k`` after ``k`` of the milestones.

    Args:
        lr: the rate at first.
        milestones: the numbers of updates at which it changes, rising.
        gamma: the factor.

    >>> schedule = ef.optim.MultiStepSchedule(0.5, milestones=(1, 4), gamma=0.5)
    >>> [schedule(n) for n in range(5)]
    [0.5, 0.25, 0.25, 0.25, 0.125]
    """

    lr: float
    milestones: Sequence[int]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        not_negative("MultiStepSchedule", lr=self.lr, gamma=self.gamma)
        _check_milestones("MultiStepSchedule", self.milestones)
        object.__setattr__(self, "milestones", tuple(self.milestones))

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        rate = self.lr + 0 * n
        for k, milestone in enumerate(self.milestones, start=1):
            rate = ef.where(n >= milestone, self.lr * self.gamma**k, rate)
        return rate


@final
@dataclass(frozen=True)
class ExponentialSchedule(AbstractSchedule):
    """``lr * gamma ** n``.

    Args:
        lr: the rate at first.
        gamma: the factor from one update to the next.

    >>> schedule = ef.optim.ExponentialSchedule(1.0, gamma=0.5)
    >>> [schedule(n) for n in range(4)]
    [1.0, 0.5, 0.25, 0.125]
    """

    lr: float
    gamma: float

    def __post_init__(self) -> None:
        not_negative("ExponentialSchedule", lr=self.lr, gamma=self.gamma)

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        return self.lr * self.gamma**n


@final
@dataclass(frozen=True)
class PolynomialSchedule(AbstractSchedule):
    """From ``lr`` to ``final`` as ``(1 - n / steps) ** power``; a straight line for power 1.

    Args:
        lr: the rate at first.
        steps: after how many updates it has fallen, and stays there.
        power: how it falls.
        final: the rate at the end.

    >>> schedule = ef.optim.PolynomialSchedule(1.0, steps=4)
    >>> [schedule(n) for n in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    lr: float
    steps: int
    power: float = 1.0
    final: float = 0.0

    def __post_init__(self) -> None:
        not_negative("PolynomialSchedule", lr=self.lr, power=self.power, final=self.final)
        count("PolynomialSchedule", "updates", steps=self.steps)

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        left = 1 - ef.minimum(n, self.steps) / self.steps
        return self.final + (self.lr - self.final) * left**self.power


@final
@dataclass(frozen=True)
class CosineSchedule(AbstractSchedule):
    """From ``lr`` to ``final`` along half a cosine (Loshchilov and Hutter, 2017).

    Args:
        lr: the rate at first.
        steps: after how many updates it has fallen, and stays there.
        final: the rate at the end.

    >>> schedule = ef.optim.CosineSchedule(1.0, steps=3)
    >>> [round(schedule(n), 3) for n in range(5)]
    [1.0, 0.75, 0.25, 0.0, 0.0]
    """

    lr: float
    steps: int
    final: float = 0.0

    def __post_init__(self) -> None:
        not_negative("CosineSchedule", lr=self.lr, final=self.final)
        count("CosineSchedule", "updates", steps=self.steps)

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        return _cosine(self.lr, self.final, ef.minimum(n, self.steps) / self.steps)


@final
@dataclass(frozen=True)
class WarmUp(AbstractSchedule):
    """A straight rise at first, then another schedule from its beginning.

    Update ``n`` of the first ``steps`` has ``(n + 1) / (steps + 1)`` of the rate that the schedule
    begins with (Goyal et al., 2017).

    Args:
        schedule: what follows: a schedule, or a number for a constant rate.
        steps: how many updates the rise takes.

    >>> schedule = ef.optim.WarmUp(ef.optim.PolynomialSchedule(1.0, steps=2), steps=3)
    >>> [schedule(n) for n in range(6)]
    [0.25, 0.5, 0.75, 1.0, 0.5, 0.0]
    """

    schedule: AbstractSchedule | float
    steps: int

    def __post_init__(self) -> None:
        _check_part("WarmUp", self.schedule)
        count("WarmUp", "updates", steps=self.steps)

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        rate = _part(self.schedule, ef.maximum(n - self.steps, 0.0))
        return rate * ef.minimum((n + 1) / (self.steps + 1), 1.0)


@final
@dataclass(frozen=True)
class OneCycleSchedule(AbstractSchedule):
    """Up to the highest rate and down to almost nothing (Smith and Topin, 2018).

    From ``max_lr / div_factor`` to ``max_lr`` in the first ``pct_start`` of the updates, and then
    to ``max_lr / div_factor / final_div_factor``; the arguments are those of PyTorch's.

    Args:
        max_lr: the highest rate.
        total_steps: how many updates there will be.
        pct_start: which part of them the rise takes.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        div_factor: how much lower the rate begins.
        final_div_factor: how much lower than that it ends.

    >>> schedule = ef.optim.OneCycleSchedule(1.0, total_steps=8, pct_start=0.375)
    >>> [round(schedule(n), 3) for n in range(8)]
    [0.04, 0.52, 1.0, 0.905, 0.655, 0.345, 0.095, 0.0]
    """

    max_lr: float
    total_steps: int
    pct_start: float = 0.3
    anneal_strategy: Literal["cos", "linear"] = "cos"
    div_factor: float = 25.0
    final_div_factor: float = 1e4

    def __post_init__(self) -> None:
        what = "OneCycleSchedule"
        not_negative(what, max_lr=self.max_lr, pct_start=self.pct_start)
        count(what, "updates", total_steps=self.total_steps)
        for name in ("div_factor", "final_div_factor"):
            if not getattr(self, name) > 0:
                raise TensorValueError(
                    f"{what}: {name} is not positive",
                    given=f"{name}={getattr(self, name)!r}",
                    expected="a positive number",
                )
        if self.pct_start > 1:
            raise TensorValueError(
                f"{what}: pct_start is no part of the updates",
                given=f"pct_start={self.pct_start}",
                expected="0 to 1",
            )
        if self.anneal_strategy not in ("cos", "linear"):
            raise TensorValueError(
                f"{what}: there is no such anneal_strategy",
                given=f"anneal_strategy={self.anneal_strategy!r}",
                expected="'cos' or 'linear'",
            )

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        between = _cosine if self.anneal_strategy == "cos" else _line
        low = self.max_lr / self.div_factor
        top, end = self.pct_start * self.total_steps - 1, self.total_steps - 1
        up = ef.minimum(n / top, 1.0) if top > 0 else ef.ones_like(n)
        down = ef.clip((n - top) / (end - top), 0.0, 1.0) if end > top else ef.zeros_like(n)
        rise = between(low, self.max_lr, up)
        fall = between(self.max_lr, low / self.final_div_factor, down)
        return ef.where(n <= top, rise, fall)


@final
@dataclass(frozen=True)
class ChainedSchedule(AbstractSchedule):
    """One schedule after the other, each from its own beginning.

    Args:
        schedules: schedules, or numbers for constant rates.
        milestones: the numbers of updates at which the second and those that follow begin.

    >>> schedule = ef.optim.ChainedSchedule([0.5, ef.optim.ExponentialSchedule(1.0, 0.5)], [2])
    >>> [schedule(n) for n in range(5)]
    [0.5, 0.5, 1.0, 0.5, 0.25]
    """

    schedules: Sequence[AbstractSchedule | float]
    milestones: Sequence[int]

    def __post_init__(self) -> None:
        for part in self.schedules:
            _check_part("ChainedSchedule", part)
        _check_milestones("ChainedSchedule", self.milestones)
        if len(self.schedules) != len(self.milestones) + 1:
            raise TensorValueError(
                "ChainedSchedule: there must be one milestone between each two schedules",
                given=f"{len(self.schedules)} schedules, {len(self.milestones)} milestones",
            )
        object.__setattr__(self, "schedules", tuple(self.schedules))
        object.__setattr__(self, "milestones", tuple(self.milestones))

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        rate = _part(self.schedules[0], n)
        for part, start in zip(self.schedules[1:], self.milestones, strict=True):
            rate = ef.where(n >= start, _part(part, ef.maximum(n - start, 0.0)), rate)
        return rate


# --- parts ------------------------------------------------------------------------------------


def _line(first: float, last: float, part: ef.Tensor) -> ef.Tensor:
    return first + (last - first) * part


def _cosine(first: float, last: float, part: ef.Tensor) -> ef.Tensor:
    return last + (first - last) * (1 + ef.cos(math.pi * part)) / 2


def _part(schedule: AbstractSchedule | float, n: ef.Tensor) -> ef.Tensor:
    return schedule._at(n) if isinstance(schedule, AbstractSchedule) else schedule + 0 * n


def _check_part(what: str, schedule: Any) -> None:
    if not isinstance(schedule, AbstractSchedule):
        if not isinstance(schedule, int | float):
            raise TensorValueError(
                f"{what}: this is no schedule",
                given=repr(schedule),
                expected="a schedule or a number",
            )
        not_negative(what, rate=schedule)


def _check_milestones(what: str, milestones: Sequence[int]) -> None:
    rising = all(a < b for a, b in zip([0, *milestones], milestones, strict=False))
    if not (all(isinstance(x, int) for x in milestones) and rising):
        raise TensorValueError(
            f"{what}: these are no milestones",
            given=f"milestones={milestones!r}",
            expected="positive ints that rise",
        )
