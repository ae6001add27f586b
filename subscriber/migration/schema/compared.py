"""A publisher's table beside its table in the target, and what a comparison of them finds."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from subscriber.schema.relation_names import RelationNames
from subscriber.schema.table_objects import TableObjects
from subscriber.targets import Connection, Target, TargetTable
from subscriber.targets.table_changes import CannotBuild, Definition, FoundObjects, TableChange

TEXT: Final = 25
"""The type OID of text, in which other targets than PostgreSQL store the values of enums."""


@dataclass(frozen=True, slots=True)
class Missing:
    """An object that the target lacks, or that it has with another definition.

    Attributes:
        kind: its kind.
        name: its name, without that of its table; empty for the table itself.
        change: what builds it; None if it is left out.
        reason: why it is left out; for an object that is built, what the target has in its place.
        publisher_ddl: the publisher's definition.
        by_hand: the statements of the target with which a user can build an object that is left
            out.
    """

    kind: str
    name: str
    change: TableChange | None
    reason: str = ""
    publisher_ddl: str = ""
    by_hand: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A publisher's table and its table in the target.

    Attributes:
        target: the target.
        connection: a connection to the target.
        objects: the publisher's table.
        table: the target's table.
        found: what the target's table has.
        names: the target's names of relations.
        subscription: the name of the subscription.
        published: the names of the published columns; None for every column that is not generated.
        references: the target's tables by the publisher's names, to which foreign keys may refer.
        shared_names: the names of foreign keys that several tables have.
    """

    target: Target
    connection: Connection
    objects: TableObjects
    table: TargetTable
    found: FoundObjects
    names: RelationNames
    subscription: str = ""
    published: Collection[str] | None = None
    references: Mapping[tuple[str, str], TargetTable] = field(default_factory=dict)
    shared_names: Collection[str] = ()

    @property
    def keeps_types(self) -> bool:
        """Whether the target can have PostgreSQL's types and expressions."""
        return self.target.capabilities.postgresql_expressions

    def place(self, name: str) -> str:
        """The target's name of an object of the table's schema."""
        shape = self.objects.shape
        schema, _ = self.names.local(shape.schema, shape.name)
        return self.target.ddl.place(schema, name)[1]

    def expression(self, text: str, *, loose: bool = False) -> str:
        """An expression over the table's columns; the values of enums are texts.

        Raises:
            CannotBuild: it is not known to mean the same.
        """
        enums = self.enums()
        columns = {
            one.name: (TEXT if one.type_name in enums else one.type_oid, found)
            for one in self.objects.shape.columns
            if (found := self.table.column(one.name)) is not None
        }
        return self.target.objects.expression(text, columns, inexact=self.found.inexact, enums=enums, loose=loose)

    def enums(self) -> frozenset[str]:
        """The enums of the table's columns, as ``format_type`` writes them."""
        types = self.objects.types
        return frozenset(
            column.type_name
            for column in self.objects.shape.columns
            if column.name in types and types[column.name][0].kind == "enum" and not types[column.name][1]
        )

    def shown(self, change: Definition) -> str:
        """The definition of a change as the target would show it.

        Raises:
            CannotBuild: the target cannot have this.
        """
        return self.target.objects.shown(self.connection, self.table, change)


def different(both: Compared, kind: str, name: str, change: Definition, present: tuple[str, str], ddl: str) -> Missing:
    """An object that the target has with another definition. It is left to the user, who may have
    declared it so, with the statements that replace it.

    Args:
        both: the tables.
        kind: the kind of the finding.
        name: the publisher's name of the object.
        change: what builds the publisher's object.
        present: the target's name of the object, and its definition.
        ddl: the publisher's definition.
    """
    objects, (present_name, definition) = both.target.objects, present
    reason = f"the target has {definition}"
    try:
        removal = objects.removal(both.table, change, present_name)
        statements = objects.statements(both.connection, both.table, change).sql
    except CannotBuild as error:
        return Missing(kind, name, None, f"{reason}; {error.reason}", ddl)
    return Missing(kind, name, None, reason, ddl, (*removal, *statements))
