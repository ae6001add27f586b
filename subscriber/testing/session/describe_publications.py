r"""``\dRp`` and ``\dRp+``: emulated publications, as psql shows a server's publications."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from subscriber.base.errors import NotSupportedError, UsageError
from subscriber.catalog import publications as catalog_publications
from subscriber.catalog.catalog_upgrade import ensure_catalog
from subscriber.catalog.publications import owners_of_publications
from subscriber.postgres.publication.definition import OPERATIONS, Operation, Publication
from subscriber.targets import Target
from subscriber.testing.session.psql_table import format_rows


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    shown: Callable[[Publication, str], str]
    since: int = 0


def list_publications(target: Target, version: int, pattern: str | None = None) -> str:
    r"""What ``\dRp`` of the psql of a major version prints, without the last newline."""
    columns = [_NAME, *_columns(version)]
    rows = [_row(columns, publication, owner) for publication, owner in _publications(target, pattern)]
    return format_rows([one.heading for one in columns], rows, "List of publications") + "\n"


def describe_publications(
    target: Target, version: int, pattern: str | None = None, comments: Mapping[str, str] | None = None
) -> str:
    r"""What ``\dRp+`` prints, without the last newline; ``comments`` are those of publications."""
    columns = _columns(version)
    if version >= _SHOWS_COMMENTS:
        columns.append(_Column("Description", lambda publication, _: (comments or {}).get(publication.name, "")))
    described = [
        format_rows(
            [one.heading for one in columns],
            [_row(columns, publication, owner)],
            f"Publication {publication.name}",
            _members(publication),
        )
        for publication, owner in _publications(target, pattern)
    ]
    if not described:
        named = "any publications" if pattern is None else f'any publication named "{pattern}"'
        return f"Did not find {named}."
    return "\n\n".join(described) + "\n"


def _publications(target: Target, pattern: str | None) -> list[tuple[Publication, str]]:
    names = re.compile(".*" if pattern is None else pattern_to_regex(pattern), re.DOTALL)
    with target.reporting():
        ensure_catalog(target.engine)
    with target.reporting(), target.engine.connect() as connection:
        owners = owners_of_publications(connection)
        publications = catalog_publications.list_publications(connection)
    return [(one, owners[one.name]) for one in publications if names.fullmatch(one.name)]


def _columns(version: int) -> list[_Column]:
    return [one for one in _COLUMNS if version >= one.since]


def _row(columns: Sequence[_Column], publication: Publication, owner: str) -> list[str]:
    return [one.shown(publication, owner) for one in columns]


def _publishes(operation: Operation) -> Callable[[Publication, str], str]:
    return lambda publication, _: _boolean(operation in publication.publish)


def _boolean(value: bool) -> str:
    return "t" if value else "f"


_NAME: Final = _Column("Name", lambda publication, _: publication.name)
_COLUMNS: Final = (
    _Column("Owner", lambda _, owner: owner),
    _Column("All tables", lambda publication, _: _boolean(publication.all_tables)),
    _Column("All sequences", lambda publication, _: _boolean(publication.all_sequences), since=19),
    *(_Column(f"{operation.title()}s", _publishes(operation)) for operation in OPERATIONS),
    _Column("Generated columns", lambda publication, _: publication.generated_columns),
    _Column("Via root", lambda publication, _: _boolean(publication.via_root)),
)
_SHOWS_COMMENTS: Final = 19


def _members(publication: Publication) -> list[str]:
    tables = []
    for entry in sorted(publication.tables, key=lambda entry: entry.key):
        columns = "" if entry.columns is None else f" ({', '.join(entry.columns)})"
        where = "" if entry.where is None else f" WHERE {entry.where}"
        tables.append(f'"{entry.schema}.{entry.name}"{columns}{where}')
    excepted = [f'"{schema}.{name}"' for schema, name in sorted(publication.excepted)]
    schemas = [f'"{schema}"' for schema in sorted(publication.schemas)]
    return [
        *_footer("Tables:", tables),
        *_footer("Tables from schemas:", schemas),
        *_footer("Except tables:", excepted),
    ]


def _footer(title: str, members: Sequence[str]) -> Iterator[str]:
    if members:
        yield title
        yield from (f"    {member}" for member in members)


def pattern_to_regex(pattern: str) -> str:
    r"""The regular expression of a pattern of psql's describe commands.

    ``*`` stands for any characters and ``?`` for one character. Text in quotes is taken literally.
    UsageError (42601): it has more parts than a name. NotSupportedError: it is a regular
    expression, which only PostgreSQL could evaluate.

    >>> pattern_to_regex('P*?"P*"')
    'p.*.P\\*'
    """
    found = []
    quoted = False
    for piece in re.findall(r'""|.', pattern, re.DOTALL):
        if piece == '"' or (piece == '""' and not quoted):
            quoted ^= piece == '"'
        elif quoted:
            found.append(re.escape(piece[0]))
        elif piece == ".":
            raise UsageError(f"improper qualified name (too many dotted names): {pattern}", sqlstate="42601")
        elif piece in "|+()[]{}^\\":
            raise NotSupportedError(
                f"regular expressions are not supported in patterns: {pattern}",
                hint='* matches any characters, ? matches one; characters in "…" match themselves.',
            )
        else:
            found.append({"*": ".*", "?": "."}.get(piece, re.escape(piece.lower() if piece.isascii() else piece)))
    return "".join(found)
