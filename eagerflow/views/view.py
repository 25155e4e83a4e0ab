"""The result of `show`: a text, and the forms that a notebook shows in its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, final

from eagerflow.formatting import escape
from eagerflow.views.live import LiveView

_BARS: Final = "▁▂▃▄▅▆▇█"


@final
@dataclass(frozen=True, slots=True)
class View:
    """The current view of an object; made by `eagerflow.show`.

    It prints as its text. A notebook, and documents exported from one, show the HTML or the
    picture; a notebook with a front-end shows the live view instead.

    Attributes:
        text: the text for terminals, logs and screen readers.
        html: the HTML for notebooks.
        svg: a picture for programs that show no HTML; empty if there is none.
        live: the live view that a front-end shows in their place; None if there is none.

    >>> view = ef.show(ef.tensor([1.0, 2.0, 3.0]))
    >>> sorted(view._repr_mimebundle_())
    ['image/svg+xml', 'text/html', 'text/plain']
    """

    text: str
    html: str
    svg: str = ""
    live: LiveView | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        bundle = {"text/plain": self.text, "text/html": self.html, "image/svg+xml": self.svg}
        still = {kind: content for kind, content in bundle.items() if content}
        return still if self.live is None else {**still, **self.live.mimebundle()}

    def close(self) -> None:
        """Close the live view; text and pictures stay."""
        if self.live is not None:
            self.live.close()


def bars(values: list[float]) -> str:
    """Values as a line of small bars, the largest of full height.

    >>> from eagerflow.views.view import bars
    >>> bars([0, 1, 4, 8])
    '▁▁▄█'
    """
    top = max(values, default=0.0)
    if top <= 0:
        return _BARS[0] * len(values)
    last = len(_BARS) - 1
    return "".join([_BARS[min(max(round(v / top * (last + 1)) - 1, 0), last)] for v in values])


def bars_svg(values: list[float], label: str) -> str:
    """Values as a picture of bars.

    Args:
        values: the heights of the bars, at least 0.
        label: the caption, for readers who do not see the picture.
    """
    top, width, height = max(values, default=0.0) or 1.0, 6, 40
    parts = [
        f'<rect x="{i * width}" y="{height - v / top * height:.1f}" width="{width - 1}" '
        f'height="{v / top * height:.1f}"/>'
        for i, v in enumerate(values)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{max(len(values), 1) * width}" '
        f'height="{height}" role="img" aria-label="{escape(label)}" fill="#4477aa">'
        f"<title>{escape(label)}</title>{''.join(parts)}</svg>"
    )


def preformatted(text: str) -> str:
    """Text as HTML, line by line as it is."""
    return f'<pre style="white-space:pre-wrap;line-height:1.3">{escape(text)}</pre>'
