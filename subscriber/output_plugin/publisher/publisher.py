"""A small publisher in memory: sessions write to tables, and the WAL is a list of records.

::

    publisher = Publisher()
    publisher.create_table("t", {"a": "integer", "b": "text"}, primary_key=["a"])
    one, two = publisher.session(), publisher.session()
    one.begin()
    one.insert("t", a=1, b="x")
    two.insert("t", a=2, b="y")              # without begin() a statement is a transaction
    one.commit()
    with LogicalDecoding(plugin, slot, writer) as decoding:
        for record in publisher.records:
            decoding.process(record)

It is no database: it knows the primary key, and neither other constraints nor defaults, triggers,
expressions or locks. What it does know it does as PostgreSQL: which transaction numbers there are,
which old tuples are logged (section B.3), which partition gets a row, and what a session sees.

Numbers are predictable. The first transaction is 731, the first table has the OID 16384, and time
advances by one millisecond with each record that has a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from subscriber.output_plugin import wal_records as wal
from subscriber.output_plugin.publisher.session import Session
from subscriber.output_plugin.publisher.state import PublisherState
from subscriber.output_plugin.publisher.tables import Columns
from subscriber.publication.definition import Publication
from subscriber.schema.publisher_tables import Persistence


class Publisher(PublisherState):
    """The publisher.

    Args:
        server_version: the version whose types and rules it has, such as 180000.

    Attributes:
        records: the WAL, in its order. Its user may clear it.
        catalog: the tables, types and publications that are committed.
        first_catalog: the same before the first of ``records``, for a session of logical decoding.
    """

    # Sessions -------------------------------------------------------------------------------------

    def session(self) -> Session:
        """A new session."""
        return Session(self)

    def select(self, table: str) -> list[dict[str, str | None]]:
        """The committed rows of a table with its partitions, as text by column; in the order in
        which they were written.
        """
        return self.session().select(table)

    def take(self) -> list[wal.WalRecord]:
        """The records since the last call; the WAL is empty afterwards."""
        taken, self.records = self.records, []
        self.first_catalog = self.catalog
        return taken

    # DDL and others, each in a transaction of its own ---------------------------------------------

    def create_table(
        self,
        name: str,
        columns: Columns,
        primary_key: Sequence[str] = (),
        *,
        persistence: Persistence = "permanent",
        partition_by: str | None = None,
    ) -> None:
        """CREATE TABLE in a transaction of its own; as :meth:`Session.create_table`."""
        self.session().create_table(name, columns, primary_key, persistence=persistence, partition_by=partition_by)

    def create_publication(self, publication: Publication) -> None:
        """CREATE or ALTER PUBLICATION in a transaction of its own."""
        self.session().create_publication(publication)

    def create_origin(self, name: str) -> int:
        """``pg_replication_origin_create``; returns the number."""
        number = self.origins[name] = max(self.origins.values(), default=0) + 1
        self.session().change_origin(number, name)
        return number

    def drop_origin(self, name: str) -> None:
        """``pg_replication_origin_drop``"""
        self.session().change_origin(self.origin(name), None)
        del self.origins[name]
