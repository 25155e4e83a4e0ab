"""Views in a real JupyterLab: they show the figures that the tests expect."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.browser.lab import Notebook, settle
from tests.browser.shared_notebook import AT, SECONDS, tab

pytestmark = pytest.mark.browser


@pytest.fixture
def dashboard(notebook: Notebook) -> Locator:
    view = notebook.view(AT["dashboard"])
    expect(view).to_have_attribute("data-status", "live")
    return view


def steps(view: Locator) -> int:
    """The number of steps that a view of a graph shows."""
    told = re.match(r"([\d,]+) steps", view.locator(".ef-now").inner_text())
    return 0 if told is None else int(told[1].replace(",", ""))


@pytest.mark.parametrize("busy", ["numpy", "python"])
def test_views_update_while_a_cell_computes(notebook: Notebook, graph: Locator, busy: str) -> None:
    before, updates = steps(graph), int(graph.get_attribute("data-updates") or 0)
    notebook.run(AT[busy])
    # ten updates a second, or six where looking would cost too much
    updated = int(graph.get_attribute("data-updates") or 0) - updates
    assert updated >= 5 * SECONDS
    expect(graph.locator(".ef-now")).to_contain_text("stands still for")
    printed = re.fullmatch(r"(\d+) steps in (\d+) rounds\n", notebook.printed(AT[busy]))
    assert printed is not None
    expected = re.compile(f"^{before + int(printed[1]):,} steps · ")
    expect(graph.locator(".ef-now")).to_have_text(expected)


def test_what_a_cell_prints_is_never_lost(notebook: Notebook) -> None:
    notebook.run(AT["prints"])
    lines = "".join(f"line {line}\n" for line in range(1000))
    output = notebook.cell(AT["prints"]).locator(".jp-OutputArea-output pre")
    expect(output.last).to_contain_text(
        "line 999\n"
    )  # the last message may be drawn only after the end
    assert notebook.printed(AT["prints"]) == lines


def test_each_tab_shows_something(notebook: Notebook, dashboard: Locator) -> None:
    notebook.run(AT["few"])
    expect(tab(dashboard, "timeline").locator(".ef-summary")).to_contain_text("median")
    expect(tab(dashboard, "nodes")).to_contain_text("matmul")
    layers = tab(dashboard, "layers").locator("tbody tr")
    expect(layers.first).to_contain_text("Sequential/layers.")
    expect(layers.filter(has_text="Sequential/layers.4")).to_contain_text("1,290")  # parameters
    expect(tab(dashboard, "queues")).to_contain_text(re.compile("No queue|batches|letters"))
    boxes = tab(dashboard, "graph").locator(".ef-box")
    expect(boxes.first).to_be_visible()
    for name in ("forward", "backward", "update"):
        assert dashboard.locator(f'[data-group$="phase:{name}"],[data-box$="phase:{name}"]').count()


def test_the_iteration_of_a_loop(notebook: Notebook) -> None:
    notebook.run(AT["prepare"], AT["show loop"])
    view = notebook.view(AT["show loop"])
    expect(view.locator(".ef-loop")).to_be_visible()
    notebook.start(AT["loop"])
    expect(view.locator(".ef-loop .ef-badge")).to_have_text("iteration 7")
    expect(view.locator(".ef-works")).to_contain_text("py_call")
    expect(view.locator(".ef-now")).to_contain_text("iteration 7")
    notebook.allow("loop")
    notebook.wait_for_end(AT["loop"])
    assert notebook.printed(AT["loop"]) == "end 9\n"
    expect(view.locator(".ef-works")).to_have_count(0)


def test_the_depth_of_a_queue_and_who_waits(notebook: Notebook, dashboard: Locator) -> None:
    panel = tab(dashboard, "queues")
    notebook.start(AT["queues"])
    letters = panel.locator('[data-queue="letters"]')
    expect(letters).to_contain_text("3 of 4")
    expect(letters).to_contain_text("no waits")
    answers = panel.locator('[data-queue="answers"]')
    expect(answers).to_contain_text("1 waits to take, for")
    expect(dashboard.locator(".ef-faults")).to_contain_text("dequeue of 'answers' has waited")
    tab(dashboard, "graph")
    expect(dashboard.locator(".ef-path .ef-cause")).to_have_text(["answers", "eager code"])
    tab(dashboard, "queues")
    notebook.allow("queues")
    notebook.wait_for_end(AT["queues"])
    assert notebook.printed(AT["queues"]) == "read\n"
    expect(answers).to_contain_text("no waits")


def test_groups_open_and_close(graph: Locator) -> None:
    boxes = graph.locator(".ef-graph-view")
    graph.get_by_role("button", name="close all groups").click()
    expect(boxes).to_have_attribute("data-boxes", "6")
    graph.locator('[data-box="/phase:forward"]').dblclick()
    expect(graph.locator('[data-group="/phase:forward"]')).to_be_visible()
    graph.locator('[data-name="/phase:forward"]').click()
    expect(boxes).to_have_attribute("data-boxes", "6")


_PLACES = """e => Object.fromEntries([...e.querySelectorAll('.ef-box')].map(box => {
  const at = box.querySelector('.ef-shape').getBoundingClientRect();
  return [box.dataset.box, [at.x + at.width / 2, at.y + at.height / 2]];
}))"""


def test_what_is_opened_leaves_other_boxes_about_where_they_are(graph: Locator) -> None:
    graph.get_by_role("button", name="close all groups").click()
    boxes = graph.locator(".ef-graph-view")
    expect(boxes).to_have_attribute("data-boxes", "6")
    canvas = graph.locator(".ef-canvas")
    glides = "e => getComputedStyle(e).transition"
    assert canvas.locator(".ef-box").first.evaluate(glides).startswith("transform 0.2s")
    for group in ("forward", "backward", "update"):
        settle(graph)
        count, size = boxes.get_attribute("data-boxes"), canvas.bounding_box()
        assert size is not None
        before = canvas.evaluate(_PLACES)
        canvas.locator(f'[data-box="/phase:{group}"]').dispatch_event("dblclick")
        expect(boxes).not_to_have_attribute("data-boxes", str(count))
        settle(graph)
        after = canvas.evaluate(_PLACES)
        stayed = before.keys() & after.keys()
        assert len(stayed) >= 5
        for box in stayed:
            (x0, y0), (x1, y1) = before[box], after[box]
            assert abs(x1 - x0) <= 0.2 * size["width"] + 1, box
            assert abs(y1 - y0) <= 0.2 * size["height"] + 1, box


def test_zoom_keeps_what_is_in_the_middle(graph: Locator) -> None:
    graph.get_by_role("button", name="close all groups").click()
    expect(graph.locator(".ef-graph-view")).to_have_attribute("data-boxes", "6")
    scale = "e => new DOMMatrix(getComputedStyle(e).transform).a"
    stage, canvas = graph.locator(".ef-stage"), graph.locator(".ef-canvas")
    graph.get_by_role("button", name="fit the whole graph").click()
    settle(graph)
    before = stage.evaluate(scale)
    canvas.focus()
    canvas.press("+")
    graph.page.wait_for_function(
        "([e, s]) => new DOMMatrix(getComputedStyle(e).transform).a > 1.29 * s",
        arg=[stage.element_handle(), before],
    )
    canvas.press("0")
    graph.page.wait_for_function(
        "([e, s]) => Math.abs(new DOMMatrix(getComputedStyle(e).transform).a - s) < 1e-3",
        arg=[stage.element_handle(), before],
    )


def test_search_opens_what_hides_a_node(graph: Locator) -> None:
    graph.get_by_role("button", name="close all groups").click()
    search = graph.get_by_role("searchbox", name="search")
    search.fill("relu")
    expect(graph.locator(".ef-hits")).to_contain_text("found")
    search.press("Enter")
    expect(graph.locator(".ef-chosen")).to_contain_text("relu")
    details = graph.locator(".ef-details")
    expect(details).to_contain_text("f32[256,128]")
    expect(details).to_contain_text("cpu:0")
    expect(details).to_contain_text(re.compile("used by.*matmul"))
    details.get_by_role("button", name="close").click()
    expect(details).to_contain_text("parameters")  # of the whole graph
    search.press("Enter")
    expect(graph.locator(".ef-chosen")).to_contain_text("relu")
    search.press("Escape")
    expect(graph.locator(".ef-found")).to_have_count(0)


def test_keys_are_for_the_view_that_has_the_focus(notebook: Notebook, graph: Locator) -> None:
    cells = notebook.page.locator(".jp-Notebook .jp-Cell").count()
    graph.get_by_role("button", name="close all groups").click()
    expect(graph.locator(".ef-cluster")).to_have_count(0)  # keys act on the picture shown
    canvas = graph.locator(".ef-canvas")
    canvas.focus()
    for key in ("Escape", "b", "ArrowDown"):
        canvas.press(key)
    expect(graph.locator(".ef-chosen")).to_have_count(1)
    first = graph.locator(".ef-chosen").get_attribute("data-box")
    canvas.press("ArrowRight")
    assert graph.locator(".ef-chosen").get_attribute("data-box") != first
    assert notebook.page.locator(".jp-Notebook .jp-Cell").count() == cells


def test_views_follow_the_theme(notebook: Notebook, graph: Locator) -> None:
    def colours() -> tuple[str, ...]:
        script = "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
        return tuple(graph.evaluate(script))

    light = colours()
    notebook.theme("JupyterLab Dark")
    for property, before in zip(("color", "background-color"), light, strict=True):
        expect(graph).not_to_have_css(property, before)
    notebook.theme("JupyterLab Light")
    for property, before in zip(("color", "background-color"), light, strict=True):
        expect(graph).to_have_css(property, before)
