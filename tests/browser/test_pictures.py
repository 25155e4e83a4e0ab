"""Screenshots of every view, light and dark; `make screenshots` keeps them for the pages."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import PATIENCE, Lab, Notebook, settle
from tests.browser.shared_notebook import SETUP, tab
from tests.source_tree import ROOT

#: where to keep pictures
_FOLDER = os.environ.get("EAGERFLOW_SCREENSHOTS")
_IMAGES = ROOT / "docs" / "images"
pytestmark = pytest.mark.browser

TRAIN = """
samples = ef.Queue(16, "f32[256,64]", name="samples")
batches = ef.Queue(8, "f32[256,64]", name="batches")

@ef.trace
def read():
    samples.enqueue(ef.random.normal((256, 64)))

@ef.trace
def augment():
    batches.enqueue(ef.sin(samples.dequeue()))

with ef.spawn(read), ef.spawn(augment):
    while not pathlib.Path("taken").exists():
        train(batches.dequeue(), y)
"""
LOOP = """
@ef.trace
def settle(x):
    with ef.name_scope("settle"):
        return ef.while_loop(
            lambda i, x: i < 400,
            lambda i, x: (i + 1, ef.tanh(x @ x) * 0.5),
            (ef.tensor(0), x),
        )[1]

_ = settle(ef.zeros((400, 400)))
"""
DEVICES = """
ef.config(cpu_devices=4, threads=1)
for i, layer in enumerate([net.layers[0], net.layers[2], net.layers[4]]):
    ef.move(layer, f"cpu:{i + 1}")

@ef.trace
def infer(x):
    for layer in net.layers:
        if isinstance(layer, ef.nn.Linear):
            with ef.colocate(layer.weight):
                x = layer(x)
        else:
            x = layer(x)
    return x.to("cpu:0")

_ = infer(x)
ef.show(infer)
"""
MOVES = """
look.close()
second = ef.dashboard()
second
"""
AGAIN = """
while not pathlib.Path("moved").exists():
    infer(x)
    time.sleep(0.02)
"""
CELLS = [SETUP, "look = ef.dashboard()\nlook", TRAIN, LOOP, "ef.show(settle)",
         "for _ in range(10): settle(ef.zeros((400, 400)))", "ef.show(train)",
         "ef.show(net.layers[2].weight)", DEVICES, MOVES, AGAIN]  # fmt: skip


class Camera:
    """Takes pictures of views in both themes, in the current theme first."""

    def __init__(self, notebook: Notebook, folder: Path) -> None:
        self.notebook, self.folder = notebook, folder
        self.themes = ["light", "dark"]
        self.taken: set[str] = set()

    def take(self, cell: int, what: str) -> None:
        view = self.notebook.view(cell)
        view.scroll_into_view_if_needed()
        settle(view)
        first, second = self.themes
        ground = view.evaluate("e => getComputedStyle(e).backgroundColor")
        shots = {first: view.screenshot()}
        self.notebook.theme(f"JupyterLab {second.title()}")
        expect(view).not_to_have_css("background-color", ground)
        shots[second] = view.screenshot()
        self.themes.reverse()
        assert shots[first] != shots[second]
        for theme, shot in shots.items():
            self.taken.add(f"view-{what}-{theme}.png")
            (self.folder / f"view-{what}-{theme}.png").write_bytes(shot)


def choose_first(notebook: Notebook, cell: int, op: str) -> None:
    """Search for an op in a graph; the search opens the groups around it."""
    search = notebook.view(cell).get_by_role("searchbox", name="search")
    search.fill(op)
    search.press("Enter")
    expect(notebook.view(cell).locator(".ef-chosen")).to_contain_text(op)


def test_pictures(lab: Lab, browser: Browser, tmp_path: Path) -> None:
    notebook = lab.open(browser, "pictures", CELLS, device_scale_factor=1.25)
    notebook.command("application:toggle-left-area")
    notebook.theme("JupyterLab Light")
    camera = Camera(notebook, tmp_path if _FOLDER is None else Path(_FOLDER))
    take = camera.take
    notebook.run(0, 1)
    dashboard = notebook.view(1)
    notebook.start(2)
    expect(dashboard.locator(".ef-graph-view")).to_have_attribute("data-layout", "graphviz")
    dashboard.locator(".ef-choice").select_option(label="train")
    # costs of nodes come after some seconds, when the time line has some length, too
    expect(dashboard.locator(".ef-details")).to_contain_text("slowest nodes", timeout=2 * PATIENCE)
    take(1, "dashboard")
    tab(dashboard, "timeline")
    take(1, "timeline")
    tab(dashboard, "queues")
    take(1, "queues")
    tab(dashboard, "nodes")
    take(1, "nodes")
    tab(dashboard, "layers")
    take(1, "layers")
    notebook.allow("taken")
    notebook.wait_for_end(2)
    notebook.run(3, 4)
    notebook.start(5)
    expect(notebook.view(4).locator(".ef-badge")).to_contain_text("iteration")
    take(4, "loop")
    notebook.wait_for_end(5)
    notebook.run(6, 7)
    graph = notebook.view(6)
    expect(graph.locator(".ef-graph-view")).to_have_attribute("data-layout", "graphviz")
    take(6, "graph")
    graph.get_by_role("button", name="before and after").click()
    graph.get_by_role("combobox", name="pass").select_option(index=2)
    expect(graph.locator("figure .ef-gone").first).to_be_visible()
    take(6, "passes")
    expect(notebook.view(7).locator("img")).to_be_visible()
    take(7, "tensor")
    notebook.run(8)
    choose_first(notebook, 8, "matmul")
    notebook.view(8).get_by_role("button", name="fit").click()  # all four
    take(8, "devices")
    notebook.run(9)
    notebook.start(10)
    moves = notebook.view(9)
    expect(moves.locator(".ef-graph-view")).to_have_attribute("data-layout", "graphviz")
    moves.locator(".ef-choice").select_option(label="infer")
    panel = tab(moves, "timeline")
    expect(panel.locator(".ef-lanes canvas")).to_have_attribute("data-lanes", re.compile("cpu:3"))
    # until then the sentence is about the loop, which has taken more time
    expect(moves.locator(".ef-sentence")).to_contain_text("infer")
    panel.get_by_role("button", name="last step").click()
    take(9, "transfers")
    notebook.allow("moved")
    notebook.wait_for_end(10)
    notebook.theme("JupyterLab Light")  # the lab keeps the theme for later tests
    assert notebook.complaints == []
    assert camera.taken == {file.name for file in _IMAGES.glob("view-*.png")}
    notebook.close()
