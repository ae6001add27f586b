"""The overview of the page: a table of scenarios by setup, whose cells lead to the sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from subscriber.scenario.expected_failures import FAILURES
from subscriber.scenario.report.entries import Entry, class_of, counts_of, sign_of
from subscriber.scenario.report.markup import Html, element, join, void
from subscriber.scenario.stage import Setup

_MANY: Final = 8
"""If there are more columns than this, they are narrow."""


def overview(entries: Sequence[Entry], rows: Sequence[Sequence[Entry]], setups: Sequence[Setup], made: str) -> Html:
    """The overview: counts, filters, and a row for each scenario with a cell for each setup.

    Args:
        entries: all entries.
        rows: the entries of each scenario.
        setups: the columns.
        made: when the run was, and with which programs.
    """
    counts = [
        element("li", sign_of(verdict), element("b", str(number)), f" {verdict}", class_=f"verdict {class_of(verdict)}")
        for verdict, number in counts_of(entries)
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


def _headings(entries: Sequence[Entry], setups: Sequence[Setup]) -> Iterator[Html]:
    """The subscribers, and below each subscriber its versions of PostgreSQL."""
    subscribers = [
        element("th", name, scope="colgroup", colspan=str(len(list(those))), title=name)
        for name, those in groupby(setups, key=attrgetter("subscriber_name"))
    ]
    yield element("tr", element("th", "Scenario", scope="col", rowspan="2"), *subscribers)
    product = "PG" if len(setups) > _MANY else "PostgreSQL"
    columns = [[entry for entry in entries if entry.result.setup == setup] for setup in setups]
    yield element("tr", *[_heading(setup, column, product) for setup, column in zip(setups, columns, strict=True)])


def _heading(setup: Setup, column: Sequence[Entry], product: str) -> Html:
    failures = sum(entry.verdict in FAILURES for entry in column)
    summary = f"{failures or 'no'} failure{'' if failures == 1 else 's'}"
    return element(
        "th",
        element("small", f"{product} {setup.major}"),
        element("small", "emulated") if setup.publications == "emulated" else "",
        element("small", summary, class_="failed" if failures else ""),
        scope="col",
    )


def _row(row: Sequence[Entry], setups: Sequence[Setup]) -> Html:
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


def _cell(entry: Entry) -> Html:
    skipped = entry.verdict == "skipped"
    return element(
        "a",
        sign_of(entry.verdict),
        element("span", f"{entry.verdict} ", class_="" if skipped else "spoken"),
        "" if skipped else join(f"{entry.result.seconds:.1f}", element("span", " s", class_="unit")),
        href=f"#{entry.anchor}",
        class_=class_of(entry.verdict),
        title=f"{entry.verdict}: {entry.result.skipped}" if skipped else entry.verdict,
    )
