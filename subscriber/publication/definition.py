"""A publication as it is stored: what ``pg_publication``, ``pg_publication_rel`` and
``pg_publication_namespace`` hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Operation = Literal["insert", "update", "delete", "truncate"]
OPERATIONS: tuple[Operation, ...] = ("insert", "update", "delete", "truncate")
GeneratedColumns = Literal["none", "stored"]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A member by name (``pg_publication_rel``). Without ONLY, the tables that inherit from it are
    members of their own.

    Attributes:
        schema: the table's.
        name: the table's.
        columns: the column list, by name; None for none.
        where: the filter, as it was written or as ``pg_get_expr`` writes it; None for none.
    """

    schema: str
    name: str
    columns: tuple[str, ...] | None = None
    where: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Schema and name."""
        return self.schema, self.name


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication.

    Attributes:
        name: its name.
        all_tables: FOR ALL TABLES.
        tables: its members by name, in the order of the publisher's OIDs.
        schemas: FOR TABLES IN SCHEMA.
        excepted: FOR ALL TABLES EXCEPT TABLE: (schema, name).
        publish: the operations.
        via_root: ``publish_via_partition_root``.
        generated_columns: ``publish_generated_columns``.
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
        """The member of that name."""
        return next((one for one in self.tables if one.key == (schema, name)), None)
