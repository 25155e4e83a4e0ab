"""One JupyterLab and one browser, shared by all tests of views."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect, sync_playwright

from tests.browser.lab import PATIENCE, Lab, Notebook, chromium
from tests.browser.shared_notebook import AT, EARLY, open_shared

FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = Lab(tmp_path_factory.mktemp("lab"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield made
        made.close()


@pytest.fixture(scope="session")
def opened(lab: Lab, browser: Browser) -> Iterator[Notebook]:
    made = open_shared(lab, browser)
    yield made
    made.close()


@pytest.fixture
def notebook(opened: Notebook) -> Iterator[Notebook]:
    """The shared notebook; its page must log no errors."""
    yield opened
    assert [c for c in opened.complaints if not c.startswith(EARLY)] == []


@pytest.fixture
def graph(notebook: Notebook) -> Locator:
    """The view of the graph of `train`."""
    view = notebook.view(AT["graph"])
    expect(view.locator(".ef-graph-view")).to_have_attribute("data-layout", "graphviz")
    return view
