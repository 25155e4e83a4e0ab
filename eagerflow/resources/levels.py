"""How queues and their like stand, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from eagerflow.events import LevelEvent

_HEADINGS: Final = ("queue", "", "elements", "waiting to put", "waiting to take")


def to_html(caption: str, levels: Sequence[LevelEvent]) -> str:
    """A table of queues, each with a bar that shows how full it is.

    Args:
        caption: above it.
        levels: one for each row.

    >>> from eagerflow.extending.pipelines import FifoStore, QueueState, to_html
    >>> queue = QueueState(3, FifoStore(), name="words")
    >>> "<caption>queues</caption>" in to_html("queues", [queue.level()])
    True
    """
    from html import escape  # noqa: PLC0415 - 2 ms of `import eagerflow`

    head = "".join(f"<th>{name}</th>" for name in _HEADINGS)
    body = "".join(
        f"<tr><td>{escape(level.name)}</td><td>{_bar(level)}</td><td>{level.elements}"
        f"{', closed' * level.closed}</td><td>{level.producers}</td><td>{level.consumers}</td></tr>"
        for level in levels
    )
    return (
        f"<table><caption>{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _bar(level: LevelEvent) -> str:
    if not level.capacity:
        return ""
    return f'<progress max="{level.capacity}" value="{level.depth}"></progress>'
