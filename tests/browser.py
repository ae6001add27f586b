"""Headless Chromium for tests that open a page, press buttons and read what is shown."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from subscriber.errors import UsageError

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_SECONDS: Final = 120
"""Seconds to wait for a page; opening a page takes about three."""
_CONSOLE: Final = re.compile(r"CONSOLE[:(]\d+\)?\] (.*)")

_STEPS_PAGE: Final = """<!doctype html><meta charset="utf-8"><style>iframe {{ border: 0 }}</style>
<iframe src="{page}" width="1280" height="{height}"></iframe><pre></pre>
<script>
addEventListener("load", async () => {{
  const window = document.querySelector("iframe").contentWindow;
  const answer = document.querySelector("pre");
  const steps = async (document, seen) => {{ {steps} }};
  const seen = {{}};
  try {{ await steps(window.document, seen); }} catch (error) {{ seen.error = String(error); }}
  answer.textContent = JSON.stringify(seen);
}});
</script>"""


class Browser:
    """Chromium on this machine. Each page is opened by a separate process.

    Raises:
        UsageError: there is none.
    """

    def __init__(self) -> None:
        found = next(filter(None, map(shutil.which, _NAMES)), None)
        if found is None:
            raise UsageError("no Chromium was found on this machine", hint="Install chromium.")
        self._program = found

    def screenshot(self, url: str, picture: Path) -> None:
        """A picture of the visible part of a page in a window of 1280 by 800 pixels."""
        self._run([f"--screenshot={picture}", "--window-size=1280,800", url])

    def open(self, url: str) -> tuple[str, list[str]]:
        """The elements of a page after it was loaded, and the messages of its console."""
        ended = self._run(["--dump-dom", url])
        return ended.stdout, _CONSOLE.findall(ended.stderr)

    def look(
        self, page: Path, steps: str, *, dark: bool = False, height: int = 800
    ) -> tuple[dict[str, Any], list[str]]:
        """What ``steps`` finds on a page, and the messages of its console.

        Args:
            page: a file.
            steps: JavaScript that examines the page. It has ``window`` and ``document`` of the
                page, and ``seen``, an object for what it finds.
            dark: whether the user prefers dark pages.
            height: the height of the window, which is 1280 pixels wide.
        """
        with tempfile.TemporaryDirectory() as folder:
            beside = Path(folder) / "steps.html"
            beside.write_text(_STEPS_PAGE.format(page=page.as_uri(), height=height, steps=steps))
            # Without this option, Chromium treats local files as different origins.
            options = [
                "--allow-file-access-from-files",
                "--virtual-time-budget=20000",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            ]
            ended = self._run([*options, "--dump-dom", beside.as_uri()])
        answer = re.search(r"<pre>(.*)</pre>", ended.stdout, re.DOTALL)
        assert answer is not None, ended.stderr
        seen: dict[str, Any] = json.loads(html.unescape(answer[1]))
        assert "error" not in seen, seen["error"]
        return seen, _CONSOLE.findall(ended.stderr)

    def _run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as profile:
            return subprocess.run(
                [
                    self._program,
                    "--headless=new",
                    "--no-sandbox",  # root cannot use the sandbox
                    "--disable-gpu",
                    "--disable-dev-shm-usage",  # /dev/shm is small in a container
                    "--hide-scrollbars",
                    "--enable-logging=stderr",
                    f"--user-data-dir={profile}",
                    *arguments,
                ],
                capture_output=True,
                text=True,
                check=True,
                timeout=_SECONDS,
            )
