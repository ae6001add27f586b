"""The versions of the catalog: table states and publications are read again exactly when they were
written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from subscriber.base.errors import PublicationsChanged
from subscriber.base.lsn import LSN
from subscriber.catalog.catalog_version import change_version
from subscriber.catalog.publications import (
    delete_publication,
    insert_publication,
    rename_publication,
    replace_publication,
)
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import (
    delete_subscription,
    get_subscription,
    insert_subscription,
    list_subscriptions,
    set_enabled,
    set_publications,
    set_publisher_tables,
    set_skip_lsn,
)
from subscriber.catalog.table_states import (
    CachedStates,
    CatchUpProgress,
    RelationState,
    SubscriptionRelation,
    advance_relation,
    delete_relations,
    read_states,
    record_relation_error,
    relations_of,
    set_relation_states,
)
from subscriber.postgres.publication.definition import Publication, TableEntry
from subscriber.postgres.publication.publishing import Publishing
from subscriber.postgres.schema.publisher_tables import PublisherTables
from subscriber.targets import Target
from subscriber.worker.catalog_rules import BatchRules
from tests.frames import relation

TABLES = [("public", f"t{number}") for number in range(5)]
T0 = relation("public.t0", {"a": "int4"}, ["a"])


@pytest.fixture
def target(target):
    """The subscription "s" with its tables."""
    in_transaction(target, make)
    return target


def make(connection: sa.Connection) -> None:
    subscription = insert_subscription(connection, "s", "", ["p"], SubscriptionOptions(slot_name="s"))
    set_relation_states(connection, subscription.subid, TABLES, RelationState.INIT)


def make_again(connection: sa.Connection) -> None:
    delete_subscription(connection, "s")
    make(connection)


def version(target: Target) -> int:
    with target.engine.connect() as connection:
        return get_subscription(connection, "s").version


def first(connection: sa.Connection) -> SubscriptionRelation:
    return relations_of(connection, 1)[0]


def in_transaction(target: Target, write: Callable[[sa.Connection], Any]) -> None:
    with target.begin() as connection:
        write(connection)


class Statements:
    """Counts the queries of a table."""

    def __init__(self, engine: sa.Engine) -> None:
        self._texts: list[str] = []
        sa.event.listen(engine, "before_cursor_execute", lambda *arguments: self._texts.append(arguments[2]))

    def about(self, table: str) -> int:
        words = [text.replace('"', "").split() for text in self._texts]
        found = sum(text[0] == "SELECT" and table in text for text in words)
        self._texts.clear()
        return found


WRITES: dict[str, Callable[[sa.Connection], Any]] = {
    "set_relation_states": lambda inside: set_relation_states(inside, 1, TABLES[:1], RelationState.READY),
    "a new table": lambda inside: set_relation_states(inside, 1, [("public", "new")], RelationState.INIT),
    "advance_relation": lambda inside: advance_relation(inside, 1, first(inside), RelationState.DATASYNC),
    "delete_relations": lambda inside: delete_relations(inside, 1, TABLES[:1]),
    "set_enabled": lambda inside: set_enabled(inside, "s", enabled=False),
    "set_skip_lsn": lambda inside: set_skip_lsn(inside, 1, LSN(7)),
    "set_publications": lambda inside: set_publications(inside, 1, ["q"]),
    "dropped and made again": make_again,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_every_write_gives_the_subscription_a_version_that_it_has_never_had(target, write):
    versions = [version(target)]
    for _ in range(2):
        with target.begin() as connection:
            write(connection)
            kept = get_subscription(connection, "s").version
            connection.rollback()
        versions.append(kept)
        assert version(target) == versions[0]
    in_transaction(target, write)
    versions.append(version(target))
    assert len(set(versions)) == len(versions)


def test_values_that_are_not_cached_do_not_change_the_version(target):
    """A catch-up has long transactions, so it must not lock the subscription's row."""
    with target.begin() as connection:
        set_relation_states(connection, 1, [("public", "t0")], RelationState.FINISHEDCOPY, LSN(10))
        relation = first(connection)
    before = version(target)
    with target.begin() as connection:
        CatchUpProgress(1, [relation]).lock(connection, LSN(10))
        CatchUpProgress(1, [relation]).advance(connection, LSN(10), LSN(20))
        record_relation_error(connection, 1, "public", "t1", "ERROR:  no")
        states = read_states(connection, 1)
        assert version(target) == before
    assert [(one.lsn, one.error) for one in states] == [(None, None)] * len(TABLES)


def test_only_the_subscription_that_is_written_gets_another_version(target):
    in_transaction(
        target, lambda inside: insert_subscription(inside, "u", "", ["p"], SubscriptionOptions(slot_name="u"))
    )
    before = version(target)
    in_transaction(target, lambda inside: set_relation_states(inside, 2, [("public", "t")], RelationState.INIT))
    in_transaction(target, lambda inside: change_version(inside, 2))
    assert version(target) == before


def test_a_batch_reads_the_tables_only_when_the_subscription_has_changed(target):
    with target.engine.connect() as connection:
        rules = BatchRules(get_subscription(connection, "s"))
    statements = Statements(target.engine)

    def batch() -> tuple[int, bool]:
        with target.begin() as connection:
            applies = rules(connection).should_apply(T0, LSN(100))
        return statements.about("subscriber_subscription_rel"), applies

    assert [batch() for _ in range(3)] == [(1, False), (0, False), (0, False)]
    in_transaction(
        target, lambda inside: set_relation_states(inside, 1, [("public", "t0")], RelationState.SYNCDONE, LSN(50))
    )
    statements.about("")
    assert [batch() for _ in range(3)] == [(1, True), (0, True), (0, True)]
    in_transaction(target, lambda inside: set_skip_lsn(inside, 1, LSN(7)))
    statements.about("")
    assert [batch() for _ in range(2)] == [(1, True), (0, True)]


def test_a_batch_does_not_read_the_stored_tables_of_the_publisher(target):
    """The size of that text depends on the number of tables."""
    in_transaction(target, lambda inside: set_publisher_tables(inside, 1, {}))
    texts: list[str] = []
    sa.event.listen(target.engine, "before_cursor_execute", lambda *arguments: texts.append(arguments[2]))
    with target.begin() as connection:
        BatchRules(get_subscription(connection, "s"))(connection)
        assert list_subscriptions(connection)
    assert any("subversion" in text for text in texts)
    assert not any("subpublishertables" in text for text in texts)


def test_the_tables_of_each_subscription_are_cached(target):
    in_transaction(
        target, lambda inside: insert_subscription(inside, "u", "", ["p"], SubscriptionOptions(slot_name="u"))
    )
    kept = CachedStates()
    statements = Statements(target.engine)
    for expected in (2, 0, 0):
        with target.engine.connect() as connection:
            read = {one.name: len(kept.read(connection, one)) for one in list_subscriptions(connection)}
        assert read == {"s": len(TABLES), "u": 0}
        assert statements.about("subscriber_subscription_rel") == expected


def test_definitions_are_compared_only_when_a_publication_has_changed(target):
    entries = tuple(TableEntry(schema, name) for schema, name in TABLES)
    publications = [Publication("p", tables=entries), Publication("q", tables=entries[:1])]
    with target.begin() as connection:
        for one in publications:
            insert_publication(connection, one, "postgres")
        rules = BatchRules(get_subscription(connection, "s"))
    rules.publishing = Publishing((publications[0],), PublisherTables(180000, {}, frozenset()))
    statements = Statements(target.engine)

    def batch() -> int:
        with target.begin() as connection:
            rules(connection)
        return statements.about("subscriber_publication_rel")

    assert [batch() for _ in range(3)] == [1, 0, 0]
    in_transaction(target, lambda inside: replace_publication(inside, publications[1]))
    assert batch() == 0, "another's"
    in_transaction(target, lambda inside: replace_publication(inside, publications[0]))
    statements.about("")
    assert [batch() for _ in range(2)] == [1, 0], "written, and the same"
    in_transaction(
        target,
        lambda inside: replace_publication(inside, replace(publications[0], publish=frozenset({"insert"}))),
    )
    for _ in range(2):
        with pytest.raises(PublicationsChanged):
            batch()


@pytest.mark.parametrize("gone", [delete_publication, lambda inside, _: rename(inside)])
def test_a_publication_that_was_dropped_or_renamed_is_noticed(target, gone):
    with target.begin() as connection:
        insert_publication(connection, Publication("p"), "postgres")
        rules = BatchRules(get_subscription(connection, "s"))
        rules.publishing = Publishing((Publication("p"),), PublisherTables(180000, {}, frozenset()))
        rules(connection)
        gone(connection, "p")
        with pytest.raises(PublicationsChanged):
            rules(connection)


def rename(connection: sa.Connection) -> None:
    rename_publication(connection, "p", "other")
