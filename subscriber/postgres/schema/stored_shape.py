"""What the catalog keeps of a relation between two relation messages: the columns that were applied
last, and the state of the publisher's table then. :mod:`subscriber.apply.relations.missing_columns`
uses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from subscriber.postgres.protocol.messages import Relation
from subscriber.postgres.schema.publisher_tables import TableAttributes


@dataclass(frozen=True, slots=True)
class StoredColumn:
    name: str
    type_oid: int
    type_modifier: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """The state of a publisher's table before a column is added; see :class:`TableAttributes`."""

    last: int
    files: Mapping[int, int]

    @classmethod
    def from_json(cls, text: str) -> Self:
        content = json.loads(text)
        return cls(content["last"], {int(oid): file for oid, file in content["files"].items()})

    def to_json(self) -> str:
        return json.dumps({"last": self.last, "files": self.files})


@dataclass(frozen=True, slots=True)
class StoredShape:
    """The columns of the last message applied, and what is known of the publisher's table."""

    columns: tuple[StoredColumn, ...]
    baseline: Baseline | None = None
    oid: int | None = None

    def is_of(self, remote: Relation) -> bool:
        """Whether a relation message has the same columns, and is of the same table."""
        return self.oid == remote.relation_id and self.columns == columns_of(remote)

    def is_of_another_table(self, remote: Relation) -> bool:
        """Whether another table took the name: the OID of a table never changes."""
        return self.oid is not None and self.oid != remote.relation_id

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)


def columns_of(remote: Relation) -> tuple[StoredColumn, ...]:
    return tuple(StoredColumn(column.name, column.type_oid, column.type_modifier) for column in remote.columns)


def first_baseline(now: TableAttributes | None) -> Baseline | None:
    """The baseline at that moment; None if a column list leaves out some of the columns."""
    return Baseline(now.last, now.files) if now is not None and now.whole else None
