"""Panels, the views of objects other than graphs: lines, bars, a picture, a table.

A panel is made from an object when it is shown, and periodically while a front-end shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from eagerflow.formatting import escape
from eagerflow.watching.value_pictures import png_size

#: rows of a table that are shown
MOST_ROWS: Final = 100


@final
@dataclass(slots=True)
class Panel:
    """The contents of a panel.

    Attributes:
        title: its title.
        lines: pairs of a term and its text.
        alarm: a text about a problem; empty if there is none.
        bars: heights of bars, at least 0.
        bars_label: the caption of the bars.
        picture: an image, as a URL with its bytes; empty if there is none.
        picture_label: the caption of the picture.
        columns: the heads of the table's columns.
        rows: the rows of the table, as texts.
        shares: for each row a fraction from 0 to 1, drawn behind its last column.
    """

    title: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    alarm: str = ""
    bars: list[float] = field(default_factory=list)
    bars_label: str = ""
    picture: str = ""
    picture_label: str = ""
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)

    def data(self) -> dict[str, Any]:
        """The attributes as a dict, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


#: looks at an object; any thread may call it
Probe = Callable[[], Panel]


def picture_svg(url: str, label: str) -> str:
    """An image as SVG, with sharp pixels."""
    width, height = png_size(url)
    scale = max(min(256 // max(width, height), 24), 1)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * scale}" '
        f'height="{height * scale}" role="img" aria-label="{escape(label)}">'
        f"<title>{escape(label)}</title>"
        f'<image width="{width * scale}" height="{height * scale}" '
        f'style="image-rendering:pixelated" href="{url}"/></svg>'
    )


def table_of(rows: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The first rows, with a last row that says how many are left out."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    more = f"… {len(rows) - MOST_ROWS:,} more"
    return [*rows[:MOST_ROWS], (more, *[""] * (len(rows[0]) - 1))]
