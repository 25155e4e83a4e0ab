"""What a view shows of something that is no graph: lines, bars, a picture, a table.

A panel is made of an object when it is shown, and again now and then while a front-end shows it.
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
    """What is known of an object now.

    Attributes:
        title: what to call it.
        lines: terms and what is said of them.
        alarm: what is wrong, in words; empty if nothing is.
        bars: heights, at least 0.
        bars_label: what they show.
        picture: an image, as a URL with its bytes; empty if there is none.
        picture_label: what it shows.
        columns: of the table.
        rows: of the table, texts.
        shares: for each row a part of the whole from 0 to 1, drawn behind its last column.
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
        """The same for JSON."""
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
    """The first rows, and one that says how many there are more."""
    if len(rows) <= MOST_ROWS:
        return list(rows)
    more = f"… {len(rows) - MOST_ROWS:,} more"
    return [*rows[:MOST_ROWS], (more, *[""] * (len(rows[0]) - 1))]
