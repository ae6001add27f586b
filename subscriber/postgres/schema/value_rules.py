"""What happens to values that the target cannot hold: the subscription's option
``unrepresentable_values``.

::

    stop                                    the subscription stops at such a value (the default)
    null                                    NULL takes its place, wherever NULL is allowed
    public.t.c = null, public.u.* = null    in one column; in all columns of a table
    null, public.t.c = stop                 in all columns but one

Names are the publisher's, with identifiers as in SQL. A column has precedence over its table, and a
table over the word without a name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from subscriber.base.errors import SQLSyntaxError, UsageError
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.sql.cursor import Cursor, read_label, read_name
from subscriber.postgres.sql.lexer import Kind
from subscriber.postgres.sql.quoting import quote_identifier, quote_qualified_name

_WORDS: Final = {"stop": False, "null": True}
_HINT: Final = (
    "Write stop, null, or a list such as 'public.t.c = null, public.u.* = null', with identifiers quoted as in SQL."
)


@dataclass(frozen=True, slots=True)
class ValueRules:
    """Which values become NULL if the target cannot hold them; column None is all of a table's."""

    everywhere: bool = False
    columns: tuple[tuple[TableName, str | None, bool], ...] = ()

    def replaces(self, table: TableName, column: str) -> bool:
        """Whether NULL takes the place of such values of a column, by the publisher's names.

        >>> rules = parse_value_rules("public.t.* = null, public.t.c = stop")
        >>> rules.replaces(("public", "t"), "b"), rules.replaces(("public", "t"), "c")
        (True, False)
        """
        found = self.everywhere
        for place, name, replaces in self.columns:
            if place == table and name == column:
                return replaces
            if place == table and name is None:
                found = replaces
        return found

    def concern(self, table: TableName) -> bool:
        """Whether they replace values in any column of the table."""
        return self.everywhere or any(place == table and replaces for place, _, replaces in self.columns)

    def named(self) -> Iterator[tuple[TableName, str]]:
        """The columns that are named one by one and in which NULL takes the place of values."""
        return ((table, column) for table, column, replaces in self.columns if replaces and column is not None)

    @property
    def replace_any(self) -> bool:
        return self.everywhere or any(replaces for *_, replaces in self.columns)

    def __str__(self) -> str:
        if not self.columns:
            return _word(replaces=self.everywhere)
        entries = [_word(replaces=True)] if self.everywhere else []
        for (schema, table), column, replaces in self.columns:
            last = "*" if column is None else quote_identifier(column)
            name = f"{quote_qualified_name(schema, table)}.{last}"
            entries.append(f"{name} = {_word(replaces=replaces)}")
        return ", ".join(entries)


STOP: Final = ValueRules()
"""The rules that replace nothing."""


@lru_cache(maxsize=64)
def parse_value_rules(text: str) -> ValueRules:
    """Read the option: SQLSyntaxError (42601); UsageError (42710) if a column is named twice."""
    everywhere: bool | None = None
    columns: list[tuple[TableName, str | None, bool]] = []
    try:
        cursor = Cursor(text)
        while True:
            word = cursor.peek()
            if everywhere is None and not columns and word.kind is Kind.WORD and word.value in _WORDS:
                everywhere = _read_word(cursor)
            else:
                columns.append(_entry(cursor))
            if cursor.at_end():
                break
            cursor.expect(",")
    except SQLSyntaxError as error:
        found = " ".join(part for part in (f"{error.message}.", error.detail) if part)
        raise SQLSyntaxError('invalid syntax in parameter "unrepresentable_values"', detail=found, hint=_HINT) from None
    named = [(table, column) for table, column, _ in columns]
    for place, (table, column) in enumerate(named):
        if (table, column) in named[:place]:
            name = ".".join((*table, "*" if column is None else column))
            raise UsageError(f'column "{name}" is named more than once', sqlstate="42710")
    return ValueRules(bool(everywhere), tuple(columns))


def _entry(cursor: Cursor) -> tuple[TableName, str | None, bool]:
    schema = read_name(cursor)
    cursor.expect(".")
    table = read_label(cursor)
    cursor.expect(".")
    lexeme = cursor.peek()
    if lexeme.kind is Kind.OPERATOR and lexeme.value == "*=":  # without a space this is a single operator
        cursor.take(Kind.OPERATOR)
        return (schema, table), None, _read_word(cursor)
    column = None if cursor.accept("*") else read_label(cursor)
    cursor.expect("=")
    return (schema, table), column, _read_word(cursor)


def _read_word(cursor: Cursor) -> bool:
    for word, replaces in _WORDS.items():
        if cursor.accept(word):
            return replaces
    raise cursor.error()


def _word(*, replaces: bool) -> str:
    return "null" if replaces else "stop"
