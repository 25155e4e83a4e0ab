"""Pictures of runs with and without a fault, to test whether a reader finds the fault.

Each run is the training program in a kernel of its own, in a JupyterLab, with a dashboard. Each tab
is one picture. Folders have numbers only; the key to the planted faults is in another file.

Run: ``python -m tests.browser.fault_pictures --seed 1 --to pictures --key key.json``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.conftest import FLAGS
from tests.browser.lab import PATIENCE, Lab, chromium
from tests.browser.planted_faults import PLACES, Fault, drawn

#: the tabs that are pictured, by name
TABS: Final = ("graph", "timeline", "queues", "nodes")
#: most seconds for which a run goes on while pictures are taken
_LATER: Final = 400.0
SETUP: Final = """
import eagerflow as ef
from tests.browser.planted_faults import Fault
from tests.browser.training import Training

training = Training(Fault({kind!r}, {place}).plant())
"""


def take(lab: Lab, browser: Browser, fault: Fault, seconds: float, folder: Path) -> list[str]:
    """Run the program, and take the pictures; gives the errors that the page logged.

    Args:
        lab: the JupyterLab.
        browser: the browser that shows the notebook.
        fault: the fault to plant.
        seconds: running time before the first picture.
        folder: for the pictures.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cells = [SETUP.format(kind=fault.kind, place=fault.place), "look = ef.dashboard()\nlook",
             f"_ = training.run({seconds + _LATER})"]  # fmt: skip
    notebook = lab.open(
        browser, f"run{folder.name}", cells, viewport={"width": 1240, "height": 1100}
    )
    notebook.command("application:toggle-left-area")
    notebook.run(0, 1)
    view = notebook.view(1)
    notebook.start(2)
    expect(view.locator(".ef-sentence")).to_contain_text("step ", timeout=2 * PATIENCE)
    expect(view.locator(".ef-sentence")).not_to_contain_text("no step", timeout=2 * PATIENCE)
    notebook.page.wait_for_timeout(seconds * 1000)
    for number, name in enumerate(TABS, 1):
        view.locator(f'[data-tab="{name}"]').click()
        view.scroll_into_view_if_needed()
        notebook.page.wait_for_timeout(1200)  # animations have ended
        (folder / f"{number}-{name}.png").write_bytes(view.screenshot())
    complaints = notebook.complaints
    notebook.close()
    return complaints


def main() -> None:
    parser = argparse.ArgumentParser(description="Pictures of runs with faults")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--each", type=int, default=3, help="places of each kind")
    parser.add_argument("--healthy", type=int, default=2, help="runs without a fault")
    parser.add_argument("--seconds", type=float, default=26.0, help="of a run before its pictures")
    parser.add_argument("--to", type=Path, required=True, help="folder for the pictures")
    parser.add_argument("--key", type=Path, required=True, help="file for what was planted")
    parser.add_argument("--only", choices=["", *PLACES], help="one kind")
    parser.add_argument("--part", default="1/1", help="2/3: the second of three processes")
    options = parser.parse_args()
    faults = drawn(options.seed, options.each, options.healthy)
    faults = [f for f in faults if options.only is None or f.kind == options.only]
    options.key.parent.mkdir(parents=True, exist_ok=True)
    answers = {f"{n:02}": f._asdict() | {"answer": f.answer} for n, f in enumerate(faults, 1)}
    options.key.write_text(json.dumps(answers, indent=1) + "\n")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        lab = Lab(Path(folder))
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            part, parts = map(int, options.part.split("/"))
            for number, fault in list(enumerate(faults, 1))[part - 1 :: parts]:
                to = options.to / f"{number:02}"
                complaints = take(lab, browser, fault, options.seconds, to)
                print(f"{number:02}", *complaints, flush=True)
        finally:
            browser.close()
            lab.close()


if __name__ == "__main__":
    main()
