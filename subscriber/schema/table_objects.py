"""What a publisher's table has beside its shape: indexes, user-defined types, comments, partitions.

:mod:`subscriber.publisher.table_objects` reads it; the schema step of a migration compares it with
the target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from subscriber.schema.shape import TableShape


@dataclass(frozen=True, slots=True)
class IndexKey:
    """One key of an index.

    Attributes:
        column: the column's name; None for an expression.
        expression: the expression as ``pg_get_expr`` writes it; empty for a column.
        descending: whether the key is sorted downwards.
        ordinary: whether it has the default operator class and the column's collation.
    """

    column: str | None
    expression: str = ""
    descending: bool = False
    ordinary: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexShape:
    """An index, or the index of a key or exclusion constraint.

    Attributes:
        name: the index's name, which is also that of its constraint.
        keys: the keys.
        include: the columns of INCLUDE.
        unique: whether the keys are unique.
        predicate: the condition of a partial index as ``pg_get_expr`` writes it; None for none.
        method: the access method.
        nulls_distinct: whether rows with a NULL in the keys are never equal.
        deferrable: whether it is checked at the end of a transaction.
        constraint: the kind of the constraint that the index belongs to; empty for none.
        ddl: PostgreSQL's definition: of a constraint, as after ADD CONSTRAINT and the name; of an
            index, as after USING.
    """

    name: str
    keys: tuple[IndexKey, ...]
    include: tuple[str, ...] = ()
    unique: bool = False
    predicate: str | None = None
    method: str = "btree"
    nulls_distinct: bool = True
    deferrable: bool = False
    constraint: Literal["", "primary key", "unique", "exclusion"] = ""
    ddl: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserType:
    """A user-defined type.

    Attributes:
        oid: the type's OID.
        schema: the type's schema.
        name: the type's name.
        kind: what it is.
        ddl: the statement that creates it; empty if it is not known here.
        labels: the labels of an enum, in their order.
        base: the OID of the type below a domain, and of the domains below it.
        checks: name and expression of the CHECK constraints of a domain and of those below it.
            VALUE stands for the value.
        unmet: name and definition of those that values may violate, because they are NOT VALID.
        nullable: whether a domain allows NULL.
        needs: the user-defined types that it is made of.
        calls: the user-defined functions that a domain's constraints and default call, as
            ``regprocedure`` writes them.
    """

    oid: int
    schema: str
    name: str
    kind: Literal["enum", "domain", "composite", "range", "extension", "other"]
    ddl: str = ""
    labels: tuple[str, ...] = ()
    base: int = 0
    checks: tuple[tuple[str, str], ...] = ()
    unmet: tuple[tuple[str, str], ...] = ()
    nullable: bool = True
    needs: tuple[UserType, ...] = ()
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of a partitioned table.

    Attributes:
        schema: its schema.
        name: its name.
        parent: schema and name of the table that it is a partition of.
        bound: ``FOR VALUES …`` or ``DEFAULT``.
        key: its own partition key, if it is partitioned; else empty.
    """

    schema: str
    name: str
    parent: tuple[str, str]
    bound: str
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableObjects:
    """A publisher's table with everything that belongs to it.

    Attributes:
        shape: the whole table, with the columns that are not published.
        indexes: all indexes.
        types: for each column with a user-defined type, or an array of such a type: the type, and
            whether it is an array.
        comment: the table's comment; None for none.
        column_comments: the comments of columns.
        partition_key: the partition key of a partitioned table; empty for an ordinary table.
        partitions: the partitions, parents before their partitions.
        calls: the user-defined functions that an object calls, as ``regprocedure`` writes them, by
            what the object is and its name: "default" and a column (which may be generated),
            "check" or "index" and its name, "partitions" and no name.
    """

    shape: TableShape
    indexes: tuple[IndexShape, ...] = ()
    types: Mapping[str, tuple[UserType, bool]] = field(default_factory=dict)
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)
    partition_key: str = ""
    partitions: tuple[Partition, ...] = ()
    calls: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A user-defined function or procedure.

    Attributes:
        name: its name with schema and argument types, as ``regprocedure`` writes it.
        ddl: the statement that creates it, or the extension that has it; empty for an aggregate.
        extension: whether an extension has it.
    """

    name: str
    ddl: str
    extension: bool = False


@dataclass(frozen=True, slots=True)
class LoneSequence:
    """A sequence that no column owns.

    Attributes:
        schema: its schema.
        name: its name.
        ddl: what follows its name in CREATE SEQUENCE.
    """

    schema: str
    name: str
    ddl: str


def after_using(ddl: str) -> str:
    """What follows USING in a definition of ``pg_get_indexdef``. The quoted names before it may
    contain the word.
    """
    place, quoted = 0, False
    while quoted or not ddl.startswith(" USING ", place):
        quoted ^= ddl[place] == '"'
        place += 1
    return ddl[place + len(" USING ") :]
