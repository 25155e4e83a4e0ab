"""Measurement of the rates of this machine: kernels, moves, and the cost of a send.

It runs ops and graphs, as programs do. The best of several repeats counts: other load on the
machine makes things slower, never faster.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from threading import Thread
from time import perf_counter
from typing import Any, Final

from eagerflow.core.op import get_op
from eagerflow.core.tensor import Tensor
from eagerflow.graph.ir import Graph
from eagerflow.hardware import Device, as_device, devices, synchronize
from eagerflow.ops.creation.arrays import ones
from eagerflow.ops.elementwise.arithmetic import add
from eagerflow.ops.elementwise.powers_and_logarithms import exp
from eagerflow.ops.linalg.products import matmul
from eagerflow.placement.automatic.rates import LinkRates, MachineRates, Rates, load, store
from eagerflow.placement.constraints import holds_data
from eagerflow.settings import config
from eagerflow.types import TensorType

_REPEATS: Final = 5
_SMALL, _LARGE = 16, 1 << 20  # elements; the large ones are more than caches of a core hold
_SIDE: Final = 512  # of matrices
_CROSSINGS: Final = 40  # sends of the graph that measures the cost of one
_FEW: Final = 4  # ops of the graph that serves as the baseline


def measure(names: Iterable[Device | str] | None = None, *, save: bool = True) -> MachineRates:
    """Measure the speeds of devices and links, for automatic placement.

    This takes about a second for each kind of device. The rates are kept on disk for this machine,
    so one measurement is enough. Nothing else should run meanwhile.

    Args:
        names: the devices; by default two of each kind, of those in this process that hold data.
        save: whether to keep the rates on disk.

    Returns:
        The rates of all kinds that were ever measured here: operations, bytes and calls, the links
        between them, and the executor's cost of a send.

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
        matrix, moved = _crowding()
    send = _send_seconds()
    rates = MachineRates(kinds, links, known.region, send, matrix, moved, measured=True)
    if save:
        store(rates)
    return rates


def _chosen(names: Iterable[Device | str] | None) -> list[Device]:
    if names is not None:
        return [as_device(name) for name in names]
    chosen: list[Device] = []
    for device in devices():
        if holds_data(device) and sum(d.kind == device.kind for d in chosen) < 2:
            chosen.append(device)
    return chosen


def _best(action: Callable[[], Any], device: Device, repeats: int = _REPEATS) -> float:
    """The least seconds of an action, until the device has finished it."""
    best = float("inf")
    action()  # a warm-up: it loads and compiles code
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
    eager = _best(lambda: [add(small, small) for _ in range(100)], device) / 100
    moved = max(_best(lambda: add(large, large), device) - eager, 1e-9)
    computed = max(_best(lambda: exp(large), device) - eager, 1e-9)
    multiplied = max(_best(lambda: matmul(square, square), device) - eager, 1e-9)
    kind = TensorType(large.dtype, large.shape)
    operations = get_op("exp").cost((kind,), (kind,), {}).flops
    return Rates(
        bytes=3 * 4 * _LARGE / moved,
        flops=operations / computed,
        matrix=2.0 * _SIDE**3 / multiplied,
        call=_call_seconds(device),
    )


def _call_seconds(device: Device) -> float:
    """Seconds of a kernel's call in a graph: the difference of a long and a short graph, per op."""
    value = ones(_SMALL, device=device)
    least, most = (
        _graph_seconds(_chain([device], count), device, value)
        for count in (_FEW, _FEW + _CROSSINGS)
    )
    return max(most - least, 1e-9) / _CROSSINGS


def _graph_seconds(graph: Graph, device: Device, value: Tensor) -> float:
    return _best(lambda: graph.run(graph.outputs, {"x": value}), device, 20)


def _crowding() -> tuple[float, float]:
    """The factors by which kernels slow down while all cores work: products, and large arrays."""
    square, large = ones((_SIDE, _SIDE)), ones(4 * _LARGE)
    return _crowded(lambda: matmul(square, square)), _crowded(lambda: add(large, large))


def _crowded(action: Callable[[], Any]) -> float:
    def seconds() -> float:
        start = perf_counter()
        for _ in range(_REPEATS):
            action()
        return perf_counter() - start

    def together() -> float:
        others = [Thread(target=seconds) for _ in range((os.cpu_count() or 1) - 1)]
        for other in others:
            other.start()
        took = seconds()
        for other in others:
            other.join()
        return took

    alone = min([seconds() for _ in range(_REPEATS)])
    return max(min([together() for _ in range(_REPEATS)]) / alone, 1.0)


def _link(source: Device, target: Device) -> LinkRates:
    small, large = ones(_SMALL, device=source), ones(_LARGE, device=source)
    if source.backend is target.backend and source.is_ready_at_once:  # they share memory
        return LinkRates(0.0)
    least = _best(lambda: [small.to(target) for _ in range(20)], target) / 20
    most = _best(lambda: large.to(target), target)
    copied = most - least
    return LinkRates(least, 4 * _LARGE / copied if most > 2 * least else 0.0)


def _send_seconds() -> float:
    """Seconds of a send from one partition to another: a step with sends less one without."""
    with config(cpu_devices=2):
        value, device = ones(_SMALL), as_device("cpu:0")
        slow = _graph_seconds(_chain([device, as_device("cpu:1")], _CROSSINGS), device, value)
        fast = _graph_seconds(_chain([device], _CROSSINGS), device, value)
    return max(slow - fast, 1e-9) / _CROSSINGS


def _chain(places: Sequence[Device], count: int) -> Graph:
    """A graph of small ops in a row, whose devices cycle through ``places``."""
    lines = []
    for i in range(count):
        here, there = places[i % len(places)], places[(i + 1) % len(places)]
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
        f"graph chain(%x: f32[{_SMALL}]@{places[0]}) {{ {text} return %y{count - 1} }}"
    )
