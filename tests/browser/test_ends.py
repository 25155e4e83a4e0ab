"""States of a view when its page is loaded anew, its kernel restarts, or it is closed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lab import Lab
from tests.browser.shared_notebook import NUMPY, SETUP

pytestmark = pytest.mark.browser


def test_a_reload_a_restart_and_an_end_leave_sane_states(lab: Lab, browser: Browser) -> None:
    ended = (
        "import threading\nfrom eagerflow.watching import shared\nlook.close()\ntime.sleep(0.5)\n"
        "print(shared.is_open, [t.name for t in threading.enumerate() if 'eagerflow' in t.name])"
    )
    cells = [SETUP, "look = ef.dashboard()\nlook", NUMPY, ended]
    notebook = lab.open(browser, "ends", cells, reduced_motion="reduce", color_scheme="dark")
    view = notebook.view(1)
    notebook.run(0, 1)
    expect(view).to_have_attribute("data-status", "live")
    notebook.save()
    notebook.go()
    expect(view).to_have_attribute("data-status", "live")
    notebook.run(2)
    expect(view.locator(".ef-sentence")).to_contain_text("step ")
    notebook.restart()
    expect(view).to_have_attribute("data-status", "lost")
    expect(view.locator(".ef-state")).to_contain_text("The kernel is gone")
    notebook.run(0, 1)
    expect(view).to_have_attribute("data-status", "live")
    notebook.run(3)
    assert notebook.printed(3) == "False []\n"
    # Jupyter's own message about comms that the reloaded page does not know yet
    assert [c for c in notebook.complaints if not c.startswith("Comm not found")] == []
    notebook.close()
