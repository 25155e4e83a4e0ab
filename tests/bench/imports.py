"""Time of ``import eagerflow`` above ``import numpy``: of the import itself, and of lazy imports.

Run: ``python -m tests.bench.imports``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Final

from tests.bench.harness import arguments

ROUNDS: Final = 15
#: programs; each is compared with the one named first
PROGRAMS: Final = {
    "nothing": ("", ""),
    "numpy": ("nothing", "import numpy"),
    "eagerflow": ("numpy", "import eagerflow as ef"),
    "… and a first op": ("eagerflow", "import eagerflow as ef; ef.ones(3) + 1"),
    "… and graphs (`ef.trace`, `ef.grad`, …)": ("eagerflow", "import eagerflow as ef; ef.trace"),
    "… and `ef.nn`, `ef.optim`": ("eagerflow", "import eagerflow as ef; ef.nn, ef.optim"),
}


def _seconds(code: str) -> float:
    # byte code is cached where packages are installed, whatever the shell's setting
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    """Measure alternately and print a table."""
    options = arguments("Import").parse_args()
    # the last programs differ in names that tests/test_imports.py asks for
    programs = dict(list(PROGRAMS.items())[: 3 if options.smallest else None])
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _, code in () if options.smallest else programs.values():
        _seconds(code)  # fills the caches of byte code and of the file system
    for _ in range(1 if options.smallest else ROUNDS):
        for name, (_, code) in programs.items():
            times[name].append(_seconds(code))
    print("### Import\n\n| import | median | min | above |\n|---|---|---|---|")
    for name, (base, _) in programs.items():
        pairs = zip(times[name], times[base or name], strict=True)
        extra = statistics.median([a - b for a, b in pairs]) * 1e3
        above = f"{base}: {extra:.0f} ms" if base else ""
        median, least = statistics.median(times[name]) * 1e3, min(times[name]) * 1e3
        print(f"| {name} | {median:.0f} ms | {least:.0f} ms | {above} |")
    print("\nbudget: eagerflow 150 ms above numpy")


if __name__ == "__main__":
    main()
