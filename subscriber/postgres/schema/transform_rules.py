"""Which columns have other values in the target: the subscription's option ``transform``.

::

    public.users.name = null                NULL
    public.users.street = constant('-')     the same value in every row
    public.users.email = sha256             a hash of the value with a secret (HMAC-SHA-256)
    public.users.phone = partial(2, 2)      the first two and the last two characters
    public.users.city = masks:region        the result of a function in Python: MODULE:FUNCTION

Names are the publisher's, with identifiers as in SQL. ``sha256`` is stored with the fingerprint of
the secret, ``sha256('0f1e…')``, by which another secret is noticed.

The publisher's relation is announced to the apply path with the types that the values have in the
target (:meth:`TransformRules.relation`), and so is the table that is created
(:meth:`TransformRules.shape`). Values are computed in
:mod:`subscriber.postgres.schema.transform_values`.

A relation that lacks a column that the option names is refused: a renamed column would arrive as it
is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from subscriber.base.errors import NotSupportedError, SQLSyntaxError, UsageError
from subscriber.postgres.protocol.messages import Relation, RelationColumn
from subscriber.postgres.schema.publisher_tables import PublisherColumn, PublisherTable
from subscriber.postgres.schema.relation_names import TableName
from subscriber.postgres.schema.shape import ForeignKey, IndexShape
from subscriber.postgres.sql.cursor import Cursor, read_label, read_name
from subscriber.postgres.sql.lexer import Kind
from subscriber.postgres.sql.quoting import quote_literal, quote_qualified_name
from subscriber.postgres.types.oids import type_name

TransformKind = Literal["null", "constant", "sha256", "partial", "function"]

HASH_DIGITS: Final = 64
TEXT_TYPES: Final = frozenset({25, 1042, 1043})
"""text, character and character varying."""
VARCHAR, _HASH_MODIFIER = 1043, HASH_DIGITS + 4
_FUNCTION: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_HINT: Final = (
    "Write a list such as 'public.users.email = sha256, public.users.phone = partial(2, 2)', with identifiers quoted as in SQL."
    " The transforms are null, constant('text'), sha256, partial(first, last) and MODULE:FUNCTION."
)


@dataclass(frozen=True, slots=True)
class ColumnTransform:
    """What a column's values become. ``text`` is the constant, the fingerprint of the secret (empty
    if it is not known yet), or ``MODULE:FUNCTION``; ``first`` and ``last`` are those of partial.
    """

    kind: TransformKind
    text: str = ""
    first: int = 0
    last: int = 0

    def __str__(self) -> str:
        match self.kind:
            case "constant":
                return f"constant({quote_literal(self.text)})"
            case "sha256" if self.text:
                return f"sha256({quote_literal(self.text)})"
            case "partial":
                return f"partial({self.first}, {self.last})"
            case "function":
                return self.text
        return self.kind

    @property
    def words(self) -> str:
        """Its name for messages, without a constant's value and the fingerprint."""
        return self.kind if self.kind in ("constant", "sha256") else str(self)

    @property
    def may_identify(self) -> bool:
        """Whether different values may stay different. Only a function says so itself
        (:func:`subscriber.postgres.schema.transform_values.is_injective`).
        """
        return self.kind in ("sha256", "function")


@dataclass(frozen=True, slots=True)
class TransformRules:
    """The transforms of columns, by table and name."""

    columns: tuple[tuple[TableName, str, ColumnTransform], ...] = ()

    def of(self, schema: str, table: str) -> Mapping[str, ColumnTransform]:
        """The transforms of a table's columns.

        >>> [*parse_transforms("public.t.a = null, public.u.b = sha256").of("public", "u")]
        ['b']
        """
        return {column: transform for place, column, transform in self.columns if place == (schema, table)}

    @property
    def tables(self) -> Collection[TableName]:
        return dict.fromkeys(place for place, *_ in self.columns)

    def relation(self, remote: Relation) -> Relation:
        """The relation with the types of the target's values.

        Raises:
            NotSupportedError: 42703, the publisher does not send a column that is named; 42804, a
                column's type has no such transform.
        """
        transforms = self.of(remote.namespace, remote.name)
        if not transforms:
            return remote
        check_columns(remote, transforms)
        return replace(
            remote,
            columns=tuple(
                _announced(remote.qualified_name, column, transforms.get(column.name)) for column in remote.columns
            ),
        )

    def shape(self, table: PublisherTable) -> PublisherTable:
        """The table that ``create_tables`` creates, without keys, checks and defaults that the
        values would violate. NotSupportedError as :meth:`relation`, and 42P16 if different values
        of a key would become equal.
        """
        transforms = self.of(*table.key)
        if not transforms:
            return table
        for name, transform in transforms.items():
            if name in table.key_columns and not transform.may_identify:
                raise unidentified(table.qualified_name, name, transform)
        unsure = {name for name, transform in transforms.items() if not transform.may_identify}
        return replace(
            table,
            columns=tuple(_created(table, column, transforms.get(column.name)) for column in table.columns),
            unique=tuple(key for key in table.unique if not unsure.intersection(key.columns)),
            checks=tuple(check for check in table.checks if not _named_in(check, transforms)),
            unmet=tuple(check for check in table.unmet if not _named_in(check, transforms)),
            foreign_keys=tuple(key for key in table.foreign_keys if self.keeps(table.key, key)),
            indexes=tuple(one for one in table.indexes if not (one.unique and unsure.intersection(_columns_of(one)))),
            types={name: found for name, found in table.types.items() if not _is_hash(transforms.get(name))},
        )

    def keeps(self, table: TableName, key: ForeignKey) -> bool:
        """Whether equal values on both sides of a foreign key stay equal."""
        here, there = self.of(*table), self.of(key.schema, key.table)
        pairs = [(here.get(one), there.get(other)) for one, other in zip(key.columns, key.referenced, strict=True)]
        return all(one == other and (one is None or one.may_identify) for one, other in pairs)

    def __str__(self) -> str:
        return ", ".join(
            f"{quote_qualified_name(*table, column)} = {transform}" for table, column, transform in self.columns
        )


NO_TRANSFORMS: Final = TransformRules()
"""The rules of a subscription that stores the publisher's values."""


def check_columns(remote: Relation, transforms: Collection[str]) -> None:
    """Refuse (42703) a relation that lacks a column that the option names."""
    sent = {column.name for column in remote.columns}
    for name in transforms:
        if name not in sent:
            raise NotSupportedError(
                f'the publisher does not send column "{name}" of table "{remote.qualified_name}", which the option transform names',
                sqlstate="42703",
                relation=remote.qualified_name,
                column=name,
                detail="If the column was renamed, its values would arrive as they are.",
                hint="Name the columns as the publisher sends them, with ALTER SUBSCRIPTION ... SET (transform = '...').",
            )


def unidentified(relation: str, column: str, transform: ColumnTransform) -> NotSupportedError:
    """The error (42P16) for a transform by which different rows would be the same row."""
    return NotSupportedError(
        f'column "{column}" of table "{relation}" cannot have the transform {transform.words}, because rows are found by it',
        sqlstate="42P16",
        relation=relation,
        column=column,
        detail="Different values would become equal, and a change would find the row of another one.",
        hint="Use sha256, which keeps different values different, or give the table another key or replica identity.",
    )


def _named_in(expression: str, columns: Collection[str]) -> bool:
    """Whether an expression may have one of the columns."""
    return any(name.replace('"', '""') in expression for name in columns)


def _columns_of(index: IndexShape) -> Iterator[str]:
    return (key.column for key in index.keys if key.column is not None)


def _is_hash(transform: ColumnTransform | None) -> bool:
    return transform is not None and transform.kind == "sha256"


def _check_type(relation: str, column: str, type_oid: int, transform: ColumnTransform) -> None:
    if transform.kind == "partial" and type_oid not in TEXT_TYPES:
        raise NotSupportedError(
            f'column "{column}" of table "{relation}" cannot have the transform {transform.words}, because it is of type {type_name(type_oid)}',
            sqlstate="42804",
            relation=relation,
            column=column,
            hint="Only text, character varying and character have this transform. Use null, constant, sha256 or a function.",
        )


def _announced(relation: str, column: RelationColumn, transform: ColumnTransform | None) -> RelationColumn:
    if transform is None:
        return column
    _check_type(relation, column.name, column.type_oid, transform)
    return replace(column, type_oid=VARCHAR, type_modifier=_HASH_MODIFIER) if _is_hash(transform) else column


def _created(table: PublisherTable, column: PublisherColumn, transform: ColumnTransform | None) -> PublisherColumn:
    if transform is None:
        return column
    _check_type(table.qualified_name, column.name, column.type_oid, transform)
    plain = replace(
        column,
        nullable=column.nullable or transform.kind in ("null", "function"),
        generated="",
        expression=None,
        default=None,
        constant=None,
        identity="",
        serial=False,
    )
    if not _is_hash(transform):
        return plain
    return replace(
        plain,
        type_oid=VARCHAR,
        type_modifier=_HASH_MODIFIER,
        type_name=f"character varying({HASH_DIGITS})",
        collation=0,
    )


# The option ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def parse_transforms(text: str) -> TransformRules:
    """Read the option: SQLSyntaxError (42601); UsageError (42710) if a column is named twice."""
    columns: dict[tuple[TableName, str], ColumnTransform] = {}
    try:
        cursor = Cursor(text)
        while not cursor.at_end():
            if columns:
                cursor.expect(",")
            place = _column(cursor)
            cursor.expect("=")
            if place in columns:
                raise UsageError(
                    f'column "{".".join((*place[0], place[1]))}" is named more than once', sqlstate="42710"
                )
            columns[place] = _transform(cursor)
    except SQLSyntaxError as error:
        found = " ".join(part for part in (f"{error.message}.", error.detail) if part)
        raise SQLSyntaxError('invalid syntax in parameter "transform"', detail=found, hint=_HINT) from None
    return TransformRules(tuple((table, column, transform) for (table, column), transform in columns.items()))


def _column(cursor: Cursor) -> tuple[TableName, str]:
    schema = read_name(cursor)
    cursor.expect(".")
    table = read_label(cursor)
    cursor.expect(".")
    return (schema, table), read_label(cursor)


def _transform(cursor: Cursor) -> ColumnTransform:
    if cursor.at("constant", "("):
        cursor.expect("constant", "(")
        transform = ColumnTransform("constant", cursor.take(Kind.STRING).value)
        cursor.expect(")")
        return transform
    if cursor.at("partial", "("):
        cursor.expect("partial", "(")
        first = cursor.integer()
        cursor.expect(",")
        last = cursor.integer()
        cursor.expect(")")
        return ColumnTransform("partial", first=first, last=last)
    if cursor.peek(1).kind is Kind.SYMBOL and cursor.peek(1).value in (":", "."):
        return _function(cursor)
    if cursor.accept("null"):
        return ColumnTransform("null")
    if cursor.accept("sha256"):
        fingerprint = ""
        if cursor.accept("("):
            fingerprint = cursor.take(Kind.STRING).value
            cursor.expect(")")
        return ColumnTransform("sha256", fingerprint)
    raise cursor.error()


def _function(cursor: Cursor) -> ColumnTransform:
    """``package.module:function``; Python's names keep their case."""
    begin, position = cursor.place, cursor.position
    cursor.take(Kind.WORD)
    while cursor.accept_any(".", ":"):
        cursor.take(Kind.WORD)
    name = cursor.text_from(begin)
    if not _FUNCTION.fullmatch(name):
        cursor.place = begin
        raise SQLSyntaxError(f'"{name}" at character {position + 1} is not of the form MODULE:FUNCTION')
    return ColumnTransform("function", name)
