"""The HTML page with the results of scenarios.

The page has a table of scenarios by setup. It is one file without references to others. JavaScript
only adds the filters. The address selects a session (``#session:…``), so it can be bookmarked, and
the browser's Back button works.

The text in a session may come from somebody else; Jinja2 escapes everything that a template does
not write itself. The Content-Security-Policy of the page runs only the script of this
package, and loads nothing.
"""

from __future__ import annotations

import base64
import hashlib
import platform
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from subscriber import __version__
from subscriber.base.errors import UsageError
from subscriber.base.html_templates import html_templates, package_file, style_sheet
from subscriber.testing.library import FAILURES, ExpectedFailures, Verdict, expected_key
from subscriber.testing.run_session import Exchange, Result
from subscriber.testing.session.session_file import Scenario, SessionStatement
from subscriber.testing.side_by_side import LineMark, PairedLine, side_by_side
from subscriber.testing.stage import Setup, is_publisher

if TYPE_CHECKING:
    from jinja2 import Environment


def write_report(path: Path, judged: Sequence[tuple[Result, Verdict]], expected: ExpectedFailures) -> None:
    """Write the page of a run to ``path``, whose folder must exist."""
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
    entries = entries_of(judged)
    setups = tuple(dict.fromkeys(entry.result.setup for entry in entries))
    rows = rows_of(entries)
    following = next_failures([entry for row in rows for entry in row])
    style = style_sheet("subscriber.testing", "report.css").decode()
    script = package_file("subscriber.testing", "report.js").decode()
    return (
        _templates()
        .get_template("report.html")
        .render(
            entries=entries,
            rows=rows,
            setups=setups,
            following=following,
            expected=expected,
            made=made,
            policy=_policy(script),
            style=style,
            script=script,
        )
    )


def _policy(script: str) -> str:
    """A Content-Security-Policy that allows only this script, and loads nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


_SIGNS: Final[Mapping[Verdict, str]] = {
    "passed": "✓",
    "failed": "✗",
    "skipped": "○",
    "failed as expected": "≈",
    "passed unexpectedly": "!",
}
_WORST_FIRST: Final[tuple[Verdict, ...]] = (
    "failed",
    "passed unexpectedly",
    "failed as expected",
    "skipped",
    "passed",
)


@dataclass(frozen=True, slots=True)
class PageEntry:
    """One result, its anchor on the page, and that of its row in the table."""

    result: Result
    verdict: Verdict
    anchor: str
    row: str


def entries_of(judged: Iterable[tuple[Result, Verdict]]) -> list[PageEntry]:
    anchors: Counter[str] = Counter()

    def anchor(*words: str) -> str:
        name = ":".join(re.sub(r"[^\w.-]+", "-", word) for word in words)
        anchors[name] += 1
        # Two folders may contain scenarios with the same name.
        return name if anchors[name] == 1 else f"{name}:{anchors[name]}"

    rows: dict[Scenario, str] = {}
    entries = []
    for result, verdict in judged:
        scenario, setup = result.scenario, result.setup
        if scenario not in rows:
            rows[scenario] = anchor("scenario", scenario.name)
        place = anchor("session", scenario.name, *_words_of(setup))
        entries.append(PageEntry(result, verdict, place, rows[scenario]))
    return entries


def _words_of(setup: Setup) -> tuple[str, ...]:
    emulated = ("emulated",) if setup.publications == "emulated" else ()
    return setup.subscriber_name, str(setup.major), *emulated


def rows_of(entries: Iterable[PageEntry]) -> list[list[PageEntry]]:
    """The entries of each scenario, sorted by its name: scenarios may have run in any order."""
    rows: defaultdict[str, list[PageEntry]] = defaultdict(list)
    for entry in entries:
        rows[entry.row].append(entry)
    return sorted(rows.values(), key=lambda row: (row[0].result.scenario.name, row[0].row))


def next_failures(in_order: Sequence[PageEntry]) -> dict[str, PageEntry]:
    """The next failure in the table, after the last one the first, for every anchor but its own."""
    following = next((entry for entry in in_order if entry.verdict in FAILURES), None)
    found = {}
    for entry in reversed(in_order):
        if following is not None and following is not entry:
            found[entry.anchor] = following
        if entry.verdict in FAILURES:
            following = entry
    return found


def counts_of(entries: Iterable[PageEntry]) -> list[tuple[Verdict, int]]:
    """The number of results with each verdict, worst verdict first, without zeros."""
    counter = Counter(entry.verdict for entry in entries)
    return [(verdict, counter[verdict]) for verdict in _WORST_FIRST if counter[verdict]]


def in_words(entries: Iterable[PageEntry]) -> str:
    return ", ".join(f"{number} {verdict}" for verdict, number in counts_of(entries)) or "nothing was run"


def class_of(verdict: Verdict) -> str:
    return verdict.replace(" ", "-")


_STATES: Final = {"differs": "differs", "broken": "did not end", "unreached": "not run", "agrees": ""}
"""State of a statement → the text that is shown for it."""


def groups_of(setups: Sequence[Setup]) -> list[tuple[str, int]]:
    """The subscribers, each with the number of its columns."""
    return [(name, len(list(those))) for name, those in groupby(setups, key=attrgetter("subscriber_name"))]


def failures_of(entries: Iterable[PageEntry]) -> int:
    return sum(entry.verdict in FAILURES for entry in entries)


def exchanges_of(entry: PageEntry) -> Sequence[Exchange]:
    """What was done, or what would have been."""
    return entry.result.exchanges or tuple(map(Exchange, entry.result.scenario.statements))


def state_of(exchange: Exchange) -> str:
    if exchange.error:
        return "broken"
    if exchange.printed is None:
        return "unreached"
    return "differs" if exchange.failed else "agrees"


def typed(statement: SessionStatement) -> list[tuple[str, str]]:
    """The lines that were typed, after prompts as psql shows them."""
    node = f"{statement.node}/{statement.session}" if statement.session else statement.node
    lines = enumerate(statement.text.split("\n"))
    return [(f"{node}{'-' if number else '='}# ", line) for number, line in lines]


# Side by side -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownLines:
    """Lines that share an element: ``differs`` is the part of a changed line that differs."""

    kind: str
    before: str
    differs: str = ""
    after: str = ""


# Most statements print the same in every setup, and the results of one scenario are consecutive.
@lru_cache(maxsize=1000)
def sides(statement: SessionStatement, printed: str | None) -> tuple[tuple[ShownLines, ...], ...]:
    """The expected and the printed side; nothing if both are empty."""
    pairs = side_by_side(statement, printed)
    return tuple(tuple(_side([pair[which] for pair in pairs])) for which in (0, 1)) if pairs else ()


def _side(lines: Sequence[PairedLine | None]) -> Iterator[ShownLines]:
    """One side. Many consecutive lines have no marks, so they share an element."""
    for mark, run in groupby(lines, key=lambda line: line.mark if line else None):
        if mark in (None, LineMark.AGREES, LineMark.ASIDE):
            # A blank keeps the height of a line that only the other side has.
            text = "\n".join([line.text if line else " " for line in run])
            yield ShownLines("aside" if mark is LineMark.ASIDE else "", text)
        else:
            yield from (_marked(line) for line in run if line is not None)


def _marked(line: PairedLine) -> ShownLines:
    before, differs, after = line.text[: line.start], line.text[line.start : line.stop], line.text[line.stop :]
    return ShownLines(line.mark.value, before, differs, after) if differs else ShownLines(line.mark.value, line.text)


@lru_cache(maxsize=1)
def _templates() -> Environment:
    made = html_templates(__package__, {"class": class_of, "words": in_words})
    functions = (counts_of, groups_of, failures_of, exchanges_of, state_of, typed, sides, expected_key, is_publisher)
    made.globals |= {function.__name__: function for function in functions}
    made.globals |= {"signs": _SIGNS, "states": _STATES, "failed": FAILURES}
    return made
