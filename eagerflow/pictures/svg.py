"""Pictures of graphs as SVG: by Graphviz if it is installed, else by a layout of our own.

They are drawn by `eagerflow.pictures.by_graphviz` and `eagerflow.pictures.by_own_layout`.
"""

from __future__ import annotations

import re
from typing import Any, Final, final
from zlib import crc32

from eagerflow.graph.ir import Graph
from eagerflow.pictures.by_graphviz import graphviz_svg, write_dot
from eagerflow.pictures.by_own_layout import STYLE, draw
from eagerflow.pictures.contents import contents_of

_TEXT_LINES: Final = 200
#: least scale of a picture, as notebooks shrink it to their page: smaller texts are unreadable
_READABLE: Final = 0.75
#: From untrusted outputs JupyterLab removes drawings and style sheets, and would show the texts of
#: a picture in one heap. So its box is hidden, unless its own style is there.
_HTML: Final = """<p class="{key}-note">The picture appears when this cell is run.</p>\
<div class="{key}" hidden="hidden" style="overflow: auto; max-height: 60em">\
<style>.{key}[hidden] {{ display: block !important; }} .{key}-note {{ display: none; }}</style>\
{picture}</div>"""


@final
class Svg(str):
    """The text of a picture; in a notebook it shows itself, in a box that scrolls if it is large.

    >>> picture = ef.Graph.parse("graph f(%x: f32[2]) { return %x }").to_svg()
    >>> picture.startswith("<svg")
    True
    """

    __slots__ = ()

    def __repr__(self) -> str:  # IPython uses it for all instances of str
        return f"<svg of {len(self):,} characters>"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        readable = re.sub(r'<svg (?=[^>]*?\bwidth="([\d.]+)([a-z]*)")', _readable, self, count=1)
        key = f"ef-{crc32(self.encode(errors='replace')):08x}"  # other pictures have other styles
        return {
            "text/plain": repr(self),
            "text/html": _HTML.format(key=key, picture=readable),
            "image/svg+xml": str(self),
        }


def _readable(match: re.Match[str]) -> str:
    """The opening tag of a picture, with a width at which its texts can be read."""
    least = _READABLE * float(match[1])
    return f'<svg style="min-width: {least:.0f}{match[2] or "px"}" '


def to_svg(graph: Graph, limit: int = 300, *, types: bool = True) -> Svg:
    """``graph`` as a picture.

    Args:
        graph: the graph.
        limit: number of boxes beyond which scopes are closed, one box each.
        types: whether Graphviz labels all edges, or only edges that cross from device to device.
    """
    picture = contents_of(graph, limit)
    drawn = graphviz_svg(write_dot(picture, types=types))
    return Svg(draw(picture) if drawn is None else _dress(drawn))


def mimebundle(graph: Graph) -> dict[str, str]:
    """The MIME bundle for notebooks: a picture, and a text as the fallback."""
    svg = to_svg(graph)
    lines = str(graph).split("\n")
    if len(lines) > _TEXT_LINES:
        rest = len(lines) - _TEXT_LINES
        lines[_TEXT_LINES - 10 : -10] = [f"  … {rest:,} more lines: print(graph) shows all"]
    return {
        **svg._repr_mimebundle_(),
        "text/plain": "\n".join(lines),
    }


_LINK: Final = r'<g id="a_[^"]*"><a [^>]*?xlink:title="([^"]*)"[^>]*>'


def _dress(svg: str) -> str:
    """Graphviz's picture with our style, and with titles in place of keys and links."""
    svg = re.sub(r"<!--.*?-->\n?", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(rf"<title>[^<]*</title>\s*{_LINK}", r"<g><title>\1</title>", svg)
    svg = re.sub(_LINK, "<g>", svg).replace("</a>", "")
    svg = re.sub(r"<title>(b\d+(&#45;&gt;b\d+)?|cluster\d+|%3)</title>\n?", "", svg)
    svg = re.sub(r' id="[^"]*"', "", svg).replace("<title> </title>", "")
    return re.sub(r"<svg ([^>]*)>", rf'<svg class="ef-graph" \1>{STYLE}', svg, count=1)
