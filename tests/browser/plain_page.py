"""A page without Jupyter that shows one view, with the kernel's messages given in advance."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from importlib import resources
from typing import Any

from playwright.sync_api import Browser, Page

from eagerflow.watching.tables import TABLES
from eagerflow_widgets.connecting import VERSION

PAGE = '<!doctype html><body><div id="view" style="width: 1200px"></div></body>'
#: stands in for anywidget: gives the view a model, and plays its kernel
_RENDER = """async ([traits, version, tables, script, layout, structure, messages]) => {
  const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));
  const url = URL.createObjectURL(new Blob([script], {type: 'text/javascript'}));
  const {default: view} = await import(url);
  const heard = [];
  const tell = (content, text) =>
    setTimeout(() => heard.forEach(f => f(content, [new DataView(text.buffer)])), 5);
  const feed = {
    comm_live: true, get: name => name === 'version' ? version : tables,
    on: (event, f) => { if (event === 'msg:custom') heard.push(f); },
    send: said => {
      if (said.asset) tell({asset: 'layout'}, new TextEncoder().encode(layout));
      if (said.shown) messages.forEach(message => tell({}, bytes(message)));
    },
  };
  const given = {feed: '', title: '', executables: [], queues: [], limit: 300, panel: 0, ...traits,
                 structure: new DataView(bytes(structure).buffer)};
  await view.render({el: document.getElementById('view'), model: {
    get: name => given[name], on: () => {}, off: () => {}, send: () => {},
    widget_manager: {get_model: async () => feed}}});
}"""


def plain_page(browser: Browser, **context: Any) -> Page:
    """An empty page with the style sheet of views."""
    page = browser.new_page(viewport={"width": 1240, "height": 900}, **context)
    page.route("http://views.test/", lambda r: r.fulfill(body=PAGE, content_type="text/html"))
    page.goto("http://views.test/")
    page.add_style_tag(content=_file("index.css"))
    return page


def show(
    page: Page, traits: dict[str, Any], structure: bytes = b"", messages: Sequence[bytes] = ()
) -> None:
    """Show a view on a page.

    Args:
        page: made by `plain_page`.
        traits: traits of its widget that differ from the defaults.
        structure: the encoded graph, for a view of a graph.
        messages: the kernel's messages, sent once the view is shown.
    """
    tables = [(t.name, t.kind, t.key, t.columns) for t in TABLES]
    texts = [base64.b64encode(data).decode() for data in (structure, *messages)]
    page.evaluate(
        _RENDER,
        [traits, VERSION, tables, _file("index.js"), _file("layout.js"), texts[0], texts[1:]],
    )


def _file(name: str) -> str:
    return (resources.files("eagerflow_widgets") / "static" / name).read_text("utf-8")
