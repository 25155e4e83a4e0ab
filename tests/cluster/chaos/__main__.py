"""Run: ``python -m tests.cluster.chaos --seconds 300 --seed 1``."""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from tests.cluster.chaos.world import run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Task servers under chaos")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), options.seed, options.seconds)
    print(json.dumps(outcome, indent=1))
