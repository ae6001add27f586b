"""Explanations of the changes of a journal: which are selected, and what was decided for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

import pytest

from subscriber.base.errors import JournalGap, SubscriberError, UsageError
from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.decode.explain_journal import ChangeSelection, ExplainedChange, explain_journal
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import transaction, values
from tests.journals import publish, trim_after_planning, writing
from tests.publications import as_sent, entry, table, tables

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
U = table("public.u", {"a": "int4"}, key=["a"], oid=2)
SENT = {one.name: as_sent(one) for one in (T, U)}
FIRST: list[m.Message] = [
    m.Insert(T.oid, values("1", "x")),
    m.Insert(U.oid, values("1")),
    m.Update(T.oid, "K", values("1", None), values("7", None)),
]
SECOND: list[m.Message] = [m.Truncate((T.oid, U.oid), False, False), m.Delete(T.oid, "K", values("7", None))]
Explain = Callable[..., list[ExplainedChange]]


@pytest.fixture
def explained(tmp_path) -> Explain:
    """The changes of two transactions, which end at 0/200 (701) and 0/300 (702). By default only
    rows of public.t with a > 5 are published.
    """
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, *SENT.values(), *FIRST, xid=701), xid=701)
        relations = {one.relation_id: one for one in SENT.values()}
        publish(journal, 0x300, transaction(0x300, *SECOND, xid=702), xid=702, relations=relations)
    reader = JournalReader(LocalStorage(tmp_path))

    def call(where: str = "(a > 5)", within: tuple[LSN, LSN] | None = None, **wanted: object) -> list[ExplainedChange]:
        publishing = Publishing((Publication("p", tables=(entry(T, where),)),), tables(T, U))
        selection = ChangeSelection(**wanted)  # type: ignore[arg-type]
        return list(explain_journal(reader, publishing, selection, within))

    return call


def summary(changes: list[ExplainedChange]) -> list[str]:
    """For each change its transaction, its relations and what was sent: ``701 public.t: I``."""
    return [
        f"{change.xid} {','.join(change.relations)}: "
        + (f"truncate {','.join(change.truncated)}" if change.explanation is None else str(change.explanation.sent))
        for change in changes
    ]


ALL = [
    "701 public.t: None",
    "701 public.u: None",
    "701 public.t: I",
    "702 public.t,public.u: truncate public.t",
    "702 public.t: D",
]


def test_every_change_is_explained_in_commit_order(explained):
    assert summary(explained()) == ALL


def test_a_change_has_its_place_and_the_columns_that_were_sent(explained):
    _, not_published, update, truncate, _ = explained()
    assert (update.finish_lsn, update.xid) == (0x200, 701)
    assert 0 < update.lsn < update.finish_lsn
    assert (update.old, update.new) == ({"a": "1"}, {"a": "7", "b": None})
    assert not_published.explanation is not None
    assert not_published.explanation.reason == "no publication"
    assert (truncate.explanation, truncate.old, truncate.new) == (None, {}, {})


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"xid": 702}, ALL[3:]),
        ({"lsn": LSN(0x200)}, ALL[:3]),
        ({"lsn": LSN(0x250)}, []),
        ({"relation": "public.u"}, [ALL[1], ALL[3]]),
        ({"relation": "public.unknown"}, []),
        ({"key": {"a": "7"}}, [ALL[2], ALL[4]]),
        ({"key": {"a": "1"}}, ALL[:3]),
        ({"key": {"a": "1"}, "relation": "public.u"}, [ALL[1]]),
        ({"key": {"a": "1", "b": "x"}}, [ALL[0]]),
        ({"key": {"nothing": "1"}}, []),
        ({"xid": 701, "relation": "public.t", "key": {"a": "7"}}, [ALL[2]]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_changes_are_selected_that_fulfil_every_condition(explained, wanted, expected):
    assert summary(explained(**wanted)) == expected


def test_a_change_is_selected_by_its_own_lsn(explained):
    (change,) = explained(key={"a": "1", "b": "x"})
    (same,) = explained(lsn=change.lsn)
    assert asdict(same) == asdict(change)


def test_a_range_of_the_journal_is_explained(explained):
    assert summary(explained(within=(LSN(0x1FF), LSN(0x200)))) == ALL[:3]


def test_a_file_that_was_trimmed_while_changes_are_explained_is_no_damage(explained, tmp_path, monkeypatch):
    trim_after_planning(monkeypatch, tmp_path, LSN(0x300))
    with pytest.raises(UsageError, match="was trimmed up to 0/300 while it was read"):
        explained()


def test_a_filter_that_fails_is_reported_after_the_changes_before_it(explained):
    """The error has the place of the change, and no value of its row."""
    with pytest.raises(SubscriberError, match="division by zero") as caught:
        explained("(10 / (a - 7) > 0)")
    assert caught.value.relation == "public.t"
    assert caught.value.lsn is not None
    assert summary(explained("(10 / (a - 7) > 0)", key={"a": "1", "b": "x"})) == [ALL[0]]


def test_without_a_journal_there_is_nothing_to_explain(tmp_path):
    publishing = Publishing((), tables(T))
    with pytest.raises(JournalGap):
        list(explain_journal(JournalReader(LocalStorage(tmp_path / "none")), publishing, ChangeSelection()))
