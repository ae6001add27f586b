"""The tables that publications publish, and which columns and rows of each an initial copy reads.

The server evaluates its publications
(:class:`subscriber.publisher.server_publications.ServerPublications`), the subscriber the emulated
ones (:class:`subscriber.postgres.publication.publishing.Publishing`). All code uses
:class:`Publications` and does not depend on which it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table that publications publish (rules B1, D7-D9), a partitioned one through its root.
    ``columns`` None (before 15 only) is every column not generated. An initial copy reads the rows
    that pass at least one of ``filters``; all without any.
    """

    schema: str
    name: str
    kind: Literal["table", "partitioned table"] = "table"
    columns: tuple[str, ...] | None = None
    filters: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.schema, self.name

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


class Publications(Protocol):
    """A subscription's publications. A query that the publisher refuses is a PublisherError."""

    def published_tables(self) -> list[PublishedTable]:
        """The tables without duplicates, ordered by schema and name. NotSupportedError is raised
        where two publications publish different columns of a table (rule B39).
        """

    def published_table(self, schema: str, name: str) -> PublishedTable:
        """One table; PublisherError if its columns differ (B39) or it is not published."""

    def has_column_list(self, schema: str, name: str) -> bool:
        """Whether one of the publications has a column list for the table. A partition has none of
        its own: where its root has one, the root is published.
        """

    def published_actions(self, schema: str, name: str) -> frozenset[str] | None:
        """The published kinds of changes, such as ``insert``; None if the table is in none."""

    def sequences(self) -> list[tuple[str, str]]:
        """Schema and name of the sequences that are published (FOR ALL SEQUENCES), in order."""

    def changing_tables(self) -> frozenset[tuple[str, str]]:
        """Schema and name of the tables whose UPDATEs or DELETEs are published."""
