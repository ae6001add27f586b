"""The options of publications: PostgreSQL 18's names, values and error texts (rule B42)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NotRequired, TypedDict, cast

from subscriber.errors import SQLSyntaxError
from subscriber.publication.definition import OPERATIONS, GeneratedColumns, Operation
from subscriber.sql.lexer import fold
from subscriber.sql.option_list import OptionList, OptionReader, OptionValue, read_boolean, read_given, read_text


class PublicationOptions(TypedDict):
    """The options that were given, with the names of the attributes of
    :class:`~subscriber.publication.definition.Publication`.
    """

    publish: NotRequired[frozenset[Operation]]
    via_root: NotRequired[bool]
    generated_columns: NotRequired[GeneratedColumns]


def read_publication_options(options: OptionList) -> PublicationOptions:
    """Read WITH (…), or SET (…). The result has only the options that were given.

    Raises:
        SQLSyntaxError: 42601, for an option that is unknown, repeated or malformed.
    """
    values = read_given(options.sql, options.given, _READERS, "publication")
    return cast("PublicationOptions", {_FIELDS[name]: value for name, value in values.items()})


def _publish(name: str, value: OptionValue) -> frozenset[Operation]:
    """The operations of a list; an empty list publishes no operation."""
    found: set[Operation] = set()
    for word in _identifiers(name, read_text(name, value)):
        operation = next((one for one in OPERATIONS if one == word), None)
        if operation is None:
            raise SQLSyntaxError(f'unrecognized value for publication option "{name}": "{word}"')
        found.add(operation)
    return frozenset(found)


def _generated_columns(name: str, value: OptionValue) -> GeneratedColumns:
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

_READERS: Final[Mapping[str, OptionReader]] = {
    "publish": _publish,
    "publish_via_partition_root": read_boolean,
    "publish_generated_columns": _generated_columns,
}
PUBLICATION_OPTIONS: Final = tuple(_READERS)
"""The names of the options."""

_FIELDS: Final = {
    "publish": "publish",
    "publish_via_partition_root": "via_root",
    "publish_generated_columns": "generated_columns",
}
