"""The results of a run, each with its place on the page and the sign of its verdict."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from subscriber.scenario.expected_failures import FAILURES, Verdict
from subscriber.scenario.report.markup import Html, element
from subscriber.scenario.run_session import Result
from subscriber.scenario.session.session_file import Scenario
from subscriber.scenario.stage import Setup

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
class Entry:
    """One result, and its place on the page."""

    result: Result
    verdict: Verdict
    anchor: str
    row: str
    """The anchor of the result's row in the table."""


def entries_of(judged: Iterable[tuple[Result, Verdict]]) -> list[Entry]:
    """An entry for each result, in the order of the run."""
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
        entries.append(Entry(result, verdict, place, rows[scenario]))
    return entries


def _words_of(setup: Setup) -> tuple[str, ...]:
    emulated = ("emulated",) if setup.publications == "emulated" else ()
    return setup.subscriber_name, str(setup.major), *emulated


def rows_of(entries: Iterable[Entry]) -> list[list[Entry]]:
    """The entries of each scenario, sorted by its name: scenarios may have run in any order."""
    rows: defaultdict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        rows[entry.row].append(entry)
    return sorted(rows.values(), key=lambda row: (row[0].result.scenario.name, row[0].row))


def next_failures(in_order: Sequence[Entry]) -> dict[str, Entry]:
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


def counts_of(entries: Iterable[Entry]) -> list[tuple[Verdict, int]]:
    """The number of results with each verdict, worst verdict first, without zeros."""
    counter = Counter(entry.verdict for entry in entries)
    return [(verdict, counter[verdict]) for verdict in _WORST_FIRST if counter[verdict]]


def in_words(entries: Iterable[Entry]) -> str:
    """The counts of :func:`counts_of` as words."""
    return ", ".join(f"{number} {verdict}" for verdict, number in counts_of(entries)) or "nothing was run"


def sign_of(verdict: Verdict) -> Html:
    """The sign of a verdict; a screen reader does not read it."""
    return element("span", _SIGNS[verdict], class_="mark", aria_hidden="true")


def class_of(verdict: Verdict) -> str:
    """The class of the elements that have the colour of a verdict."""
    return verdict.replace(" ", "-")
