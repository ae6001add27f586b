"""The tables that publications publish, and which columns and rows of each table an initial copy
reads.

::

    publications of the server       publisher.published_tables.ServerPublications ─┐
                                                                                    ├─▶ Publications ─▶ PublishedTable
    emulated publications            publication.publishing.Publishing ─────────────┘

Commands, initial copies and `subscriber run` use the interface :class:`Publications`. So they do
not depend on whether the server or the subscriber evaluates the publications.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table that one or more publications publish (rules B1, D7-D9).

    Attributes:
        schema: the table's schema.
        name: the table's name.
        kind: a partitioned table is published through its root.
        columns: the published columns, in the table's order. None means every column that is not
            generated; only servers before PostgreSQL 15, which have no column lists, give None.
        filters: an initial copy reads the rows that pass at least one of the filters; empty means
            all rows.
    """

    schema: str
    name: str
    kind: Literal["table", "partitioned table"] = "table"
    columns: tuple[str, ...] | None = None
    filters: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name."""
        return self.schema, self.name

    @property
    def qualified_name(self) -> str:
        """``schema.table``, for messages."""
        return f"{self.schema}.{self.name}"


class Publications(Protocol):
    """The publications of a subscription, whether the server or the subscriber evaluates them."""

    def published_tables(self) -> list[PublishedTable]:
        """The tables that the publications publish, without duplicates, ordered by schema and name.

        Raises:
            NotSupportedError: two publications publish different columns of a table (rule B39).
            PublisherError: the publisher refused the query.
        """

    def published_table(self, schema: str, name: str) -> PublishedTable:
        """The published columns and filters of one table.

        Raises:
            PublisherError: the publications publish different columns, or the table is no longer
                published.
        """

    def has_column_list(self, schema: str, name: str) -> bool:
        """Whether one of the publications has a column list for the table.

        A partition has no column list of its own: where its root has one, the root is published.

        Raises:
            PublisherError: the publisher refused the query.
        """

    def published_actions(self, schema: str, name: str) -> frozenset[str] | None:
        """The changes of a table that are published, such as ``insert``; None if no publication
        lists the table.

        Raises:
            PublisherError: the publisher refused the query.
        """

    def changing_tables(self) -> frozenset[tuple[str, str]]:
        """Schema and name of the tables whose UPDATEs or DELETEs are published.

        Raises:
            PublisherError: the publisher refused the query.
        """
