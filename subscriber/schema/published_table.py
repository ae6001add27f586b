"""What publications publish: the tables, and what of each table's rows an initial copy reads.

::

    publications of the server       publisher.published_tables.ServerPublications ─┐
                                                                                    ├─▶ Publications ─▶ PublishedTable
    emulated publications            publication.publishing.Publishing ─────────────┘

Commands, initial copies and `subscriber run` ask through :class:`Publications`, so they need not
know who evaluates the publications.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table that publications publish together (rules B1, D7-D9).

    Attributes:
        schema: the table's schema.
        name: the table's name.
        kind: a partitioned table is published through its root.
        columns: the published columns, in the table's order. None means every column that is not
            generated; it comes from servers before 15 only, which have no column lists.
        filters: an initial copy reads the rows that pass one of them; empty means all rows.
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
    """The publications of a subscription, whoever evaluates them."""

    def published_tables(self) -> list[PublishedTable]:
        """The tables that the publications publish, each once, by schema and name.

        Raises:
            NotSupportedError: two publications publish different columns of a table (rule B39).
            PublisherError: the publisher refused the question.
        """

    def published_table(self, schema: str, name: str) -> PublishedTable:
        """What of one table is published.

        Raises:
            PublisherError: the publications do not agree, or the table is not published any more.
        """

    def changing_tables(self) -> frozenset[tuple[str, str]]:
        """Schema and name of the tables whose UPDATEs or DELETEs are published.

        Raises:
            PublisherError: the publisher refused the question.
        """
