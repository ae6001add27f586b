"""The journal of a subscription: its transactions, the messages of one, and why a change was sent.

They are read when a page is opened, a bounded number at a time; what a page shows does not change
by itself. Values of rows are shown only if the run was started with ``--http-show-values``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from subscriber.base.errors import UsageError
from subscriber.base.lsn import LSN, MAX_LSN, format_lsn, parse_lsn
from subscriber.catalog.stored_publishing import read_publishing
from subscriber.operate.observation import Observation
from subscriber.operate.page_sources import PageSources
from subscriber.operate.sampler import journal_of
from subscriber.stream.decode.explain_journal import ChangeSelection, ExplainedChange, Values, explain_journal
from subscriber.stream.journal.browse import (
    JournalLine,
    JournalTransaction,
    newest_transactions,
    transaction_messages,
)
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.segment import EntryKind
from subscriber.stream.journal.storage import open_storage

TRANSACTIONS: Final = 50
MESSAGES: Final = 100
_EXPLAINED: Final = 50
_NAMED_TABLES: Final = 5
_VALUE_BYTES: Final = 500
_TEXT: Final = 4_000
"""The characters of a message that are shown: a table may have 1,600 columns."""
_ENDS: Final[Mapping[EntryKind, str]] = {
    EntryKind.TRANSACTIONS: "COMMIT",
    EntryKind.COMMIT_PREPARED: "COMMIT PREPARED",
    EntryKind.ROLLBACK_PREPARED: "ROLLBACK PREPARED",
}
_CHANGES: Final = frozenset("IUDT")

Parameters = Mapping[str, str]
"""The parameters of a request."""


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """``address`` is that of its messages."""

    finish_lsn: str
    address: str
    xid: int
    end: str
    committed_at: str
    messages: int | None
    tables: str
    size: int
    is_applied: bool


@dataclass(frozen=True, slots=True)
class MessageRow:
    """``explanation`` is the address of why the change was sent; None if that cannot be told."""

    lsn: str
    relation: str
    text: str
    explanation: str | None


@dataclass(frozen=True, slots=True)
class ExplanationRow:
    lsn: str
    change: str
    outcome: str
    filters: list[str]
    rows: list[tuple[str, str]]


def transactions_page(sources: PageSources, one: Observation, asked: Parameters) -> dict[str, Any]:
    """The newest transactions, or those before ``before``."""
    before = parse_lsn(asked["before"]) if "before" in asked else MAX_LSN
    page = newest_transactions(_journal(sources, one), before, TRANSACTIONS)
    applied = None if one.worker is None else one.worker.applied
    here = f"/subscriptions/{one.subscription.subid}/journal"
    return {
        "name": one.name,
        "here": here,
        "rows": [_transaction_row(found, here, applied) for found in page.transactions],
        "is_newest": "before" not in asked,
        "older": None if page.older is None else f"{here}?{urlencode({'before': format_lsn(page.older)})}",
    }


def _transaction_row(found: JournalTransaction, here: str, applied: LSN | None) -> TransactionRow:
    lsn = format_lsn(found.finish_lsn)
    more = len(found.relations) - _NAMED_TABLES
    return TransactionRow(
        lsn,
        f"{here}/transaction?{urlencode({'lsn': lsn})}",
        found.xid,
        _ENDS[found.kind] if found.xid else "message outside of a transaction",
        "" if found.committed_at is None else f"{found.committed_at:%Y-%m-%d %H:%M:%S} UTC",
        found.messages,
        ", ".join(found.relations[:_NAMED_TABLES]) + (f" and {more} more" if more > 0 else ""),
        found.size,
        applied is not None and found.finish_lsn <= applied,
    )


def messages_page(sources: PageSources, one: Observation, asked: Parameters) -> dict[str, Any]:
    """The messages of the transaction that ended at ``lsn``, from ``part`` and ``row`` on."""
    finish = _lsn(asked, "lsn")
    page = transaction_messages(
        _journal(sources, one),
        finish,
        part=_number(asked, "part"),
        row=_number(asked, "row"),
        most=MESSAGES,
        show_values=sources.show_values,
        longest=_VALUE_BYTES,
    )
    here, lsn = f"/subscriptions/{one.subscription.subid}/journal", format_lsn(finish)
    following = None
    if page.following is not None:
        part, row = page.following
        following = f"{here}/transaction?{urlencode({'lsn': lsn, 'part': part, 'row': row})}"
    return {
        "name": one.name,
        "here": here,
        "lsn": lsn,
        "xid": page.lines[0].xid if page.lines else 0,
        "rows": [_message_row(line, one, here, lsn) for line in page.lines],
        "first": None if asked.keys() <= {"lsn"} else f"{here}/transaction?{urlencode({'lsn': lsn})}",
        "following": following,
        "is_filtered_here": one.subscription.options.carrier is not None,
        "show_values": sources.show_values,
    }


def _message_row(line: JournalLine, one: Observation, here: str, finish: str) -> MessageRow:
    explanation = None
    if one.subscription.options.carrier is not None and line.action in _CHANGES:
        explanation = f"{here}/explain?{urlencode({'finish': finish, 'lsn': format_lsn(line.lsn)})}"
    return MessageRow(format_lsn(line.lsn), line.relation or "", _shortened(line.description), explanation)


def explanation_page(sources: PageSources, one: Observation, asked: Parameters) -> dict[str, Any]:
    """Why the changes at ``lsn`` were sent or left out; their transaction ended at ``finish``."""
    finish, lsn = _lsn(asked, "finish"), _lsn(asked, "lsn")
    reader = JournalReader(open_storage(_journal(sources, one)))
    with sources.target.reporting(), sources.target.engine.connect() as connection:
        publishing = read_publishing(connection, one.subscription)
    if publishing is None:
        raise UsageError(
            f'subscription "{one.name}" has publications of the server',
            hint="The server evaluates them, and does not send the changes that they leave out.",
        )
    changes = explain_journal(reader, publishing, ChangeSelection(lsn=lsn), (LSN(finish - 1), finish))
    here = f"/subscriptions/{one.subscription.subid}/journal"
    found = list(islice(changes, _EXPLAINED + 1))
    return {
        "name": one.name,
        "lsn": format_lsn(lsn),
        "transaction": f"{here}/transaction?{urlencode({'lsn': format_lsn(finish)})}",
        "rows": [_explanation_row(change, show_values=sources.show_values) for change in found[:_EXPLAINED]],
        "has_more": len(found) > _EXPLAINED,
        "show_values": sources.show_values,
    }


def _explanation_row(change: ExplainedChange, *, show_values: bool) -> ExplanationRow:
    filters = () if change.explanation is None else change.explanation.filter_results
    rows = [("old", change.old), ("new", change.new)] if show_values else []
    return ExplanationRow(
        format_lsn(change.lsn),
        f"{change.operation} {', '.join(change.relations)}",
        change.outcome(),
        [result.in_words() for result in filters],
        [(name, _shortened(_row(values))) for name, values in rows if values],
    )


def _row(values: Values) -> str:
    return ", ".join(f"{name} = {'NULL' if value is None else value[:_VALUE_BYTES]}" for name, value in values.items())


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[:_TEXT]}… ({len(text):,} characters)"


def _journal(sources: PageSources, one: Observation) -> str:
    url = journal_of(one.subscription, sources.settings)
    if url is None:
        raise UsageError(
            f'subscription "{one.name}" has no journal',
            hint="`subscriber run` creates the journal when the subscription has a slot.",
        )
    return url


def _lsn(asked: Parameters, name: str) -> LSN:
    """An LSN of the request other than 0/0."""
    lsn = parse_lsn(asked.get(name, "").strip())
    if not 0 < lsn < MAX_LSN:
        raise UsageError(f"no transaction ends at {format_lsn(lsn)}", hint="The list of transactions has their LSNs.")
    return lsn


def _number(asked: Parameters, name: str) -> int:
    text = asked.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise UsageError(f'"{name}" is not a number', hint="Begin with the first page of the transaction.")
    return int(text)
