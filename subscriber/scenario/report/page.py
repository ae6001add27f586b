"""The HTML page with the results of scenarios.

The page has a table of scenarios by setup. Each cell of the table is a link to the session, with
expected and actual lines side by side. The page is one file without references to other files, so
it can be kept, sent and opened everywhere. It shows everything without JavaScript, which only adds
the filters. A session is a section that the address selects (``#session:…``), so it can be
bookmarked, and the browser's Back button works.

The text in a session may come from somebody else. `subscriber.scenario.report.markup` escapes
everything that is not markup. The Content-Security-Policy of the page runs only the script of this
package, and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from subscriber import __version__
from subscriber.errors import UsageError
from subscriber.scenario.expected_failures import ExpectedFailures, Verdict
from subscriber.scenario.report.entries import entries_of, in_words, next_failures, rows_of
from subscriber.scenario.report.markup import Html, element, void
from subscriber.scenario.report.overview import overview
from subscriber.scenario.report.session_section import session_section
from subscriber.scenario.run_session import Result


def write_report(path: Path, judged: Sequence[tuple[Result, Verdict]], expected: ExpectedFailures) -> None:
    """Write the page to ``path``. An existing file is replaced.

    Args:
        path: the file. Its folder must exist.
        judged: every result of a run with its verdict.
        expected: why some of the scenarios were expected to fail.

    Raises:
        UsageError: the file cannot be written.
    """
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    programs = [f"subscriber {__version__}", *[f"{name} {version(name)}" for name in ("pyspark", "sqlglot")]]
    page = report_page(judged, expected, ", ".join([made, *programs, f"Python {platform.python_version()}"]))
    try:
        # A character reference can represent half of a surrogate pair, which UTF-8 cannot.
        path.write_text(page, encoding="utf-8", errors="xmlcharrefreplace")
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {path}: {error.strerror}", hint="Name a file in a folder that exists."
        ) from error


def report_page(judged: Sequence[tuple[Result, Verdict]], expected: ExpectedFailures, made: str) -> str:
    """The text of the page.

    Args:
        judged: see :func:`write_report`.
        expected: see :func:`write_report`.
        made: the time, and the programs and their versions, as words.
    """
    entries = entries_of(judged)
    setups = tuple(dict.fromkeys(entry.result.setup for entry in entries))
    rows = rows_of(entries)
    following = next_failures([entry for row in rows for entry in row])
    sessions = [session_section(entry, row, expected, following.get(entry.anchor)) for row in rows for entry in row]
    style, script = _resource("report.css"), _resource("report.js")
    return "<!doctype html>\n" + element(
        "html",
        element(
            "head",
            void("meta", charset="utf-8"),
            void("meta", name="viewport", content="width=device-width, initial-scale=1"),
            void("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
            element("title", f"Scenarios: {in_words(entries)}"),
            element("style", style),
        ),
        element("body", overview(entries, rows, setups, made), *sessions, element("script", script)),
        lang="en",
    )


def _resource(name: str) -> Html:
    return Html(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _policy(script: str) -> str:
    """A Content-Security-Policy that allows only this script, and loads nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
