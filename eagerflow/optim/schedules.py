"""Learning rate schedules: functions of the number of updates done.

A schedule called with an int returns a float; called with an integer tensor of any shape, as
optimisers do, also in a traced step, it returns a float64 tensor of that shape.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, final

import eagerflow as ef
from eagerflow.errors import TensorValueError
from eagerflow.extending import (
    COUNT,
    NOT_NEGATIVE,
    POSITIVE,
    PROBABILITY,
    OptionKind,
    TensorLike,
    hint_at,
    is_traced,
    module_getattr,
    one_of,
    require,
)

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

#: users find these names in ``ef.optim``, and look for others here as well
__getattr__ = module_getattr("eagerflow.optim", globals())


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
            A float for an int outside of a trace; else a float64 tensor of the shape of ``count``.
        """
        if isinstance(count, int) and not is_traced():
            return float(self._at(ef.asarray(count, dtype=ef.float64, device="cpu:0")))
        return self._at(ef.asarray(count).astype(ef.float64))

    @abstractmethod
    def _at(self, n: ef.Tensor) -> ef.Tensor:
        """The formula of the schedule.

        Args:
            n: the number of updates done, ``f64`` of any shape.
        """


#: names of other frameworks; their replacements: `hints/optim.py`
_HINTED: Final = """
    base_lrs get_last_lr get_lr item last_epoch load_state load_state_dict numpy state state_dict
    step
"""
hint_at(AbstractSchedule, _HINTED.split())


def _is_part(value: Any) -> bool:
    """Whether a value is a schedule, or a constant rate."""
    return isinstance(value, AbstractSchedule) or bool(NOT_NEGATIVE.fits(value))


def _rise(milestones: Sequence[Any]) -> bool:
    return all(isinstance(x, int) for x in milestones) and all(
        a < b for a, b in zip([0, *milestones], milestones, strict=False)
    )


_PARTS: Final = "a schedule, or a number that is not negative"
#: checks of the fields of schedules
_KINDS: Final = {
    **dict.fromkeys(("lr", "gamma", "power", "final", "max_lr"), NOT_NEGATIVE),
    **dict.fromkeys(("steps", "step_size", "total_steps"), COUNT),
    **dict.fromkeys(("div_factor", "final_div_factor"), POSITIVE),
    "pct_start": PROBABILITY._replace(wrong="is not a share of the updates"),
    "anneal_strategy": one_of("cos", "linear"),
    "milestones": OptionKind("are not milestones", "increasing positive ints", _rise),
    "schedule": OptionKind("is not a schedule", _PARTS, _is_part),
    "schedules": OptionKind(
        "are not all of them schedules", _PARTS, lambda parts: all(map(_is_part, parts))
    ),
}


def _checked(schedule: AbstractSchedule) -> None:
    """Refuse fields that are out of their range, and make tuples of sequences."""
    for name, value in list(vars(schedule).items()):
        if hasattr(value, "lr") and hasattr(value, "update"):
            kind, taker = type(schedule).__name__, type(value).__name__
            raise TensorValueError(
                f"{kind}: a schedule takes no optimiser; pass the schedule to the optimiser",
                given=f"{name}={taker}",
                hint=f"ef.optim.{taker}(net.trainable, lr=ef.optim.{kind}(0.1, ...))",
            )
        require(type(schedule).__name__, _KINDS[name], **{name: value})
        if name in ("schedules", "milestones"):
            object.__setattr__(schedule, name, tuple(value))


class _AbstractFormula(AbstractSchedule):
    """A schedule whose fields are checked one by one."""

    def __post_init__(self) -> None:
        _checked(self)


@final
@dataclass(frozen=True)
class StepSchedule(_AbstractFormula):
    """``lr * gamma ** (n // step_size)``: falls by a factor at equal intervals.

    Args:
        lr: the rate at first.
        step_size: number of updates between changes.
        gamma: the factor.

    Raises:
        TensorValueError: an argument is out of its range.

    >>> schedule = ef.optim.StepSchedule(0.5, step_size=2, gamma=0.5)
    >>> [schedule(n) for n in range(5)]
    [0.5, 0.5, 0.25, 0.25, 0.125]
    """

    lr: float
    step_size: int
    gamma: float = 0.1

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        return self.lr * self.gamma ** ef.floor(n / self.step_size)


@final
@dataclass(frozen=True)
class MultiStepSchedule(_AbstractFormula):
    """``lr * gamma ** k`` after ``k`` of the milestones.

    Args:
        lr: the rate at first.
        milestones: the numbers of updates at which it changes, rising.
        gamma: the factor.

    Raises:
        TensorValueError: an argument is out of its range.

    >>> schedule = ef.optim.MultiStepSchedule(0.5, milestones=(1, 4), gamma=0.5)
    >>> [schedule(n) for n in range(5)]
    [0.5, 0.25, 0.25, 0.25, 0.125]
    """

    lr: float
    milestones: Sequence[int]
    gamma: float = 0.1

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        rate = self.lr + 0 * n
        for k, milestone in enumerate(self.milestones, start=1):
            rate = ef.where(n >= milestone, self.lr * self.gamma**k, rate)
        return rate


@final
@dataclass(frozen=True)
class ExponentialSchedule(_AbstractFormula):
    """``lr * gamma ** n``.

    Args:
        lr: the rate at first.
        gamma: the factor from one update to the next.

    Raises:
        TensorValueError: an argument is out of its range.

    >>> schedule = ef.optim.ExponentialSchedule(1.0, gamma=0.5)
    >>> [schedule(n) for n in range(4)]
    [1.0, 0.5, 0.25, 0.125]
    """

    lr: float
    gamma: float

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        return self.lr * self.gamma**n


@final
@dataclass(frozen=True)
class PolynomialSchedule(_AbstractFormula):
    """From ``lr`` to ``final`` as ``(1 - n / steps) ** power``; a straight line for power 1.

    Args:
        lr: the rate at first.
        steps: number of updates after which the rate has fallen to ``final``, and stays there.
        power: the exponent.
        final: the rate at the end.

    Raises:
        TensorValueError: an argument is out of its range.

    >>> schedule = ef.optim.PolynomialSchedule(1.0, steps=4)
    >>> [schedule(n) for n in range(6)]
    [1.0, 0.75, 0.5, 0.25, 0.0, 0.0]
    """

    lr: float
    steps: int
    power: float = 1.0
    final: float = 0.0

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        left = 1 - ef.minimum(n, self.steps) / self.steps
        return self.final + (self.lr - self.final) * left**self.power


@final
@dataclass(frozen=True)
class CosineSchedule(_AbstractFormula):
    """From ``lr`` to ``final`` along half a cosine (Loshchilov and Hutter, 2017).

    Args:
        lr: the rate at first.
        steps: number of updates after which the rate has fallen to ``final``, and stays there.
        final: the rate at the end.

    Raises:
        TensorValueError: an argument is out of its range.

    >>> schedule = ef.optim.CosineSchedule(1.0, steps=3)
    >>> [round(schedule(n), 3) for n in range(5)]
    [1.0, 0.75, 0.25, 0.0, 0.0]
    """

    lr: float
    steps: int
    final: float = 0.0

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        return _cosine(self.lr, self.final, ef.minimum(n, self.steps) / self.steps)


@final
@dataclass(frozen=True)
class WarmUp(_AbstractFormula):
    """A linear rise at first, then another schedule from its beginning.

    Update ``n`` of the first ``steps`` has ``(n + 1) / (steps + 1)`` of the rate that the schedule
    begins with (Goyal et al., 2017).

    Args:
        schedule: the schedule that follows, or a number for a constant rate.
        steps: number of updates of the rise.

    Raises:
        TensorValueError: an argument is out of its range.

    >>> schedule = ef.optim.WarmUp(ef.optim.PolynomialSchedule(1.0, steps=2), steps=3)
    >>> [schedule(n) for n in range(6)]
    [0.25, 0.5, 0.75, 1.0, 0.5, 0.0]
    """

    schedule: AbstractSchedule | float
    steps: int

    def _at(self, n: ef.Tensor) -> ef.Tensor:
        rate = _part(self.schedule, ef.maximum(n - self.steps, 0.0))
        return rate * ef.minimum((n + 1) / (self.steps + 1), 1.0)


@final
@dataclass(frozen=True)
class OneCycleSchedule(_AbstractFormula):
    """Up to the highest rate and down to almost nothing (Smith and Topin, 2018).

    From ``max_lr / div_factor`` to ``max_lr`` in the first ``pct_start`` of the updates, and then
    to ``max_lr / div_factor / final_div_factor``; the arguments are as in PyTorch.

    Args:
        max_lr: the highest rate.
        total_steps: number of updates in all.
        pct_start: the fraction of the updates in which the rate rises.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        div_factor: ``max_lr`` over the initial rate.
        final_div_factor: the initial rate over the final rate.

    Raises:
        TensorValueError: an argument is out of its range.

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
    """Several schedules in sequence, each from its own beginning.

    Args:
        schedules: schedules, or numbers for constant rates.
        milestones: the numbers of updates at which the second and all further schedules begin.

    Raises:
        TensorValueError: an argument is out of its range, or there is not one milestone between
            each two schedules.

    >>> schedule = ef.optim.ChainedSchedule([0.5, ef.optim.ExponentialSchedule(1.0, 0.5)], [2])
    >>> [schedule(n) for n in range(5)]
    [0.5, 0.5, 1.0, 0.5, 0.25]
    """

    schedules: Sequence[AbstractSchedule | float]
    milestones: Sequence[int]

    def __post_init__(self) -> None:
        _checked(self)
        if len(self.schedules) != len(self.milestones) + 1:
            raise TensorValueError(
                "ChainedSchedule: there must be one milestone between each two schedules",
                given=f"{len(self.schedules)} schedules, {len(self.milestones)} milestones",
            )

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
