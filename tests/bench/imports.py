"""Time and size of ``import eagerflow`` above ``import numpy``, and the size of the wheel.

Run: ``python -m tests.bench.imports``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

ROUNDS = 15


def _seconds(code: str) -> float:
    # byte code is cached where packages are installed, whatever this shell asks for
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    """Measure alternately and print a table."""
    codes = {"numpy": "import numpy", "eagerflow": "import eagerflow", "nothing": "pass"}
    times: dict[str, list[float]] = {name: [] for name in codes}
    for code in codes.values():
        _seconds(code)  # fills the caches of byte code and of the file system
    for _ in range(ROUNDS):
        for name, code in codes.items():
            times[name].append(_seconds(code))
    extra = statistics.median(
        a - b for a, b in zip(times["eagerflow"], times["numpy"], strict=True)
    )
    print("### Import\n\n| import | median | min |\n|---|---|---|")
    for name, values in times.items():
        print(f"| {name} | {statistics.median(values) * 1e3:.0f} ms | {min(values) * 1e3:.0f} ms |")
    print(f"\neagerflow above numpy: {extra * 1e3:.0f} ms (budget 150 ms)")


if __name__ == "__main__":
    main()
