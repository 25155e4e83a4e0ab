"""Graphs in the DOT language, and pictures that Graphviz draws of them.

The kinds of boxes and edges are listed in `eagerflow.pictures.contents`. Each has a style here, and
in `eagerflow.pictures.by_own_layout`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Final

from eagerflow.graph.ir import Graph
from eagerflow.pictures.contents import Box, Contents, Edge, clip, contents_of, visible
from eagerflow.pictures.device_colors import device_colors
from eagerflow.pictures.groups import Group

_SECONDS: Final = 5  # time limit of a layout
_MANY: Final = 100  # boxes beyond which the quick layout is used
_MANY_EDGES: Final = 600  # edges beyond which they are straight
_LABELS: Final = 150  # edges beyond which they have no labels
_SHAPES: Final = {
    "op": {"shape": "box", "style": "rounded,filled"},
    "input": {"shape": "ellipse"},
    "output": {"shape": "ellipse"},
    "constant": {"shape": "plaintext"},
    "resource": {"shape": "cylinder", "style": "filled"},
    "closed": {"shape": "box3d", "style": "filled"},
}
#: by kind of edge, and for moves between devices; in live views: widgets/src/graph/edges.css
_EDGES: Final = {
    "data": {},
    "control": {"style": "dashed"},
    "state": {"style": "bold"},
    "body": {"style": "dotted", "arrowhead": "none"},
    "moved": {"class": "data moved", "penwidth": "2"},
}
_FONT: Final = {"fontname": "Helvetica,Arial,sans-serif", "fontsize": "11"}
_INK: Final = "#6e7781"
_QUICK: Final = {"nslimit": "1", "nslimit1": "1", "mclimit": "0.05"}
_STRAIGHT: Final = {"splines": "line"}


def to_dot(graph: Graph, limit: int = 300) -> str:
    """``graph`` in the DOT language, scopes and devices as boxes around their nodes.

    Args:
        graph: the graph.
        limit: number of boxes beyond which scopes are closed, one box each.
    """
    return write_dot(contents_of(graph, limit))


def write_dot(picture: Contents, *, types: bool = True) -> str:
    """The picture in the DOT language; classes name the kinds of boxes, for style sheets.

    Args:
        picture: the picture.
        types: whether all edges have labels, if there are few, or only edges that cross from
            device to device.
    """
    import graphviz  # noqa: PLC0415 - 20 ms that only drawing should cost

    keys = {id(box): f"b{i}" for i, box in enumerate(picture.boxes)}
    colors = device_colors(picture.devices)
    dot = graphviz.Digraph(
        graph_attr={"bgcolor": "transparent", "rankdir": "TB", "color": _INK, "nodesep": "0.2",
                    "ranksep": "0.3", "tooltip": " ", **_FONT,
                    **(_QUICK if len(picture.boxes) > _MANY else {}),
                    **(_STRAIGHT if len(picture.edges) > _MANY_EDGES else {})},
        node_attr={"color": _INK, "fillcolor": "#6e778126", "height": "0.3", "margin": "0.12,0.05",
                   **_FONT},
        edge_attr={"color": _INK, "arrowsize": "0.6", **_FONT, "fontsize": "9"},
    )  # fmt: skip
    inside: dict[Group, list[Box]] = {}
    for box in picture.boxes:
        inside.setdefault(box.group, []).append(box)
    numbers = {group: i for i, group in enumerate(picture.root.walk())}

    def draw(group: Group, into: Any) -> None:
        for box in inside.get(group, ()):
            into.node(keys[id(box)], **_box_attributes(box, colors))
        for inner in group.groups.values():
            if inner.open and any(g in inside for g in inner.walk()):
                cluster = graphviz.Digraph(name=f"cluster{numbers[inner]}")
                cluster.attr(**_group_attributes(inner, colors))
                draw(inner, cluster)
                into.subgraph(cluster)

    draw(picture.root, dot)
    for edge in picture.edges:
        labelled = types and len(picture.edges) <= _LABELS
        dot.edge(keys[id(edge.source)], keys[id(edge.target)], **_edge_attributes(edge, labelled))
    return str(dot.source)


def _label(text: str) -> str:
    """``text`` as DOT shows it: no escapes, no mark-up."""
    import graphviz  # noqa: PLC0415 - see `write_dot`

    return str(graphviz.escape(visible(text).replace("&", "&amp;")))


def _box_attributes(box: Box, colors: dict[str, str]) -> dict[str, str]:
    attributes = {
        "label": _label("\n".join(box.lines)),
        "class": box.kind,
        "tooltip": _label(box.title),
    }
    attributes |= _SHAPES[box.kind]
    if box.device in colors and box.kind != "constant":
        color = colors[box.device]
        attributes |= {"color": color, "fillcolor": f"{color}40"}
    return attributes


def _group_attributes(group: Group, colors: dict[str, str]) -> dict[str, str]:
    attributes = {
        "label": _label(clip(group.name, 60)),
        "class": group.kind,
        "style": "rounded",
        "labeljust": "l",
    }
    color = colors.get(group.name) if group.kind == "device" else None
    return attributes | {"color": color or _INK, "penwidth": "1" if color is None else "2"}


def _edge_attributes(edge: Edge, labelled: bool) -> dict[str, str]:
    attributes = {"class": edge.kind, **_EDGES[edge.kind]}
    if edge.moved:
        attributes |= _EDGES["moved"]
    if edge.label:
        attributes |= {"tooltip": _label(edge.title)}
        if labelled or edge.moved:
            attributes |= {"label": _label(f" {edge.label}")}
    if edge.both:
        attributes |= {"dir": "both"}
    return attributes


# --- Graphviz ---------------------------------------------------------------------------------

#: run in a separate process, which can be stopped, and whose crashes do no harm
_PYGRAPHVIZ: Final = """
import sys, pygraphviz
graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode())
sys.stdout.buffer.write(graph.draw(format="svg", prog="dot"))
"""


def _command() -> list[str] | None:
    """The command that runs Graphviz: ``dot``, or pygraphviz's library; None if it is missing."""
    program = shutil.which("dot")
    if program is not None:
        return [program, "-Tsvg"]
    if sys.executable and find_spec("pygraphviz") is not None:
        return [sys.executable, "-P", "-c", _PYGRAPHVIZ]
    return None


def graphviz_svg(dot: str) -> str | None:
    """Graphviz's picture; None if Graphviz is missing, fails or takes too long."""
    try:
        return _drawn(dot)
    except (OSError, subprocess.TimeoutExpired):
        return None


@lru_cache(maxsize=16)
def _drawn(dot: str) -> str | None:
    """The same, cached; a timeout is raised, not cached, as the machine may be less busy later."""
    command = _command()
    if command is None:
        return None
    done = subprocess.run(command, input=dot.encode(), capture_output=True, timeout=_SECONDS)
    text = done.stdout.decode(errors="replace")
    return text if done.returncode == 0 and "<svg" in text else None
