"""What is kept of a relation from one message to the next: the columns that were applied last, and
what the publisher's table was like.

The catalog stores it (:mod:`subscriber.catalog.relation_shapes`);
:mod:`subscriber.apply.added_columns` decides by it.
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
    """What is known of a publisher's table from before a column comes up.

    Attributes:
        last: the highest number of a column that it had.
        files: :attr:`TableAttributes.files`.
    """

    last: int
    files: Mapping[int, int]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what :meth:`to_json` wrote."""
        content = json.loads(text)
        return cls(content["last"], {int(oid): file for oid, file in content["files"].items()})

    def to_json(self) -> str:
        """As the catalog keeps it."""
        return json.dumps({"last": self.last, "files": self.files})


@dataclass(frozen=True, slots=True)
class KeptShape:
    """What the catalog keeps of a relation: the last message that was applied, and the baseline
    where one is known.
    """

    columns: tuple[KeptColumn, ...]
    baseline: Baseline | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names."""
        return tuple(column.name for column in self.columns)


def columns_of(remote: Relation) -> tuple[KeptColumn, ...]:
    """The columns of a message."""
    return tuple(KeptColumn(column.name, column.type_oid, column.type_modifier) for column in remote.columns)


def first_baseline(now: TableAttributes | None) -> Baseline | None:
    """What is known of a table from the moment of ``now`` on: nothing where a column list keeps
    some of it back.
    """
    return Baseline(now.last, now.files) if now is not None and now.whole else None
