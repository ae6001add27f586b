"""Identifiers, names and literals as PostgreSQL's SQL has them.

Where a connection is at hand, ``psycopg.sql`` does the same.
"""

from __future__ import annotations

from typing import Final

from subscriber.postgres.sql.keywords import TYPE_OR_FUNCTION_NAMES, column_names, reserved

_NEWEST: Final = 18


def quote_identifier(name: str, major: int = _NEWEST) -> str:
    """A name, in quotes if this version would read it as another name without them."""
    plain = name and ((name[0].isascii() and name[0].islower()) or name[0] == "_")
    plain = plain and all(c.isascii() and (c.islower() or c.isdigit() or c == "_") for c in name)
    if plain and name not in reserved(major) | column_names(major) | TYPE_OR_FUNCTION_NAMES:
        return name
    return delimited_identifier(name)


def quote_qualified_name(*names: str) -> str:
    """A name with its schema, or with schema and table, each part in quotes if it needs them.

    >>> quote_qualified_name("public", "Film")
    'public."Film"'
    """
    return ".".join(map(quote_identifier, names))


def delimited_identifier(*names: str) -> str:
    """A name, or a qualified name, with every part in quotes.

    >>> delimited_identifier("public", 'a"b')
    '"public"."a""b"'
    """
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def quote_literal(text: str) -> str:
    """A text as a string constant, for servers with ``standard_conforming_strings``.

    >>> quote_literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
