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
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from importlib.resources import files
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final

from subscriber import __version__
from subscriber.errors import UsageError
from subscriber.scenario.expected_failures import FAILURES, ExpectedFailures, Verdict, expected_key
from subscriber.scenario.report.markup import Html, element, join, void
from subscriber.scenario.report.side_by_side import Line, Mark, side_by_side
from subscriber.scenario.run_session import Exchange, Result
from subscriber.scenario.session.session_file import Scenario, Statement
from subscriber.scenario.stage import Setup, is_publisher

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
_MANY: Final = 8
"""If there are more columns than this, they are narrow."""
_STATES: Final = {"differs": "differs", "broken": "did not end", "unreached": "not run", "agrees": ""}
"""State of a statement → the text that is shown for it."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """One result, and its place on the page."""

    result: Result
    verdict: Verdict
    anchor: str
    row: str
    """The anchor of the result's row in the table."""


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
    entries = _entries(judged)
    setups = tuple(dict.fromkeys(entry.result.setup for entry in entries))
    rows = _rows(entries)
    following = _next_failures([entry for row in rows for entry in row])
    sessions = [_session(entry, row, expected, following.get(entry.anchor)) for row in rows for entry in row]
    style, script = _resource("report.css"), _resource("report.js")
    return "<!doctype html>\n" + element(
        "html",
        element(
            "head",
            void("meta", charset="utf-8"),
            void("meta", name="viewport", content="width=device-width, initial-scale=1"),
            void("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
            element("title", f"Scenarios: {_in_words(entries)}"),
            element("style", style),
        ),
        element("body", _overview(entries, rows, setups, made), *sessions, element("script", script)),
        lang="en",
    )


# Entries ------------------------------------------------------------------------------------------


def _entries(judged: Iterable[tuple[Result, Verdict]]) -> list[_Entry]:
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
        entries.append(_Entry(result, verdict, place, rows[scenario]))
    return entries


def _words_of(setup: Setup) -> tuple[str, ...]:
    emulated = ("emulated",) if setup.publications == "emulated" else ()
    return setup.subscriber_name, str(setup.major), *emulated


def _rows(entries: Iterable[_Entry]) -> list[list[_Entry]]:
    """The entries of each scenario, sorted by its name: scenarios may have run in any order."""
    rows: defaultdict[str, list[_Entry]] = defaultdict(list)
    for entry in entries:
        rows[entry.row].append(entry)
    return sorted(rows.values(), key=lambda row: (row[0].result.scenario.name, row[0].row))


def _next_failures(in_order: Sequence[_Entry]) -> dict[str, _Entry]:
    """For every anchor, the next failure in the table. After the last failure comes the first
    failure.

    An entry has no next failure if that would be the entry itself.
    """
    following = next((entry for entry in in_order if entry.verdict in FAILURES), None)
    found = {}
    for entry in reversed(in_order):
        if following is not None and following is not entry:
            found[entry.anchor] = following
        if entry.verdict in FAILURES:
            following = entry
    return found


def _counts(entries: Iterable[_Entry]) -> list[tuple[Verdict, int]]:
    """The number of results with each verdict, worst verdict first, without zeros."""
    counter = Counter(entry.verdict for entry in entries)
    return [(verdict, counter[verdict]) for verdict in _WORST_FIRST if counter[verdict]]


def _in_words(entries: Iterable[_Entry]) -> str:
    return ", ".join(f"{number} {verdict}" for verdict, number in _counts(entries)) or "nothing was run"


# The overview -------------------------------------------------------------------------------------


def _overview(entries: Sequence[_Entry], rows: Sequence[Sequence[_Entry]], setups: Sequence[Setup], made: str) -> Html:
    counts = [
        element("li", _sign(verdict), element("b", str(number)), f" {verdict}", class_=f"verdict {_class(verdict)}")
        for verdict, number in _counts(entries)
    ]
    table = element(
        "table",
        element("caption", "Scenarios by setup", class_="spoken"),
        element("colgroup", void("col"), *[void("col", class_="setup")] * len(setups)),
        element("thead", *_headings(entries, setups)),
        element("tbody", *[_row(row, setups) for row in rows]),
        id="scenarios",
        class_="many" if len(setups) > _MANY else "",
        style=f"--columns: {len(setups)}",
    )
    return element(
        "main",
        element("h1", "Scenarios"),
        element("ul", *counts, class_="counts"),
        element("p", made, class_="made dim"),
        _FILTERS,
        table if rows else element("p", "Nothing was run.", class_="nothing"),
        class_="overview",
    )


_FILTERS: Final = element(
    "form",
    void("input", type="search", name="search", placeholder="Name or title", aria_label="Search by name or title"),
    element("label", void("input", type="checkbox", name="failures"), "Only failures"),
    element("output", name="shown", class_="dim"),
    id="filters",
    class_="filters",
    hidden=True,  # the script shows it, since it does not work without the script
)


def _headings(entries: Sequence[_Entry], setups: Sequence[Setup]) -> Iterator[Html]:
    """The subscribers, and below each subscriber its versions of PostgreSQL."""
    subscribers = [
        element("th", name, scope="colgroup", colspan=str(len(list(those))), title=name)
        for name, those in groupby(setups, key=attrgetter("subscriber_name"))
    ]
    yield element("tr", element("th", "Scenario", scope="col", rowspan="2"), *subscribers)
    product = "PG" if len(setups) > _MANY else "PostgreSQL"
    columns = [[entry for entry in entries if entry.result.setup == setup] for setup in setups]
    yield element("tr", *[_heading(setup, column, product) for setup, column in zip(setups, columns, strict=True)])


def _heading(setup: Setup, column: Sequence[_Entry], product: str) -> Html:
    failures = sum(entry.verdict in FAILURES for entry in column)
    summary = f"{failures or 'no'} failure{'' if failures == 1 else 's'}"
    return element(
        "th",
        element("small", f"{product} {setup.major}"),
        element("small", "emulated") if setup.publications == "emulated" else "",
        element("small", summary, class_="failed" if failures else ""),
        scope="col",
    )


def _row(row: Sequence[_Entry], setups: Sequence[Setup]) -> Html:
    scenario = row[0].result.scenario
    return element(
        "tr",
        element(
            "th",
            element("span", scenario.name, class_="name"),
            element("span", scenario.title, class_="dim"),
            scope="row",
        ),
        *[element("td", *[_cell(entry) for entry in row if entry.result.setup == setup]) for setup in setups],
        id=row[0].row,
        class_="bad" if any(entry.verdict in FAILURES for entry in row) else "",
    )


def _cell(entry: _Entry) -> Html:
    skipped = entry.verdict == "skipped"
    return element(
        "a",
        _sign(entry.verdict),
        element("span", f"{entry.verdict} ", class_="" if skipped else "spoken"),
        "" if skipped else join(f"{entry.result.seconds:.1f}", element("span", " s", class_="unit")),
        href=f"#{entry.anchor}",
        class_=_class(entry.verdict),
        title=f"{entry.verdict}: {entry.result.skipped}" if skipped else entry.verdict,
    )


def _sign(verdict: Verdict) -> Html:
    return element("span", _SIGNS[verdict], class_="mark", aria_hidden="true")


def _class(verdict: Verdict) -> str:
    return verdict.replace(" ", "-")


# A session ----------------------------------------------------------------------------------------


def _session(entry: _Entry, others: Sequence[_Entry], expected: ExpectedFailures, after: _Entry | None) -> Html:
    result = entry.result
    scenario = result.scenario
    heading = f"{entry.anchor}:heading"
    return element(
        "section",
        element(
            "header",
            element(
                "nav",
                element("a", "← All scenarios", href=f"#{entry.row}", class_="back"),
                element("a", "Next failure →", href=f"#{after.anchor}") if after else "",
            ),
            element("h1", element("span", scenario.name, class_="name dim"), " ", scenario.title, id=heading),
            element("ul", *[_other(other, current=other is entry) for other in others], class_="others"),
            *_reasons(entry, expected),
        ),
        *_statements(entry),
        id=entry.anchor,
        class_="session",
        tabindex="-1",
        aria_labelledby=heading,
    )


def _other(entry: _Entry, *, current: bool) -> Html:
    setup = entry.result.setup
    return element(
        "li",
        element(
            "a",
            _sign(entry.verdict),
            f"{setup}: {entry.verdict}",
            "" if entry.verdict == "skipped" else f", {entry.result.seconds:.1f} s",
            href=f"#{entry.anchor}",
            aria_current="page" if current else "",
            class_=f"verdict {_class(entry.verdict)}",
        ),
    )


def _reasons(entry: _Entry, expected: ExpectedFailures) -> Iterator[Html]:
    """The reasons for the verdict that are not visible at the statements."""
    result = entry.result
    known = expected.get(expected_key(result))
    if result.skipped:
        yield _reason("skipped", f"Skipped: {result.skipped}.")
    elif known is not None and entry.verdict == "failed as expected":
        yield _reason("failed-as-expected", f"Expected to fail {known.until}: {known.reason}")
    elif known is not None and entry.verdict == "passed unexpectedly":
        yield _reason(
            "passed-unexpectedly",
            f"Passed, although it was expected to fail {known.until}. Remove it from expected_failures.toml."
            f" The reason in the file: {known.reason}",
        )
    if result.failures:
        places = [_to_statement(entry, exchange, f"line {exchange.statement.line}") for exchange in result.failures]
        yield _reason(
            "failed", "Failed statements: ", *[join(", " if number else "", one) for number, one in enumerate(places)]
        )
    if result.leftover:
        yield _reason("failed", "The cleanup failed:", element("pre", result.leftover, class_="error"))


def _reason(kind: str, *inside: str) -> Html:
    return element("div", *inside, class_=f"why {kind}")


def _statements(entry: _Entry) -> Iterator[Html]:
    exchanges = entry.result.exchanges
    if exchanges:
        yield element("div", *[element("div", name) for name in ("Line", "Expected", "Actual")], class_="headings")
    for exchange in exchanges or map(Exchange, entry.result.scenario.statements):
        yield _statement(entry, exchange)


def _statement(entry: _Entry, exchange: Exchange) -> Html:
    state = _state(exchange)
    statement = exchange.statement
    return element(
        "article",
        element("div", _to_statement(entry, exchange, str(statement.line)), class_="line-number"),
        element(
            "div",
            element("div", element("pre", *_typed(statement)), element("span", _STATES[state]), class_="typed"),
            _sides(statement, exchange.printed),
            *[element("pre", text, class_="error") for text in (exchange.error, exchange.disagreement) if text],
            class_="box",
        ),
        id=_anchor(entry, exchange),
        class_=f"statement {state}",
    )


def _state(exchange: Exchange) -> str:
    if exchange.error:
        return "broken"
    if exchange.printed is None:
        return "unreached"
    return "differs" if exchange.failed else "agrees"


def _anchor(entry: _Entry, exchange: Exchange) -> str:
    return f"{entry.anchor}:line-{exchange.statement.line}"


def _to_statement(entry: _Entry, exchange: Exchange, text: str) -> Html:
    return element("a", text, href=f"#{_anchor(entry, exchange)}")


def _typed(statement: Statement) -> Iterator[str]:
    """What was typed, after prompts as psql shows them."""
    node = f"{statement.node}/{statement.session}" if statement.session else statement.node
    kind = "prompt publisher" if is_publisher(statement.node) else "prompt"
    for number, line in enumerate(statement.text.split("\n")):
        yield "\n" if number else ""
        yield element("span", f"{node}{'-' if number else '='}# ", class_=kind)
        yield line


# Side by side -------------------------------------------------------------------------------------


# Most statements print the same in every setup, and the results of one scenario are consecutive.
@lru_cache(maxsize=1000)
def _sides(statement: Statement, printed: str | None) -> Html:
    pairs = side_by_side(statement, printed)
    if not pairs:
        return Html("")
    return element("div", _side([pair[0] for pair in pairs]), _side([pair[1] for pair in pairs]), class_="sides")


def _side(lines: Sequence[Line | None]) -> Html:
    """One of the two sides.

    Consecutive lines without marks share an element, because there are many such lines.
    """
    shown: list[Html] = []
    for mark, run in groupby(lines, key=lambda line: line.mark if line else None):
        if mark in (None, Mark.AGREES, Mark.ASIDE):
            # A blank keeps the height of a line that only the other side has.
            text = "\n".join([line.text if line else " " for line in run])
            shown.append(element("div", text, class_="aside" if mark is Mark.ASIDE else ""))
        else:
            shown += [_marked(line) for line in run if line is not None]
    return element("div", *shown, class_="lines")


def _marked(line: Line) -> Html:
    before, differs, after = line.text[: line.start], line.text[line.start : line.stop], line.text[line.stop :]
    inside = [before, element("mark", differs), after] if differs else [line.text]
    return element("div", *inside, class_=line.mark.value)


# Style, script and policy -------------------------------------------------------------------------


def _resource(name: str) -> Html:
    return Html(files(__package__).joinpath(name).read_text(encoding="utf-8"))


def _policy(script: str) -> str:
    """A Content-Security-Policy that allows only this script, and loads nothing."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
