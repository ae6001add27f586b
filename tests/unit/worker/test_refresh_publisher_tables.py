"""The publisher's tables are read again, for emulated publications. With a publisher that answers:
tests/conformance/test_publisher_tables.py and test_emulated_subscription.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from subscriber.base.errors import PublisherTablesOutdated, PublisherUnavailable, UsageError
from subscriber.catalog.stored_publishing import read_publishing, store_publishing
from subscriber.postgres.publication.earlier_tables import EarlierTable
from subscriber.postgres.publication.publishing import Publishing
from subscriber.worker.refresh_publisher_tables import KnownTables, known_tables, placed_publishing, refresh_outdated
from tests.frames import relation, transaction
from tests.journals import T, insert, publish, writing
from tests.publications import table, tables
from tests.subscriptions import NOWHERE, create_subscription

ONE = table("public.t", {"a": "int4", "b": "text"}, key=["a"], oid=T.relation_id)


def stored(target, subscription):
    with target.engine.connect() as connection:
        found = read_publishing(connection, subscription)
    assert found is not None
    return found


def test_an_outdated_table_needs_a_publisher_that_answers(target, emulated):
    outdated = PublisherTablesOutdated("changed", shape=relation("public.t", {"a": "int4"}))
    with pytest.raises(PublisherUnavailable):
        refresh_outdated(target, emulated, outdated)


def test_a_relation_message_after_the_last_look_needs_another_look(target, emulated):
    known = KnownTables(emulated, Publishing((), replace(tables(ONE), known_until=0x200)))
    known.check(0x1FF)
    with pytest.raises(PublisherTablesOutdated) as raised:
        known.check(0x200)
    assert (raised.value.shape, raised.value.known_until) == (None, 0x200)
    with pytest.raises(PublisherUnavailable):
        known.look_again()


def test_nothing_is_looked_at_if_the_server_evaluates_the_publications(emulated):
    assert known_tables(emulated, None) is None


def test_what_is_stored_is_used_while_the_publisher_is_away(target, emulated):
    assert placed_publishing(target, emulated, "no journal is read") == stored(target, emulated)


def test_tables_that_were_never_read_cannot_be_used(target):
    with pytest.raises(UsageError, match="have not been read yet"):
        placed_publishing(target, create_subscription(target, conninfo=NOWHERE, carrier="c"), "")


def test_the_place_of_an_alteration_is_looked_for_when_the_journal_has_what_was_sent_before_the_look(
    target, emulated, tmp_path
):
    """The table was attached by transaction 702."""
    before = stored(target, emulated)
    earlier = EarlierTable((ONE,), since=0x100, changed_by=702)
    with target.begin() as connection:
        altered = replace(before, tables=replace(before.tables, read_at=0x300), earlier=(earlier,))
        store_publishing(connection, emulated.subid, altered)
    with writing(tmp_path) as journal:
        publish(journal, 0x200, transaction(0x200, T, insert(1), xid=701), xid=701)
        with pytest.raises(PublisherTablesOutdated, match="does not yet have what was sent up to 0/300"):
            placed_publishing(target, emulated, str(tmp_path))
        publish(journal, 0x300, transaction(0x300, T, insert(2), xid=703), xid=703)
        found = placed_publishing(target, emulated, str(tmp_path))
    assert found is not None
    assert found.is_placed
    assert stored(target, emulated) == found
