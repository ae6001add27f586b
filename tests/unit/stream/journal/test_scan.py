"""Questions that need the messages of a journal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.stream.journal.message_rows import changed_relations, oldest_commit
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import relation, transaction
from tests.journals import T, commit_prepared, insert, prepare, publish, rollback_prepared, writing


def test_the_oldest_commit_after_a_position_is_found_whatever_its_entry(tmp_path):
    """A run of transactions of which one is applied, a prepared one that waits, one that was rolled
    back, one that was committed
    """
    with writing(tmp_path) as journal:
        first = transaction(0x200, T, insert(1), timestamp=5)
        publish(journal, 0x300, [*first, *transaction(0x300, insert(2), timestamp=6)])
        publish(journal, 0x380, prepare(0x380, T, insert(3), xid=7), kind="p", xid=7)
        publish(journal, 0x390, prepare(0x390, T, insert(4), xid=8, gid="h"), kind="p", xid=8)
        publish(journal, 0x3A0, rollback_prepared(0x3A0, xid=8, gid="h"), kind="r", xid=8)
        publish(journal, 0x400, commit_prepared(0x400, xid=7), kind="k", xid=7)
    storage = LocalStorage(tmp_path)

    def after(lsn: int) -> int | None:
        found = oldest_commit(JournalReader(storage), LSN(lsn))
        return None if found is None else (found - datetime(2000, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)

    assert [after(lsn) for lsn in (0x100, 0x200, 0x300, 0x380, 0x400)] == [5, 6, 9, 9, None]


def test_the_relations_that_have_changes_after_a_position_are_named_once(tmp_path):
    u = relation("public.u", {"a": "int4", "b": "text"}, ["a"], oid=20000)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1), u, insert(1, shape=u)))
        publish(journal, 0x300, transaction(0x300, insert(2), insert(3)), relations={T.relation_id: T})
        publish(journal, 0x400, [m.LogicalMessage(False, LSN(0x400), "p", b"x")])
    storage = LocalStorage(tmp_path)
    assert [changed_relations(storage, LSN(lsn)) for lsn in (0x100, 0x200, 0x300)] == [
        ["public.t", "public.u"],
        ["public.t"],
        [],
    ]
