"""The code of docs/publisher-without-a-server.md runs and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "publisher-without-a-server.md"
_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_code_of_the_page_runs_and_prints_what_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = _BLOCK.findall(PAGE.read_text())
    assert [language for language, _ in blocks].count("text") >= 5
    namespace: dict[str, object] = {"__name__": "page"}
    printed = ""
    with contextlib.ExitStack() as stack:
        for language, block in blocks:
            if language == "text":
                assert printed == block
                continue
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block, str(PAGE), "exec"), namespace)
            printed = output.getvalue()
        stack.callback(namespace["subscription"].close)  # type: ignore[attr-defined]
        stack.callback(namespace["target"].close)  # type: ignore[attr-defined]
