"""A layered layout of boxes and edges, for pictures without Graphviz.

The steps are those of Sugiyama, Tagawa and Toda (1981): edges that go up are reversed, boxes
get layers, edges over several layers get a point in each, the order in each layer is improved by
barycenters, and coordinates are a least-squares fit to the neighbours' coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, final

_SWEEPS: Final = 6
_GAP: Final = 18.0  # between boxes of a layer
_POINT_GAP: Final = 10.0  # next to a point of an edge
_LAYER_GAP: Final = 40.0


@final
@dataclass(slots=True)
class Layout:
    """The coordinates of boxes and edges.

    Attributes:
        centers: the centers of the boxes.
        paths: the points of each edge, from the bottom of one box to the top of the other (from
            top to bottom for edges that go up); straight between the first two, and so on.
        width: the width of the whole.
        height: the height of the whole.
    """

    centers: list[tuple[float, float]]
    paths: list[list[tuple[float, float]]]
    width: float
    height: float


@final
@dataclass(slots=True)
class _Item:
    """A box, or a point of an edge."""

    layer: int
    width: float = 0.0
    up: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)
    x: float = 0.0


def lay_out(sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place boxes of these sizes (width, height), given in an order that most edges follow."""
    downward = [(min(edge), max(edge)) for edge in edges]
    items = [
        _Item(layer, w) for layer, (w, _) in zip(_layers(len(sizes), downward), sizes, strict=True)
    ]
    chains = [_chain(items, *edge) for edge in downward]
    order = _order(items)
    _place(items, order)
    heights = [max((sizes[i][1] for i in layer if i < len(sizes)), default=0.0) for layer in order]
    tops, y = [], 0.0
    for height in heights:
        tops.append(y)
        y += height + _LAYER_GAP
    left = min((i.x - i.width / 2 for i in items), default=0.0)
    right = max((i.x + i.width / 2 for i in items), default=0.0)
    centers = [
        (items[i].x - left, tops[items[i].layer] + heights[items[i].layer] / 2)
        for i in range(len(sizes))
    ]
    paths = []
    for edge, (source, target), chain in zip(edges, downward, chains, strict=True):
        path = []  # straight through a layer, so that it crosses no box there
        for i in (source, *chain, target):
            top = tops[items[i].layer]
            path += [(items[i].x - left, top), (items[i].x - left, top + heights[items[i].layer])]
        path[0] = (path[0][0], centers[source][1] + sizes[source][1] / 2)
        path[-1] = (path[-1][0], centers[target][1] - sizes[target][1] / 2)
        paths.append(path if edge == (source, target) else path[::-1])
    return Layout(centers, paths, right - left, max(y - _LAYER_GAP, 0.0))


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: as far up as edges allow, then down where that shortens edges."""
    below: list[list[int]] = [[] for _ in range(count)]
    incoming = [0] * count
    for source, target in edges:
        below[source].append(target)
        incoming[target] += 1
    layers = [0] * count
    for box in range(count):  # sources come before targets
        for target in below[box]:
            layers[target] = max(layers[target], layers[box] + 1)
    for box in reversed(range(count)):
        if below[box] and incoming[box] <= len(below[box]):
            layers[box] = min(layers[t] for t in below[box]) - 1
    return layers


def _chain(items: list[_Item], source: int, target: int) -> list[int]:
    """Add linked points between two boxes; returns their numbers."""
    layers = range(items[source].layer + 1, items[target].layer)
    points = [len(items) + i for i in range(len(layers))]
    items += map(_Item, layers)
    for upper, lower in pairwise([source, *points, target]):
        items[upper].down.append(lower)
        items[lower].up.append(upper)
    return points


def _order(items: list[_Item]) -> list[list[int]]:
    """The items of each layer from left to right."""
    order: list[list[int]] = [[] for _ in range(max((i.layer for i in items), default=-1) + 1)]
    for i, item in enumerate(items):
        order[item.layer].append(i)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        position = {i: float(p) for layer in order for p, i in enumerate(layer)}
        for layer in order if down else order[::-1]:
            means = {}
            for i in layer:
                near = items[i].up if down else items[i].down
                means[i] = sum(position[n] for n in near) / len(near) if near else position[i]
            layer.sort(key=means.__getitem__)
            position.update((i, float(p)) for p, i in enumerate(layer))
    return order


def _place(items: list[_Item], order: list[list[int]]) -> None:
    for layer in order:
        x = 0.0
        for i in layer:
            items[i].x = x
            x += items[i].width + _GAP
    for sweep in range(2 * _SWEEPS):
        for layer in order if sweep % 2 == 0 else order[::-1]:
            wanted = []
            for i in layer:
                near = items[i].up if sweep % 2 == 0 else items[i].down
                if sweep > _SWEEPS:
                    near = items[i].up + items[i].down
                wanted.append(sum(items[n].x for n in near) / len(near) if near else items[i].x)
            for i, x in zip(layer, _spread(wanted, [items[i].width for i in layer]), strict=True):
                items[i].x = x


def _spread(wanted: list[float], widths: list[float]) -> list[float]:
    """The positions nearest to the wanted ones at which nothing overlaps (isotonic regression)."""
    offsets, total = [], 0.0
    for i, width in enumerate(widths):
        if i:
            gap = _GAP if width and widths[i - 1] else _POINT_GAP
            total += (widths[i - 1] + width) / 2 + gap
        offsets.append(total)
    blocks: list[tuple[float, int]] = []  # mean, and number of items in it
    for want, offset in zip(wanted, offsets, strict=True):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            other, number = blocks.pop()
            mean, count = (mean * count + other * number) / (count + number), count + number
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
