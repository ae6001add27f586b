"""CREATE, ALTER and DROP PUBLICATION as data.

Names are stored as they were written and are not resolved yet. Options are stored as a list,
because PostgreSQL looks for the publication before it reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from subscriber.errors import SQLSyntaxError
from subscriber.sql.lexer import syntax_error
from subscriber.sql.option_list import OptionList


@dataclass(frozen=True, slots=True)
class RelationName:
    """The name of a table in a command (``RangeVar``).

    Attributes:
        name: the name of the table.
        schema: the schema; None if no schema was written.
        database: the database; None if no database was written.
        only: whether ONLY was written, which excludes the tables that inherit from it.
    """

    name: str
    schema: str | None = None
    database: str | None = None
    only: bool = False

    @property
    def as_written(self) -> str:
        """The parts of the name with dots between them, for messages."""
        return ".".join(part for part in (self.database, self.schema, self.name) if part is not None)


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter, ``WHERE (…)``.

    Attributes:
        text: the text between the parentheses.
        position: the character index in the command at which the text begins.
        sql: the command.
    """

    text: str
    position: int = field(default=0, compare=False)
    sql: str = field(default="", repr=False, compare=False)

    def in_command(self, error: SQLSyntaxError) -> SQLSyntaxError:
        """Change an error with a position in the text to an error with a position in the
        command.
        """
        if error.position is None:
            return error
        moved = syntax_error(self.sql, self.position + error.position - 1, error.message, error.sqlstate)
        moved.hint = error.hint
        return moved


@dataclass(frozen=True, slots=True)
class TableObject:
    """``TABLE [ONLY] name [*] [(column, …)] [WHERE (…)]``."""

    relation: RelationName
    columns: tuple[str, ...] | None = None
    where: Filter | None = None


@dataclass(frozen=True, slots=True)
class SchemaObject:
    """``TABLES IN SCHEMA name``; None means CURRENT_SCHEMA."""

    name: str | None


PublicationObject = TableObject | SchemaObject


@dataclass(frozen=True, slots=True)
class CreatePublication:
    """CREATE PUBLICATION.

    Attributes:
        name: the name of the publication.
        objects: the objects of FOR TABLE and FOR TABLES IN SCHEMA.
        all_tables: whether it is FOR ALL TABLES.
        excepted: the tables of EXCEPT (TABLE …), of PostgreSQL 19.
        options: the options of WITH (…).
    """

    name: str
    objects: tuple[PublicationObject, ...] = ()
    all_tables: bool = False
    excepted: tuple[RelationName, ...] = ()
    options: OptionList = field(default_factory=OptionList)


@dataclass(frozen=True, slots=True)
class AlterPublicationObjects:
    """ALTER PUBLICATION … ADD, SET or DROP of tables and schemas."""

    name: str
    action: Literal["add", "set", "drop"]
    objects: tuple[PublicationObject, ...]


@dataclass(frozen=True, slots=True)
class AlterPublicationOptions:
    """ALTER PUBLICATION … SET (…)."""

    name: str
    options: OptionList


@dataclass(frozen=True, slots=True)
class AlterPublicationOwner:
    """ALTER PUBLICATION … OWNER TO. ``owner`` is None for the current role (CURRENT_USER and its
    synonyms).
    """

    name: str
    owner: str | None


@dataclass(frozen=True, slots=True)
class RenamePublication:
    """ALTER PUBLICATION … RENAME TO."""

    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class DropPublication:
    """DROP PUBLICATION.

    CASCADE and RESTRICT have no effect, as in PostgreSQL, since nothing depends on a publication.
    """

    names: tuple[str, ...]
    if_exists: bool


AlterPublication = AlterPublicationObjects | AlterPublicationOptions | AlterPublicationOwner | RenamePublication
PublicationCommand = CreatePublication | AlterPublication | DropPublication
