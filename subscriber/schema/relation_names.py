"""The names of the publisher's relations in the target: the subscription's option ``map``.

::

    public.t => archive.t, old.* => new.*        identifiers as in SQL; a table has precedence over its schema

All code that finds a table of the target by a publisher's name uses :class:`RelationNames`: the
stream, the copy, the commands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from subscriber.errors import SQLSyntaxError, UsageError
from subscriber.sql.cursor import Cursor, read_label, read_name
from subscriber.sql.lexer import Kind

TableName = tuple[str, str]
"""Schema and name."""
Place = Callable[[str, str], tuple[str | None, str]]
"""Maps a schema and name to the table that the target uses for them. SQLite has one namespace for
all schemas.
"""

_HINT: Final = "Write map = 'schema.table => schema.table, schema.* => schema.*', with identifiers quoted as in SQL."
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class RelationNames:
    """The target's names of relations; names that are not mapped are the publisher's.

    Attributes:
        tables: pairs of a publisher's table and the target's table, in the order given.
        schemas: pairs of a publisher's schema and the target's schema, in the order given.
    """

    tables: tuple[tuple[TableName, TableName], ...] = ()
    schemas: tuple[tuple[str, str], ...] = ()

    def local(self, schema: str, name: str) -> TableName:
        """The target's schema and name of the publisher's relation.

        >>> parse_names("public.t => archive.u, public.* => new.*").local("public", "t")
        ('archive', 'u')
        """
        for remote, local in self.tables:
            if remote == (schema, name):
                return local
        return dict(self.schemas).get(schema, schema), name

    def qualified(self, schema: str, name: str) -> str:
        """The target's name of the publisher's relation as ``schema.table``, for messages."""
        return ".".join(self.local(schema, name))

    def check_distinct(self, relations: Iterable[TableName], place: Place | None = None) -> None:
        """Refuse names that map two relations of the publisher to the same table.

        Args:
            relations: the subscription's relations, by the publisher's names.
            place: maps a name to the table that the target uses for it, since two names may denote
                the same table; without it, each name is its own table.

        Raises:
            UsageError: 42710, naming both relations and the table.
        """
        _check_targets([(one, self.local(*one)) for one in sorted(set(relations))], place)

    def __str__(self) -> str:
        """The map as :func:`parse_names` reads it; empty if nothing is mapped."""
        entries = [f"{_written(*remote)} => {_written(*local)}" for remote, local in self.tables]
        entries += [
            f"{written_identifier(remote)}.* => {written_identifier(local)}.*" for remote, local in self.schemas
        ]
        return ", ".join(entries)


SAME_NAMES: Final = RelationNames()
"""The map without entries: every name is the publisher's."""


def parse_names(text: str) -> RelationNames:
    """Read a map; an empty text maps nothing.

    Raises:
        SQLSyntaxError: 42601, the text is malformed; the detail names the place.
        UsageError: 42710, a source is named twice, or two tables have the same target.
    """
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


def _written(schema: str, name: str) -> str:
    return f"{written_identifier(schema)}.{written_identifier(name)}"


def written_identifier(name: str) -> str:
    """The identifier as SQL writes it: quoted if that is needed."""
    quoted = name.replace('"', '""')
    try:
        # A reserved word cannot begin a name.
        plain = _PLAIN.fullmatch(name) is not None and read_name(Cursor(name)) == name
    except SQLSyntaxError:
        plain = False
    return name if plain else f'"{quoted}"'
