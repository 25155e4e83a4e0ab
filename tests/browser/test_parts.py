"""Parts of views in a real JupyterLab: passes, selections, objects, states, sizes."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Notebook, settle
from tests.browser.shared_notebook import AT, tab

pytestmark = pytest.mark.browser


@pytest.fixture
def dashboard(notebook: Notebook) -> Locator:
    return notebook.view(AT["other dashboard"])


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


def test_what_is_chosen_in_the_graph_is_chosen_in_the_timeline(
    notebook: Notebook, dashboard: Locator
) -> None:
    notebook.run(AT["briefly"])
    boxes = tab(dashboard, "graph").locator('.ef-box:has-text("transfer")')
    boxes.first.click()
    expect(dashboard.locator(".ef-details")).to_contain_text("transfer")
    panel = tab(dashboard, "timeline")
    panel.get_by_role("button", name="last step").click()
    canvas = panel.locator(".ef-lanes canvas")
    expect(canvas).to_have_attribute("data-lanes", "cpu:0,cpu:1,main thread")
    expect(canvas).to_have_attribute("data-chosen", "1")
    # the opposite direction: a click on the arrow of the other transfer
    place = re.findall(r"([\d.]+),([\d.]+)", canvas.get_attribute("data-moves") or "")
    assert len(place) == 2
    x, y = map(float, place[1])
    canvas.click(position={"x": x, "y": y})
    tab(dashboard, "graph")
    expect(dashboard.locator(".ef-details")).to_contain_text("transfer_1")
    expect(dashboard.locator(".ef-chosen")).to_have_count(1)
    expect(dashboard.locator(".ef-amount text")).to_have_text(["16.4 kB", "16.4 kB"])


def test_nodes_are_sorted_and_chosen_by_keys(notebook: Notebook, dashboard: Locator) -> None:
    panel = tab(dashboard, "nodes")
    notebook.start(AT["run"])
    expect(panel.locator("caption")).to_contain_text("in one step")  # one step was observed
    notebook.allow("observed")
    notebook.wait_for_end(AT["run"])
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


def test_all_views_at_once(notebook: Notebook, dashboard: Locator) -> None:
    grid = dashboard.get_by_role("button", name="all views at once")
    grid.click()
    names = ("graph", "timeline", "queues", "nodes")
    panels = [dashboard.get_by_role("tabpanel", name=name) for name in names]
    for panel in panels:
        expect(panel).to_be_visible()
    grid.click()
    assert [panel.is_visible() for panel in panels].count(True) == 1


def test_a_view_in_a_panel_of_its_own(notebook: Notebook) -> None:
    view = notebook.view(AT["other dashboard"])
    view.get_by_role("button", name="a panel of its own").click()
    panel = notebook.page.locator(".ef-own")
    inner = panel.locator(".ef-root")
    expect(inner).to_have_attribute("data-status", "live")
    boxes, cell = panel.bounding_box(), view.bounding_box()
    assert boxes is not None
    assert cell is not None
    assert boxes["x"] > cell["x"] + 100  # to the right of the notebook
    before = int(inner.get_attribute("data-updates") or 0)
    notebook.run(AT["briefly"])
    assert int(inner.get_attribute("data-updates") or 0) > before
    told = notebook.view(AT["other dashboard"]).locator(".ef-sentence").inner_text()
    expect(inner.locator(".ef-sentence")).to_have_text(told)
    expect(inner.locator(".ef-graph-view")).to_have_attribute("data-layout", "graphviz")
    assert inner.get_by_role("button", name="a panel of its own").count() == 0
    handle = notebook.page.locator(".lm-DockPanel-tabBar .lm-TabBar-tab", has_text="dashboard")
    handle.locator(".lm-TabBar-tabCloseIcon").click()
    expect(panel).to_have_count(0)
    expect(view).to_have_attribute("data-status", "live")
    # the palette has the same command, for the current notebook
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
    view = notebook.view(AT["other dashboard"])
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
    views = [notebook.view(AT[name]) for name in ("other dashboard", "graph", "objects", "model")]
    assert [view.evaluate(unnamed) for view in views] == [[], [], [], []]
    wide = (
        "e => { e.style.width = '400px'; const right = e.getBoundingClientRect().right + 1;"
        " const overflowing = [...e.querySelectorAll('*')].filter(x => x.offsetParent"
        " && !x.closest('svg') && !x.closest('.ef-nodes')"
        " && x.getBoundingClientRect().right > right).map(x => x.outerHTML.slice(0, 120));"
        " e.style.width = ''; return overflowing; }"
    )
    for view in views:
        view.scroll_into_view_if_needed()
        assert view.evaluate(wide) == []
