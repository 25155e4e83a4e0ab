"""The line to a notebook's front-end: one widget without a picture, which all views share.

Over its comm go deltas and what views are made of, and wishes come back. Nothing else is opened: no
port, no file.
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

#: of messages; a front-end that knows another one says so instead of drawing
VERSION: Final = 1
#: what a view asks for once, the first time that a page needs it
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
    """What all views of a page hear. It is connected as long as one of them is shown.

    What the front-end says comes in threads of the kernel.

    Args:
        watcher: tells what happens.

    Attributes:
        version: of the messages.
        tables: what is in them: name, kind, number of columns of the key, and columns.
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
        """What the front-end says; it may say anything."""
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
        """A view is gone; if it was the last, nothing more is sent."""
        with self._guard:
            self._shown.discard(view)
            connection = self._connection
            if self._shown or connection is None:
                return
            self._connection, self._hear = None, _ignore
        self._watcher.disconnect(connection)
        self._watcher.close()

    def close(self) -> None:
        """Let it end, with all that is shown."""
        with self._guard:
            shown, self._shown = list(self._shown), set()
        for view in shown:
            self.hide(view)
        super().close()


def _ignore(message: dict[str, Any]) -> None:
    """Nobody listens."""


@final
class _Line:
    """What a watcher takes for a comm: the one of the feed, which stays when a connection ends."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def send(self, data: dict[str, Any], *, buffers: list[bytes]) -> None:
        self._feed.send(data, buffers)

    def on_msg(self, callback: Callable[[dict[str, Any]], None]) -> None:
        self._feed._hear = callback

    def close(self) -> None:
        """The feed stays: another view may come."""


def answer_in_subshells(widget: Widget) -> None:
    """Let what the front-end says be heard while a cell runs.

    ipykernel 7.4 ties a comm to the shell that sent last, so that a running cell holds up all that
    comes; 7.1 to 7.3 do not, and have no such attribute.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = None
