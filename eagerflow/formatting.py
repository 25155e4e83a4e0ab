"""Formatting for people: times, and tables for terminals and, as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

Cells = Sequence[str]

#: for light and dark themes, with lines weaker than the text
_STYLE: Final = (
    "border-collapse:collapse;color:inherit;background:transparent;"
    "font-variant-numeric:tabular-nums"
)
_LINE: Final = ";border-bottom:1px solid color-mix(in srgb, currentColor 30%, transparent)"


def table_lines(rows: Iterable[Cells], left: int) -> list[str]:
    """The rows of a table as lines of text with aligned columns.

    Args:
        rows: cells; the headings are a row.
        left: the number of columns, from the first, that are flush left; the others are flush
            right.

    >>> from eagerflow.extending import table_lines
    >>> table_lines([("op", "calls"), ("add", "3")], left=1)
    ['op   calls', 'add      3']
    """
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        texts = [cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in cells]
        lines.append("  ".join(texts).rstrip())
    return lines


def kind_of(value: object) -> str:
    """The class of a value with its article, for messages.

    >>> from eagerflow.formatting import kind_of
    >>> kind_of(3), kind_of((3, 4))
    ('an int', 'a tuple')
    """
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def escape(text: str) -> str:
    """``text`` escaped for HTML."""
    import html  # noqa: PLC0415 - notebooks have loaded it; 1 ms of a script's first trace

    return html.escape(text)


def table_html(caption: Iterable[str], headings: Cells, rows: Iterable[Cells], left: int) -> str:
    """A table as HTML.

    Args:
        caption: the lines above the table.
        headings: of the columns.
        rows: cells, plain text.
        left: as for `table_lines`.

    >>> from eagerflow.extending import table_html
    >>> "add</td>" in table_html(["two ops"], ("op", "calls"), [("add", "3")], left=1)
    True
    """

    def line(tag: str, cells: Cells, style: str = "") -> str:
        sides = ["left"] * left + ["right"] * (len(cells) - left)
        return "".join(
            f'<{tag} style="text-align:{side}{style}">{escape(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return (
        f'<table style="{_STYLE}"><caption style="color:inherit">'
        f"{'<br>'.join(map(escape, caption))}</caption>"
        f"<thead><tr>{line('th', headings, _LINE)}</tr></thead><tbody>{body}</tbody></table>"
    )


def seconds_text(seconds: float, *, precise: bool = False) -> str:
    """A time with its unit, to two or three significant digits; ``precise`` gives three.

    >>> from eagerflow.formatting import seconds_text
    >>> seconds_text(0.00472), seconds_text(0.0000123), seconds_text(2.5), seconds_text(0.25)
    ('4.7 ms', '12 us', '2.5 s', '250 ms')
    >>> seconds_text(0.00472, precise=True), seconds_text(0.0000123, precise=True)
    ('4.72 ms', '12.3 us')
    """
    for scale, unit in ((1e-6, "us"), (1e-3, "ms")):
        if seconds < 999.5 * scale:
            return f"{_places(seconds / scale, precise)} {unit}"
    return f"{_places(seconds, precise)} s"


def bytes_text(count: int) -> str:
    """A number of bytes with its unit, to three significant digits.

    >>> from eagerflow.formatting import bytes_text
    >>> bytes_text(999), bytes_text(2_500_000)
    ('999 B', '2.50 MB')
    """
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            number = count / size
            return f"{number:.{2 if number < 10 else 1 if number < 100 else 0}f} {unit}"
    return f"{count} B"


def _places(number: float, precise: bool) -> str:
    if precise and number < 999.5:
        return f"{number:.3g}"
    return f"{number:.1f}" if number < 9.95 else f"{number:.0f}"
