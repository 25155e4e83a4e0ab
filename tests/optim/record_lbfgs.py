"""Records the steps of PyTorch's LBFGS in ``data/lbfgs.json``.

Run, where torch is installed: ``python -m tests.optim.record_lbfgs``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.optim.lbfgs_problems import PROBLEMS, STEPS, Problem, loss, start

FILE = Path(__file__).parent / "data" / "lbfgs.json"


def run(torch: Any, problem: Problem) -> list[dict[str, Any]]:
    """For each step: the loss before it, the variables, iterations and evaluations so far."""
    variables = [
        torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in start(problem.name)
    ]
    optimiser = torch.optim.LBFGS(variables, **problem.options)

    def closure() -> Any:
        optimiser.zero_grad()
        value = loss(torch, problem.name, *variables)
        value.backward()
        return value

    steps = []
    for _ in range(STEPS):
        before = float(optimiser.step(closure).detach())
        state = optimiser.state[variables[0]]
        steps.append({
            "loss": before, "x": [v.tolist() for v in variables],
            "n_iter": state["n_iter"], "func_evals": state["func_evals"],
        })  # fmt: skip
    return steps


def main() -> None:
    """Record all problems, in float64."""
    import torch

    records = {str(p): run(torch, p) for p in PROBLEMS}
    lines = [f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in records.items()]
    text = json.dumps({"torch": torch.__version__.partition("+")[0]})[:-1]
    FILE.write_text(text + ",\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
