"""Time of views of large graphs: in the kernel, and in the page.

For a graph of 40,000 nodes: processor time until its view is made, bytes that are sent,
and, with ``--browser`` and a Chromium, the page's work to open it, to open scopes in it, and to
pan 1,000 boxes, according to the browser's own tracing: the time of threads, in which other
programs do not count.

Run: ``python -m tests.bench.views --browser``.
"""

from __future__ import annotations

import json
from time import process_time
from typing import Any

import eagerflow as ef
from eagerflow.watching.graph_columns import NodeIndex, encode_structure, pieces
from tests.bench.harness import arguments

_PARTS = ("attention/query", "attention/key", "attention/out", "mlp/up", "mlp/down")
_OPS = ("exp", "tanh", "negative", "sin", "cos")


def graph_of(blocks: int, each: int) -> ef.Graph:
    """A graph of blocks of chains, half of them consecutive, in scopes like a transformer's."""
    lines, last, made = ["graph large(%x: f32[64]) {"], "x", 0
    for block in range(blocks):
        start = last = "x" if block % 2 else last
        for i in range(each):
            made += 1
            call = f"add(%{last}, %{start})" if i % 7 == 3 else f"{_OPS[i % 5]}(%{last})"
            scope = f"net/block{block}/{_PARTS[i * 5 // each]}"
            lines.append(f'  %v{made} = {call} : f32[64] in "{scope}"')
            last = f"v{made}"
    return ef.Graph.parse("\n".join([*lines, f"  return %{last}", "}"]))


def in_kernel(graph: ef.Graph) -> bytes:
    """Print the kernel's cost of showing a graph; gives the data sent."""
    begin = process_time()
    view = ef.show(graph)
    shown = process_time()
    data = encode_structure(NodeIndex(graph))
    ready = process_time()
    size = sum(map(len, view._repr_mimebundle_().values()))
    print("| of a graph | figure |")
    print("|---|---|")
    print(f"| nodes | {len(graph.nodes):,} |")
    print(f"| `ef.show`, seconds of the processor | {shown - begin:.3f} |")
    print(f"| its structure, likewise | {ready - shown:.3f} |")
    print(f"| bytes of that, in {len(pieces(data))} pieces | {len(data):,} |")
    print(f"| characters of pictures | {size:,} |")
    return data


# --- the page ------------------------------------------------------------------------------------


class Tracing:
    """The work of a page's threads, by the browser's own tracing."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._session = page.context.new_cdp_session(page)
        self._events: list[dict[str, Any]] = []
        self._ended = False
        self._session.on("Tracing.dataCollected", lambda e: self._events.extend(e["value"]))
        self._session.on("Tracing.tracingComplete", self._end)

    def _end(self, event: Any) -> None:
        self._ended = True

    def __enter__(self) -> Tracing:
        self._events.clear()
        self._ended = False
        config = {"includedCategories": ["devtools.timeline", "toplevel", "blink"]}
        self._session.send("Tracing.start", {"transferMode": "ReportEvents", "traceConfig": config})
        return self

    def __exit__(self, *raised: object) -> None:
        self._session.send("Tracing.end")
        while not self._ended:
            self._page.wait_for_timeout(20)

    def tasks(self) -> dict[int, list[float]]:
        """For each thread with scripts the milliseconds of its tasks."""
        run = "ThreadControllerImpl::RunTask"
        threads = {e["tid"] for e in self._events if e["name"] in ("FunctionCall", "Layout")}
        tasks: dict[int, list[float]] = {thread: [] for thread in threads}
        for event in self._events:
            if event["name"] == run and event["tid"] in threads and "tdur" in event:
                tasks[event["tid"]].append(event["tdur"] / 1000)
        return tasks

    def milliseconds(self) -> float:
        """The total time of all threads."""
        return sum(map(sum, self.tasks().values()))

    def frames(self) -> tuple[int, float, float]:
        """The number of frames, and the mean and longest task of the busiest thread."""
        count = sum(e["name"] == "FireAnimationFrame" for e in self._events)
        busiest = max(self.tasks().values(), key=sum)
        return count, sum(busiest) / max(count, 1), max(busiest)


def open_page(browser: Any, data: bytes, limit: int) -> tuple[Any, Tracing]:
    """A page with the view of a graph."""
    from tests.browser.plain_page import plain_page, show

    page = plain_page(browser)
    tracing = Tracing(page)
    with tracing:
        show(page, {"kind": "graph", "limit": limit}, data)
        page.wait_for_selector('[data-layout="graphviz"]')
        page.wait_for_timeout(300)
    return page, tracing


def in_page(browser: Any, data: bytes) -> None:
    """Print the page's cost of opening a large graph, and scopes in it."""
    page, tracing = open_page(browser, data, 300)
    boxes = page.locator("[data-boxes]").get_attribute("data-boxes")
    print(f"| opened with {boxes} boxes, ms of the page | {tracing.milliseconds():.0f} |")
    for _ in range(4):
        before = page.locator("[data-boxes]").get_attribute("data-boxes")
        with tracing:
            page.evaluate(
                "() => { const all = [...document.querySelectorAll('.ef-closed')];"
                " const press = new MouseEvent('dblclick', {bubbles: true});"
                " all[all.length >> 1].dispatchEvent(press); }"
            )
            page.wait_for_selector(f'[data-boxes]:not([data-boxes="{before}"])')
            page.wait_for_timeout(300)
        after = page.locator("[data-boxes]").get_attribute("data-boxes")
        print(f"| a scope opened, {before} to {after} boxes, ms | {tracing.milliseconds():.0f} |")
    page.close()


def pan(browser: Any) -> None:
    """Print the cost of a frame while about 1,000 boxes are moved."""
    data = encode_structure(NodeIndex(graph_of(68, 15)))
    page, tracing = open_page(browser, data, 1100)
    page.get_by_role("button", name="open groups").click()
    page.wait_for_function("() => document.querySelector('[data-boxes]').dataset.boxes > 900")
    page.get_by_role("button", name="fit the whole").click()
    page.wait_for_timeout(500)
    box = page.locator(".ef-canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    with tracing:
        for i in range(60):
            page.mouse.move(x + 4 * (i % 25), y + 3 * (i % 16))
            page.wait_for_timeout(16)
    page.mouse.up()
    boxes = page.locator("[data-boxes]").get_attribute("data-boxes")
    frames, mean, longest = tracing.frames()
    print(
        f"pan of {boxes} boxes: {frames} frames, {mean:.1f} ms each, longest task {longest:.1f} ms"
    )
    page.close()


def main() -> None:
    parser = arguments("Views of large graphs")
    parser.add_argument("--browser", action="store_true", help="the page as well")
    options = parser.parse_args()
    data = in_kernel(graph_of(*((4, 50) if options.smallest else (200, 200))))
    if options.browser:
        from playwright.sync_api import sync_playwright

        from tests.browser.conftest import FLAGS
        from tests.browser.lab import chromium

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
            in_page(browser, data)
            pan(browser)
            browser.close()
    if options.json is not None:
        options.json.write_text(json.dumps({"bytes": len(data)}) + "\n")


if __name__ == "__main__":
    main()
