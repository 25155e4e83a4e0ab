"""A dashboard names the fault planted in a training program, and none in a healthy one."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.fault_pictures import SETUP
from tests.browser.lab import PATIENCE, Lab
from tests.browser.planted_faults import Fault

pytestmark = [pytest.mark.browser, pytest.mark.slow]  # costs of nodes come after many seconds

#: a fault of each kind, and the sentence that names it
READ = {
    Fault("slow op", 2): "tanh_1 in .*blocks.1 on cpu:1 takes",
    Fault("starving queue", 1): "^augmented runs empty: augment, which fills it",
    Fault("straggling device", 3): "^cpu:3 takes .* times as long as other devices",
    Fault("retrace per call", 2): "^smooth is retraced again and again",
    Fault("NaN", 2): "^NaN: rsqrt_2 in .*blocks.2/norm on cpu:2 makes NaN",
    Fault("deadlocked runner", 0): "^read is stuck: enqueue of 'read_audit' has waited",
    Fault(): "^Nothing stands out",
}


@pytest.mark.parametrize("fault", READ, ids=[fault.kind or "healthy" for fault in READ])
def test_the_dashboard_names_the_fault(lab: Lab, browser: Browser, fault: Fault) -> None:
    cells = [SETUP.format(kind=fault.kind, place=fault.place), "look = ef.dashboard()\nlook",
             "_ = training.run(300)"]  # fmt: skip
    notebook = lab.open(browser, f"fault-{fault.kind.replace(' ', '-') or 'none'}", cells)
    notebook.run(0, 1)
    view = notebook.view(1)
    notebook.start(2)
    if not fault.kind:  # no fault may be named even once costs of nodes are known
        expect(view.locator(".ef-details")).to_contain_text("slowest nodes", timeout=2 * PATIENCE)
    lines = view.locator(".ef-faults li")
    expect(lines.first).to_have_text(re.compile(READ[fault]), timeout=2 * PATIENCE)
    expect(lines).to_have_count(1)
    assert notebook.complaints == []
    notebook.close()
