"""Records PyTorch's results for the table of functions in ``../data/functional.npz``.

Run it where PyTorch is installed (the bench extra), in the root of the repository:

    python -m tests.nn.functional.record
"""

from __future__ import annotations

import json

import numpy as np
import torch

from tests.nn.functional.settings import TARGET, rows
from tests.nn.functional.torch_functions import run


def main() -> None:
    table = rows()
    arrays = {
        f"{setting.name}/{key}": value for setting in table for key, value in run(setting).items()
    }
    # one array for all: a file in the archive costs more than most of these results
    index = {key: list(x.shape) for key, x in arrays.items()}
    values = np.concatenate([x.astype(np.float64).ravel() for x in arrays.values()])
    TARGET.parent.mkdir(exist_ok=True)
    np.savez_compressed(TARGET, index=np.array(json.dumps(index)), values=values)
    print(f"{len(arrays)} arrays of {len(table)} settings, {TARGET.stat().st_size:,} bytes, "
          f"torch {torch.__version__}")  # fmt: skip


if __name__ == "__main__":
    main()
