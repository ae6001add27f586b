"""CREATE, ALTER and DROP PUBLICATION as data: names as they were written, and options as a list,
because PostgreSQL looks for the publication before it reads them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NotRequired, TypedDict, cast

from subscriber.base.errors import SQLSyntaxError
from subscriber.postgres.publication.definition import OPERATIONS, GeneratedColumns, Operation
from subscriber.postgres.sql import option_list
from subscriber.postgres.sql.lexer import fold, syntax_error


@dataclass(frozen=True, slots=True)
class RelationName:
    """``RangeVar``. ONLY excludes the tables that inherit from it."""

    name: str
    schema: str | None = None
    database: str | None = None
    only: bool = False

    @property
    def as_written(self) -> str:
        return ".".join(part for part in (self.database, self.schema, self.name) if part is not None)


@dataclass(frozen=True, slots=True)
class Filter:
    """``WHERE (…)``: the text in parentheses, and the index in the command where it begins."""

    text: str
    position: int = field(default=0, compare=False)
    sql: str = field(default="", repr=False, compare=False)

    def in_command(self, error: SQLSyntaxError) -> SQLSyntaxError:
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
class SchemaMember:
    """``TABLES IN SCHEMA name``; None means CURRENT_SCHEMA."""

    name: str | None


PublicationObject = TableObject | SchemaMember


@dataclass(frozen=True, slots=True)
class AllObjects:
    """``ALL TABLES [EXCEPT (TABLE relation, …)], ALL SEQUENCES``, of PostgreSQL 19."""

    tables: bool = False
    excepted: tuple[RelationName, ...] = ()
    sequences: bool = False

    def __bool__(self) -> bool:
        return self.tables or self.sequences


@dataclass(frozen=True, slots=True)
class CreatePublication:
    name: str
    objects: tuple[PublicationObject, ...] = ()
    everything: AllObjects = AllObjects()
    options: option_list.OptionList = field(default_factory=option_list.OptionList)


@dataclass(frozen=True, slots=True)
class AlterPublicationObjects:
    name: str
    action: Literal["add", "set", "drop"]
    objects: tuple[PublicationObject, ...]


@dataclass(frozen=True, slots=True)
class AlterPublicationAll:
    """ALTER PUBLICATION … SET ALL TABLES or ALL SEQUENCES, of PostgreSQL 19."""

    name: str
    everything: AllObjects


@dataclass(frozen=True, slots=True)
class AlterPublicationOptions:
    name: str
    options: option_list.OptionList


@dataclass(frozen=True, slots=True)
class AlterPublicationOwner:
    """``owner`` is None for the current role (CURRENT_USER and its synonyms)."""

    name: str
    owner: str | None


@dataclass(frozen=True, slots=True)
class RenamePublication:
    name: str
    new_name: str


@dataclass(frozen=True, slots=True)
class DropPublication:
    """CASCADE and RESTRICT have no effect, since nothing depends on a publication."""

    names: tuple[str, ...]
    if_exists: bool


AlterPublication = (
    AlterPublicationObjects | AlterPublicationAll | AlterPublicationOptions | AlterPublicationOwner | RenamePublication
)
PublicationCommand = CreatePublication | AlterPublication | DropPublication


class PublicationOptions(TypedDict):
    """The options that were given, named as the attributes of ``Publication``."""

    publish: NotRequired[frozenset[Operation]]
    via_root: NotRequired[bool]
    generated_columns: NotRequired[GeneratedColumns]


def read_publication_options(options: option_list.OptionList) -> PublicationOptions:
    """SQLSyntaxError (42601) for an option that is unknown, repeated or malformed."""
    values = option_list.read_given(options.sql, options.given, _READERS, "publication")
    return cast("PublicationOptions", {_FIELDS[name]: value for name, value in values.items()})


def _publish(name: str, value: option_list.OptionValue) -> frozenset[Operation]:
    found: set[Operation] = set()
    for word in _identifiers(name, option_list.read_text(name, value)):
        operation = next((one for one in OPERATIONS if one == word), None)
        if operation is None:
            raise SQLSyntaxError(f'unrecognized value for publication option "{name}": "{word}"')
        found.add(operation)
    return frozenset(found)


def _generated_columns(name: str, value: option_list.OptionValue) -> GeneratedColumns:
    text = "" if value is None else str(value)
    match fold(text):
        case "none":
            return "none"
        case "stored":
            return "stored"
    raise SQLSyntaxError(
        f'invalid value for publication parameter "{name}": "{text}"', detail='Valid values are "none" and "stored".'
    )


def _identifiers(name: str, text: str) -> list[str]:
    found = split_identifiers(text)
    if found is None:
        raise SQLSyntaxError(f'invalid list syntax in parameter "{name}"')
    return found


def split_identifiers(text: str) -> list[str] | None:
    """Names separated by commas, in quotes or folded to lower case; None if the text is no such
    list (``SplitIdentifierString``).

    >>> split_identifiers('A, "b, c"'), split_identifiers(""), split_identifiers("a,,b")
    (['a', 'b, c'], [], None)
    """
    if not _LIST.fullmatch(text):
        return None
    return [word[1:-1].replace('""', '"') if word.startswith('"') else fold(word) for word in _ELEMENT.findall(text)]


_ELEMENT: Final = re.compile(r'"(?:[^"]|"")*"|[^",\s][^,\s]*', re.ASCII)
_LIST: Final = re.compile(rf"\s*(?:(?:{_ELEMENT.pattern})\s*(?:,\s*(?:{_ELEMENT.pattern})\s*)*)?", re.ASCII)

_READERS: Final[Mapping[str, option_list.OptionReader]] = {
    "publish": _publish,
    "publish_via_partition_root": option_list.read_boolean,
    "publish_generated_columns": _generated_columns,
}
PUBLICATION_OPTIONS: Final = tuple(_READERS)

_FIELDS: Final = {
    "publish": "publish",
    "publish_via_partition_root": "via_root",
    "publish_generated_columns": "generated_columns",
}
