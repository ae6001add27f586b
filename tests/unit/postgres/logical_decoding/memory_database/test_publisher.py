"""The MemoryDatabase: a tutorial of ten lines, and histories that decode to what was written."""

from __future__ import annotations

import pytest

from subscriber.postgres.logical_decoding import wal_records as wal
from subscriber.postgres.logical_decoding.context import ReplicationSlot
from subscriber.postgres.logical_decoding.decoding import LogicalDecoding
from subscriber.postgres.logical_decoding.historic_catalog import HistoricCatalog
from subscriber.postgres.logical_decoding.memory_database import MemoryDatabase
from subscriber.postgres.logical_decoding.reorder_txn import ReorderSettings
from subscriber.postgres.logical_decoding.sql_functions import CollectingWriter
from subscriber.postgres.publication.definition import Publication
from tests.output_plugins import recording_plugin

SETTINGS = {
    "buffered": {},
    "immediate": {"debug_logical_replication_streaming": "immediate"},
    "small": {"logical_decoding_work_mem": 300},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_tutorial(settings):
    publisher = MemoryDatabase()
    publisher.create_table("t", {"a": "integer", "b": "text"}, primary_key=["a"])
    one, two = publisher.session(), publisher.session()
    one.begin()
    one.insert("t", a=1, b="x")
    one.savepoint("s")
    one.insert("t", a=9, b="lost")
    two.insert("t", a=2, b="y")
    one.rollback_to("s")
    one.commit()
    plugin, recorder = recording_plugin()
    with LogicalDecoding(
        plugin, ReplicationSlot("s", "p"), CollectingWriter(), settings=ReorderSettings(**settings)
    ) as decoding:
        for record in publisher.records:
            decoding.process(record)
    assert publisher.select("t") == [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]
    changes = [one.split()[-1] for one in recorder.calls if "change" in one]
    aborted = {one.split()[-1] for one in recorder.calls if "stream_abort" in one}
    assert sorted(one for one in changes if one.partition("@")[2] not in aborted) == ["1/x", "2/y"]


def test_records_are_taken_once_and_decoding_goes_on_from_the_catalogs_there():
    publisher = MemoryDatabase()
    publisher.create_table("t", {"a": "integer"}, ["a"])
    first = publisher.take()
    catalog = publisher.catalog
    publisher.session().insert("t", a=1)
    assert all(isinstance(record, wal.SchemaChangeRecord | wal.BeginRecord | wal.CommitRecord) for record in first)
    plugin, recorder = recording_plugin()
    with LogicalDecoding(plugin, ReplicationSlot("s", "p"), CollectingWriter(), catalog=catalog) as decoding:
        for record in publisher.take():
            decoding.process(record)
    assert "change 732 t 1" in recorder.calls
    assert publisher.take() == []


def test_origins_are_created_and_dropped():
    publisher = MemoryDatabase()
    assert [publisher.create_origin("one"), publisher.create_origin("two")] == [1, 2]
    publisher.drop_origin("one")
    assert [(record.number, record.name) for record in publisher.take() if isinstance(record, wal.OriginChangeRecord)] == [
        (1, "one"), (2, "two"), (1, None),
    ]  # fmt: skip


def test_an_origin_is_created_in_a_transaction_as_every_row_of_a_catalog():
    publisher = MemoryDatabase()
    publisher.create_origin("one")
    assert [type(record) for record in publisher.take()] == [
        wal.BeginRecord,
        wal.OriginChangeRecord,
        wal.SchemaChangeRecord,
        wal.CommitRecord,
    ]


def test_a_publication_is_created_in_a_transaction_of_its_own():
    publisher = MemoryDatabase(150000)
    publisher.create_publication(Publication("p", all_tables=True))
    assert publisher.catalog.publications == {"p": Publication("p", all_tables=True)}
    assert publisher.catalog.tables.server_version == 150000
    assert HistoricCatalog().publications == {}


def test_the_abort_that_was_not_read_yet_is_known_to_the_publisher():
    """E14."""
    publisher = MemoryDatabase()
    publisher.create_table("t", {"a": "integer"}, ["a"])
    session = publisher.session()
    session.begin()
    session.insert("t", a=1)
    session.rollback()
    plugin, recorder = recording_plugin()
    settings = ReorderSettings(debug_logical_replication_streaming="immediate", did_abort=publisher.did_abort)
    with LogicalDecoding(plugin, ReplicationSlot("s", "p"), CollectingWriter(), settings=settings) as decoding:
        for record in publisher.records:
            decoding.process(record)
    streamed = [one for one in recorder.calls if one.startswith("stream")]
    assert streamed == ["stream_start 732", "stream_stop 732", "stream_abort 732"]


def test_the_first_catalog_is_that_before_the_records():
    publisher = MemoryDatabase(150000)
    publisher.create_table("t", {"a": "integer"})
    assert publisher.first_catalog.relations == {}
    assert publisher.first_catalog.tables.server_version == 150000
    publisher.take()
    assert publisher.first_catalog is publisher.catalog
