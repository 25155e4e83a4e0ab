"""Views that move, where a front-end is there: what it is to show, and how it is found.

A front-end is a package with an entry point of the group ``eagerflow.front_end``. It names a
function that takes a `LiveView` and gives an `OpenView`, or None where nothing can be shown, as in
a terminal; an ImportError says that a part of it is not there. Nothing here knows what it draws
with.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, final

from eagerflow.graph.ir import Graph
from eagerflow.plugins import entry_points
from eagerflow.views.panels import Probe

#: of entry points of packages that bring a front-end
GROUP: Final = "eagerflow.front_end"
#: boxes of a graph that are seen at once, if nobody says else
MOST_BOXES: Final = 300
#: what runs the code of a notebook; without it there is nothing to ask for
_KERNELS: Final = ("ipykernel", "pyodide_kernel")


class OpenView(Protocol):
    """What a front-end shows, until it is closed."""

    def mimebundle(self) -> Mapping[str, Any]:
        """What a notebook has to know to show it."""

    def close(self) -> object:
        """Show it no more."""


@final
@dataclass(slots=True, eq=False, weakref_slot=True)
class LiveView:
    """Something that a front-end is to show.

    Attributes:
        kind: which view.
        title: what to call it.
        graph: of a view of a graph, that graph.
        executables: the numbers of those whose steps belong to it; all if there are none.
        queues: the names of those that are shown; all if there are none.
        probe: of a panel what looks at its object; it is asked again while the panel is shown.
        limit: boxes of a graph that are seen at once; what would be more stays closed.
    """

    kind: Literal["dashboard", "graph", "queues", "panel"]
    title: str = ""
    graph: Graph | None = None
    executables: tuple[int, ...] = ()
    queues: tuple[str, ...] = ()
    probe: Probe | None = None
    limit: int = MOST_BOXES
    _opened: OpenView | None = None

    def mimebundle(self) -> Mapping[str, Any]:
        """What a notebook has to know to show it; nothing where there is no front-end."""
        if self._opened is None:
            self._opened = self._open()
            if self._opened is not None:
                weakref.finalize(self, self._opened.close).atexit = False
        return {} if self._opened is None else self._opened.mimebundle()

    def _open(self) -> OpenView | None:
        open_view = _front_end()
        if open_view is None:
            return None
        try:
            return open_view(self)
        except ImportError as error:  # a checkout in which it was not built
            warnings.warn(f"views stand still: {error}", stacklevel=2)
            return None

    def close(self) -> None:
        """Show it no more."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


def _front_end() -> Callable[[LiveView], OpenView | None] | None:
    """What opens views; None where nobody would see them."""
    if not any(name in sys.modules for name in _KERNELS):
        return None
    for point in entry_points(GROUP):
        try:
            opens: Callable[[LiveView], OpenView | None] = point.load()
        except ImportError:  # of the extra `notebook`: text and pictures do without
            continue
        return opens
    return None
