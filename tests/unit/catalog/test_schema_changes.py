"""The alterations of the target's tables, and the cached shape of a relation."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.base.lsn import LSN
from subscriber.catalog.own_tables import SCHEMA_CHANGE
from subscriber.catalog.schema_changes import (
    Alteration,
    SchemaChange,
    SchemaChanges,
    copy_again,
    read_shape,
    resolve_differences,
    schema_changes_of,
    skipped_publication,
)
from subscriber.postgres.schema.stored_shape import Baseline, StoredShape, columns_of
from tests.frames import relation

T = relation("public.t", {"a": "int4"}, ["a"])
WIDER = relation("public.t", {"a": "int4", "b": "text"}, ["a"])
U = relation("public.u", {"a": "int4"}, ["a"], oid=2)
BASELINE = Baseline(last=2, files={})
NAME = ("public", "t")
ADDED = Alteration(
    relation="public.t",
    table=NAME,
    reason="The publisher has added the column.",
    column="b",
    statement="ALTER TABLE t ADD COLUMN b TEXT",
    lsn=LSN(0x16B3778),
)
DIFFERS = Alteration("public.t", NAME, "The column was dropped.", difference="Its values are not known.")


@pytest.fixture
def changes() -> SchemaChanges:
    return SchemaChanges(1, "sub")


def columns(connection: sa.Connection) -> list[dict[str, Any]]:
    query = sa.select(SCHEMA_CHANGE.c.columnname, SCHEMA_CHANGE.c.finished).order_by(SCHEMA_CHANGE.c.changeid)
    return [dict(row) for row in connection.execute(query).mappings()]


def test_the_stored_shape_is_read_only_until_it_is_known_to_be_the_same(connection, changes):
    assert changes.before(connection, T) is None
    assert not changes.is_same(T)
    changes.store(connection, T, BASELINE)
    assert not changes.is_same(T), "the transaction that wrote it may be rolled back"
    assert changes.before(connection, T) == StoredShape(columns_of(T), BASELINE, T.relation_id)
    assert changes.is_same(T)
    assert not changes.is_same(WIDER)
    assert not changes.is_same(U)


def test_another_shape_than_the_stored_one_is_not_cached(connection, changes):
    changes.store(connection, T, None)
    assert changes.before(connection, WIDER) == StoredShape(columns_of(T), None, T.relation_id)
    assert not changes.is_same(WIDER)
    assert not changes.is_same(T)


def test_a_shape_of_a_table_with_another_oid_is_not_the_same(connection, changes):
    changes.store(connection, T, None)
    again = replace(T, relation_id=T.relation_id + 1)
    changes.before(connection, T)
    assert not changes.is_same(again)
    kept = changes.before(connection, again)
    assert kept is not None
    assert kept.is_of_another_table(again)
    assert not kept.is_of_another_table(T)
    assert not replace(kept, oid=None).is_of_another_table(T), "an earlier version has stored no OID"


def test_a_change_is_read_back_when_it_is_finished(connection, changes):
    changes.begin(connection, WIDER, [ADDED])
    assert changes.unfinished(connection, WIDER) == {"b"}
    assert schema_changes_of(connection, 1) == []
    changes.finish(connection, WIDER)
    assert changes.unfinished(connection, WIDER) == frozenset()
    (change,) = schema_changes_of(connection, 1)
    assert change == SchemaChange(
        changed_at=change.changed_at,
        relation="public.t",
        remote_lsn="0/16B3778",
        statement="ALTER TABLE t ADD COLUMN b TEXT",
        reason="The publisher has added the column.",
        difference=None,
        resolved_at=None,
        schema="public",
        name="t",
    )
    assert change.changed_at.endswith("+00:00")
    assert not change.differs


def test_a_second_attempt_replaces_what_was_begun_before(connection, changes):
    """A process that was killed has left the unfinished rows."""
    changes.begin(connection, WIDER, [ADDED])
    changes.begin(connection, WIDER, [ADDED, Alteration("public.t", NAME, "r", column="c")])
    assert columns(connection) == [
        {"columnname": "b", "finished": False},
        {"columnname": "c", "finished": False},
    ]
    changes.finish(connection, WIDER)
    changes.begin(connection, WIDER, [Alteration("public.t", NAME, "r", column="d")])
    assert changes.unfinished(connection, WIDER) == {"d"}
    assert len(schema_changes_of(connection, 1)) == 2


def test_the_changes_of_another_relation_stay(connection, changes):
    changes.begin(connection, U, [Alteration("public.u", ("public", "u"), "r", column="x")])
    changes.begin(connection, T, [ADDED])
    changes.finish(connection, T)
    assert changes.unfinished(connection, U) == {"x"}


def test_rows_that_differ_no_longer_differ_when_the_table_is_copied_again(connection, changes):
    changes.record(connection, DIFFERS)
    changes.record(connection, Alteration("public.u", ("public", "u"), "r", difference="d"))
    changes.record(connection, ADDED)
    assert [change.differs for change in schema_changes_of(connection, 1)] == [True, True, False]
    changes.copied(connection, T, BASELINE)
    found = schema_changes_of(connection, 1)
    assert [(change.relation, change.differs) for change in found] == [
        ("public.t", False),
        ("public.u", True),
        ("public.t", False),
    ]
    assert [change.resolved_at is None for change in found] == [False, True, True]
    assert read_shape(connection, 1, ("public", "t")) == StoredShape(columns_of(T), BASELINE, T.relation_id)


def differing(connection: sa.Connection) -> list[str | None]:
    return [one.remote_lsn for one in schema_changes_of(connection, 1) if one.differs]


@pytest.mark.parametrize(
    ("lsn", "skipped", "left"),
    [(0x200, (), []), (0x1FF, (), ["0/200"]), (0x200, ("p",), ["0/200"]), (0x200, ("q",), [])],
    ids=["after", "before", "still missing", "another one is missing"],
)
def test_a_copy_resolves_what_is_from_before_its_snapshot_unless_the_publication_is_missing(
    connection, changes, lsn, skipped, left
):
    """What was written after the snapshot without the publication is missing, too."""
    note = Alteration("public.t", NAME, skipped_publication("p"), difference="RowMapper are missing.", lsn=LSN(0x200))
    changes.record(connection, note)
    changes.copied(connection, T, None, lsn=LSN(lsn), skipped=skipped)
    assert differing(connection) == left


def test_a_table_that_leaves_the_subscription_no_longer_differs(connection, changes):
    changes.record(connection, DIFFERS)
    changes.record(connection, Alteration("public.u", ("public", "u"), "r", difference="d", lsn=LSN(0x300)))
    resolve_differences(connection, 1, NAME)
    assert differing(connection) == ["0/300"]


def test_statements_and_differences_are_logged(changes, caplog):
    caplog.set_level(logging.WARNING)
    changes.log([ADDED, DIFFERS, Alteration("public.t", NAME, "nothing was executed")])
    altered, differs = caplog.messages
    assert altered == (
        'subscription "sub" has altered table "public.t": ALTER TABLE t ADD COLUMN b TEXT\n'
        "DETAIL:  The publisher has added the column."
    )
    assert differs == (
        'subscription "sub": rows of table "public.t" may differ from the publisher\'s\n'
        "DETAIL:  The column was dropped. Its values are not known.\n"
        "HINT:  To copy the table again: ALTER SUBSCRIPTION sub REFRESH TABLE public.t;"
    )


def test_the_way_to_copy_tables_again_is_a_statement_that_can_be_run():
    assert copy_again([("public", "t"), ("Odd", "a.b")], "My sub") == (
        'To copy the tables again: ALTER SUBSCRIPTION "My sub" REFRESH TABLE public.t, "Odd"."a.b";'
    )
