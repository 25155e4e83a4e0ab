"""Levels of queues and other meetings, in numbers, words and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from eagerflow.formatting import escape

_HEADINGS: Final = ("queue", "", "elements", "waiting to put", "waiting to take")


@final
class Level(NamedTuple):
    """The level of a resource: the fields of a `LevelEvent`, which is made only on demand.

    Attributes:
        name: of the resource.
        resource: its kind.
        depth: the number of elements.
        capacity: the greatest number of elements; 0 for any number.
        producers: the number of attempts that wait to put something in.
        consumers: the number of attempts that wait to take something out.
        closed: whether new elements are refused.
    """

    name: str
    resource: str
    depth: int
    capacity: int
    producers: int
    consumers: int
    closed: bool

    @property
    def elements(self) -> str:
        """The number of elements and the capacity, in words."""
        return f"{self.depth} of {self.capacity}" if self.capacity else f"{self.depth}"

    def __str__(self) -> str:
        parts = [self.elements]
        parts += ["closed"] * self.closed
        parts += [f"{self.producers} waiting to put"] * (self.producers > 0)
        parts += [f"{self.consumers} waiting to take"] * (self.consumers > 0)
        return ", ".join(parts)


def to_html(caption: str, levels: Sequence[Level]) -> str:
    """A table of queues, each with a bar for its depth.

    Args:
        caption: of the table.
        levels: the level of each row.

    >>> from eagerflow.extending import FifoStore, QueueState, to_html
    >>> queue = QueueState(3, FifoStore(), name="words")
    >>> "<caption>queues</caption>" in to_html("queues", [queue.level()])
    True
    """
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


def _bar(level: Level) -> str:
    if not level.capacity:
        return ""
    return f'<progress max="{level.capacity}" value="{level.depth}"></progress>'
