"""Latency of a view in a JupyterLab: from the message that shows it to the end of its first frame.

The kernel is warm: it has shown such a view before. Time is taken in the page, from the arrival of
the cell's output (``display_data`` or ``execute_result``) to the end of the first frame in
which the view has its content: a sentence, boxes, a card, a table. The first view of a page
brings the code of the layouts along; the transfers of that code are counted. With ``--browser``
and a Chromium; without these, only the sizes of the page's downloads are printed.

Run: ``python -m tests.bench.first_paint --browser``.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.bench.harness import arguments

if TYPE_CHECKING:
    from tests.browser.lab import Lab

#: by the name of a view: the expression that shows it, and the selector of its content
VIEWS: Final = {
    "dashboard": ("look", ".ef-graph-view[data-boxes] .ef-box"),
    "graph": ("ef.show(train)", ".ef-graph-view[data-boxes] .ef-box"),
    "queue": ("ef.show(letters)", ".ef-queues [data-queue]"),
    "variable": ("ef.show(weight)", ".ef-object h4"),
}
_SETUP: Final = """
letters = ef.Queue(4, "f32[]", name="letters")
weight = net.layers[0].weight
look = ef.dashboard()
for _ in range(50):
    _ = train(x, y)
"""
#: records the arrival of outputs, and the number of transfers of the layouts' code
_LISTEN: Final = """() => {
  window.paint = {at: 0, layouts: 0};
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  kernel.iopubMessage.connect((_, message) => {
    const type = message.header.msg_type;
    if (type === 'display_data' || type === 'execute_result') window.paint.at = performance.now();
    const content = message.content?.data?.content;
    if (type === 'comm_msg' && content?.asset === 'layout') window.paint.layouts += 1;
  });
}"""
#: milliseconds from the output of a cell to the end of the frame in which its content appears
_PAINTED: Final = """([cell, selector]) => new Promise((resolve) => {
  window.paint.at = 0;
  const output = document.querySelectorAll('.jp-Notebook .jp-Cell')[cell];
  const look = () => {
    if (!window.paint.at || !output.querySelector('.jp-OutputArea-output .ef-root ' + selector)) {
      requestAnimationFrame(look);
    } else {
      const frame = new MessageChannel();
      frame.port1.onmessage = () => resolve(performance.now() - window.paint.at);
      requestAnimationFrame(() => frame.port2.postMessage(null));
    }
  };
  const notebook = window.jupyterapp.shell.currentWidget.content;
  window.jupyterapp.commands.execute('notebook:clear-cell-output').then(() => {
    window.jupyterapp.commands.execute('notebook:run-cell');
    requestAnimationFrame(look);
  });
  notebook.activate();
})"""
_CHOOSE: Final = (
    "i => { const n = window.jupyterapp.shell.currentWidget.content;"
    " n.activeCellIndex = i; n.deselectAll(); }"
)


def sizes() -> dict[str, int]:
    """Bytes that a page gets: code and style of each view, and the layouts once per page."""
    static = resources.files("eagerflow_widgets") / "static"
    read = {name: len((static / name).read_bytes()) for name in ("index.js", "index.css")}
    return {"a view": sum(read.values()), "layouts": len((static / "layout.js").read_bytes())}


def first_paints(lab: Lab, browser: Any, rounds: int) -> tuple[dict[str, list[float]], int]:
    """Milliseconds of each view, alternately, and the number of transfers of the layouts."""
    from tests.browser.shared_notebook import SETUP

    times: dict[str, list[float]] = {name: [] for name in VIEWS}
    cells = [SETUP + _SETUP, *[source for source, _ in VIEWS.values()]]
    notebook = lab.open(browser, "paint", cells, is_first=True)
    notebook.page.evaluate(_LISTEN)
    notebook.run(0)
    for _ in range(rounds):
        for cell, (name, (_, selector)) in enumerate(VIEWS.items(), 1):
            notebook.page.evaluate(_CHOOSE, cell)
            times[name].append(float(notebook.page.evaluate(_PAINTED, [cell, selector])))
            notebook.wait_for_end(cell)
    layouts = int(notebook.page.evaluate("() => window.paint.layouts"))
    notebook.close()
    return times, layouts


def _in_a_lab(rounds: int) -> tuple[dict[str, list[float]], int]:
    """`first_paints` in a JupyterLab and a browser of its own."""
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import FLAGS
    from tests.browser.lab import Lab, chromium

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        lab = Lab(Path(folder))
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        try:
            return first_paints(lab, browser, rounds)
        finally:
            browser.close()
            lab.close()


def main() -> None:
    parser = arguments("First frames of views")
    parser.add_argument("--browser", action="store_true", help="the page as well")
    parser.add_argument("--times", type=int, default=8, help="how often each view is shown")
    options = parser.parse_args()
    figures: dict[str, Any] = {"bytes": sizes()}
    print("| of a page | bytes |")
    print("|---|---|")
    for part, size in sizes().items():
        print(f"| {part} | {size:,} |")
    if options.browser:
        times, layouts = _in_a_lab(options.times)
        print(f"\nthe layouts were sent {layouts} times\n")
        print("| view | first time of the page, ms | median of the others | longest of them |")
        print("|---|---|---|---|")
        for name, (first, *others) in times.items():
            middle, longest = statistics.median(others), max(others)
            print(f"| {name} | {first:.0f} | {middle:.0f} | {longest:.0f} |")
        figures |= {"milliseconds": times, "layouts": layouts}
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
