"""Whatever the names, values and errors of a database contain stays text on every page."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subscriber.base.lsn import LSN
from subscriber.catalog.cutovers import ASKED, Cutover
from subscriber.catalog.schema_changes import SchemaChange
from subscriber.catalog.statistics import StoredConflict
from subscriber.operate.admin_commands import GivenCommand
from subscriber.operate.cutover_page import CutoverFacts, cutover_shown
from subscriber.operate.dashboard import commands_shown, subscription_page
from subscriber.operate.journal_pages import ExplanationRow, MessageRow, TransactionRow
from subscriber.operate.lag_history import History
from subscriber.operate.page_templates import PageTemplates
from subscriber.operate.subscription_details import LatestAnswer, SubscriptionDetails
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.verify.report import TableVerification, VerifyReport
from tests.dashboards import PageReader
from tests.observations import NOW, observation

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30)
"""Control characters are shown as pictures (tests/unit/base/test_html_templates.py)."""
TEMPLATES = PageTemplates()


def journal(text: str) -> tuple[str, dict[str, Any]]:
    row = TransactionRow("0/200", "/", 7, "COMMIT", "", 3, text, 10, is_applied=True)
    return "journal.html", {"name": text, "here": "/", "rows": [row], "is_newest": True, "older": None}


def transaction(text: str) -> tuple[str, dict[str, Any]]:
    return "transaction.html", {
        "name": text, "here": "/", "lsn": "0/200", "xid": 7, "rows": [MessageRow("0/100", text, text, "/")],
        "first": None, "following": None, "is_filtered_here": True, "show_values": True,
    }  # fmt: skip


def explanation(text: str) -> tuple[str, dict[str, Any]]:
    row = ExplanationRow("0/100", text, text, [text], [("old", text)])
    return "explanation.html", {
        "name": text, "lsn": "0/100", "transaction": "/", "rows": [row], "has_more": False, "show_values": True,
    }  # fmt: skip


def cutover(text: str) -> tuple[str, dict[str, Any]]:
    table = TableVerification(text, text, notes=(text,), error=text)
    verified = {"is_equal": False, "lsn": "0/200", "report": VerifyReport("s", (table,)).as_json()}
    found = {"verify": verified, "schema": {"missing": [text]}, "sequences": {"messages": [text]}}
    kept = {ASKED: f"--verify --reverse {text}", "fence": {"database": text}, "reverse": {"name": text}}
    row = Cutover(1, "switched", "switch", text, barrier=LSN(0x200), switched_at=text, options=kept, findings=found)
    change = SchemaChange(text, text, None, None, text, text, None, text, text)
    return "cutover.html", cutover_shown(observation(text), CutoverFacts(row, [change]), text)


def subscription(text: str) -> tuple[str, dict[str, Any]]:
    conflict = StoredConflict(
        "2026-11-28T10:00:00+00:00", text, text, LSN(0x5000), 7, text, 1, {"remote_tuple": {"a": text}}
    )
    publication = Publication(
        text, tables=(TableEntry(text, text, (text,), text),), schemas=(text,), excepted=((text, text),)
    )
    details = SubscriptionDetails(LatestAnswer([conflict], text), LatestAnswer([publication], text))
    one = observation(text)
    given = GivenCommand(1, "disable", text, NOW, answer=text, has_failed=True, ended_at=NOW)

    class Given:
        def of(self, _: int) -> list[GivenCommand]:
            return [given]

    return "subscription.html", subscription_page(one, History().of(1), details) | commands_shown(Given(), one)  # type: ignore[arg-type]


@pytest.mark.parametrize("page", [journal, transaction, explanation, cutover, subscription])
@settings(max_examples=25)
@given(text=TEXTS)
def test_a_page_has_the_same_elements_whatever_it_shows(page, text):
    """Invariant names_are_data."""
    shown, plain = (PageReader(TEMPLATES.content(*page(one))) for one in (text, "t"))
    assert shown.elements == plain.elements
    assert shown.links.values() and set(shown.links.values()) == set(plain.links.values())
    assert text in shown.text
