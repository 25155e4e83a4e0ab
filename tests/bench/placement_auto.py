"""Automatic placement against the program's own, on ten graphs; and how long planning takes.

Run: ``python -m tests.bench.placement_auto``, on a machine where nothing else runs. Each function
is placed by ``f.place("auto")``, which tries what it has planned and keeps the faster. Then both
placements run alternately: the median of the ratios counts, auto by own. *Predicted* is the step
that the cost model predicts for what is kept, after it has watched steps, *measured* the median.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import eagerflow as ef
from eagerflow.function.placing.automatic import traits
from eagerflow.placement.automatic.cost_model import CostModel
from eagerflow.placement.automatic.planning import as_request, plan
from eagerflow.placement.automatic.rates import MachineRates
from tests.bench.harness import arguments
from tests.bench.placement import make

DEVICES = 4
ALTERNATIONS = 30
NODES, PLAN_SECONDS = 5_000, 10.0  # budget of planning on 8 devices
MOST, GAIN, CLOSE = 1.03, 0.8, 0.3  # budgets: of every ratio, of four of them, of predictions
Program = tuple[Callable[..., Any], list[Any]]


def _array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32") / shape[-1] ** 0.5


def towers(n: int) -> Program:
    """Two towers of products, and a join; each tower has a device."""

    def f(x: Any, w: Any) -> Any:
        with ef.device("cpu:1"):
            a = x
            for _ in range(4):
                a = ef.tanh(a @ w)
        with ef.device("cpu:2"):
            b = x
            for _ in range(4):
                b = ef.sin(b @ w)
        with ef.device("cpu:0"):
            return (a * b).sum()

    return f, [_array(n, n), _array(n, n)]


def ensemble(n: int) -> Program:
    """Four members, each on a device, and their mean."""

    def f(x: Any, w: Any) -> Any:
        members = []
        for i in range(4):
            with ef.device(f"cpu:{i}"):
                members.append(ef.tanh(x @ w) @ w * (i + 1.0))
        with ef.device("cpu:0"):
            return sum(members).mean()

    return f, [_array(n, n), _array(n, n)]


def embedding(n: int) -> Program:
    """A wide embedding on a device of its own, and an encoder."""

    def f(table: Any, ids: Any, w: Any) -> Any:
        with ef.device("cpu:1"):
            rows = ef.take(table, ids, axis=0)
        with ef.device("cpu:0"):
            h = ef.tanh(rows @ w)
            return (h @ w).sum()

    ids = np.random.default_rng(0).integers(0, 50 * n, 4 * n)
    return f, [_array(50 * n, n), ids, _array(n, n)]


def lstm(n: int) -> Program:
    """Three recurrent layers, each on a device, unrolled."""

    def f(x: Any, w: Any) -> Any:
        states = [x * 0.0 for _ in range(3)]
        for _ in range(6):
            h = x
            for i in range(3):
                with ef.device(f"cpu:{i}"):
                    gates = ef.nn.functional.sigmoid(h @ w + states[i] @ w)
                    states[i] = gates * states[i] + ef.tanh(gates)
                    h = states[i]
        with ef.device("cpu:0"):
            return (h * 1.0).sum()

    return f, [_array(8, n), _array(n, n)]


def tree(n: int) -> Program:
    """An unbalanced tree: branches of one to five products."""

    def f(x: Any, w: Any) -> Any:
        total = x
        for i in range(1, 5):
            with ef.device(f"cpu:{i % DEVICES}"):
                y = x
                for _ in range(i):
                    y = ef.tanh(y @ w)
            with ef.device("cpu:0"):
                total = total + y
        return total.sum()

    return f, [_array(n, n), _array(n, n)]


def chain(n: int) -> Program:
    """A graph with no parallelism, on one device."""

    def f(x: Any, w: Any) -> Any:
        for _ in range(12):
            x = ef.tanh(x @ w)
        return x.sum()

    return f, [_array(n, n), _array(n, n)]


def pingpong(n: int) -> Program:
    """Small ops, on two devices alternately."""

    def f(x: Any, w: Any) -> Any:
        for i in range(30):
            with ef.device(f"cpu:{i % 2}"):
                x = ef.sin(x) + i
        with ef.device("cpu:0"):
            return x.sum()

    return f, [_array(n), _array(n)]


def round_robin(n: int) -> Program:
    """Many small independent parts, dealt to four devices."""

    def f(x: Any, w: Any) -> Any:
        parts = []
        for i in range(24):
            with ef.device(f"cpu:{i % DEVICES}"):
                parts.append(ef.exp(x * (i + 1.0)).sum())
        with ef.device("cpu:0"):
            return sum(parts)

    return f, [_array(n), _array(n)]


def training(n: int) -> Program:
    """A step of training of a network whose layers are on two devices."""

    def loss(x: Any, w: Any) -> Any:
        with ef.device("cpu:1"):
            h = ef.tanh(x @ w)
        with ef.device("cpu:2"):
            h = ef.tanh(h @ w)
        with ef.device("cpu:0"):
            return (h * h).sum()

    def f(x: Any, w: Any) -> Any:
        return w - ef.grad(loss, argnums=1)(x, w) * 0.01

    return f, [_array(n, n), _array(n, n)]


def mixture(n: int) -> Program:
    """Four experts on four devices, weighed by a gate."""

    def f(x: Any, w: Any) -> Any:
        gate = ef.nn.functional.softmax(x[:, :4])
        total = x * 0.0
        for i in range(4):
            with ef.device(f"cpu:{i}"):
                y = ef.tanh(x @ w) * gate[:, i : i + 1]
            with ef.device("cpu:0"):
                total = total + y
        return total.sum()

    return f, [_array(n, n), _array(n, n)]


#: the programs, with their sizes
PROGRAMS: dict[str, tuple[Callable[[int], Program], int]] = {
    "two towers and a join": (towers, 400),
    "an ensemble": (ensemble, 400),
    "a wide embedding": (embedding, 64),
    "an LSTM by layers": (lstm, 128),
    "an unbalanced tree": (tree, 300),
    "no parallelism": (chain, 300),
    "small ops, alternately": (pingpong, 1000),
    "parts dealt round": (round_robin, 2000),
    "a training step": (training, 400),
    "a mixture of experts": (mixture, 300),
}


def compare(name: str, alternations: int, scale: float) -> dict[str, Any]:
    """Both placements of a program, alternately."""
    make_program, size = PROGRAMS[name]
    function, given = make_program(max(int(size * scale), 8))
    args = [ef.tensor(x) for x in given]
    own, auto = ef.trace(function, name="own"), ef.trace(function, name="auto")
    result = auto.place("auto")(*args)
    np.testing.assert_array_equal(result.numpy(), own(*args).numpy())
    for _ in range(40):
        own(*args), auto(*args)
    made = auto.latest().rules.plan
    ratios, seconds = [], []
    for _ in range(alternations):
        times = []
        for one in (own, auto):
            start = time.perf_counter()
            one(*args)
            times.append(time.perf_counter() - start)
        ratios.append(times[1] / times[0])
        seconds.append(times[1])
    measured = statistics.median(seconds)
    return {
        "program": name, "kept": made.chosen.name, "ratio": statistics.median(ratios),
        "predicted": made.chosen.predicted, "measured": measured,
        "off": made.chosen.predicted / measured - 1,
    }  # fmt: skip


def planning(nodes: int) -> float:
    """Seconds to plan a graph on eight devices."""
    graph = make(nodes, 8)
    model = CostModel(MachineRates(), cores=2)
    start = time.process_time()  # what else runs on the machine does not count
    plan(graph, as_request([f"null:{i}" for i in range(8)], None, None), model, traits())
    return time.process_time() - start


def main() -> None:
    """Compare all programs."""
    options = arguments("Automatic placement").parse_args()
    alternations, scale = (2, 0.1) if options.smallest else (ALTERNATIONS, 1.0)
    nodes = 200 if options.smallest else NODES
    rows = []
    print("| program | kept | auto / own | predicted | measured | off |\n|---|---|---|---|---|---|")
    with TemporaryDirectory() as folder, ef.config(cpu_devices=DEVICES, threads=1):
        os.environ["EAGERFLOW_CACHE"] = folder
        ef.placement.measure()
        for name in PROGRAMS:
            row = compare(name, alternations, scale)
            rows.append(row)
            print(
                f"| {name} | {row['kept']} | {row['ratio']:.2f} | {row['predicted'] * 1e3:.3f} ms "
                f"| {row['measured'] * 1e3:.3f} ms | {row['off']:+.0%} |"
            )
    gained = sum(row["ratio"] <= GAIN for row in rows)
    close = sum(abs(row["off"]) <= CLOSE for row in rows)
    worst = max(row["ratio"] for row in rows)
    seconds = planning(nodes)
    print(
        f"\nworst ratio {worst:.2f} (budget {MOST}), {gained} of {len(rows)} at most {GAIN} "
        f"(budget 4), {close} predicted within {CLOSE:.0%} (budget 8)\n"
        f"{nodes:,} nodes on 8 devices planned in {seconds:.1f} s (budget {PLAN_SECONDS:.0f} s)"
    )
    if options.json:
        options.json.write_text(json.dumps([*rows, {"nodes": nodes, "seconds": seconds}]))


if __name__ == "__main__":
    main()
