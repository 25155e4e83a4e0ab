"""Settings, gradients and recorded steps for the comparison of trajectories of optimisers.

Plain data and formulas for any array namespace, so that the script that records PyTorch's
trajectories and the tests that run eagerflow's share them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

STEPS: Final = 100
#: numbers of updates after which the values are recorded
RECORDED: Final = (1, 2, 3, 5, 10, 20, 40, 60, 80, 100)


class Setting(NamedTuple):
    """An optimiser with options.

    Attributes:
        name: the name of the class.
        options: its arguments, the same in both libraries.
        sparse: whether the gradients are sparse.
        uneven: whether the gradients are of very different sizes from step to step.
    """

    name: str
    options: dict[str, Any]
    sparse: bool = False
    uneven: bool = False

    def __str__(self) -> str:
        shown = ",".join(f"{k}={v}" for k, v in self.options.items())
        return f"{self.name}({shown})" + " sparse" * self.sparse + " uneven" * self.uneven

    def size(self, t: int) -> float:
        """The factor of the gradient of step ``t``."""
        return 10.0 ** (3, -6, 0, -3)[t % 4] if self.uneven else 1.0


SETTINGS: Final = [
    Setting("SGD", {"lr": 0.05}),
    Setting("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    Setting("SGD", {"lr": 0.02, "momentum": 0.9}),
    Setting("SGD", {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}),
    Setting("SGD", {"lr": 0.05, "momentum": 0.8, "dampening": 0.5}),
    Setting("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    Setting("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    Setting("Adagrad", {}),
    Setting("Adagrad", {"lr": 0.1, "lr_decay": 0.02}),
    Setting("Adagrad", {"lr": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3}),
    Setting("Adagrad", {"lr": 0.1, "eps": 0.1}),
    Setting("Adadelta", {}),
    Setting("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-3}),
    Setting("Adadelta", {"weight_decay": 0.1}),
    Setting("RMSprop", {}),
    Setting("RMSprop", {"lr": 0.02, "alpha": 0.9, "eps": 1e-3}),
    Setting("RMSprop", {"centered": True}),
    Setting("RMSprop", {"lr": 0.002, "momentum": 0.9}),
    Setting("RMSprop", {"lr": 0.002, "momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    Setting("Adam", {}),
    Setting("Adam", {"lr": 0.05}),
    Setting("Adam", {"lr": 0.05, "betas": [0.5, 0.9], "eps": 1e-3}),
    Setting("Adam", {"lr": 0.05, "weight_decay": 0.1}),
    Setting("Adam", {"lr": 0.05, "amsgrad": True}),
    Setting("Adam", {"lr": 0.05, "betas": [0.9, 0.9], "amsgrad": True, "weight_decay": 0.1}),
    Setting("AdamW", {}),
    Setting("AdamW", {"lr": 0.05, "weight_decay": 0.3}),
    Setting("AdamW", {"lr": 0.05, "betas": [0.9, 0.9], "amsgrad": True}),
    Setting("SGD", {"lr": 0.05}, sparse=True),
    Setting("SGD", {"lr": 0.02, "momentum": 0.9}, sparse=True),
    Setting("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True}, sparse=True),
    Setting("Adagrad", {"lr": 0.1}, sparse=True),
    Setting("Adagrad", {"lr": 0.1, "lr_decay": 0.02, "eps": 0.1}, sparse=True),
    Setting("Adam", {"lr": 0.05}, sparse=True),
    Setting("Adam", {"lr": 0.05, "betas": [0.5, 0.9], "eps": 1e-3}, sparse=True),
    Setting("Adam", {"lr": 0.01, "betas": [0.0, 0.99]}, uneven=True),
    Setting("Adam", {"lr": 0.01, "betas": [0.5, 0.0]}, uneven=True),
    Setting("Adam", {"lr": 0.01, "betas": [0.0, 0.3], "amsgrad": True}, uneven=True),
    Setting("Adadelta", {"lr": 0.1, "rho": 0.0}, uneven=True),
    Setting("RMSprop", {"lr": 0.01, "alpha": 0.0}, uneven=True),
    Setting("RMSprop", {"lr": 0.01, "alpha": 0.3, "centered": True, "eps": 0.1}, uneven=True),
]


def start() -> list[list[float]]:
    """The initial value of the parameter: five rows of two numbers."""
    return [[0.9, -1.3], [0.25, 2.0], [-0.6, 0.1], [1.7, -0.4], [-2.1, 0.7]]


def phase() -> list[list[float]]:
    """Phases that make the gradients of the elements differ."""
    return [[0.3 * i + 1.1 * j for j in range(2)] for i in range(5)]


def rows(t: int) -> list[int]:
    """The rows of a sparse gradient of step ``t``: one of them twice, never all."""
    return [t % 5, t * t % 5, (t + 2) % 5, t % 5]


def gradient(xp: Any, x: Any, phases: Any, t: int) -> Any:
    """A gradient that changes from step to step and with the parameter."""
    return x * 0.5 + xp.sin(x * 2.0) * 0.3 + xp.cos(phases + 0.7 * t) * 0.4
