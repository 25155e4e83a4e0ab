"""Views on a page without Jupyter, such as an exported notebook."""

from __future__ import annotations

from time import perf_counter

import pytest
from playwright.sync_api import Browser, expect

import eagerflow as ef
from eagerflow.watching import Watcher
from tests.browser.plain_page import plain_page, show
from tests.watching.fake_comm import FakeComm

pytestmark = pytest.mark.browser

#: lightness, 0 to 255, of the darkest and the lightest opaque pixel of a canvas
_LIGHT = """canvas => {
  const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const values = [];
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] > 200) values.push((data[i] + data[i + 1] + data[i + 2]) / 3);
  }
  return [Math.min(...values), Math.max(...values)];
}"""


def told() -> list[bytes]:
    """A kernel's messages to a view about some steps."""
    f, comm, watcher = ef.trace(lambda x: ef.exp(x), compile="off"), FakeComm(), Watcher()
    watcher._run = lambda: None  # type: ignore[method-assign]  # the test plays its thread
    watcher.connect(comm)
    with watcher:
        for _ in range(20):
            f(ef.ones(2))
        now = perf_counter()
        watcher.look(now)
        watcher.tell(now)
    return comm.messages


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_canvases_have_the_colours_of_the_page(browser: Browser, scheme: str) -> None:
    page = plain_page(browser)
    page.add_style_tag(content=f":root {{ color-scheme: {scheme}; }}")
    show(page, {"kind": "dashboard"}, messages=told())
    page.locator('[data-tab="timeline"]').click()
    expect(page.locator(".ef-summary")).to_contain_text("last 20 steps")
    for canvas in page.locator(".ef-timeline canvas").all():
        darkest, lightest = canvas.evaluate(_LIGHT)
        # texts of the axis have #59636e or #9aa4af, and no line is black
        assert (darkest >= 20) if scheme == "light" else (lightest >= 150)
        assert darkest > 10
    page.close()
