"""A cluster in a real JupyterLab: lanes of tasks, transfers, and a task that is lost."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.lab import Lab, Notebook, settle
from tests.browser.shared_notebook import tab

pytestmark = pytest.mark.browser

#: folder for pictures of the documentation
_FOLDER = os.environ.get("EAGERFLOW_SCREENSHOTS")
SETUP = """
import os, pathlib, signal, time
import eagerflow as ef

cluster = ef.cluster.local({"ps": 1, "worker": 2})
with ef.device("ps:0"):
    w = ef.Variable(ef.zeros((64, 8)), name="w")

@ef.trace
def train(x):
    gradients = []
    for worker in ("worker:0", "worker:1"):
        with ef.device(worker), ef.name_scope(worker.replace(":", "_")):
            mine = x.to(worker)
            wrong = ef.tanh(mine @ w.to(worker)) - 0.5
            gradients.append((mine.T @ wrong).to("ps:0"))
    w.assign_sub(0.001 * (gradients[0] + gradients[1]))

x = ef.random.normal((256, 64))
train(x)
"""
TRAIN = """
def wait_for(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.01)

while not pathlib.Path("kill").exists():
    train(x)
    time.sleep(0.01)
os.kill(cluster.tasks["worker:1"].pid, signal.SIGKILL)
try:
    while True:
        train(x)
except ef.errors.TaskLost:
    print("lost")
wait_for("restart")
cluster.restart("worker:1")
while not pathlib.Path("stop").exists():
    train(x)
    time.sleep(0.01)
cluster.close()
"""
CELLS = [SETUP, "look = ef.dashboard()\nlook", TRAIN]
LANES = ("ps:0/cpu:0", "worker:0/cpu:0", "worker:1/cpu:0")


def picture(notebook: Notebook, view: Locator, what: str) -> None:
    """Save a picture of a view in both themes, if a folder is set."""
    if _FOLDER is None:
        return
    for theme in ("Dark", "Light"):
        notebook.theme(f"JupyterLab {theme}")
        settle(view)
        (Path(_FOLDER) / f"tasks-{what}-{theme.lower()}.png").write_bytes(view.screenshot())


def test_lanes_of_tasks_and_a_task_that_is_lost(lab: Lab, browser: Browser) -> None:
    notebook = lab.open(browser, "cluster", CELLS, device_scale_factor=1.25)
    notebook.run(0, 1)
    dashboard = notebook.view(1)
    sentence = dashboard.locator(".ef-sentence")
    notebook.start(2)
    expect(dashboard.locator(".ef-graph-view")).to_have_attribute("data-layout", "graphviz")
    panel = tab(dashboard, "timeline")
    lanes = panel.locator(".ef-lanes canvas")
    for lane in (*LANES, "main thread"):
        expect(lanes).to_have_attribute("data-lanes", re.compile(lane))
    panel.get_by_role("button", name="last step").click()
    expect(lanes).to_have_attribute("data-moves", re.compile(" "))  # one in each direction
    picture(notebook, dashboard, "step")
    panel.get_by_role("button", name="follow").click()
    for _ in range(10):
        panel.get_by_role("button", name="zoom out").click()

    notebook.allow("kill")
    expect(sentence).to_contain_text("worker:1 is lost")
    expect(dashboard.locator(".ef-faults")).to_contain_text("its values are gone")
    expect(lanes).to_have_attribute("data-away", "worker:1/cpu:0 lost")
    assert "worker:1/cpu:0 lost" in str(lanes.get_attribute("aria-label"))
    picture(notebook, dashboard, "lost")
    graph = tab(dashboard, "graph")
    expect(graph.locator(".ef-box.ef-lost .ef-badge")).to_have_text("lost")
    expect(graph.locator(".ef-legend .ef-lost")).to_have_text("worker:1/cpu:0 (lost)")
    expect(graph.locator(".ef-details")).to_contain_text("ps:0 → worker:0")
    picture(notebook, dashboard, "graph")

    notebook.allow("restart")
    expect(sentence).not_to_contain_text("is lost")
    expect(graph.locator(".ef-lost")).to_have_count(0)
    tab(dashboard, "timeline")
    expect(lanes).to_have_attribute("data-away", "")
    notebook.allow("stop")
    notebook.wait_for_end(2)
    assert "[worker:1] is lost" in notebook.printed(2)
    assert notebook.complaints == []
    notebook.close()
