"""A served dashboard, and a browser that shows it: Playwright drives Debian's Chromium."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

from playwright.sync_api import expect, sync_playwright

from subscriber.base.errors import UsageError
from tests.dashboard_server import SCENES

ARGUMENTS: Final = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]


def chromium() -> str:
    found = shutil.which("chromium")
    if found is None:
        raise UsageError("no Chromium was found on this machine", hint="Install chromium.")
    return found


class Dashboard:
    """A served dashboard, whose scene can be changed, and a browser."""

    def __init__(self, browser: Any, server: subprocess.Popen[str]) -> None:
        assert server.stdout is not None
        self._browser = browser
        self._server = server
        self.address = f"http://127.0.0.1:{int(server.stdout.readline())}"
        self.said: list[str] = []

    def show(self, scene: str) -> None:
        assert scene in SCENES
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(f"{scene}\n")
        self._server.stdin.flush()
        assert self._server.stdout.readline() == "shown\n"

    def open(self, path: str = "/", **context: Any) -> Any:
        """A page in a window of its own; what the console says is in :attr:`said`."""
        self.said.clear()
        page = self._browser.new_context(**context).new_page()
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.goto(f"{self.address}{path}")
        if page.locator("body[data-events]").count():
            expect(page.locator("#connection")).to_have_text("live")
        return page

    def status(self, path: str) -> int:
        """The status with which a page is answered."""
        page = self._browser.new_page()
        try:
            return int(page.goto(f"{self.address}{path}").status)
        finally:
            page.close()


@contextlib.contextmanager
def open_dashboard(program: str) -> Iterator[Dashboard]:
    """The dashboard in the browser ``program``, as long as the block runs."""
    command = [sys.executable, "-m", "tests.dashboard_server"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield Dashboard(browser, server)
        browser.close()
        assert server.stdin is not None
        server.stdin.close()
