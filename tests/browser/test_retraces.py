"""A function that is traced anew again and again is named below the graph, and a click shows it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import Lab
from tests.browser.shared_notebook import SETUP

pytestmark = pytest.mark.browser

#: a training step, and a function between steps that gets another text each time
RETRACES = """
@ef.trace
def smooth(loss, label):
    return ef.sqrt(loss)

step = 0
while not pathlib.Path("clicked").exists():
    loss = train(x, y)
    if step % 50 == 0:
        smooth(loss, f"step {step}")
    step += 1
"""


def test_a_click_on_a_function_traced_anew_shows_its_graph(lab: Lab, browser: Browser) -> None:
    size = {"width": 1240, "height": 1000}
    cells = [SETUP, "look = ef.dashboard()\nlook", RETRACES]
    notebook = lab.open(browser, "retraces", cells, viewport=size)
    notebook.run(0, 1)
    view = notebook.view(1)
    notebook.start(2)
    graph, canvas = view.locator(".ef-graph-view"), view.locator(".ef-graph-view .ef-canvas")
    view.locator(".ef-choice").select_option(label="train")
    named = view.locator(".ef-path").get_by_role("button")
    expect(named).to_have_text("↻ smooth, traced anew")
    expect(graph.locator(".ef-fault")).to_be_hidden()  # the step is not what is wrong
    expect(canvas).not_to_have_class(re.compile(r"\bef-wrong\b"))
    named.click()
    expect(view.locator(".ef-choice option:checked")).to_have_text("smooth")
    expect(canvas).to_contain_text("sqrt")
    expect(graph.locator(".ef-fault")).to_have_text(re.compile("traced anew .*because of label"))
    expect(canvas).to_have_class(re.compile(r"\bef-wrong\b"))
    expect(canvas).to_have_css("border-top-width", "2px")
    notebook.allow("clicked")
    notebook.wait_for_end(2)
    assert notebook.complaints == []
    notebook.close()
