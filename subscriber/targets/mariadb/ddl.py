"""New tables in MariaDB, and how large their rows and keys are.

::

    what                    limit in bytes             columns of a row that is too large
    key                     3,072                      its longest texts are shorter
    row, without LONGTEXT   65,535                     its longest texts are LONGTEXT
    row in a page           less than 8,126 (InnoDB)   its texts of up to 63 characters are VARCHAR(64)

A page has texts of up to 255 bytes itself, and of longer ones a pointer: so a ``VARCHAR(64)``,
which may have 256 bytes, takes less of a page than a ``VARCHAR(63)``. The limits are for pages of
16 kB, the server's default. A row that has many texts of 21 to 40 bytes can be too large
nevertheless, because InnoDB moves only longer ones out of the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from typing_extensions import override

from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.shape import SchemaDifference
from subscriber.postgres.schema.transform_rules import TEXT_TYPES
from subscriber.targets.base.ddl import DDL
from subscriber.targets.mariadb.transactions import facts_of, has_long_defaults
from subscriber.targets.mariadb.values import INTEGERS, declaration, holds_every_length
from subscriber.targets.target_table import AutoIncrement, Declarations
from subscriber.targets.translate_expression import TranslationRules

LONG: Final = frozenset({"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"})


_WITH_DEFAULT: Final = "VARCHAR(4095)"
"""Four such columns have less than 65,535 bytes."""


def _default_length(column: PublisherColumn) -> SchemaDifference:
    reason = (
        f'column "{column.name}" is {_WITH_DEFAULT}, because a LONGTEXT has no default there; a longer value is refused'
        " (22001), and stops the subscription"
    )
    return SchemaDifference(
        "default length", column.name, f"{column.name} {column.type_name}", reason, instead=_WITH_DEFAULT
    )


def quote(name: str) -> str:
    """A name in SQL. SQLAlchemy's quoting doubles percent signs for the driver's parameters."""
    return "`" + name.replace("`", "``") + "`"


class MariaDBDDL(DDL):
    rules = TranslationRules(
        quote=quote,
        length="char_length",  # length counts bytes
        concat="concat({left}, {right})",  # || is OR
        date="DATE'{text}'",
        distinct="NOT ({left} <=> {right})",
    )

    @override
    def qualified(self, schema: str, table: str) -> tuple[str | None, str]:
        name = table if schema == "public" else f"{schema}.{table}"
        return None, name.lower() if facts_of(self._engine.dialect).lower_case_tables else name

    @override
    def column_type(self, type_oid: int, type_name: str, *, key: bool = False) -> str:
        return declaration(type_oid, type_name, key=key, collation=self.collation)

    @override
    def fit(self, shape: PublisherTable, declared: Mapping[str, str]) -> Declarations:
        """Where a LONGTEXT can have no default, a text with a default is a VARCHAR."""
        defaulted = [
            one
            for one in shape.columns
            if one.default is not None and one.type_oid in TEXT_TYPES and declared[one.name].startswith("LONGTEXT")
        ]
        if not defaulted or has_long_defaults(self._engine):
            return fit(shape, declared)
        shorter = {one.name: declared[one.name].replace("LONGTEXT", _WITH_DEFAULT, 1) for one in defaulted}
        found = fit(shape, {**declared, **shorter})
        limited = [one for one in defaulted if self.storage(found.declared[one.name]) not in LONG]
        return replace(found, differences=(*found.differences, *map(_default_length, limited)))

    @property
    def collation(self) -> str:
        """A collation that compares exactly; blanks at the end where the server has such a one."""
        return facts_of(self._engine.dialect).collation

    @property
    def compares_blanks(self) -> bool:
        """Whether :attr:`collation` compares blanks at the end."""
        return facts_of(self._engine.dialect).exact_collation is not None

    @override
    def storage(self, declared: str) -> str:
        word = re.split(r"[ (]", declared, maxsplit=1)[0].lower()
        return {"boolean": "tinyint"}.get(word, word)

    @override
    def literal(self, value: Any) -> str | None:
        return f"X'{value.hex()}'" if isinstance(value, bytes) else super().literal(value)

    @override
    def default(self, expression: str, declared: str) -> str | None:
        """MySQL wants the default of a long text in parentheses."""
        if self.storage(declared) not in LONG:
            return expression
        return f"({expression})" if has_long_defaults(self._engine) else None

    @override
    def auto_increment(self, shape: PublisherTable, column: PublisherColumn, declared: str) -> AutoIncrement | None:
        """A table can have one such column, and it must be the first of a key."""
        if column.name != _incremented(shape) or self.storage(declared) not in INTEGERS:
            return None
        return AutoIncrement(f"{declared} AUTO_INCREMENT")


def _incremented(shape: PublisherTable) -> str | None:
    first = {
        columns[0]
        for columns in (shape.key_columns, *(key.columns for key in shape.unique if not key.deferrable))
        if columns
    }
    return next((one.name for one in shape.columns if (one.identity or one.serial) and one.name in first), None)


# Row size --------------------------------------------------------------------------------------

KEY_BYTES: Final = 3_072
ROW_BYTES: Final = 65_535
PAGE_BYTES: Final = 8_125

_DECLARED: Final = re.compile(r"(?P<type>\w+)(?:\((?P<size>\d+)(?:,(?P<scale>\d+))?\))?")
_FIXED: Final = {
    "BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "MEDIUMINT": 3, "INT": 4, "BIGINT": 8, "DOUBLE": 8, "FLOAT": 4,
    "DATE": 3, "TIME": 6, "DATETIME": 8, "TIMESTAMP": 7, "UUID": 16,
}  # fmt: skip
_BYTES_OF_DIGITS: Final = (0, 1, 1, 2, 2, 3, 3, 4, 4)
_DIGITS: Final = 9
"""The digits of a DECIMAL that are stored together, in four bytes."""
_CHARACTER: Final = 4
_LONGEST_INSIDE: Final = 255
"""The bytes of the longest column that is always stored in the page."""
_LEAST_OUTSIDE: Final = 64
"""The characters of the shortest VARCHAR that can be stored outside the page."""
_POINTER: Final = 21
_LONG_IN_ROW: Final = 12
_KEPT_INSIDE: Final = 41
"""The bytes that a long column takes in the page if its value has 40 bytes."""
_HEADER: Final = 5 + 6 + 7
"""The header of a row, and the transaction that has written it."""
_ROW_NUMBER: Final = 6
"""The number of a row in a table without a key."""


@dataclass(frozen=True, slots=True)
class _Column:
    """``longest`` is in bytes, None for LONGTEXT. If it ``varies``, a shorter value takes less."""

    name: str
    declared: str
    nullable: bool
    longest: int | None
    varies: bool

    @property
    def in_row(self) -> int:
        if self.longest is None:
            return _LONG_IN_ROW
        return self.longest + (0 if not self.varies else 1 if self.longest <= _LONGEST_INSIDE else 2)

    @property
    def in_page(self) -> int:
        return _POINTER if self.is_outside else self.in_row

    @property
    def is_outside(self) -> bool:
        return self.longest is None or (self.varies and self.longest > _LONGEST_INSIDE)

    @property
    def short_name(self) -> str:
        found = _DECLARED.match(self.declared)
        return self.declared if found is None else found[0]


def fit(shape: PublisherTable, declared: Mapping[str, str]) -> Declarations:
    columns = {
        column.name: _column(
            column.name, declared[column.name], column.nullable and column.name not in shape.key_columns
        )
        for column in shape.columns
    }
    keys = [
        columns_of_key
        for columns_of_key in (shape.key_columns, *(key.columns for key in shape.unique))
        if columns_of_key
    ]
    in_keys = {name for key in keys for name in key}
    for key in keys:
        columns |= _shortened(columns, key)
    free = [name for name in reversed(columns) if name not in in_keys and columns[name].varies]
    has_key = any(all(not columns[name].nullable for name in key) for key in keys)
    before = dict(columns)
    for name in _longest_first(columns, (one for one in free if not columns[one].is_outside)):
        if _page(columns, has_key=has_key) <= PAGE_BYTES:
            break
        if columns[name].in_page > _POINTER:
            columns[name] = _declared_as(columns[name], f"VARCHAR({_LEAST_OUTSIDE})")
    for name in _longest_first(columns, free):
        if _row(columns) <= ROW_BYTES:
            break
        columns[name] = _declared_as(columns[name], "LONGTEXT")
    referring = {name for key in shape.foreign_keys for name in key.columns}
    return Declarations(
        {name: column.declared for name, column in columns.items()},
        (
            *_limited(shape, [columns[one.name] for one in shape.columns if one.name in in_keys | referring]),
            *_changed(shape, before, columns),
            *_may_be_too_large(columns, has_key=has_key),
        ),
        _obstacle(columns, has_key=has_key),
    )


def key_bytes(declared: str) -> int:
    return _column("", declared, nullable=False).longest or 0


def _column(name: str, declared: str, nullable: bool) -> _Column:
    found = _DECLARED.match(declared.upper())
    assert found is not None
    kind, size = found["type"], int(found["size"] or 0)
    if kind == "VARCHAR":
        return _Column(name, declared, nullable, _CHARACTER * size, varies=True)
    if kind == "VARBINARY":
        return _Column(name, declared, nullable, size, varies=True)
    if kind == "DECIMAL":
        scale = int(found["scale"] or 0)
        return _Column(name, declared, nullable, _digits(size - scale) + _digits(scale), varies=False)
    if kind == "CHAR":
        return _Column(name, declared, nullable, _CHARACTER * size, varies=False)
    return _Column(name, declared, nullable, _FIXED.get(kind), varies=False)


def _digits(number: int) -> int:
    return number // _DIGITS * _CHARACTER + _BYTES_OF_DIGITS[number % _DIGITS]


def _declared_as(column: _Column, kind: str) -> _Column:
    rest = column.declared.removeprefix(column.short_name)
    return _column(column.name, kind + rest, column.nullable)


def _longest_first(columns: Mapping[str, _Column], names: Iterator[str] | list[str]) -> list[str]:
    return sorted(names, key=lambda name: columns[name].longest or 0, reverse=True)


def _shortened(columns: Mapping[str, _Column], key: tuple[str, ...]) -> dict[str, _Column]:
    """The columns of a key, the longest of them shorter if the key would be too long."""
    room = KEY_BYTES - sum(columns[name].longest or 0 for name in key if not columns[name].varies)
    varying = sorted((columns[name] for name in key if columns[name].varies), key=lambda one: one.longest or 0)
    shorter = {}
    for place, column in enumerate(varying):
        longest = min(column.longest or 0, room // (len(varying) - place))
        is_text = column.declared.startswith("VARCHAR")
        size = longest // _CHARACTER if is_text else longest
        shorter[column.name] = _declared_as(column, f"{'VARCHAR' if is_text else 'VARBINARY'}({size})")
        room -= longest
    return shorter


def _row(columns: Mapping[str, _Column]) -> int:
    return sum(column.in_row for column in columns.values()) + _null_bytes(columns)


def _page(columns: Mapping[str, _Column], *, has_key: bool, long: int = _POINTER) -> int:
    values = sum(long if column.is_outside else column.in_page for column in columns.values())
    return _HEADER + (0 if has_key else _ROW_NUMBER) + _null_bytes(columns) + values


def _null_bytes(columns: Mapping[str, _Column]) -> int:
    return (sum(column.nullable for column in columns.values()) + 7) // 8


def _limited(shape: PublisherTable, columns: list[_Column]) -> Iterator[SchemaDifference]:
    for column in columns:
        if column.varies and not holds_every_length(_of(shape, column), column.longest or 0):
            kind = column.short_name
            reason = (
                f'column "{column.name}" is {kind}, because there are no keys of unlimited length;'
                " a longer value is refused (22001), and stops the subscription"
            )
            ddl = f"{column.name} {_of(shape, column).type_name}"
            yield SchemaDifference("key length", column.name, ddl, reason, instead=kind)


def _changed(
    shape: PublisherTable, before: Mapping[str, _Column], after: Mapping[str, _Column]
) -> Iterator[SchemaDifference]:
    for name, column in after.items():
        if column.declared != before[name].declared:
            reason = (
                f'column "{name}" is {column.short_name} and not {before[name].short_name}, so that a row of the'
                " table is not too large"
            )
            ddl = f"{name} {_of(shape, column).type_name}"
            yield SchemaDifference("row size", name, ddl, reason, instead=column.short_name)


def _may_be_too_large(columns: Mapping[str, _Column], *, has_key: bool) -> Iterator[SchemaDifference]:
    largest = _page(columns, has_key=has_key, long=_KEPT_INSIDE)
    if largest > PAGE_BYTES and _obstacle(columns, has_key=has_key) is None:
        reason = (
            f"a row that needs more than {PAGE_BYTES:,} bytes, in which a long text counts up to 40 bytes, is refused"
            f" and stops the subscription; {largest:,} are possible with {len(columns):,} columns"
        )
        yield SchemaDifference("large row", "", "", reason)


def _obstacle(columns: Mapping[str, _Column], *, has_key: bool) -> str | None:
    row, page = _row(columns), _page(columns, has_key=has_key)
    if row > ROW_BYTES:
        return f"a row of it has up to {row:,} bytes, without its long texts, and {ROW_BYTES:,} are possible"
    if page > PAGE_BYTES:
        return f"a row of it needs {page:,} bytes of a page, and {PAGE_BYTES:,} are possible"
    return None


def _of(shape: PublisherTable, column: _Column) -> PublisherColumn:
    return next(one for one in shape.columns if one.name == column.name)
