"""Records PyTorch's results for the table of layers in ``data/layers.npz``.

Run it where PyTorch is installed (the bench extra), in the root of the repository:

    python -m tests.nn.record_layers
"""

from __future__ import annotations

import torch

from tests.nn.settings import TARGET, pack, rows
from tests.nn.torch_layers import run


def main() -> None:
    torch.manual_seed(0)
    arrays = {
        f"{setting.name}/{key}": value for setting in rows() for key, value in run(setting).items()
    }
    TARGET.parent.mkdir(exist_ok=True)
    pack(arrays)
    print(f"{len(arrays)} arrays of {len(rows())} settings, {TARGET.stat().st_size:,} bytes, "
          f"torch {torch.__version__}")  # fmt: skip


if __name__ == "__main__":
    main()
