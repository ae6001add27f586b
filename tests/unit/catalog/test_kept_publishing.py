"""Emulated publications: what is stored with a subscription, and what a batch uses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from subscriber import catalog
from subscriber.catalog.kept_publishing import keep_publishing, read_publishing
from subscriber.catalog.subscription_options import SubscriptionOptions
from subscriber.errors import PublicationsChanged, UsageError
from subscriber.lsn import LSN
from subscriber.publication.definition import Publication
from subscriber.publication.publishing import Publishing
from subscriber.runtime.catalog_rules import BatchRules, CatchUpRules
from tests.publications import as_sent, entry, table, tables

T = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=1)
SYSTEM = replace(table("pg_catalog.pg_class", {}, oid=2), is_system=True)
P = Publication("p", tables=(entry(T, "(a > 1)"),))


def subscribed(connection: Any, carrier: str | None = "c") -> catalog.Subscription:
    return catalog.insert_subscription(connection, "s", "", ("p",), SubscriptionOptions(carrier=carrier))


def test_publications_and_tables_are_read_back_without_system_tables(target):
    settled = frozenset({as_sent(T)})
    with target.begin() as connection:
        subscription = subscribed(connection)
        catalog.insert_publication(connection, P, "postgres")
        keep_publishing(connection, subscription.subid, Publishing((P,), tables(T, SYSTEM), settled))
        assert read_publishing(connection, subscription) == Publishing((P,), tables(T), settled)


def test_a_subscription_without_a_carrier_publishes_nothing_itself(target):
    with target.begin() as connection:
        assert read_publishing(connection, subscribed(connection, carrier=None)) is None


def test_a_dropped_publication_is_a_transient_error(target):
    """It may be created again; the changes that were received meanwhile are not lost."""
    with target.begin() as connection:
        subscription = subscribed(connection)
        keep_publishing(connection, subscription.subid, Publishing((P,), tables(T)))
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
        catalog.insert_publication(connection, P, "postgres")
        (relation,) = _relations(connection, subscription)
    publishing = Publishing((P,), tables(T))
    rules = BatchRules(subscription)
    rules.publishing = publishing
    catch_up = CatchUpRules(subscription, relation, publishing)
    with target.begin() as connection:
        assert rules(connection).should_apply(as_sent(T), LSN(2))
        assert catch_up(connection).should_apply(as_sent(T), LSN(2))
        catalog.replace_publication(connection, replace(P, via_root=True))
        for read in (rules, catch_up):
            with pytest.raises(PublicationsChanged):
                read(connection)


def _relations(connection: Any, subscription: catalog.Subscription) -> list[catalog.SubscriptionRelation]:
    catalog.set_relation_state(connection, subscription.subid, "public", "t", catalog.RelationState.READY, LSN(1))
    return catalog.relations_of(connection, subscription.subid)
