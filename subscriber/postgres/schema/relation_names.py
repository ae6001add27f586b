"""The names of the publisher's relations in the target: the subscription's option ``map``.

::

    public.t => archive.t, old.* => new.*        identifiers as in SQL; a table has precedence over its schema

All code that finds a table of the target by a publisher's name uses :class:`RelationNames`: the
stream, the copy, the commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Self

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.postgres.sql.cursor import Cursor, read_label, read_name
from subscriber.postgres.sql.lexer import Kind
from subscriber.postgres.sql.quoting import quote_identifier, quote_qualified_name

TableName = tuple[str, str]
"""Schema and name."""
Place = Callable[[str, str], tuple[str | None, str]]
"""The target's own schema and name: SQLite has one namespace for all schemas."""

_HINT: Final = "Write map = 'schema.table => schema.table, schema.* => schema.*', with identifiers quoted as in SQL."


class QualifiedName(str):
    """``schema.table``, for messages. The text alone does not tell which dot is between them."""

    __slots__ = ("name", "schema")
    schema: str
    name: str

    @classmethod
    def of(cls, schema: str, name: str) -> Self:
        made = cls(f"{schema}.{name}")
        made.schema, made.name = schema, name
        return made


@dataclass(frozen=True, slots=True)
class RelationNames:
    """The target's names, as pairs with the publisher's; names not mapped are the publisher's."""

    tables: tuple[tuple[TableName, TableName], ...] = ()
    schemas: tuple[tuple[str, str], ...] = ()

    def in_target(self, schema: str, name: str) -> TableName:
        """The target's schema and name of the publisher's relation.

        >>> parse_names("public.t => archive.u, public.* => new.*").in_target("public", "t")
        ('archive', 'u')
        """
        for remote, local in self.tables:
            if remote == (schema, name):
                return local
        return dict(self.schemas).get(schema, schema), name

    def qualified(self, schema: str, name: str) -> QualifiedName:
        """The target's name of the publisher's relation."""
        return QualifiedName.of(*self.in_target(schema, name))

    def check_distinct(self, relations: Iterable[TableName], place: Place | None = None) -> None:
        """Refuse names that map two relations of the publisher to the same table (UsageError,
        42710).

        ``place`` maps a name to the table that the target uses for it, since two names may denote
        the same table.
        """
        _check_targets([(one, self.in_target(*one)) for one in sorted(set(relations))], place)

    def __str__(self) -> str:
        """The map as :func:`parse_names` reads it; empty if nothing is mapped."""
        entries = [
            f"{quote_qualified_name(*remote)} => {quote_qualified_name(*local)}" for remote, local in self.tables
        ]
        entries += [f"{quote_identifier(remote)}.* => {quote_identifier(local)}.*" for remote, local in self.schemas]
        return ", ".join(entries)


SAME_NAMES: Final = RelationNames()
"""The map without entries: every name is the publisher's."""


def parse_names(text: str) -> RelationNames:
    """Read a map; SQLSyntaxError (42601), or UsageError (42710) for a repetition."""
    tables: list[tuple[TableName, TableName]] = []
    schemas: list[tuple[str, str]] = []
    try:
        cursor = Cursor(text)
        while not cursor.at_end():
            if tables or schemas:
                cursor.expect(",")
            _entry(cursor, tables, schemas)
    except SQLSyntaxError as error:
        found = " ".join(part for part in (f"{error.message}.", error.detail) if part)
        raise SQLSyntaxError('invalid syntax in parameter "map"', detail=found, hint=_HINT) from None
    _check_sources([".".join(remote) for remote, _ in tables], "relation")
    _check_sources([remote for remote, _ in schemas], "schema")
    _check_targets(tables)
    return RelationNames(tuple(tables), tuple(schemas))


def _entry(cursor: Cursor, tables: list[tuple[TableName, TableName]], schemas: list[tuple[str, str]]) -> None:
    schema, name = _source(cursor)
    new_schema = read_name(cursor)
    cursor.expect(".")
    if name is None:
        cursor.expect("*")
        schemas.append((schema, new_schema))
    else:
        tables.append(((schema, name), (new_schema, read_label(cursor))))


def _source(cursor: Cursor) -> tuple[str, str | None]:
    """Schema and name, up to the arrow; None for ``*``."""
    schema = read_name(cursor)
    cursor.expect(".")
    lexeme = cursor.peek()
    if lexeme.kind is Kind.OPERATOR and lexeme.value == "*=>":  # without a space "*" and "=>" are a single operator
        cursor.take(Kind.OPERATOR)
        return schema, None
    name = None if cursor.accept("*") else read_label(cursor)
    if not cursor.accept("=>"):
        cursor.expect("=", ">")
    return schema, name


def _check_sources(names: list[str], kind: str) -> None:
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UsageError(f'{kind} "{name}" is mapped more than once', sqlstate="42710")


def _check_targets(pairs: Iterable[tuple[TableName, TableName]], place: Place | None = None) -> None:
    taken: dict[tuple[str | None, str], TableName] = {}
    for remote, local in pairs:
        first = taken.setdefault(local if place is None else place(*local), remote)
        if first != remote:
            raise UsageError(
                f'relations "{".".join(first)}" and "{".".join(remote)}" cannot both be replicated into "{".".join(local)}"',
                sqlstate="42710",
                hint="Map them to different tables: the rows of the two could not be told apart.",
            )
