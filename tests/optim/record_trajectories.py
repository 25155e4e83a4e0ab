"""Records the trajectories of PyTorch's optimisers in ``data/trajectories.json``.

Run, where torch is installed: ``python -m tests.optim.record_trajectories``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.optim.trajectories import (
    RECORDED,
    SETTINGS,
    STEPS,
    Setting,
    gradient,
    phase,
    rows,
    start,
)

FILE = Path(__file__).parent / "data" / "trajectories.json"


def run(torch: Any, setting: Setting, dtype: Any) -> list[list[list[float]]]:
    """The parameter after each of the recorded steps."""
    torch.sparse.check_sparse_tensor_invariants.enable()  # PyTorch warns where this is unset
    x = torch.tensor(start(), dtype=dtype, requires_grad=True)
    phases = torch.tensor(phase(), dtype=dtype)
    name = "SparseAdam" if setting.sparse and setting.name == "Adam" else setting.name
    optimiser = getattr(torch.optim, name)([x], **setting.options)
    trajectory = []
    for t in range(1, STEPS + 1):
        with torch.no_grad():
            if setting.sparse:
                i = torch.tensor(rows(t))
                values = gradient(torch, x[i], phases[i], t) * setting.size(t)
                x.grad = torch.sparse_coo_tensor(i[None], values, x.shape)
            else:
                x.grad = gradient(torch, x, phases, t) * setting.size(t)
        optimiser.step()
        if t in RECORDED:
            trajectory.append(x.detach().tolist())
    return trajectory


def main() -> None:
    """Record all settings, in float64."""
    import torch

    trajectories = {str(s): run(torch, s, torch.float64) for s in SETTINGS}
    lines = [
        f"{json.dumps(k)}: {json.dumps(v, separators=(',', ':'))}" for k, v in trajectories.items()
    ]
    FILE.write_text(
        json.dumps({"torch": torch.__version__.partition("+")[0]})[:-1]
        + ",\n"
        + ",\n".join(lines)
        + "\n}\n"
    )


if __name__ == "__main__":
    main()
