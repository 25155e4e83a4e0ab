"""Parts of views in a real JupyterLab: passes, what is chosen, objects, states, sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.lab import Lab, Notebook, settle
from tests.browser.test_views import SETUP, tab

pytestmark = pytest.mark.browser

DEVICES = """
ef.config(cpu_devices=2)
weight = ef.Variable(ef.ones((64, 64)).to("cpu:1"), name="weight")

@ef.trace
def over(x):
    with ef.device("cpu:1"):
        y = ef.relu(x.to("cpu:1") @ weight.value.T + 1.0)
    return ef.sin(y.to("cpu:0"))

def run(seconds):
    end = time.time() + seconds
    while time.time() < end:
        over(ef.ones((64, 64)))
        time.sleep(0.01)

run(0.1)
"""
OBJECTS = """
weights = ef.Variable(ef.arange(12.0).reshape(3, 4), name="weights")
ef.show(weights)
"""
HUNDRED = """
import gc
import ipywidgets
from eagerflow.watching import shared
from eagerflow_widgets.front_end import open_view

def left():
    gc.collect()
    return len(ipywidgets.widgets.widget._instances), threading.active_count()

def once():
    for thing in (train, weights):
        view = ef.show(thing)
        view._repr_mimebundle_()
        view.close()

once()
before = left()
for _ in range(50):
    once()
print(left() == before, len(shared.panels._asked))
"""
CELLS = {
    "setup": SETUP, "dashboard": "look = ef.dashboard()\nlook", "devices": DEVICES,
    "run": "run(3)", "briefly": "run(0.5)",
    "frozen": "run(0.5)\npathlib.Path('ended').touch()",
    "graph": "ef.show(train)", "objects": OBJECTS,
    "assign": "weights.assign(weights.value * float('nan'))",
    "model": "ef.show(net)", "hundred": HUNDRED,
    "told": "number = over.latest().executable.number\n"
    "print(f'{look._watcher.log.of(number).count:,}')",
}  # fmt: skip
#: of views that are closed before the page has begun with them, which anywidget tells itself
EARLY = "[anywidget] Failed to initialize model"
AT = {name: number for number, name in enumerate(CELLS)}


@pytest.fixture(scope="module")
def opened(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    size = {"width": 1400, "height": 1000}
    made = lab.open(browser, "parts", list(CELLS.values()), viewport=size)
    made.run(AT["setup"], AT["dashboard"], AT["devices"], AT["graph"], AT["objects"], AT["model"])
    yield made
    made.close()


@pytest.fixture
def notebook(opened: Notebook) -> Iterator[Notebook]:
    yield opened
    assert [c for c in opened.complaints if not c.startswith(EARLY)] == []


@pytest.fixture
def graph(notebook: Notebook) -> Locator:
    view = notebook.view(AT["graph"])
    expect(view.locator(".ef-graph-view")).to_have_attribute("data-layout", "graphviz")
    return view


def test_before_and_after_each_pass(graph: Locator) -> None:
    graph.get_by_role("button", name="before and after").click()
    passes = graph.locator(".ef-passes")
    choice = passes.get_by_role("combobox", name="pass")
    expect(choice).to_contain_text("1. prune: ")
    choice.select_option(label=re.search(r"\d+\. simplify: [^\n]*nodes", choice.inner_text())[0])
    before, after = passes.locator("figure").all()
    expect(before.locator(".ef-gone").first).to_be_visible()
    expect(after.locator(".ef-gone")).to_have_count(0)
    expect(passes.locator(".ef-report")).to_contain_text(" is %")
    passes.get_by_role("button", name="back to the graph").click()
    expect(passes).to_have_count(0)
    expect(graph.get_by_role("searchbox")).to_be_visible()


def test_gradients_are_beside_their_ops(graph: Locator) -> None:
    def middle(box: str) -> float:
        at = graph.locator(f'[data-box="{box}"]').bounding_box()
        assert at is not None
        return at["y"] + at["height"] / 2

    layers = "/phase:{}/scope:Sequential/scope:layers.{}"
    expect(graph.locator(f'[data-box="{layers.format("backward", 2)}"]')).to_be_visible()
    settle(graph)
    for layer in (0, 2, 4):
        both = [middle(layers.format(phase, layer)) for phase in ("forward", "backward")]
        assert abs(both[0] - both[1]) < 3


def test_what_is_chosen_in_the_graph_is_chosen_in_the_timeline(notebook: Notebook) -> None:
    dashboard = notebook.view(AT["dashboard"])
    notebook.run(AT["briefly"])
    boxes = tab(dashboard, "graph").locator('.ef-box:has-text("transfer")')
    boxes.first.click()
    expect(dashboard.locator(".ef-details")).to_contain_text("transfer")
    panel = tab(dashboard, "timeline")
    panel.get_by_role("button", name="last step").click()
    canvas = panel.locator(".ef-lanes canvas")
    expect(canvas).to_have_attribute("data-lanes", "cpu:0,cpu:1,main thread")
    expect(canvas).to_have_attribute("data-chosen", "1")
    # and the other way round: a press on the arrow of the other transfer
    place = re.findall(r"([\d.]+),([\d.]+)", canvas.get_attribute("data-moves") or "")
    assert len(place) == 2
    x, y = map(float, place[1])
    canvas.click(position={"x": x, "y": y})
    tab(dashboard, "graph")
    expect(dashboard.locator(".ef-details")).to_contain_text("transfer_1")
    expect(dashboard.locator(".ef-chosen")).to_have_count(1)
    expect(dashboard.locator(".ef-amount text")).to_have_text(["16.4 kB", "16.4 kB"])


def test_nodes_are_sorted_and_chosen_by_keys(notebook: Notebook) -> None:
    dashboard = notebook.view(AT["dashboard"])
    panel = tab(dashboard, "nodes")
    notebook.run(AT["run"])  # a step is observed meanwhile
    names = panel.locator("tbody tr td:first-child")
    panel.get_by_role("button", name="node", exact=True).press("Enter")
    expect(panel.get_by_role("columnheader", name="node")).to_have_attribute(
        "aria-sort", "ascending"
    )
    told = names.all_text_contents()
    assert told == sorted(told)
    assert {"add", "matmul", "relu", "sin"} <= set(told)
    row = panel.locator("tbody tr").first
    row.focus()
    row.press("ArrowDown")
    expect(panel.locator(".ef-picked")).to_have_count(1)
    expect(panel.locator(".ef-picked td").first).to_have_text(told[1])
    tab(dashboard, "graph")
    expect(dashboard.locator(".ef-details")).to_contain_text(told[1])


def test_all_views_at_once(notebook: Notebook) -> None:
    dashboard = notebook.view(AT["dashboard"])
    grid = dashboard.get_by_role("button", name="all views at once")
    grid.click()
    names = ("graph", "timeline", "queues", "nodes")
    panels = [dashboard.get_by_role("tabpanel", name=name) for name in names]
    for panel in panels:
        expect(panel).to_be_visible()
    grid.click()
    assert [panel.is_visible() for panel in panels].count(True) == 1


def test_a_view_in_a_panel_of_its_own(notebook: Notebook) -> None:
    view = notebook.view(AT["dashboard"])
    view.get_by_role("button", name="a panel of its own").click()
    panel = notebook.page.locator(".ef-own")
    inner = panel.locator(".ef-root")
    expect(inner).to_have_attribute("data-status", "live")
    boxes, cell = panel.bounding_box(), view.bounding_box()
    assert boxes is not None
    assert cell is not None
    assert boxes["x"] > cell["x"] + 100  # beside the notebook
    before = int(inner.get_attribute("data-updates") or 0)
    notebook.run(AT["briefly"])
    assert int(inner.get_attribute("data-updates") or 0) > before
    told = notebook.view(AT["dashboard"]).locator(".ef-sentence").inner_text()
    expect(inner.locator(".ef-sentence")).to_have_text(told)
    expect(inner.locator(".ef-graph-view")).to_have_attribute("data-layout", "graphviz")
    assert inner.get_by_role("button", name="a panel of its own").count() == 0
    handle = notebook.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="dashboard")
    handle.locator(".lm-TabBar-tabCloseIcon").click()
    expect(panel).to_have_count(0)
    expect(view).to_have_attribute("data-status", "live")
    # the palette has the same, for the notebook that is seen
    notebook.command("eagerflow:panel")
    expect(inner).to_have_attribute("data-status", "live")
    handle.locator(".lm-TabBar-tabCloseIcon").click()
    expect(panel).to_have_count(0)


def test_objects_follow_their_values(notebook: Notebook) -> None:
    view = notebook.view(AT["objects"])
    expect(view.locator("h4")).to_have_text("weights")
    expect(view.locator("img")).to_have_attribute("alt", re.compile("matrix of 3 by 4"))
    expect(view.locator(".ef-alarm")).to_be_empty()
    notebook.run(AT["assign"])
    expect(view.locator(".ef-alarm")).to_have_text("12 NaN")
    expect(notebook.view(AT["model"]).locator("tbody tr")).to_have_count(6)


def test_a_hundred_views_leave_nothing(notebook: Notebook) -> None:
    notebook.run(AT["hundred"])
    assert notebook.printed(AT["hundred"]) == "True 2\n"


def test_a_frozen_page_goes_on_where_the_kernel_is(notebook: Notebook) -> None:
    session = notebook.page.context.new_cdp_session(notebook.page)
    view = notebook.view(AT["dashboard"])
    tab(view, "graph")
    notebook.start(AT["frozen"])
    expect(notebook.cell(AT["frozen"]).locator(".jp-InputPrompt")).to_contain_text("*")
    session.send("Page.setWebLifecycleState", {"state": "frozen"})
    notebook.wait_for_file("ended")
    session.send("Page.setWebLifecycleState", {"state": "active"})
    notebook.wait_for_end(AT["frozen"])
    expect(view).to_have_attribute("data-status", "live")
    notebook.run(AT["told"])
    told = notebook.printed(AT["told"]).strip()
    expect(view.locator(".ef-graph-view .ef-now")).to_contain_text(f"{told} steps")


def test_everything_has_a_name_and_fits_into_400_pixels(notebook: Notebook) -> None:
    unnamed = (
        "e => [...e.querySelectorAll('button, select, input, canvas, svg[role], img, [tabindex]')]"
        ".filter(x => !x.closest('[hidden]') && !(x.getAttribute('aria-label') || x.textContent"
        " || x.getAttribute('alt'))).map(x => x.outerHTML.slice(0, 120))"
    )
    views = [notebook.view(AT[name]) for name in ("dashboard", "graph", "objects", "model")]
    assert [view.evaluate(unnamed) for view in views] == [[], [], [], []]
    notebook.page.set_viewport_size({"width": 620, "height": 900})
    notebook.command("application:toggle-left-area")
    wide = (
        "e => { e.style.width = '400px'; const right = e.getBoundingClientRect().right + 1;"
        " return [...e.querySelectorAll('*')].filter(x => x.offsetParent && !x.closest('svg')"
        " && !x.closest('.ef-nodes') && x.getBoundingClientRect().right > right)"
        ".map(x => x.outerHTML.slice(0, 120)); }"
    )
    for view in views:
        view.scroll_into_view_if_needed()
        assert view.evaluate(wide) == []
