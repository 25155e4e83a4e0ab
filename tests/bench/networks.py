"""Training steps: an MLP of several sizes and a small CNN, against NumPy by hand and the peers.

Run: ``python -m tests.bench.networks`` in an environment with the ``bench`` extra; peers that are
not installed are left out. Before anything is timed, the losses of the first steps are compared.
After the times follows the peak memory of each.
"""

from __future__ import annotations

import shutil

from tests.bench.harness import Contender, Contest, answer, arguments, first_alone, installed, run
from tests.bench.memory import report

SMALLEST = (8, 16)
SIZES = ((32, 128), (128, 512), (512, 1024))

#: name: the module of the library, and extra arguments of its functions besides the sizes
LIBRARIES = {
    "traced": ("eagerflow", "traced=True"),
    "eager": ("eagerflow", "traced=False"),
    "numpy, formulas": ("numpy", ""),
    "numpy, in place": ("numpy", ""),
    "torch eager": ("torch", "compiled=False"),
    "torch.compile": ("torch", "compiled=True"),
    "jax.jit": ("jax", ""),
    "tf.function": ("tensorflow", "xla=False"),
    "tf.function, XLA": ("tensorflow", "xla=True"),
}
_FIRST_LOSSES = """
import json
print(json.dumps([float(step()) for _ in range(5)]))
"""


def names() -> list[str]:
    """Names of available contenders; `torch.compile` needs a C++ compiler."""
    return [n for n in LIBRARIES if n != "torch.compile" or shutil.which("g++") is not None]


def _contender(name: str, work: str, sizes: str) -> Contender:
    module, options = LIBRARIES[name]
    arguments = ", ".join(filter(None, (sizes, options)))
    work = "formulas" if name == "numpy, formulas" else work
    setup = f"from tests.bench.steps.with_{module} import {work}\nstep = {work}({arguments})\n"
    needs = "" if module in ("eagerflow", "numpy") else module
    return Contender(name, setup, "step()", needs)


def contests(sizes: tuple[tuple[int, int], ...] = SIZES) -> list[Contest]:
    """The table; eagerflow first."""
    rows = [
        (f"MLP 784-{hidden}-{hidden}-10, batch {batch}", "mlp", f"{batch}, {hidden}")
        for batch, hidden in sizes
    ]
    rows.append(("CNN, digits of 8x8, batch 64", "cnn", ""))
    table = []
    for title, work, texts in rows:
        contenders = [
            _contender(name, work, texts)
            for name in names()
            if work == "mlp" or name != "numpy, formulas"
        ]
        budget = {"eager": 1.0}
        if work == "mlp":
            budget |= {"numpy, formulas": 1.0, "numpy, in place": 1.0}
        table.append(Contest(title, contenders, budget))
    return table


def compare(contest: Contest, *, here: bool = False) -> None:
    """Check that all contenders do the same work, each in a process of its own unless ``here``.

    Raises:
        AssertionError: losses differ by more than rounding explains.
    """
    want: list[float] | None = None
    for contender in contest.contenders:
        losses = answer(contender.setup + _FIRST_LOSSES, here=here and not contender.needs)
        assert isinstance(losses, list)
        want = want or losses
        worst = max(abs(a - b) / abs(b) for a, b in zip(losses, want, strict=True))
        assert worst < 1e-3, (contest.name, contender.name, losses, want)


if __name__ == "__main__":
    options = arguments("Training steps").parse_args()
    table = installed(contests((SMALLEST,)) if options.smallest else contests(), options)
    for row in table[:1] if options.smallest else table:
        compare(row, here=options.smallest)
    run("Training steps", table, options)
    report(first_alone(table) if options.smallest else table)
