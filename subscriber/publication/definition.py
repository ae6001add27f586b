"""A publication as it is stored: the content of ``pg_publication``, ``pg_publication_rel`` and
``pg_publication_namespace``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Operation = Literal["insert", "update", "delete", "truncate"]
OPERATIONS: tuple[Operation, ...] = ("insert", "update", "delete", "truncate")
GeneratedColumns = Literal["none", "stored"]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table that a publication names (``pg_publication_rel``).

    Without ONLY, the tables that inherit from it are separate members.

    Attributes:
        schema: the schema of the table.
        name: the name of the table.
        columns: the column list, by name; None if there is no list.
        where: the row filter, as it was written or as ``pg_get_expr`` writes it; None if there is
            no filter.
    """

    schema: str
    name: str
    columns: tuple[str, ...] | None = None
    where: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The schema and name of the table."""
        return self.schema, self.name


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication.

    Attributes:
        name: its name.
        all_tables: whether it is FOR ALL TABLES.
        tables: the tables that it names, in the order of the publisher's OIDs.
        schemas: the schemas of FOR TABLES IN SCHEMA.
        excepted: the tables of FOR ALL TABLES EXCEPT, as (schema, name), in the order of the
            publisher's OIDs.
        publish: the published operations.
        via_root: the option ``publish_via_partition_root``.
        generated_columns: the option ``publish_generated_columns``.
    """

    name: str
    all_tables: bool = False
    tables: tuple[TableEntry, ...] = ()
    schemas: tuple[str, ...] = ()
    excepted: tuple[tuple[str, str], ...] = ()
    publish: frozenset[Operation] = frozenset(OPERATIONS)
    via_root: bool = False
    generated_columns: GeneratedColumns = "none"

    def entry(self, schema: str, name: str) -> TableEntry | None:
        """The entry of the table of that name; None if the publication does not name it."""
        return next((one for one in self.tables if one.key == (schema, name)), None)
