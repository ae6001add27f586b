"""The publication stage keeps the order of a frame, and its errors have their place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from subscriber.base.errors import NotSupportedError, PublisherTablesOutdated, RowFilterError, SubscriberError
from subscriber.postgres.protocol import messages as m
from subscriber.postgres.protocol.changes import Frame
from subscriber.postgres.protocol.decode_message import decode
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.earlier_tables import EarlierTable
from subscriber.postgres.publication.publishing import Compiled, Publishing
from subscriber.stream.decode.publish import publish
from tests.frames import frame, transaction, values
from tests.publications import as_sent, entry, python_filter, table, tables

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
U = table("public.u", {"a": "int4", "b": "text"}, key=["a"], oid=2)
ROOT = table("public.root", {"a": "int4", "b": "text"}, key=["a"], oid=3, partitioned=True)
LEAF = table("public.leaf", {"b": "text", "a": "int4"}, key=["a"], oid=4, partition_of=ROOT)
RELATIONS = {one.name: as_sent(one) for one in (T, U, LEAF)}
NEW = m.Relation(99, "public", "new", "d", RELATIONS["t"].columns)
"""A relation that the tables do not know."""


def compile_where(texts, one, known):
    """A filter that is true for a > 0, and cannot be evaluated for 0."""

    def above(row):
        if row["a"] == 0:
            raise RowFilterError(f"cannot evaluate for b of table {one.name}")
        return row["a"] > 0

    return python_filter("a", above)


def programs(*publications: Publication) -> Compiled:
    return Compiled(Publishing(publications, tables(T, U, ROOT, LEAF)), compile_where)


def insert(name: str, a: int) -> m.Insert:
    return m.Insert(RELATIONS[name].relation_id, values(str(a), "x") if name != "leaf" else values("x", str(a)))


def published(messages: list[m.Message], *publications: Publication) -> Frame:
    made = frame(RELATIONS.values(), messages)
    (found,) = publish(made, programs(*publications), np.arange(0x1000, 0x1000 + len(messages)))
    return found


FILTERED = Publication("p", tables=(entry(T, "a > 0"), entry(U, "a > 0")))


def test_changes_keep_their_positions_and_transactions_their_ends():
    """Invariant commit_order: also of a transaction without any change left."""
    found = published(
        [
            *transaction(0x200, insert("t", 1), insert("u", -1), insert("t", -1), insert("t", 2)),
            *transaction(0x300, insert("t", -1)),
        ],
        FILTERED,
    )
    assert {group.relation.name: group.positions.tolist() for group in found.groups if len(group)} == {"t": [1, 4]}
    assert [chr(control.message[0]) for control in found.controls] == ["B", "C", "B", "C"]
    assert [control.position for control in found.controls] == [0, 5, 6, 8]


def test_a_published_frame_is_read_back_from_its_bytes():
    found = published(transaction(0x200, insert("leaf", 1)), Publication("p", tables=(entry(ROOT),), via_root=True))
    (group,) = Frame.decode(found.encode()).groups
    assert (group.relation.qualified_name, group.relation.relation_id) == ("public.root", 3)
    assert group.new is not None
    assert group.new.to_pylist() == [{"a": 1, "b": "x"}]


def test_a_truncate_is_sent_for_the_relations_that_publish_it():
    """Rules A26, B21, B22."""
    truncate = m.Truncate((2, 4, 1), cascade=True, restart_identity=True)
    found = published(
        [truncate], Publication("p", tables=(entry(T),)), Publication("q", tables=(entry(ROOT),), via_root=True)
    )
    (control,) = found.controls
    assert decode(control.message) == m.Truncate((3, 1), cascade=True, restart_identity=True)
    assert [relation.name for relation in control.relations] == ["root", "t"]


def test_a_truncate_without_a_published_relation_is_left_out():
    """Rule A26."""
    messages: list[m.Message] = [
        m.Truncate((2,), cascade=False, restart_identity=False),
        m.LogicalMessage(transactional=True, lsn=1, prefix="p", content=b""),
    ]
    found = published(messages, Publication("p", tables=(entry(T),)))
    assert [chr(control.message[0]) for control in found.controls] == ["M"]


def failing(messages: list[m.Message], *publications: Publication) -> tuple[list[int], SubscriberError]:
    """The positions of the changes and controls before the error, and the error."""
    made = frame([*RELATIONS.values(), NEW], messages)
    frames = publish(made, programs(*publications), np.arange(0x1000, 0x1000 + len(messages)))
    before = next(frames)
    with pytest.raises(SubscriberError) as caught:
        next(frames)
    positions = [position for group in before.groups for position in group.positions.tolist()]
    return sorted([*positions, *(control.position for control in before.controls)]), caught.value


def test_the_first_change_whose_filter_fails_is_reported_with_its_lsn():
    """The server stops there too. The error has no value of the row."""
    changes: list[m.Message] = [
        insert("t", 1),
        insert("u", 1),
        insert("u", 0),
        insert("t", 0),
        insert("t", 0),
        insert("u", 2),
    ]
    before, error = failing(changes, FILTERED)
    assert isinstance(error, RowFilterError)
    assert (error.message, error.relation, error.lsn) == ("cannot evaluate for b of table u", "public.u", 0x1002)
    assert before == [0, 1]


def test_an_unknown_table_is_reported_at_its_first_change():
    changes: list[m.Message] = [insert("t", 1), m.Insert(99, values("1", "x")), m.Insert(99, values("2", "x"))]
    before, error = failing(changes, Publication("p", all_tables=True))
    assert isinstance(error, PublisherTablesOutdated)
    assert (before, error.lsn, error.shape) == ([0], 0x1001, NEW)


def test_an_error_of_a_truncate_has_its_lsn():
    listed = Publication("p", tables=(entry(T, columns=["a"]),)), Publication("q", tables=(entry(T),))
    truncate = m.Truncate((2, 1), cascade=False, restart_identity=False)
    before, error = failing([*transaction(0x200, insert("u", 1)), truncate], *listed)
    assert "cannot use different column lists" in error.message
    assert (before, error.lsn) == ([0, 2], 0x1003)


# Tables that were altered -------------------------------------------------------------------------

ALONE = replace(LEAF, parents=(), is_partition=False)
ATTACHED = Publication("p", tables=(entry(ROOT, "a > 0"), entry(LEAF)), via_root=True)


def altered(first: int, last: int) -> Compiled:
    """The leaf was attached to its root at a place between these LSNs."""
    earlier = EarlierTable((ALONE,), since=0, changed_by=700, ends=(first, last))
    return Compiled(Publishing((ATTACHED,), tables(ROOT, LEAF), earlier=(earlier,)), compile_where)


def sent_as(made: Frame) -> dict[str, list[int]]:
    return {group.relation.name: group.positions.tolist() for group in made.groups if len(group)}


def test_changes_before_a_table_was_attached_are_sent_as_its_own_without_the_filter_of_the_root():
    messages = transaction(0x200, insert("leaf", -1), insert("leaf", 2), insert("leaf", -3), insert("leaf", 4))
    lsns = np.arange(0x1000, 0x1000 + len(messages))
    (found,) = publish(frame(RELATIONS.values(), messages), altered(0x1003, 0x1003), lsns)
    assert sent_as(found) == {"leaf": [1, 2], "root": [4]}


def test_changes_at_an_unknown_side_of_the_alteration_are_refused_after_the_others():
    messages = transaction(0x200, insert("leaf", 1), insert("leaf", 2), insert("leaf", 3))
    lsns = np.arange(0x1000, 0x1000 + len(messages))
    made = publish(frame(RELATIONS.values(), messages), altered(0x1002, 0x1003), lsns)
    assert sent_as(next(made)) == {"leaf": [1]}
    with pytest.raises(NotSupportedError, match="cannot tell as which table") as raised:
        next(made)
    assert (raised.value.lsn, raised.value.relation) == (0x1002, "public.leaf")


def test_a_truncate_of_all_partitions_that_a_root_had_is_one_of_the_root():
    """B22: the partition that was attached after it is not among them."""
    first = table("public.first", {"a": "int4", "b": "text"}, key=["a"], oid=5, partition_of=ROOT)
    earlier = EarlierTable((ALONE,), since=0, changed_by=700, ends=(0x1100, 0x1100))
    publication = Publication("p", tables=(entry(ROOT),), via_root=True)
    then = Compiled(Publishing((publication,), tables(ROOT, LEAF, first), earlier=(earlier,)), compile_where)
    truncated = {lsn: [one.name for one in then.truncated([as_sent(first)], lsn)] for lsn in (0x1000, 0x1100)}
    assert truncated == {0x1000: ["root"], 0x1100: []}
