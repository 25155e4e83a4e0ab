"""How fast this machine is, measured: kernels, moves, and what a value takes that is sent.

All of it is done with ops and graphs, as programs do them. The best of several repeats counts:
what else runs on the machine makes things slower, never faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any, Final

from eagerflow.core.op import get_op
from eagerflow.graph.ir import Graph
from eagerflow.hardware import Device, as_device, devices, synchronize
from eagerflow.ops.creation.arrays import ones
from eagerflow.ops.elementwise.arithmetic import add
from eagerflow.ops.elementwise.exponential import exp
from eagerflow.ops.linalg.products import matmul
from eagerflow.placement.automatic.rates import LinkRates, MachineRates, Rates, load, store
from eagerflow.placement.constraints import holds_data
from eagerflow.settings import config
from eagerflow.types import TensorType

_REPEATS: Final = 5
_SMALL, _LARGE = 16, 1 << 20  # elements; the large ones are more than caches of a core hold
_SIDE: Final = 512  # of matrices
_CROSSINGS: Final = 40  # of the graph that is run to see what one costs


def measure(names: Iterable[Device | str] | None = None, *, save: bool = True) -> MachineRates:
    """Measure how fast devices and links are, for automatic placement.

    It takes about a second for each kind of device. What is found is kept on disk for this machine,
    so it is done once. Nothing else should run meanwhile.

    Args:
        names: of which devices; by default all of this process that hold data, of each kind two.
        save: whether to keep it on disk.

    Returns:
        The rates of all kinds that were ever measured here: operations, bytes and calls, the links
        between them, and what the executor takes for a value that is sent.

    >>> rates = ef.placement.measure(["cpu:0"], save=False)
    >>> rates.of("cpu").bytes > 1e6
    True
    """
    chosen = _chosen(names)
    known = load() if save else MachineRates()
    kinds = dict(known.kinds)
    links = dict(known.links)
    with config(threads=1):
        for device in {d.kind: d for d in reversed(chosen)}.values():
            kinds[device.kind] = _rates(device)
        for source in chosen:
            for target in chosen:
                if source is not target:
                    links[f"{source.kind}>{target.kind}"] = _link(source, target)
    send = _send_seconds()
    found = MachineRates(kinds, links, known.region, send, measured=True)
    if save:
        store(found)
    return found


def _chosen(names: Iterable[Device | str] | None) -> list[Device]:
    if names is not None:
        return [as_device(name) for name in names]
    chosen: list[Device] = []
    for device in devices():
        if holds_data(device) and sum(d.kind == device.kind for d in chosen) < 2:
            chosen.append(device)
    return chosen


def _best(action: Callable[[], Any], device: Device, repeats: int = _REPEATS) -> float:
    """The least seconds of an action, until the device has done it."""
    best = float("inf")
    action()  # which loads and compiles what it needs
    synchronize(device)
    for _ in range(repeats):
        start = perf_counter()
        action()
        synchronize(device)
        best = min(best, perf_counter() - start)
    return max(best, 1e-9)


def _rates(device: Device) -> Rates:
    small, large = ones(_SMALL, device=device), ones(_LARGE, device=device)
    square = ones((_SIDE, _SIDE), device=device)
    call = _best(lambda: [add(small, small) for _ in range(100)], device) / 100
    moved = max(_best(lambda: add(large, large), device) - call, 1e-9)
    computed = max(_best(lambda: exp(large), device) - call, 1e-9)
    multiplied = max(_best(lambda: matmul(square, square), device) - call, 1e-9)
    kind = TensorType(large.dtype, large.shape)
    operations = get_op("exp").cost((kind,), (kind,), {}).flops
    return Rates(
        bytes=3 * 4 * _LARGE / moved,
        flops=operations / computed,
        matrix=2.0 * _SIDE**3 / multiplied,
        call=call,
    )


def _link(source: Device, target: Device) -> LinkRates:
    small, large = ones(_SMALL, device=source), ones(_LARGE, device=source)
    least = _best(lambda: [small.to(target) for _ in range(20)], target) / 20
    most = _best(lambda: large.to(target), target)
    copied = most - least
    # a move that shares memory takes as long for any size
    return LinkRates(least, 4 * _LARGE / copied if most > 2 * least else 0.0)


def _send_seconds() -> float:
    """What a value costs that one partition sends to another: the rest of a step that does so."""
    with config(cpu_devices=2):
        value = ones(_SMALL)
        crossing, straight = _chain("cpu:1"), _chain("cpu:0")
        device = as_device("cpu:0")
        slow = _best(lambda: crossing.run(crossing.outputs, {"x": value}), device, 20)
        fast = _best(lambda: straight.run(straight.outputs, {"x": value}), device, 20)
    return max(slow - fast, 1e-9) / _CROSSINGS


def _chain(other: str) -> Graph:
    """A graph of ops in a row, on two devices alternately."""
    places = ["cpu:0", other]
    lines = []
    for i in range(_CROSSINGS):
        here, there = places[i % 2], places[(i + 1) % 2]
        before = "%x" if not i else f"%y{i - 1}"
        if here != there:
            lines.append(
                f'%m{i} = transfer({before}) {{device=device("{there}"), source=device("{here}")}}'
                f" : f32[{_SMALL}]@{there}"
            )
            before = f"%m{i}"
        lines.append(f"%y{i} = negative({before}) : f32[{_SMALL}]@{there}")
    text = "\n".join(lines)
    return Graph.parse(
        f"graph chain(%x: f32[{_SMALL}]@cpu:0) {{ {text} return %y{_CROSSINGS - 1} }}"
    )
