"""Training steps of an LSTM: a loop over a tensor against the same body unrolled, and the peers.

Run: ``python -m tests.bench.recurrent`` in an environment with the ``bench`` extra; peers that are
not installed are left out. Before anything is timed, the losses of the first steps are compared.
The steps include the update by Adam; the time of the traces, which grows with the length only
where the loop is unrolled, is in a table of its own.
"""

from __future__ import annotations

import statistics
import time

from tests.bench.harness import Contender, Contest, arguments, first_alone, installed, run
from tests.bench.networks import compare
from tests.bench.steps.with_eagerflow import lstm

#: steps, batch, inputs, hidden
SMALLEST = (3, 8, 8, 16)
SIZES = ((20, 8, 8, 16), (50, 32, 32, 64), (100, 16, 64, 128), (100, 32, 128, 256))

LOOP, UNROLLED = "for x in xs", "for t in range(T)"
#: name: the module of the library, and extra arguments of its function besides the sizes
LIBRARIES = {
    LOOP: ("eagerflow", 'way="loop"'),
    UNROLLED: ("eagerflow", 'way="range"'),
    "ef.nn.LSTM": ("eagerflow", 'way="layer"'),
    "ef.nn.LSTM, eager": ("eagerflow", 'way="layer", traced=False'),
    "torch.nn.LSTM": ("torch", ""),
    "jax.lax.scan": ("jax", ""),
}


def contests(every: tuple[tuple[int, ...], ...] = SIZES) -> list[Contest]:
    """The table; eagerflow first."""
    table = []
    for sizes in every:
        arguments = ", ".join(map(str, sizes))
        contenders = [
            Contender(
                name,
                f"from tests.bench.steps.with_{module} import lstm\n"
                f"step = lstm({', '.join(filter(None, (arguments, options)))})\n",
                "step()",
                "" if module == "eagerflow" else module,
            )
            for name, (module, options) in LIBRARIES.items()
        ]
        title = "LSTM {}, {} steps of {}x{}".format(sizes[3], *sizes[:3])
        table.append(Contest(title, contenders, {UNROLLED: 1.05}))
    return table


def report_first_calls(lengths: tuple[int, ...] = (20, 50, 100), rounds: int = 1) -> None:
    """Print the time of the first call, with the trace."""
    print("\n| steps | " + " | ".join((LOOP, UNROLLED, "ef.nn.LSTM")) + " |\n|---|---|---|---|")
    for steps in lengths:
        cells = []
        for way in ("loop", "range", "layer"):
            spent = []
            for _ in range(rounds):
                step = lstm(steps, 8, 8, 16, way)
                start = time.perf_counter()
                step()
                spent.append(time.perf_counter() - start)
            cells.append(f"{1000 * statistics.median(spent):.0f} ms")
        print(f"| {steps} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    options = arguments("Training steps of an LSTM").parse_args()
    table = installed(contests((SMALLEST,)) if options.smallest else contests(), options)
    for row in table:
        compare(row, here=options.smallest)
    run("Training steps of an LSTM", first_alone(table) if options.smallest else table, options)
    if options.smallest:
        report_first_calls(SMALLEST[:1])
    else:
        report_first_calls()
