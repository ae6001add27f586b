"""What CREATE, ALTER and DROP PUBLICATION say, as data: names as they were written, nothing looked
up yet.

Options stay a list, too: PostgreSQL looks for the publication before it reads them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from subscriber.errors import SQLSyntaxError
from subscriber.sql.lexer import syntax_error
from subscriber.sql.option_list import OptionList


@dataclass(frozen=True, slots=True)
class RelationName:
    """A table's name (``RangeVar``).

    Attributes:
        name: the table's.
        schema: None where none was written.
        database: None where none was written.
        only: ONLY: what inherits from the table is not meant.
    """

    name: str
    schema: str | None = None
    database: str | None = None
    only: bool = False

    @property
    def as_written(self) -> str:
        """With a dot between its parts, for messages."""
        return ".".join(part for part in (self.database, self.schema, self.name) if part is not None)


@dataclass(frozen=True, slots=True)
class Filter:
    """``WHERE (…)``.

    Attributes:
        text: what is between the parentheses.
        position: where that begins in the command, a character index.
        sql: the command.
    """

    text: str
    position: int = field(default=0, compare=False)
    sql: str = field(default="", repr=False, compare=False)

    def in_command(self, error: SQLSyntaxError) -> SQLSyntaxError:
        """An error that points into the text as one that points into the command."""
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
    """``TABLES IN SCHEMA name``; None is CURRENT_SCHEMA."""

    name: str | None


PublicationObject = TableObject | SchemaObject


@dataclass(frozen=True, slots=True)
class CreatePublication:
    """CREATE PUBLICATION.

    Attributes:
        name: the publication's.
        objects: FOR TABLE, FOR TABLES IN SCHEMA.
        all_tables: FOR ALL TABLES.
        excepted: EXCEPT (TABLE …), of PostgreSQL 19.
        options: WITH (…).
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
    """ALTER PUBLICATION … OWNER TO; ``owner`` is None for the current role (CURRENT_USER and its
    like).
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
    """DROP PUBLICATION; CASCADE and RESTRICT change nothing, as in PostgreSQL, since nothing
    depends on a publication.
    """

    names: tuple[str, ...]
    if_exists: bool


AlterPublication = AlterPublicationObjects | AlterPublicationOptions | AlterPublicationOwner | RenamePublication
PublicationCommand = CreatePublication | AlterPublication | DropPublication
