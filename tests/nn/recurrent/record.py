"""Records PyTorch's results for the table of recurrent layers in ``../data/recurrent.npz``.

Run it where PyTorch is installed (the bench extra), in the root of the repository:

    python -m tests.nn.recurrent.record
"""

from __future__ import annotations

import torch

from tests.nn.recurrent.settings import TARGET, rows
from tests.nn.recurrent.with_torch import run
from tests.nn.settings import pack


def main() -> None:
    arrays = {f"{s.name}/{key}": value for s in rows() for key, value in run(s).items()}
    pack(arrays, TARGET)
    print(f"{len(arrays)} arrays of {len(rows())} settings, {TARGET.stat().st_size:,} bytes, "
          f"torch {torch.__version__}")  # fmt: skip


if __name__ == "__main__":
    main()
