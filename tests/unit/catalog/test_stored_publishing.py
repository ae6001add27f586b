"""Emulated publications: what is stored with a subscription, and what a batch uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from subscriber.base.errors import PublicationsChanged, UsageError
from subscriber.base.lsn import LSN
from subscriber.catalog.publications import find_publication, insert_publication, replace_publication
from subscriber.catalog.stored_publishing import (
    read_publishing,
    store_followed,
    store_publishing,
    with_stored_tables,
)
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.catalog.subscriptions import Subscription, insert_subscription
from subscriber.catalog.table_states import RelationState, SubscriptionRelation, relations_of, set_relation_states
from subscriber.postgres.publication.definition import Publication
from subscriber.postgres.publication.earlier_tables import EarlierTable
from subscriber.postgres.publication.publishing import Publishing
from subscriber.worker.catalog_rules import BatchRules, CatchUpRules
from tests.publications import as_sent, entry, table, tables

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
SYSTEM = replace(table("pg_catalog.pg_class", {}, oid=2), is_system=True)
P = Publication("p", tables=(entry(T, "(a > 1)"),))


def subscribed(connection: Any, carrier: str | None = "c") -> Subscription:
    return insert_subscription(connection, "s", "", ("p",), SubscriptionOptions(carrier=carrier))


def test_publications_and_tables_are_read_back_without_system_tables(target):
    settled = frozenset({as_sent(T)})
    with target.begin() as connection:
        subscription = subscribed(connection)
        insert_publication(connection, P, "postgres")
        store_publishing(connection, subscription.subid, Publishing((P,), tables(T, SYSTEM), settled))
        assert read_publishing(connection, subscription) == Publishing((P,), tables(T), settled)


def test_earlier_facts_of_altered_tables_are_read_back(target):
    earlier = EarlierTable((T,), since=5, changed_by=700, was_elsewhere=True, ends=(7, 9))
    with target.begin() as connection:
        subscription = subscribed(connection)
        insert_publication(connection, P, "postgres")
        kept = Publishing((P,), tables(T), earlier=(earlier, replace(earlier, ends=None)))
        store_publishing(connection, subscription.subid, kept)
        found = read_publishing(connection, subscription)
    assert found is not None
    assert found.earlier == kept.earlier
    assert not found.is_placed


def test_definitions_follow_renamed_tables_unless_they_were_altered_meanwhile(target):
    renamed = replace(P, tables=(replace(P.tables[0], name="u"),))
    with target.begin() as connection:
        insert_publication(connection, P, "postgres")
        store_followed(connection, Publishing((P,), tables(T)), Publishing((renamed,), tables(T)))
        assert find_publication(connection, "p") == renamed
        store_followed(connection, Publishing((P,), tables(T)), Publishing((P,), tables(T)))
        store_followed(connection, Publishing((P,), tables(T)), Publishing((replace(P, via_root=True),), tables(T)))
        assert find_publication(connection, "p") == renamed


def test_a_command_that_reads_the_tables_keeps_their_earlier_facts(target):
    """What was received before may still wait."""
    root = table("public.r", {"a": "int4", "b": "text"}, key=["a"], oid=3, partitioned=True)
    attached = replace(T, parents=(root.key,), is_partition=True, placed_by=700)
    publication = Publication("p", all_tables=True, via_root=True)
    with target.begin() as connection:
        subscription = subscribed(connection)
        store_publishing(connection, subscription.subid, Publishing((publication,), tables(T, root)))
        found = with_stored_tables(connection, subscription.subid, Publishing((publication,), tables(attached, root)))
    assert [(one.tables, one.changed_by, one.ends) for one in found.earlier] == [((T,), 700, None)]
    assert found.tables.tables[T.key] == attached


def test_a_subscription_without_a_carrier_publishes_nothing_itself(target):
    with target.begin() as connection:
        assert read_publishing(connection, subscribed(connection, carrier=None)) is None


def test_a_dropped_publication_is_a_transient_error(target):
    """It may be created again; the changes that were received meanwhile are not lost."""
    with target.begin() as connection:
        subscription = subscribed(connection)
        store_publishing(connection, subscription.subid, Publishing((P,), tables(T)))
        with pytest.raises(UsageError, match=r'^publication "p" does not exist$') as caught:
            read_publishing(connection, subscription)
    assert (caught.value.transient, caught.value.sqlstate) == (True, "42704")


def test_tables_that_were_never_read_are_an_error_with_a_hint(target):
    with target.begin() as connection, pytest.raises(UsageError, match="have not been read yet") as caught:
        read_publishing(connection, subscribed(connection))
    assert "REFRESH PUBLICATION" in str(caught.value.hint)


def test_a_batch_that_was_filtered_by_other_definitions_is_filtered_again(target):
    """B7: here, ALTER PUBLICATION takes effect with the next batch."""
    with target.begin() as connection:
        subscription = subscribed(connection)
        insert_publication(connection, P, "postgres")
        (relation,) = _relations(connection, subscription)
    publishing = Publishing((P,), tables(T))
    rules = BatchRules(subscription)
    rules.publishing = publishing
    catch_up = CatchUpRules(subscription, [relation], publishing)
    with target.begin() as connection:
        assert rules(connection).should_apply(as_sent(T), LSN(2))
        assert catch_up(connection).should_apply(as_sent(T), LSN(2))
        replace_publication(connection, replace(P, via_root=True))
        for read in (rules, catch_up):
            with pytest.raises(PublicationsChanged):
                read(connection)


def _relations(connection: Any, subscription: Subscription) -> list[SubscriptionRelation]:
    set_relation_states(connection, subscription.subid, [("public", "t")], RelationState.READY, LSN(1))
    return relations_of(connection, subscription.subid)
