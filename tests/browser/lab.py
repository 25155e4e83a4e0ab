"""A JupyterLab for tests, and notebooks in it seen through a browser."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, ViewportSize

from tests.source_tree import ROOT

#: milliseconds that an action on a page may take: other processes may be using the processor
PATIENCE = 60_000
#: the size of a page
SIZE: ViewportSize = {"width": 1240, "height": 1000}
#: settings of the lab: no news, and no windowing of cells, which would detach views
_OVERRIDES = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
}
#: parts of console errors that are no fault of ours
_HARMLESS = ("favicon", "WebSocket", "net::ERR_", "the server responded with a status of 404")


def chromium() -> str | None:
    """The path of a Chromium of the system; None if there is none, for Playwright's own."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Lab:
    """JupyterLab on a port of this machine, with folders of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        settings = folder / "settings"
        settings.mkdir()
        (settings / "overrides.json").write_text(json.dumps(_OVERRIDES))
        (folder / "notebooks").mkdir()
        path = os.pathsep.join(str(ROOT / part) for part in (".", "kernels", "widgets"))
        environment = {
            **os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1",
            **{f"JUPYTER_{kind}_DIR": str(folder / kind) for kind in ("CONFIG", "DATA", "RUNTIME")},
            "IPYTHONDIR": str(folder / "ipython"),
        }  # fmt: skip
        self.log = (folder / "lab.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1",
             f"--port={self.port}", "--ServerApp.port_retries=0", "--IdentityProvider.token=",
             "--ServerApp.disable_check_xsrf=True", "--LabApp.expose_app_in_browser=True",
             f"--LabApp.app_settings_dir={settings}",
             f"--LabApp.extra_labextensions_path={ROOT / 'widgets' / 'labextensions'}",
             f"--ServerApp.root_dir={folder / 'notebooks'}"],
            env=environment, stdout=self.log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        #: pages without a notebook, by the options of their contexts
        self._free: dict[tuple[tuple[str, Any], ...], list[Page]] = {}

    def wait(self) -> None:
        """Wait until the server answers."""
        end = monotonic() + 180
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api", timeout=5).close()
                return
            except (urllib.error.URLError, ConnectionError):
                if monotonic() > end or self.process.poll() is not None:
                    raise RuntimeError((self.folder / "lab.log").read_text()[-3000:]) from None
                sleep(0.1)  # the server does not report when it listens

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()

    def open(
        self, browser: Browser, name: str, cells: Sequence[str], *, is_first: bool = False,
        viewport: ViewportSize = SIZE, **context: Any,
    ) -> Notebook:  # fmt: skip
        """Open a new notebook, in a page that an earlier notebook has left if there is one.

        To load the lab takes longer than to open a notebook in it.

        Args:
            browser: the browser.
            name: the name of the notebook, which no other has.
            cells: its cells.
            is_first: whether the page must have shown no notebook before.
            viewport: the size of the page.
            context: options of the page's context.
        """
        write_notebook(self.folder / "notebooks" / f"{name}.ipynb", cells)
        free = self._free.setdefault(tuple(sorted(context.items())), [])
        if free and not is_first:
            page = free.pop()
            page.set_viewport_size(viewport)
        else:
            self.wait()
            page = browser.new_context(viewport=viewport, **context).new_page()
        return Notebook(self, page, name, free)


def settle(view: Locator) -> None:
    """Wait until requested frames are drawn and animations have ended."""
    view.evaluate(
        "e => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() =>"
        " Promise.allSettled(e.getAnimations({subtree: true}).map(a => a.finished))"
        ".then(() => done()))))"
    )


def write_notebook(file: Path, cells: Sequence[str]) -> None:
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = [
        {"cell_type": "code", "id": f"cell{i}", "metadata": {}, "execution_count": None,
         "outputs": [], "source": source}
        for i, source in enumerate(cells)
    ]  # fmt: skip
    text = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    file.write_text(json.dumps(text))


class Notebook:
    """A notebook in a page of a browser.

    Args:
        lab: the lab that has it.
        page: a page, empty or with the lab.
        name: its name.
        free: gets the page once the notebook is closed.
    """

    def __init__(self, lab: Lab, page: Page, name: str, free: list[Page]) -> None:
        self.lab, self.page, self.name, self._free = lab, page, name, free
        #: errors that the page has logged
        self.complaints: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", self._hear_error)
        page.set_default_timeout(PATIENCE)
        if page.evaluate("() => 'jupyterapp' in window"):
            self.page.evaluate(
                "path => { window.jupyterapp.commands.execute('docmanager:open', {path}); }",
                f"{name}.ipynb",
            )
            self._wait_for_kernel()
        else:
            self.go()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self._hear_error(message.text)

    def _hear_error(self, error: object) -> None:
        text = str(error)
        if not any(word in text for word in _HARMLESS):
            self.complaints.append(text)

    def go(self) -> None:
        """Open or reload the page."""
        where = f"lab/workspaces/{self.name}/tree/{self.name}.ipynb?reset"
        self.page.goto(f"http://127.0.0.1:{self.lab.port}/{where}", timeout=2 * PATIENCE)
        self._wait_for_kernel()

    def _wait_for_kernel(self) -> None:
        self.page.wait_for_function(
            "path => { const current = window.jupyterapp?.shell.currentWidget;"
            " return current?.context?.path === path"
            " && current.sessionContext?.session?.kernel?.status === 'idle'; }",
            arg=f"{self.name}.ipynb", timeout=3 * PATIENCE,
        )  # fmt: skip

    def command(self, command: str) -> None:
        """Start a command of the lab, without waiting for its end."""
        self.page.evaluate("c => { window.jupyterapp.commands.execute(c); }", command)

    def start(self, cell: int) -> None:
        """Run a cell, without waiting for its end."""
        self.page.evaluate(
            "i => { const n = window.jupyterapp.shell.currentWidget.content;"
            " n.activeCellIndex = i; n.deselectAll();"
            " window.jupyterapp.commands.execute('notebook:run-cell'); }", cell,
        )  # fmt: skip

    def run(self, *cells: int) -> None:
        """Run cells, and wait for their end."""
        for cell in cells:
            self.start(cell)
            self.wait_for_end(cell)

    def wait_for_end(self, cell: int) -> None:
        prompt = self.cell(cell).locator(".jp-InputPrompt")
        self.page.wait_for_function(
            r"e => /\[\d+\]/.test(e.textContent)", arg=prompt.element_handle(), timeout=3 * PATIENCE
        )
        error = self.cell(cell).locator('[data-mime-type="application/vnd.jupyter.error"]')
        assert error.count() == 0, error.first.inner_text()

    def allow(self, gate: str) -> None:
        """Release code that waits for a file of that name."""
        (self.lab.folder / "notebooks" / gate).touch()

    def wait_for_file(self, name: str) -> None:
        """Wait for a file that a cell writes, where the page does not show the end of the cell."""
        file = self.lab.folder / "notebooks" / name
        end = monotonic() + PATIENCE / 1000
        while not file.exists():
            assert monotonic() < end, f"no cell has written {name}"
            sleep(0.05)  # no notification of new files

    def save(self) -> None:
        self.command("docmanager:save")
        current = "window.jupyterapp.shell.currentWidget"
        self.page.wait_for_function(f"() => !{current}.context.model.dirty")

    def restart(self) -> None:
        current = "window.jupyterapp.shell.currentWidget"
        self.page.evaluate(f"() => {current}.sessionContext.session.kernel.restart()")

    def cell(self, number: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-Cell").nth(number)

    def printed(self, cell: int) -> str:
        texts = self.cell(cell).locator(".jp-OutputArea-output pre").all_text_contents()
        return "".join(texts)

    def view(self, cell: int) -> Locator:
        """The view in the output of a cell."""
        return self.cell(cell).locator(".ef-root")

    def theme(self, name: str) -> None:
        self.page.evaluate(
            "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})",
            name,
        )
        light = "true" if "Light" in name else "false"
        self.page.wait_for_selector(f'body[data-jp-theme-light="{light}"]', state="attached")
        # the splash screen meanwhile
        self.page.wait_for_selector("#jupyterlab-splash", state="detached")

    def close(self) -> None:
        """Shut down the kernel, whatever it does, and leave the page to another notebook."""
        self.page.remove_listener("console", self._hear)
        self.page.remove_listener("pageerror", self._hear_error)
        self.page.evaluate(
            "async () => { const current = window.jupyterapp.shell.currentWidget;"
            " await current.sessionContext.shutdown(); current.dispose(); }"
        )
        self._free.append(self.page)
