"""Pictures of graphs without Graphviz: boxes in layers, and curves between them.

The kinds of boxes and edges are listed in `eagerflow.pictures.contents`. Each has a style here, and
in `eagerflow.pictures.by_graphviz`.
"""

from __future__ import annotations

from collections import Counter
from html import escape
from itertools import pairwise
from typing import Final
from unicodedata import east_asian_width

from eagerflow.pictures.contents import Box, Contents, Edge, visible
from eagerflow.pictures.device_colors import device_colors
from eagerflow.pictures.layout import lay_out

#: colours follow the notebook's theme if it has one, else the preference of the reader's system
STYLE: Final = """<style>
.ef-graph { --ef-text: #1f2328; --ef-line: #6e7781;
  color: var(--jp-content-font-color1, var(--vscode-editor-foreground, var(--ef-text))); }
svg.ef-graph:root { color-scheme: light dark; }
@media (prefers-color-scheme: dark) { .ef-graph { --ef-text: #e6edf3; --ef-line: #8b949e; } }
.ef-graph text { fill: currentColor; font-family: Helvetica, Arial, sans-serif; }
.ef-graph .edge text, .ef-graph .small { fill: currentColor; opacity: .75; }
.ef-graph .edge path { stroke: var(--ef-line); }
.ef-graph .edge polygon { stroke: var(--ef-line); fill: var(--ef-line); }
</style>"""

_CHARACTER, _LINE, _PADDING, _BOX_HEIGHT = 6.2, 14.0, 16.0, 10.0
_LID: Final = 6.0  # of a cylinder
_LABELS: Final = 60


def draw(picture: Contents) -> str:
    """The picture, drawn without Graphviz: no boxes around groups, which are named in the boxes."""
    boxes = picture.boxes
    index = {id(box): i for i, box in enumerate(boxes)}
    texts = [_texts(box) for box in boxes]
    sizes = [
        _size(lines, _LID * (b.kind == "resource")) for b, lines in zip(boxes, texts, strict=True)
    ]
    ends = [(index[id(e.source)], index[id(e.target)]) for e in picture.edges]
    layout = lay_out(sizes, ends)
    colors = device_colors(picture.devices)
    parts = []
    positions = _label_positions(picture.edges)
    for edge, path, position in zip(picture.edges, layout.paths, positions, strict=True):
        parts.append(_draw_edge(edge, path, position))
    for box, lines, size, center in zip(boxes, texts, sizes, layout.centers, strict=True):
        parts.append(_draw_box(box, lines, size, center, colors.get(box.device or "", "#6e7781")))
    parts += _legend(colors, layout.height + 24)
    width = max(layout.width, 90.0 * len(colors)) + 2
    height = layout.height + (44 if colors else 2)
    return (
        f'<svg class="ef-graph" xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="-1 -1 {width:.0f} {height:.0f}">{STYLE}\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _texts(box: Box) -> list[str]:
    """The lines of a box, its scope last."""
    names = []
    group = box.group
    while group.parent is not None:
        names.append(group.name)
        group = group.parent
    scope = "/".join(reversed(names))
    return (
        [*box.lines, f"({scope if len(scope) <= 30 else '…' + scope[-29:]})"]
        if scope
        else box.lines
    )


def _size(lines: list[str], more: float) -> tuple[float, float]:
    width = max((sum(2 if east_asian_width(c) in "WF" else 1 for c in s) for s in lines), default=1)
    return width * _CHARACTER + _PADDING, len(lines) * _LINE + _BOX_HEIGHT + more


def _xml(text: str) -> str:
    return escape(visible(text), quote=True)


def _draw_box(
    box: Box, lines: list[str], size: tuple[float, float], center: tuple[float, float], color: str
) -> str:
    (width, height), (x, y) = size, center
    left, top = x - width / 2, y - height / 2
    first = top + 14.5 + _LID * (box.kind == "resource")
    texts = "".join(
        f'<text x="{x:.1f}" y="{first + i * _LINE:.1f}" text-anchor="middle" '
        f'font-size="{11 if i == 0 else 9.5}"{_SMALL if i else ""}>{_xml(line)}</text>'
        for i, line in enumerate(lines)
    )
    paint = f'fill="{color}" fill-opacity=".18" stroke="{color}"'
    frame = "" if box.kind == "constant" else _frame(box, left, top, width, height, paint)
    return f'<g class="node {box.kind}"><title>{_xml(box.title)}</title>{frame}{texts}</g>'


def _frame(box: Box, left: float, top: float, width: float, height: float, paint: str) -> str:
    if box.kind == "resource":  # a cylinder
        arc = f"a{width / 2:.1f},4 0 0 1"
        return (
            f'<path d="M{left:.1f},{top + 4:.1f} {arc} {width:.1f},0 v{height - 8:.1f} '
            f'{arc} {-width:.1f},0 z m0,0 a{width / 2:.1f},4 0 0 0 {width:.1f},0" {paint}/>'
        )
    radius = {"op": 4, "closed": 0}.get(box.kind, 14)
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{radius}" {paint}{_THICK if box.kind == "closed" else ""}/>'
    )


_SMALL: Final = ' class="small"'
_THICK: Final = ' stroke-width="2.5"'
#: by kind of edge, and for moves between devices; in live views: widgets/src/graph/edges.css
_LINES: Final = {
    "data": 'stroke-width="1"',
    "control": 'stroke-width="1" stroke-dasharray="5 3"',
    "state": 'stroke-width="2"',
    "body": 'stroke-width="1" stroke-dasharray="1 3"',
    "moved": 'stroke-width="2"',
}


def _draw_edge(edge: Edge, path: list[tuple[float, float]], position: float | None) -> str:
    """The SVG of an edge; ``position`` is that of its label within the last gap, None for none."""
    d = f"M{path[0][0]:.1f},{path[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(path):
        middle = (y0 + y1) / 2
        d += f"C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}"
    down = path[-1][1] > path[0][1]
    parts = [f'<path d="{d}" fill="none" {_LINES["moved" if edge.moved else edge.kind]}/>']
    if edge.kind != "body":
        parts.append(_arrow(path[-1], down))
    if edge.both:
        parts.append(_arrow(path[0], not down))
    if edge.label:
        parts.insert(0, f"<title>{_xml(edge.title)}</title>")
        if position is not None:
            (x0, y0), (x1, y1) = path[-3:-1]
            x, y = (x0 + (x1 - x0) * position + 4), y0 + (y1 - y0) * position + 3
            parts.append(f'<text x="{x:.1f}" y="{y:.1f}" font-size="9">{_xml(edge.label)}</text>')
    return f'<g class="edge {edge.kind}">{"".join(parts)}</g>'


def _label_positions(edges: list[Edge]) -> list[float | None]:
    """The position of each edge's label, from 0 to 1, at different heights above one box."""
    few = len(edges) <= _LABELS
    total = Counter(edge.target for edge in edges)
    met: Counter[Box] = Counter()
    positions: list[float | None] = []
    for edge in edges:
        met[edge.target] += 1
        position = 0.15 + 0.7 * met[edge.target] / (total[edge.target] + 1)
        positions.append(position if few or edge.moved else None)
    return positions


def _arrow(end: tuple[float, float], down: bool) -> str:
    x, y = end
    back = y - 6 if down else y + 6
    return f'<polygon points="{x:.1f},{y:.1f} {x - 3:.1f},{back:.1f} {x + 3:.1f},{back:.1f}"/>'


def _legend(colors: dict[str, str], y: float) -> list[str]:
    return [
        f'<rect x="{90 * i}" y="{y - 9:.0f}" width="12" height="12" fill="{color}" '
        f'fill-opacity=".4" stroke="{color}"/><text x="{90 * i + 17}" y="{y + 1:.0f}" '
        f'font-size="11">{_xml(device)}</text>'
        for i, (device, color) in enumerate(colors.items())
    ]
