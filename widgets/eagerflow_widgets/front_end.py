"""Widgets that `ef.show` and `ef.dashboard` display in a notebook, made with anywidget.

Found by the entry point ``eagerflow.front_end``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final, final

import anywidget
from ipywidgets import Widget, widget_serialization
from traitlets import Bytes, Instance, Int, List, Unicode

from eagerflow.graph.ir import Graph
from eagerflow.runtime.executable import find_executable
from eagerflow.views.live import LiveView
from eagerflow.watching import shared
from eagerflow.watching.graph_columns import NodeIndex, encode_structure
from eagerflow_widgets.connecting import Feed, answer_in_subshells, asset
from eagerflow_widgets.passes import pass_stages

_MIME: Final = "application/vnd.jupyter.widget-view+json"
_feeds: Final[list[Feed]] = []


@final
class ViewWidget(anywidget.AnyWidget):
    """One view in a notebook.

    Its subject is described by a few traits that never change; changing data comes over the feed.

    Attributes:
        kind: of the view: ``dashboard``, ``graph``, ``queues`` or ``panel``.
        title: of the view.
        executables: numbers of the executables shown; all if empty.
        queues: names of the queues shown; all if empty.
        limit: the most boxes of a graph that are visible at once.
        panel: for a panel, the number of its row; 0 for none.
        structure: of a graph, as `eagerflow.watching.graph_columns` writes it; empty if the view
            is to request it.
        feed: the source of its messages.
        graph: the graph, if the view shows one.
    """

    kind = Unicode().tag(sync=True)
    title = Unicode().tag(sync=True)
    executables: List[Any] = List().tag(sync=True)
    queues: List[Any] = List().tag(sync=True)
    limit = Int().tag(sync=True)
    panel = Int().tag(sync=True)
    structure = Bytes().tag(sync=True)
    feed = Instance(Widget).tag(sync=True, **widget_serialization)

    def __init__(self, graph: Graph | None = None, **traits: Any) -> None:
        self.graph = graph
        self._esm = asset("index.js")
        self._css = asset("index.css")
        super().__init__(**traits)
        answer_in_subshells(self)
        self.on_msg(self._take)

    def _take(self, widget: Widget, content: Any, buffers: Any) -> None:
        """Answer a request of the view, in a thread of the kernel; it may be malformed."""
        number = content.get("passes") if isinstance(content, Mapping) else None
        if type(number) is not int:
            return
        executable = find_executable(number) if number else None
        graph = self.graph if executable is None else executable.graph
        stages, structures = ([], []) if graph is None else pass_stages(graph)
        self.send({"passes": number, "stages": stages}, structures)

    def mimebundle(self) -> Mapping[str, Any]:
        """The MIME bundle with which a notebook shows the view."""
        return {_MIME: {"version_major": 2, "version_minor": 0, "model_id": self.model_id}}

    def close(self) -> None:
        """Close the view."""
        shared.panels.remove(self.panel)
        if self.comm is not None:
            self.layout.close()  # a widget of its own, which each view has
        super().close()


def open_view(view: LiveView) -> ViewWidget | None:
    """Open a view in the notebook whose kernel this process is; None if it is no kernel.

    Raises:
        ImportError: the front-end was not built.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    asset("index.js")  # fails before anything is opened, if it was not built
    probe = view.probe
    panel = 0 if probe is None else shared.panels.add(lambda: probe().data())
    structure = b"" if view.graph is None else encode_structure(NodeIndex(view.graph))
    return ViewWidget(
        view.graph, kind=view.kind, title=view.title, executables=list(view.executables),
        queues=list(view.queues), limit=view.limit, panel=panel, structure=structure, feed=feed(),
    )  # fmt: skip


def feed() -> Feed:
    """The feed of this process: one for all views."""
    if not _feeds or _feeds[-1].comm is None:
        _feeds[:] = [Feed()]
    return _feeds[-1]
