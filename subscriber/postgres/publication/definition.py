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
    """Without ONLY, the tables that inherit from a table are separate members."""

    schema: str
    name: str
    columns: tuple[str, ...] | None = None
    where: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        return self.schema, self.name


@dataclass(frozen=True, slots=True)
class Publication:
    """The tables, and the (schema, name) of EXCEPT, are in the order of the publisher's OIDs."""

    name: str
    all_tables: bool = False
    tables: tuple[TableEntry, ...] = ()
    schemas: tuple[str, ...] = ()
    excepted: tuple[tuple[str, str], ...] = ()
    publish: frozenset[Operation] = frozenset(OPERATIONS)
    via_root: bool = False
    generated_columns: GeneratedColumns = "none"
    all_sequences: bool = False

    def entry(self, schema: str, name: str) -> TableEntry | None:
        return next((one for one in self.tables if one.key == (schema, name)), None)
