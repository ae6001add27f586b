"""The changes of altered tables are found in a journal, with the relation messages sent."""

from __future__ import annotations

from subscriber.base.lsn import LSN
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.encode_message import encode
from subscriber.postgres.publication.earlier_tables import EarlierTable
from subscriber.postgres.publication.publishing import Publishing
from subscriber.stream.decode.altered_tables import placed
from subscriber.stream.journal.reader import JournalReader
from subscriber.stream.journal.storage import LocalStorage
from tests.frames import relation, transaction
from tests.journals import T, insert, publish, writing
from tests.publications import table, tables
from tests.streams import frame

ONE = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=T.relation_id)
U = relation("public.u", {"a": "int4", "b": "text"}, key=["a"], oid=20000)


def ends(tmp_path, changed_by, *entries: tuple[int, int, tuple[m.Message, ...]]):
    """Where the earlier facts of table t end; an entry is the LSN before its first change, its
    transaction and its messages. Relation messages have no LSN, and a Begin message has that of
    the first change, as in a stream.
    """
    with writing(tmp_path) as journal:
        known: dict[int, m.Relation] = {}
        for begin, xid, messages in entries:
            end = begin + 0x80
            builder = journal.builder(dict(known), in_stream=False)
            sent = transaction(end, *messages, xid=xid)
            first = next(at for at, one in enumerate(sent) if not isinstance(one, m.Begin | m.Relation))
            lsns = [0 if isinstance(one, m.Relation) else begin + max(at, first) for at, one in enumerate(sent)]
            builder.extend([frame(one, lsn) for one, lsn in zip(sent, lsns, strict=True)])
            journal.publish(builder, LSN(end), kind="t", xid=xid, finish=encode(sent[-1]))
            known |= {one.relation_id: one for one in messages if isinstance(one, m.Relation)}
    publishing = Publishing((), tables(ONE), earlier=(EarlierTable((ONE,), 0, changed_by),))
    (one,) = placed(publishing, JournalReader(LocalStorage(tmp_path))).earlier
    return one.ends


def test_a_relation_message_that_was_sent_again_is_the_place(tmp_path):
    found = ends(tmp_path, 702, (0x200, 701, (T, insert(1))), (0x300, 703, (T, insert(2), insert(3))))
    assert found == (0x302, 0x302)


def test_the_relation_messages_of_earlier_segments_are_not_sent_again(tmp_path):
    found = ends(tmp_path, 704, (0x200, 701, (T, insert(1))), (0x300, 703, (insert(2), insert(3))))
    assert found == (0x303, 0x303)  # all changes came before


def test_a_truncate_is_a_change_of_its_tables(tmp_path):
    found = ends(tmp_path, 700, (0x200, 701, (U, T, m.Truncate((U.relation_id, T.relation_id), False, False))))
    assert found == (0x203, 0x203)


def test_facts_that_no_change_of_the_journal_needs_are_left_out(tmp_path):
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1), xid=701), xid=701)
    old = EarlierTable((ONE,), 0, 600, ends=(0x50, 0x50))
    late = EarlierTable((ONE,), 0, 600, ends=(0x150, 0x150))
    publishing = Publishing((), tables(ONE), earlier=(old, late))
    assert placed(publishing, JournalReader(LocalStorage(tmp_path))).earlier == (late,)
