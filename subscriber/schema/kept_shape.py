"""The shape of a relation that is stored between two relation messages: the columns that were
applied last, and the state of the publisher's table at that time.

The catalog stores it (:mod:`subscriber.catalog.relation_shapes`);
:mod:`subscriber.apply.relations.added_columns` uses it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from subscriber.protocol.messages import Relation
from subscriber.schema.attributes import TableAttributes


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A column of a relation message that was applied: its name and type."""

    name: str
    type_oid: int
    type_modifier: int


@dataclass(frozen=True, slots=True)
class Baseline:
    """The state of a publisher's table before a column is added.

    Attributes:
        last: the highest number of a column that the table had.
        files: :attr:`TableAttributes.files`.
    """

    last: int
    files: Mapping[int, int]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text that :meth:`to_json` wrote."""
        content = json.loads(text)
        return cls(content["last"], {int(oid): file for oid, file in content["files"].items()})

    def to_json(self) -> str:
        """The baseline as the catalog stores it."""
        return json.dumps({"last": self.last, "files": self.files})


@dataclass(frozen=True, slots=True)
class KeptShape:
    """The stored shape of a relation: the columns of the last message that was applied, and the
    baseline and the OID of the publisher's table if they are known.
    """

    columns: tuple[KeptColumn, ...]
    baseline: Baseline | None = None
    oid: int | None = None

    def is_of(self, remote: Relation) -> bool:
        """Whether a relation message has the same columns, and is of the same table."""
        return self.oid == remote.relation_id and self.columns == columns_of(remote)

    def is_of_another_table(self, remote: Relation) -> bool:
        """Whether a relation message is of a table that has taken the name of the former one: the
        OID of a table never changes.
        """
        return self.oid is not None and self.oid != remote.relation_id

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)


def columns_of(remote: Relation) -> tuple[KeptColumn, ...]:
    """The columns of a relation message."""
    return tuple(KeptColumn(column.name, column.type_oid, column.type_modifier) for column in remote.columns)


def first_baseline(now: TableAttributes | None) -> Baseline | None:
    """The baseline of a table at the moment of ``now``; None if a column list leaves out some of
    its columns.
    """
    return Baseline(now.last, now.files) if now is not None and now.whole else None
