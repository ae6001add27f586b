r"""``\dRp`` and ``\dRp+``: emulated publications, as psql 18 shows a server's publications."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from subscriber import catalog
from subscriber.cli.psql_table import format_rows
from subscriber.errors import NotSupportedError, UsageError
from subscriber.publication.definition import OPERATIONS, Publication
from subscriber.targets import Target

_HEADINGS: Final = (
    *("Owner", "All tables", "Inserts", "Updates", "Deletes", "Truncates", "Generated columns", "Via root"),
)


def list_publications(target: Target, pattern: str | None = None) -> str:
    r"""What ``\dRp`` prints, without the last newline.

    Raises:
        UsageError: the pattern has more parts than a name.
        NotSupportedError: the pattern is a regular expression.
    """
    rows = [(publication.name, *_row(publication, owner)) for publication, owner in _publications(target, pattern)]
    return format_rows(("Name", *_HEADINGS), rows, "List of publications") + "\n"


def describe_publications(target: Target, pattern: str | None = None) -> str:
    r"""What ``\dRp+`` prints, without the last newline.

    Raises:
        UsageError: the pattern has more parts than a name.
        NotSupportedError: the pattern is a regular expression.
    """
    described = [
        format_rows(_HEADINGS, [_row(publication, owner)], f"Publication {publication.name}", _members(publication))
        for publication, owner in _publications(target, pattern)
    ]
    if not described:
        named = "any publications" if pattern is None else f'any publication named "{pattern}"'
        return f"Did not find {named}."
    return "\n\n".join(described) + "\n"


def _publications(target: Target, pattern: str | None) -> list[tuple[Publication, str]]:
    names = re.compile(".*" if pattern is None else pattern_to_regex(pattern), re.DOTALL)
    with target.reporting():
        catalog.ensure_catalog(target.engine)
    with target.reporting(), target.engine.connect() as connection:
        owners = catalog.owners_of_publications(connection)
        publications = catalog.list_publications(connection)
    return [(one, owners[one.name]) for one in publications if names.fullmatch(one.name)]


def _row(publication: Publication, owner: str) -> tuple[str, ...]:
    published = [_boolean(operation in publication.publish) for operation in OPERATIONS]
    return (
        owner,
        _boolean(publication.all_tables),
        *published,
        publication.generated_columns,
        _boolean(publication.via_root),
    )


def _boolean(value: bool) -> str:
    return "t" if value else "f"


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
    r"""Translate a pattern of psql's describe commands into a regular expression.

    ``*`` stands for any characters and ``?`` for one character. Text in quotes is taken literally.

    Raises:
        UsageError: the pattern has more parts than a name (SQLSTATE 42601).
        NotSupportedError: the pattern is a regular expression, which only PostgreSQL could
            evaluate.

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
