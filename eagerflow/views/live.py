"""Live views: their description, and discovery of the front-end that draws them.

A front-end is a package with an entry point of the group ``eagerflow.front_end``. It names a
function that takes a `LiveView` and returns an `OpenView`, or None where nothing can be shown, as
in a terminal; an ImportError means that a part of the front-end is missing. This module is
independent of how a front-end draws.
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

#: the group of entry points of packages with a front-end
GROUP: Final = "eagerflow.front_end"
#: boxes of a graph that are shown at once by default
MOST_BOXES: Final = 300
#: modules that run the code of a notebook; without them there is no use for a front-end
_KERNELS: Final = ("ipykernel", "pyodide_kernel")


class OpenView(Protocol):
    """A view that a front-end shows, until it is closed."""

    def mimebundle(self) -> Mapping[str, Any]:
        """The MIME bundle by which a notebook shows it."""

    def close(self) -> object:
        """Stop showing it."""


@final
@dataclass(slots=True, eq=False, weakref_slot=True)
class LiveView:
    """The description of a view that a front-end is to show.

    Attributes:
        kind: the kind of view.
        title: its title.
        graph: the graph, for a view of a graph.
        executables: the numbers of executables whose steps it shows; empty for all.
        queues: the names of queues that it shows; empty for all.
        probe: the probe of a panel, which is called again while the panel is shown.
        limit: boxes of a graph that are shown at once; scopes beyond that stay closed.
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
        """The MIME bundle by which a notebook shows it; empty without a front-end."""
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
        except ImportError as error:  # a checkout in which the front-end was not built
            warnings.warn(f"views are not updated: {error}", stacklevel=2)
            return None

    def close(self) -> None:
        """Stop showing it."""
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()


def _front_end() -> Callable[[LiveView], OpenView | None] | None:
    """The function that opens views; None outside of notebooks, or without a front-end."""
    if not any(name in sys.modules for name in _KERNELS):
        return None
    for point in entry_points(GROUP):
        try:
            opens: Callable[[LiveView], OpenView | None] = point.load()
        except ImportError:  # the extra `notebook` is missing: text and pictures do without
            continue
        return opens
    return None
