"""The connection to a notebook's front-end: one invisible widget, which all views share.

Its comm carries deltas and assets of views to the page, and requests back. Nothing else is opened:
no port, no file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final, final

from ipywidgets import Widget
from traitlets import Int, List

from eagerflow.watching import Connection, Watcher, shared
from eagerflow.watching.tables import TABLES

#: version of the messages; a front-end with another version reports that instead of drawing
VERSION: Final = 1
#: files that a view requests, the first time that a page needs them
ASSETS: Final = {"layout": "layout.js"}


@cache
def asset(name: str) -> str:
    """A file of the front-end.

    Raises:
        ImportError: it was not built, which wheels and ``make`` do.
    """
    file = resources.files("eagerflow_widgets") / "static" / name
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        raise ImportError(f"{name} of the front-end is not there: run `make widgets`") from None


@final
class Feed(Widget):  # type: ignore[misc]  # ipywidgets has no types
    """The widget over which all views of a page get messages; connected while a view is shown.

    Messages of the front-end arrive in threads of the kernel.

    Args:
        watcher: the source of the messages.

    Attributes:
        version: of the messages.
        tables: the tables in messages: name, kind, number of columns of the key, and columns.
    """

    version = Int(VERSION).tag(sync=True)
    tables: List[Any] = List().tag(sync=True)

    def __init__(self, watcher: Watcher = shared, **traits: Any) -> None:
        self._watcher = watcher
        self._guard = threading.Lock()
        self._shown: set[str] = set()
        self._connection: Connection | None = None
        self._hear: Callable[[dict[str, Any]], None] = _ignore
        tables = [(t.name, t.kind, t.key, t.columns) for t in TABLES]
        super().__init__(tables=tables, **traits)
        answer_in_subshells(self)
        self.on_msg(self._take)

    def _take(self, feed: Widget, content: Any, buffers: Any) -> None:
        """Handle a message of the front-end, which may be malformed."""
        if not isinstance(content, Mapping):
            return
        if isinstance(content.get("shown"), str):
            self._show(content["shown"])
        elif isinstance(content.get("hidden"), str):
            self.hide(content["hidden"])
        elif content.get("asset") in ASSETS:
            name = content["asset"]
            self.send({"asset": name}, [asset(ASSETS[name]).encode()])
        else:
            self._hear({"content": {"data": content}})

    def _show(self, view: str) -> None:
        with self._guard:
            self._shown.add(view)
            if self._connection is None or self._connection.broken:
                if self._connection is None:
                    self._watcher.open()
                self._connection = self._watcher.connect(_Line(self))

    def hide(self, view: str) -> None:
        """Remove a view; after the last one, nothing more is sent."""
        with self._guard:
            self._shown.discard(view)
            connection = self._connection
            if self._shown or connection is None:
                return
            self._connection, self._hear = None, _ignore
        self._watcher.disconnect(connection)
        self._watcher.close()

    def close(self) -> None:
        """Close the feed, and hide all views."""
        with self._guard:
            shown, self._shown = list(self._shown), set()
        for view in shown:
            self.hide(view)
        super().close()


def _ignore(message: dict[str, Any]) -> None:
    """Ignore a message: no watcher is connected."""


@final
class _Line:
    """The comm of the feed as a watcher uses it; it stays open when a connection ends."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def send(self, data: dict[str, Any], *, buffers: list[bytes]) -> None:
        self._feed.send(data, buffers)

    def on_msg(self, callback: Callable[[dict[str, Any]], None]) -> None:
        self._feed._hear = callback

    def close(self) -> None:
        """Do nothing: the feed stays open for later views."""


def answer_in_subshells(widget: Widget) -> None:
    """Let messages of the front-end be handled while a cell runs.

    ipykernel 7.4 ties a comm to the shell that sent last, so that a running cell holds up all its
    messages; 7.1 to 7.3 do not, and have no such attribute.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = None
