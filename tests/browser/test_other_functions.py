"""The graph of a dashboard becomes that of another function, by a choice or by a click."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import Lab
from tests.browser.shared_notebook import SETUP

pytestmark = pytest.mark.browser

#: a training step, and a function between steps with a new text argument each time
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
#: two graphs on two devices, with equal names of nodes
DEVICES = """
ef.config(cpu_devices=2)
near, far = ef.ones(3), ef.ones(3).to("cpu:1")

@ef.trace
def here(x):
    return ef.relu(x)

@ef.trace
def there(x):
    return ef.relu(x)

_ = here(near), there(far)
"""


def test_boxes_of_another_graph_have_devices_and_details_of_their_own(
    lab: Lab, browser: Browser
) -> None:
    cells = ["import eagerflow as ef", "look = ef.dashboard()\nlook", DEVICES]
    notebook = lab.open(browser, "functions", cells)
    notebook.run(0, 1, 2)
    view = notebook.view(1)
    box = view.locator(".ef-box").filter(has_text="relu")
    colours = {}
    for function, device in (("here", "cpu:0"), ("there", "cpu:1")):
        view.locator(".ef-choice").select_option(label=function)
        expect(view.locator(".ef-canvas")).to_have_attribute(
            "aria-label", re.compile(f"graph {function} ")
        )
        colours[function] = box.evaluate("e => e.style.getPropertyValue('--ef-device')")
        box.click()
        expect(view.locator(".ef-details")).to_contain_text(device)
    assert colours["here"] != colours["there"]
    assert notebook.complaints == []
    notebook.close()


def test_a_click_on_a_function_traced_anew_shows_its_graph(lab: Lab, browser: Browser) -> None:
    cells = [SETUP, "look = ef.dashboard()\nlook", RETRACES]
    notebook = lab.open(browser, "retraces", cells)
    notebook.run(0, 1)
    view = notebook.view(1)
    notebook.start(2)
    graph, canvas = view.locator(".ef-graph-view"), view.locator(".ef-graph-view .ef-canvas")
    view.locator(".ef-choice").select_option(label="train")
    named = view.locator(".ef-path").get_by_role("button")
    expect(named).to_have_text("↻ smooth, retraced")
    expect(graph.locator(".ef-fault")).to_be_hidden()  # the step has no fault
    expect(canvas).not_to_have_class(re.compile(r"\bef-wrong\b"))
    named.click()
    expect(view.locator(".ef-choice option:checked")).to_have_text("smooth")
    expect(canvas).to_contain_text("sqrt")
    expect(graph.locator(".ef-fault")).to_have_text(re.compile("retraced .*because of label"))
    expect(canvas).to_have_class(re.compile(r"\bef-wrong\b"))
    expect(canvas).to_have_css("border-top-width", "2px")
    notebook.allow("clicked")
    notebook.wait_for_end(2)
    assert notebook.complaints == []
    notebook.close()
