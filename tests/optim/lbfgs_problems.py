"""Problems on which `LBFGS` is compared with PyTorch's: functions to minimise, and options."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

STEPS: Final = 6


class Problem(NamedTuple):
    """A function to minimise, with options of the optimiser.

    Attributes:
        name: the name of the function.
        options: options of the optimiser, the same in both libraries.
    """

    name: str
    options: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.name}({','.join(f'{k}={v}' for k, v in self.options.items())})"


WOLFE: Final = {"line_search_fn": "strong_wolfe"}
PROBLEMS: Final = [
    Problem("rosenbrock", {"max_iter": 5, **WOLFE}),
    Problem("rosenbrock", {"max_iter": 4, "history_size": 2, **WOLFE}),
    Problem("rosenbrock", {"max_iter": 3, "max_eval": 4, **WOLFE}),
    Problem("rosenbrock", {"max_iter": 3, "max_eval": 1, **WOLFE}),
    Problem("rosenbrock", {"lr": 0.3, "max_iter": 4, **WOLFE}),
    Problem("rosenbrock", {"lr": 0.002, "max_iter": 5}),
    Problem("logistic", {"max_iter": 2, **WOLFE}),
    Problem("logistic", {"max_iter": 2, "tolerance_grad": 1e-3, **WOLFE}),
    Problem("logistic", {"max_iter": 3, "tolerance_change": 1e-3, **WOLFE}),
    Problem("logistic", {"lr": 0.5, "max_iter": 3}),
    Problem("steep", {"max_iter": 4, **WOLFE}),
    Problem("steep", {"lr": 100.0, "max_iter": 4, **WOLFE}),
    Problem("wavy", {"lr": 3.0, "max_iter": 4, **WOLFE}),
]


def start(name: str) -> list[list[float]]:
    """The initial values of the variables: a vector, and a vector of one number or a few."""
    starts = {
        "rosenbrock": [[-1.2], [1.0]],
        "logistic": [[0.0, 0.0, 0.0], [0.1]],
        "steep": [[3.0, -2.0], [0.5]],
        "wavy": [[2.0, 4.0], [-1.0]],
    }
    return starts[name]


def loss(xp: Any, name: str, x: Any, y: Any) -> Any:
    """The loss, a function of two vectors, in any array namespace."""
    if name == "rosenbrock":
        return ((1 - x) ** 2 + 100 * (y - x**2) ** 2).sum()
    if name == "steep":
        return (x**4).sum() + (y**2).sum() * 50 + (x.sum() - y.sum()) ** 2
    if name == "wavy":
        return (xp.sin(3 * x) + 0.1 * x**2).sum() + ((y - x.sum()) ** 2).sum() * 0.1
    rows = [[0.5 * i - 2, ((7 * i) % 5) / 2 - 1, ((3 * i) % 4) - 1.5] for i in range(10)]
    total = 0.01 * ((x**2).sum() + (y**2).sum())
    for i, row in enumerate(rows):
        score = sum(a * x[j] for j, a in enumerate(row)) + y[0]
        total = total + xp.log(1 + xp.exp(score * (1.0 if i % 3 else -1.0)))
    return total
